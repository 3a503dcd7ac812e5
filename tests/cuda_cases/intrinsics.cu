// slow; Intrinsics: directed rounding against the neighbours, conversions that saturate, bit operations, lanes in a word.
#include <cfloat>
#include <climits>
#include <cmath>

#include "check.h"

__global__ void rounding(const float* a, const float* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = a[i], y = b[i];
  float* r = out + 12 * i;
  r[0] = __fadd_rd(x, y), r[1] = __fadd_ru(x, y), r[2] = __fadd_rz(x, y);
  r[3] = __fmul_rd(x, y), r[4] = __fmul_ru(x, y), r[5] = __fmul_rz(x, y);
  r[6] = __fdiv_rd(x, y), r[7] = __fdiv_ru(x, y), r[8] = __fdiv_rz(x, y);
  r[9] = __fsqrt_rd(fabsf(x)), r[10] = __fsqrt_ru(fabsf(x)), r[11] = __fmaf_rn(x, y, 1.0f);
}
__global__ void integers(int* i, unsigned* u, float big, int least) {
  i[0] = __float2int_rz(big), i[1] = __float2int_rn(-big), i[2] = (int)__int_as_float(0x7fc00000), i[3] = __float2int_rn(2.5f);
  i[4] = __float2int_rd(-2.5f), i[5] = __float2int_ru(2.1f), i[6] = __clz(1), i[7] = __clz(0), i[8] = __ffs(8), i[9] = __popc(0xf0f0);
  i[10] = __mulhi(1 << 30, 12), i[11] = __mul24(-3, 5), i[12] = (int)__fns(0xb4, 0, 3), i[13] = abs(least), i[14] = abs(least + 1);
  u[0] = __float2uint_rz(-1.0f), u[1] = __float2uint_rz(big), u[2] = __brev(1), u[3] = __byte_perm(0x33221100, 0x77665544, 0x7531);
  u[4] = __funnelshift_l(0x80000001, 0x1, 4), u[5] = __umulhi(0xffffffff, 2), u[6] = __vadd2(0x0001ffff, 0x00020002);
  u[7] = __vaddus4(0xff01ff01, 0x02020202), u[8] = __vcmpgts2(0x00018000, 0x0000ffff), u[9] = __vsadu4(0x01020304, 0x04030201);
  u[10] = __vabsdiffs2(0xfff00005, 0x00100003), u[11] = __vmins4(0x7f80017f, 0x00ff0202);
}
__global__ void longs(const long long* in, float* out) {
  long long x = in[threadIdx.x];
  float* r = out + 4 * threadIdx.x;
  r[0] = __ll2float_rn(x), r[1] = __ll2float_rd(x), r[2] = __ll2float_ru(x), r[3] = __ll2float_rz(x);
}

int main() {
  const int n = 200;
  std::vector<float> a(n), b(n);
  for (int i = 0; i < n; ++i) a[i] = std::sin(i * 1.7f) * std::ldexp(1.0f, i % 9 - 4), b[i] = std::cos(i * 0.9f) * std::ldexp(1.0f, i % 7 - 3) + 0.001f;
  float *da = to_device(a), *db = to_device(b), *out;
  CUDA(cudaMalloc(&out, 12 * n * sizeof(float)));
  rounding<<<4, 64>>>(da, db, out, n);
  auto r = to_host(out, 12 * n);
  for (int i = 0; i < n; ++i) {
    // Sums, products and the comparisons with quotients and roots are exact in long double here.
    long double x = a[i], y = b[i], exact[3] = {x + y, x * y, 0};
    for (int op = 0; op < 4; ++op) {
      float low = r[12 * i + 3 * op], high = r[12 * i + 3 * op + 1];
      auto below = [&](float v) { return op < 2 ? v <= exact[op] : op == 2 ? ((long double)v * y <= x) == (y > 0) || v * y == x : (long double)v * v <= std::fabs(x); };
      auto above = [&](float v) { return op < 2 ? v >= exact[op] : op == 2 ? ((long double)v * y >= x) == (y > 0) || v * y == x : (long double)v * v >= std::fabs(x); };
      EXPECT(below(low) && above(high), "op %d of %g, %g: %g and %g do not enclose", op, a[i], b[i], low, high);
      EXPECT(low == high || std::nextafterf(low, INFINITY) == high, "op %d of %g, %g: %g and %g are no neighbours", op, a[i], b[i], low, high);
      if (op < 3) EXPECT(r[12 * i + 3 * op + 2] == (low >= 0 ? low : high), "op %d towards zero: %g of %g, %g", op, r[12 * i + 3 * op + 2], low, high);
    }
    EXPECT(r[12 * i + 11] == std::fmaf(a[i], b[i], 1.0f), "fma %d", i);
  }

  int* i;
  unsigned* u;
  CUDA(cudaMalloc(&i, 16 * sizeof(int)));
  CUDA(cudaMalloc(&u, 16 * sizeof(unsigned)));
  integers<<<1, 1>>>(i, u, 1e20f, INT_MIN);
  auto gi = to_host(i, 15);
  auto gu = to_host(u, 12);
  const int wanted_i[15] = {INT_MAX, INT_MIN, 0, 2, -3, 3, 31, 32, 4, 8, 3, -15, 5, INT_MIN, INT_MAX};
  const unsigned wanted_u[12] = {0, UINT_MAX, 0x80000000u, 0x77553311, 0x18, 1, 0x00030001, 0xff03ff03, 0xffff0000, 8, 0x00200002, 0x0080017f & 0xffffffff};
  for (int k = 0; k < 15; ++k) EXPECT(gi[k] == wanted_i[k], "integer %d: %d, not %d", k, gi[k], wanted_i[k]);
  for (int k = 0; k < 11; ++k) EXPECT(gu[k] == wanted_u[k], "unsigned %d: %08x, not %08x", k, gu[k], wanted_u[k]);
  EXPECT(gu[11] == 0x00800102, "mins4: %08x", gu[11]);

  std::vector<long long> l = {0, 1, -1, (1ll << 24) + 1, -((1ll << 24) + 1), LLONG_MAX, LLONG_MIN, (1ll << 40) + 12345};
  long long* dl = to_device(l);
  longs<<<1, 8>>>(dl, out);
  auto f = to_host(out, 32);
  for (int k = 0; k < 8; ++k) {
    __int128 x = l[k];
    EXPECT(f[4 * k] == (float)l[k], "rn %lld", l[k]);
    EXPECT((__int128)f[4 * k + 1] <= x && (__int128)f[4 * k + 2] >= x, "rd, ru %lld: %f %f", l[k], f[4 * k + 1], f[4 * k + 2]);
    EXPECT(f[4 * k + 3] == (l[k] < 0 ? f[4 * k + 2] : f[4 * k + 1]), "rz %lld", l[k]);
  }
  return wrong != 0;
}
