// What `loom translate` once refused: lambdas of templates, launches that are never reached, bit fields of all widths.
#include "check.h"

template <class T, class F> __global__ void add(T* x, F f) { x[threadIdx.x] += f(threadIdx.x); }
template <class F, class G> __global__ void add_product(float* x, F f, G g) { x[threadIdx.x] += f(threadIdx.x) * g(threadIdx.x); }

template <class T, int divisor> void divided(float* x, T by) {
  add<<<1, 32>>>(x, [=] __device__(int i) { return T(i + by) / divisor; });
}
template <class T> struct Runner {
  T by;
  template <class... More> void go(float* x, More...) {
    T own = by;
    add_product<<<1, 32>>>(x, [=] __device__(int i) { return own * i; }, [=] __device__(int i) { return own + int(sizeof...(More)); });
  }
};

static void lambdas(float* x) {
  for (int i = 0; i < 32; ++i) x[i] = 0;
  divided<int, 2>(x, 1), divided<float, 2>(x, 2.5f), divided<int, 3>(x, 1);
  Runner<int>{3}.go(x, 1, 2.0), Runner<int>{3}.go(x, 1), Runner<float>{0.5f}.go(x);
  cudaDeviceSynchronize();
  for (int i = 0; i < 32; ++i)
    EXPECT(x[i] == (i + 1) / 2 + (i + 2.5f) / 2 + (i + 1) / 3 + 3 * i * 5 + 3 * i * 4 + 0.5f * i * 0.5f, "wrong");
}

namespace fills {
template <class T> __global__ void fill(T* x, const int n) { x[threadIdx.x] = n; }
template <> __global__ void fill<short>(short* x, const int n) { x[threadIdx.x] = -n; }
}
template <class T> static void filled(T* x) {
  if (sizeof(T) == 8) {
    fills::fill<double><<<1, 32>>>((double*)x, 3);
    add<<<1, 32>>>((double*)x, [] __device__(int i) { return i; });
  }
  if (sizeof(T) == 4) fills::fill<float><<<1, 32>>>((float*)x, 5);
  if (sizeof(T) == 2) fills::fill<short><<<1, 32>>>((short*)x, 7);
}

struct Bits { unsigned a : 3, b : 9, c : 20; int d : 24; long e : 40; unsigned char f : 5; signed char g : 3; };
struct __attribute__((packed)) Packed { unsigned a : 24; int b : 24; long c : 48; bool d : 1; };
union Either { struct { unsigned low : 24, high : 8; } part; unsigned all; };
template <class V> __host__ __device__ void change(int i, Bits& x, Packed& p, Either& e) {
  Bits v = x;
  v.a += i, v.b ^= 5 * i, v.c -= i * i, v.d = v.d * 3 - i, v.e = v.e * 1003 - i, v.f |= i, v.g += i;
  x = v;
  p.a = p.a * 7 + i, p.b -= 3 * i, p.c = p.c * 17 - v.e, p.d = !p.d;
  e.part.low = e.all / 3 + p.b;
  Packed copy = p;
  if (copy.b < 0) p.a += copy.c >> 11;
}
__global__ void change_all(Bits* x, Packed* p, Either* e) { change<int>(threadIdx.x, x[threadIdx.x], p[threadIdx.x], e[threadIdx.x]); }
__global__ void by_value(Bits b, Packed p, long* out) { out[threadIdx.x] = b.e + b.d * p.b + p.c - b.g; }

static Bits bits(int i) {
  return {unsigned(i & 7), unsigned(i * 3), unsigned(i * 1000), i * 7000 - 90000, i * 12345678l - 99999999, (unsigned char)i, (signed char)(i % 4 - 2)};
}
static Packed packed(int i) { return {unsigned(i * 5000), 300000 - i * 40000, i * 1234567890l - 7777777777, i % 3 == 0}; }

int main() {
  float* x;
  cudaMallocManaged(&x, 32 * sizeof(double));
  lambdas(x);
  filled(x);
  cudaDeviceSynchronize();
  EXPECT(x[3] == 5, "wrong");
  filled((short*)x);
  cudaDeviceSynchronize();
  EXPECT(((short*)x)[3] == -7, "wrong");
  Bits* b;
  Packed* p;
  Either* e;
  long* out;
  cudaMallocManaged(&b, 32 * sizeof *b), cudaMallocManaged(&p, 32 * sizeof *p);
  cudaMallocManaged(&e, 32 * sizeof *e), cudaMallocManaged(&out, 32 * sizeof *out);
  for (int i = 0; i < 32; ++i) b[i] = bits(i), p[i] = packed(i), e[i].all = i * 0x1234567u;
  change_all<<<1, 32>>>(b, p, e);
  by_value<<<1, 32>>>(bits(5), packed(6), out);
  cudaDeviceSynchronize();
  for (int i = 0; i < 32; ++i) {
    Bits b1 = bits(i);
    Packed p1 = packed(i);
    Either e1;
    e1.all = i * 0x1234567u;
    change<int>(i, b1, p1, e1);
    EXPECT(b[i].a == b1.a && b[i].b == b1.b && b[i].c == b1.c && b[i].d == b1.d && b[i].e == b1.e && b[i].f == b1.f && b[i].g == b1.g, "wrong");
    EXPECT(p[i].a == p1.a && p[i].b == p1.b && p[i].c == p1.c && p[i].d == p1.d && e[i].all == e1.all, "wrong");
    Bits b5 = bits(5);
    Packed p6 = packed(6);
    EXPECT(out[i] == b5.e + b5.d * p6.b + p6.c - b5.g, "wrong");
  }
  return wrong != 0;
}
