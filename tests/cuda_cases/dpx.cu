// slow; DPX: minima and maxima of sums and of three, whole and in lanes of 16 bits.
#include <algorithm>

#include "check.h"

constexpr int kinds = 18;
__global__ void run(const unsigned* in, unsigned* out, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  unsigned a = in[i], b = in[(i + 1) % n], c = in[(i + 2) % n], *r = out + kinds * i;
  bool one, high, low;
  r[0] = __viaddmax_s32(a, b, c), r[1] = __viaddmin_u32(a, b, c), r[2] = __viaddmax_s32_relu(a, b, c);
  r[3] = __vimax3_s32(a, b, c), r[4] = __vimin3_u32(a, b, c), r[5] = __vimin3_s32_relu(a, b, c), r[6] = __vimax_s32_relu(a, b);
  r[7] = __viaddmax_s16x2(a, b, c), r[8] = __viaddmin_u16x2(a, b, c), r[9] = __viaddmin_s16x2_relu(a, b, c);
  r[10] = __vimax3_u16x2(a, b, c), r[11] = __vimin3_s16x2(a, b, c), r[12] = __vimin_s16x2_relu(a, b);
  r[13] = __vibmax_s32(a, b, &one), r[14] = one;
  r[15] = __vibmin_u16x2(a, b, &high, &low), r[16] = high, r[17] = low;
}

template <class T> static T sum(T a, T b) { return (T)((unsigned)a + (unsigned)b); }
template <class F> static unsigned lanes(unsigned a, unsigned b, unsigned c, F f) {
  return (unsigned)(unsigned short)f(a >> 16, b >> 16, c >> 16) << 16 | (unsigned short)f(a & 65535, b & 65535, c & 65535);
}

int main() {
  std::vector<unsigned> in{0, 1, 0xffffffff, 0x7fffffff, 0x80000000, 0x7fff8000, 0x80007fff, 12345, 0xfffe0003, 0x00030003, 0x7fff0001, 3};
  int n = (int)in.size();
  unsigned *device = to_device(in), *out;
  CUDA(cudaMalloc(&out, kinds * n * sizeof *out));
  run<<<1, 32>>>(device, out, n);
  auto got = to_host(out, kinds * n);
  for (int i = 0; i < n; ++i) {
    unsigned a = in[i], b = in[(i + 1) % n], c = in[(i + 2) % n];
    int x = a, y = b, z = c;
    typedef short s;
    typedef unsigned short u;
    unsigned wanted[kinds] = {
        (unsigned)std::max(sum(x, y), z), std::min(a + b, c), (unsigned)std::max({sum(x, y), z, 0}),
        (unsigned)std::max({x, y, z}), std::min({a, b, c}), (unsigned)std::max(std::min({x, y, z}), 0), (unsigned)std::max({x, y, 0}),
        lanes(a, b, c, [](s p, s q, s r) { return std::max(sum(p, q), r); }),
        lanes(a, b, c, [](u p, u q, u r) { return std::min(sum(p, q), r); }),
        lanes(a, b, c, [](s p, s q, s r) { return std::max(std::min(sum(p, q), r), (s)0); }),
        lanes(a, b, c, [](u p, u q, u r) { return std::max({p, q, r}); }),
        lanes(a, b, c, [](s p, s q, s r) { return std::min({p, q, r}); }),
        lanes(a, b, c, [](s p, s q, s) { return std::max(std::min(p, q), (s)0); }),
        (unsigned)std::max(x, y), x >= y,
        lanes(a, b, c, [](u p, u q, u) { return std::min(p, q); }), a >> 16 <= b >> 16, (a & 65535) <= (b & 65535)};
    for (int k = 0; k < kinds; ++k) EXPECT(got[kinds * i + k] == wanted[k], "%d of %x %x %x: %x for %x", k, a, b, c, got[kinds * i + k], wanted[k]);
  }
  return wrong != 0;
}
