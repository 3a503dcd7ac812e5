/* Device intrinsics that need no other thread: fast mathematics, conversions, bit operations, min and max. */
#pragma once

/* ---- fast forms. glibc declares some of these names, so they are macros over names of ours. Ours are as exact as
   the plain functions: CUDA bounds their error from above only. */
LOOM_DEVICE float __loom_sinf(float x) { return __builtin_sinf(x); }
LOOM_DEVICE float __loom_cosf(float x) { return __builtin_cosf(x); }
LOOM_DEVICE float __loom_tanf(float x) { return __builtin_tanf(x); }
LOOM_DEVICE float __loom_tanhf(float x) { return __builtin_tanhf(x); }
LOOM_DEVICE float __loom_expf(float x) { return __builtin_expf(x); }
LOOM_DEVICE float __loom_exp10f(float x) { return __builtin_exp10f(x); }
LOOM_DEVICE float __loom_logf(float x) { return __builtin_logf(x); }
LOOM_DEVICE float __loom_log2f(float x) { return __builtin_log2f(x); }
LOOM_DEVICE float __loom_log10f(float x) { return __builtin_log10f(x); }
LOOM_DEVICE float __loom_powf(float x, float y) { return __builtin_powf(x, y); }
LOOM_DEVICE void __loom_sincosf(float x, float* s, float* c) { *s = __builtin_sinf(x), *c = __builtin_cosf(x); }
#define __sinf __loom_sinf
#define __cosf __loom_cosf
#define __tanf __loom_tanf
#define __tanhf __loom_tanhf
#define __expf __loom_expf
#define __exp10f __loom_exp10f
#define __logf __loom_logf
#define __log2f __loom_log2f
#define __log10f __loom_log10f
#define __powf __loom_powf
#define __sincosf __loom_sincosf
LOOM_DEVICE float __fdividef(float x, float y) { return x / y; }
LOOM_DEVICE float fdividef(float x, float y) { return x / y; }
LOOM_DEVICE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
LOOM_DEVICE float saturate(float x) { return __saturatef(x); }

/* ---- arithmetic that is never contracted to a fused multiply-add */
#define LOOM_ROUNDED_BINARY(name, T, op)                                                       \
  LOOM_DEVICE T name(T x, T y) {                                                               \
    _Pragma("clang fp contract(off)") return x op y;                                           \
  }
LOOM_ROUNDED_BINARY(__fadd_rn, float, +)
LOOM_ROUNDED_BINARY(__fsub_rn, float, -)
LOOM_ROUNDED_BINARY(__fmul_rn, float, *)
LOOM_ROUNDED_BINARY(__fdiv_rn, float, /)
LOOM_ROUNDED_BINARY(__dadd_rn, double, +)
LOOM_ROUNDED_BINARY(__dsub_rn, double, -)
LOOM_ROUNDED_BINARY(__dmul_rn, double, *)
LOOM_ROUNDED_BINARY(__ddiv_rn, double, /)
#undef LOOM_ROUNDED_BINARY
LOOM_DEVICE float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
LOOM_DEVICE double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
LOOM_DEVICE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
LOOM_DEVICE double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
LOOM_DEVICE float __frcp_rn(float x) { return 1.0f / x; }
LOOM_DEVICE double __drcp_rn(double x) { return 1.0 / x; }
LOOM_DEVICE float __frsqrt_rn(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }

/* ---- directed rounding: compute to nearest, correct by the sign of the exact error, which an fma gives. Floats by way of
   double, where their products are exact and nothing is too large or too small. */
LOOM_DEVICE float __loom_next_up(float x) { return __builtin_nextafterf(x, __builtin_inff()); }
LOOM_DEVICE float __loom_next_down(float x) { return __builtin_nextafterf(x, -__builtin_inff()); }
LOOM_DEVICE double __loom_next_up(double x) { return __builtin_nextafter(x, __builtin_inf()); }
LOOM_DEVICE double __loom_next_down(double x) { return __builtin_nextafter(x, -__builtin_inf()); }
/* `low`: exact value minus `near` (only its sign counts). Direction: d down, u up, z towards zero. */
LOOM_DEVICE double __loom_round_down(double near, double low) { return low < 0 ? __loom_next_down(near) : near; }
LOOM_DEVICE double __loom_round_up(double near, double low) { return low > 0 ? __loom_next_up(near) : near; }
LOOM_DEVICE double __loom_round_zero(double near, double low) {
  return near > 0 ? __loom_round_down(near, low) : near < 0 ? __loom_round_up(near, low) : near;
}
/* Exact value minus the result to nearest. A result beyond the largest number lies beyond the exact value; tiny numbers
   are scaled, as the error itself would be too small. */
LOOM_DEVICE double __loom_add_error(double x, double y, double sum) {
#pragma clang fp contract(off)
  if (__builtin_isinf(sum)) return __builtin_isinf(x) || __builtin_isinf(y) ? 0 : -sum;
  double part = sum - x;
  return (x - (sum - part)) + (y - part);
}
LOOM_DEVICE double __loom_mul_error(double x, double y, double product) {
  if (product == 0) return x == 0 || y == 0 ? 0 : (x < 0) != (y < 0) ? -1 : 1;
  if (__builtin_fabs(product) > 0x1p-900) return __builtin_fma(x, y, -product);
  bool swap = __builtin_fabs(x) > __builtin_fabs(y);
  return __builtin_fma((swap ? y : x) * 0x1p600, swap ? x : y, -product * 0x1p600);
}
LOOM_DEVICE double __loom_div_error(double x, double y, double quotient) {
  if (quotient == 0) return x == 0 || __builtin_isinf(y) ? 0 : (x < 0) != (y < 0) ? -1 : 1;
  double scale = __builtin_fabs(x) < 0x1p-600 ? 0x1p400 : 1, rest = __builtin_fma(-quotient * scale, y, x * scale);
  return y < 0 ? -rest : rest;
}
LOOM_DEVICE double __loom_sqrt_error(double x, double root) {
  return x < 0x1p-600 ? __builtin_fma(-root * 0x1p300, root * 0x1p300, x * 0x1p600) : __builtin_fma(-root, root, x);
}
/* Boldo and Muller, "Exact and Approximated Error of the FMA", IEEE TC 2011. */
LOOM_DEVICE double __loom_fma_error(double x, double y, double z, double near) {
#pragma clang fp contract(off)
  if (z == 0) return __loom_mul_error(x, y, near);
  if (__builtin_isinf(near)) return __builtin_isinf(x) || __builtin_isinf(y) || __builtin_isinf(z) ? 0 : -near;
  double scale = __builtin_fabs(z) < 0x1p-700 && __builtin_fabs(near) < 0x1p-700 ? 0x1p600 : 1;
  if (__builtin_fabs(x) > __builtin_fabs(y)) y *= scale; else x *= scale;
  z *= scale, near *= scale;
  double product = x * y, under = __builtin_fma(x, y, -product);
  if (__builtin_fabs(product) < 0x1p-900 && x != 0 && y != 0)  // far below the last place of z: only its sign counts
    product = (x < 0) != (y < 0) ? -0x1p-900 : 0x1p-900, under = 0;
  double low = z + under, low_under = __loom_add_error(z, under, low);
  double high = product + low, high_under = __loom_add_error(product, low, high);
  return ((high - near) + high_under) + low_under;
}
LOOM_DEVICE float __loom_to_float_down(double x) { float r = (float)x; return (double)r > x ? __loom_next_down(r) : r; }
LOOM_DEVICE float __loom_to_float_up(double x) { float r = (float)x; return (double)r < x ? __loom_next_up(r) : r; }
LOOM_DEVICE float __loom_to_float_zero(double x) { return x < 0 ? __loom_to_float_up(x) : __loom_to_float_down(x); }
#define LOOM_DIRECTED(suffix, direction)                                                                                        \
  LOOM_DEVICE double __dadd_##suffix(double x, double y) { double r = __dadd_rn(x, y); return __loom_round_##direction(r, __loom_add_error(x, y, r)); }  \
  LOOM_DEVICE double __dsub_##suffix(double x, double y) { return __dadd_##suffix(x, -y); }                                     \
  LOOM_DEVICE double __dmul_##suffix(double x, double y) { double r = __dmul_rn(x, y); return __loom_round_##direction(r, __loom_mul_error(x, y, r)); }  \
  LOOM_DEVICE double __ddiv_##suffix(double x, double y) { double r = x / y; return __loom_round_##direction(r, __loom_div_error(x, y, r)); }            \
  LOOM_DEVICE double __drcp_##suffix(double x) { return __ddiv_##suffix(1.0, x); }                                              \
  LOOM_DEVICE double __dsqrt_##suffix(double x) { double r = __builtin_sqrt(x); return __loom_round_##direction(r, __loom_sqrt_error(x, r)); }           \
  LOOM_DEVICE double __fma_##suffix(double x, double y, double z) {                                                             \
    double r = __builtin_fma(x, y, z);                                                                                          \
    return __loom_round_##direction(r, __loom_fma_error(x, y, z, r));                                                           \
  }                                                                                                                             \
  LOOM_DEVICE float __fadd_##suffix(float x, float y) { return __loom_to_float_##direction(__dadd_##suffix(x, y)); }            \
  LOOM_DEVICE float __fsub_##suffix(float x, float y) { return __loom_to_float_##direction(__dsub_##suffix(x, y)); }            \
  LOOM_DEVICE float __fmul_##suffix(float x, float y) { return __loom_to_float_##direction((double)x * y); }                    \
  LOOM_DEVICE float __fdiv_##suffix(float x, float y) { return __loom_to_float_##direction(__ddiv_##suffix(x, y)); }            \
  LOOM_DEVICE float __frcp_##suffix(float x) { return __fdiv_##suffix(1.0f, x); }                                               \
  LOOM_DEVICE float __fsqrt_##suffix(float x) { return __loom_to_float_##direction(__dsqrt_##suffix(x)); }                      \
  LOOM_DEVICE float __fmaf_##suffix(float x, float y, float z) { return __loom_to_float_##direction(__dadd_##suffix((double)x * y, z)); } \
  LOOM_DEVICE float __fmaf_ieee_##suffix(float x, float y, float z) { return __fmaf_##suffix(x, y, z); }
LOOM_DIRECTED(rd, down)
LOOM_DIRECTED(ru, up)
LOOM_DIRECTED(rz, zero)
#undef LOOM_DIRECTED
LOOM_DEVICE float __fmaf_ieee_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

/* ---- conversions: name = __<from>2<to>_<rounding>; a conversion to an integer saturates, as everywhere on the device */
#define LOOM_TO_INTEGER(from, F, to, T, s)                                                     \
  LOOM_DEVICE T __##from##2##to##_rn(F x) { return (T)__builtin_rint##s(x); }                  \
  LOOM_DEVICE T __##from##2##to##_rz(F x) { return (T)x; }                                     \
  LOOM_DEVICE T __##from##2##to##_rd(F x) { return (T)__builtin_floor##s(x); }                 \
  LOOM_DEVICE T __##from##2##to##_ru(F x) { return (T)__builtin_ceil##s(x); }
LOOM_TO_INTEGER(float, float, int, int, f)
LOOM_TO_INTEGER(float, float, uint, unsigned, f)
LOOM_TO_INTEGER(float, float, ll, long long, f)
LOOM_TO_INTEGER(float, float, ull, unsigned long long, f)
LOOM_TO_INTEGER(double, double, int, int, )
LOOM_TO_INTEGER(double, double, uint, unsigned, )
LOOM_TO_INTEGER(double, double, ll, long long, )
LOOM_TO_INTEGER(double, double, ull, unsigned long long, )
#undef LOOM_TO_INTEGER
LOOM_DEVICE float __int2float_rn(int x) { return (float)x; }
LOOM_DEVICE float __int2float_rz(int x) { return __loom_to_float_zero((double)x); }
LOOM_DEVICE float __int2float_rd(int x) { return __loom_to_float_down((double)x); }
LOOM_DEVICE float __int2float_ru(int x) { return __loom_to_float_up((double)x); }
LOOM_DEVICE float __uint2float_rn(unsigned x) { return (float)x; }
LOOM_DEVICE float __uint2float_rz(unsigned x) { return __loom_to_float_zero((double)x); }
LOOM_DEVICE float __uint2float_rd(unsigned x) { return __loom_to_float_down((double)x); }
LOOM_DEVICE float __uint2float_ru(unsigned x) { return __loom_to_float_up((double)x); }
LOOM_DEVICE float __ll2float_rn(long long x) { return (float)x; }
LOOM_DEVICE float __ull2float_rn(unsigned long long x) { return (float)x; }
/* 64-bit integers to floating point with directed rounding: to nearest, then corrected by the exact difference. */
#define LOOM_FROM_LONG(from, I, to, F)                                                                             \
  LOOM_DEVICE int __loom_##from##_##to##_side(I x, F near) { /* sign of x - near */                                \
    __int128 wide = (__int128)near;                                                                                \
    return wide < (__int128)x ? 1 : wide > (__int128)x ? -1 : 0;                                                   \
  }                                                                                                                \
  LOOM_DEVICE F __##from##2##to##_rd(I x) { F r = (F)x; return __loom_##from##_##to##_side(x, r) < 0 ? __loom_next_down(r) : r; } \
  LOOM_DEVICE F __##from##2##to##_ru(I x) { F r = (F)x; return __loom_##from##_##to##_side(x, r) > 0 ? __loom_next_up(r) : r; }   \
  LOOM_DEVICE F __##from##2##to##_rz(I x) { return x < 0 ? __##from##2##to##_ru(x) : __##from##2##to##_rd(x); }
LOOM_FROM_LONG(ll, long long, float, float)
LOOM_FROM_LONG(ull, unsigned long long, float, float)
LOOM_FROM_LONG(ll, long long, double, double)
LOOM_FROM_LONG(ull, unsigned long long, double, double)
#undef LOOM_FROM_LONG
LOOM_DEVICE double __int2double_rn(int x) { return (double)x; }
LOOM_DEVICE double __uint2double_rn(unsigned x) { return (double)x; }
LOOM_DEVICE double __ll2double_rn(long long x) { return (double)x; }
LOOM_DEVICE double __ull2double_rn(unsigned long long x) { return (double)x; }
LOOM_DEVICE float __double2float_rn(double x) { return (float)x; }
LOOM_DEVICE float __double2float_rz(double x) { return __loom_to_float_zero(x); }
LOOM_DEVICE float __double2float_rd(double x) { return __loom_to_float_down(x); }
LOOM_DEVICE float __double2float_ru(double x) { return __loom_to_float_up(x); }

#define LOOM_REINTERPRET(name, From, To) \
  LOOM_DEVICE To name(From x) { To r; __builtin_memcpy(&r, &x, sizeof r); return r; }
LOOM_REINTERPRET(__float_as_int, float, int)
LOOM_REINTERPRET(__int_as_float, int, float)
LOOM_REINTERPRET(__float_as_uint, float, unsigned)
LOOM_REINTERPRET(__uint_as_float, unsigned, float)
LOOM_REINTERPRET(__double_as_longlong, double, long long)
LOOM_REINTERPRET(__longlong_as_double, long long, double)
#undef LOOM_REINTERPRET
LOOM_DEVICE int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
LOOM_DEVICE int __double2loint(double x) { return (int)__double_as_longlong(x); }
LOOM_DEVICE double __hiloint2double(int high, int low) { return __longlong_as_double((long long)high << 32 | (unsigned)low); }

/* ---- integers */
LOOM_DEVICE int __mul24(int x, int y) { return (int)((unsigned)(x << 8 >> 8) * (unsigned)(y << 8 >> 8)); }
LOOM_DEVICE unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
LOOM_DEVICE int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
LOOM_DEVICE unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
LOOM_DEVICE long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
LOOM_DEVICE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) { return (unsigned long long)((unsigned __int128)x * y >> 64); }
LOOM_DEVICE int mulhi(int x, int y) { return __mulhi(x, y); }
LOOM_DEVICE unsigned umulhi(unsigned x, unsigned y) { return __umulhi(x, y); }
LOOM_DEVICE unsigned __sad(int x, int y, unsigned z) { return z + (x > y ? (unsigned)x - (unsigned)y : (unsigned)y - (unsigned)x); }
LOOM_DEVICE unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x > y ? x - y : y - x); }
LOOM_DEVICE int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
LOOM_DEVICE int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
LOOM_DEVICE unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
LOOM_DEVICE unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }
LOOM_DEVICE int __popc(unsigned x) { return __builtin_popcount(x); }
LOOM_DEVICE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
LOOM_DEVICE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
LOOM_DEVICE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
LOOM_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
LOOM_DEVICE int __ffsll(long long x) { return __builtin_ffsll(x); }
LOOM_DEVICE unsigned __fns(unsigned mask, unsigned base, int offset) {
  if (offset == 0) return mask >> base & 1u ? base : 0xffffffffu;
  int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
  for (int bit = (int)base; bit >= 0 && bit < 32; bit += step)
    if ((mask >> bit & 1u) && --left == 0) return (unsigned)bit;
  return 0xffffffffu;
}
LOOM_DEVICE unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
LOOM_DEVICE unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
LOOM_DEVICE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned pick = selector >> (4 * i) & 0xfu, byte = (unsigned)(bytes >> (8 * (pick & 7u))) & 0xffu;
    if (pick & 8u) byte = byte & 0x80u ? 0xffu : 0u;
    result |= byte << (8 * i);
  }
  return result;
}
LOOM_DEVICE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) { return (unsigned)(((unsigned long long)high << 32 | low) << (n & 31u) >> 32); }
LOOM_DEVICE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) { return (unsigned)(((unsigned long long)high << 32 | low) >> (n & 31u)); }
LOOM_DEVICE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned n) { return n >= 32u ? low : __funnelshift_l(low, high, n); }
LOOM_DEVICE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned n) { return n >= 32u ? high : __funnelshift_r(low, high, n); }
LOOM_DEVICE int __dp4a(int x, int y, int sum) {
  for (int i = 0; i < 4; ++i) sum += (int)(signed char)(x >> (8 * i)) * (int)(signed char)(y >> (8 * i));
  return sum;
}
LOOM_DEVICE unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
  for (int i = 0; i < 4; ++i) sum += (x >> (8 * i) & 0xffu) * (y >> (8 * i) & 0xffu);
  return sum;
}

/* The two 16-bit halves of x times the low or high two bytes of y. */
#define LOOM_DP2A(name, T, Half, Byte, at)                                                                       \
  LOOM_DEVICE T name(T x, T y, T sum) {                                                                          \
    for (int i = 0; i < 2; ++i) sum += (T)(Half)(x >> (16 * i)) * (T)(Byte)(y >> (8 * i + at));                  \
    return sum;                                                                                                  \
  }
LOOM_DP2A(__dp2a_lo, int, short, signed char, 0)
LOOM_DP2A(__dp2a_hi, int, short, signed char, 16)
LOOM_DP2A(__dp2a_lo, unsigned, unsigned short, unsigned char, 0)
LOOM_DP2A(__dp2a_hi, unsigned, unsigned short, unsigned char, 16)
#undef LOOM_DP2A

/* ---- loads and stores with cache hints: plain accesses here */
template <class T> LOOM_DEVICE T __ldg(const T* p) { return *p; }
template <class T> LOOM_DEVICE T __ldcg(const T* p) { return *p; }
template <class T> LOOM_DEVICE T __ldca(const T* p) { return *p; }
template <class T> LOOM_DEVICE T __ldcs(const T* p) { return *p; }
template <class T> LOOM_DEVICE T __ldlu(const T* p) { return *p; }
template <class T> LOOM_DEVICE T __ldcv(const T* p) { return *(const volatile T*)p; }
template <class T> LOOM_DEVICE void __stwb(T* p, T v) { *p = v; }
template <class T> LOOM_DEVICE void __stcg(T* p, T v) { *p = v; }
template <class T> LOOM_DEVICE void __stcs(T* p, T v) { *p = v; }
template <class T> LOOM_DEVICE void __stwt(T* p, T v) { *p = v; }
LOOM_DEVICE unsigned long long __cvta_generic_to_shared(const void* p) { return (unsigned long long)p; }
LOOM_DEVICE unsigned long long __cvta_generic_to_global(const void* p) { return (unsigned long long)p; }

/* ---- min and max of every arithmetic pair, on both sides */
#define LOOM_MIN_MAX(T)                                              \
  LOOM_HOST_DEVICE T min(T x, T y) { return x < y ? x : y; }         \
  LOOM_HOST_DEVICE T max(T x, T y) { return x > y ? x : y; }
#define LOOM_MIN_MAX_MIXED(A, B, R)                                  \
  LOOM_HOST_DEVICE R min(A x, B y) { return min((R)x, (R)y); }       \
  LOOM_HOST_DEVICE R max(A x, B y) { return max((R)x, (R)y); }       \
  LOOM_HOST_DEVICE R min(B x, A y) { return min((R)x, (R)y); }       \
  LOOM_HOST_DEVICE R max(B x, A y) { return max((R)x, (R)y); }
LOOM_MIN_MAX(int)
LOOM_MIN_MAX(unsigned)
LOOM_MIN_MAX(long)
LOOM_MIN_MAX(unsigned long)
LOOM_MIN_MAX(long long)
LOOM_MIN_MAX(unsigned long long)
LOOM_HOST_DEVICE float min(float x, float y) { return __builtin_fminf(x, y); }
LOOM_HOST_DEVICE float max(float x, float y) { return __builtin_fmaxf(x, y); }
LOOM_HOST_DEVICE double min(double x, double y) { return __builtin_fmin(x, y); }
LOOM_HOST_DEVICE double max(double x, double y) { return __builtin_fmax(x, y); }
LOOM_MIN_MAX_MIXED(int, unsigned, unsigned)
LOOM_MIN_MAX_MIXED(long, unsigned long, unsigned long)
LOOM_MIN_MAX_MIXED(long long, unsigned long long, unsigned long long)
LOOM_MIN_MAX_MIXED(float, double, double)
LOOM_DEVICE unsigned umin(unsigned x, unsigned y) { return x < y ? x : y; }
LOOM_DEVICE unsigned umax(unsigned x, unsigned y) { return x > y ? x : y; }
LOOM_DEVICE long long llmin(long long x, long long y) { return x < y ? x : y; }
LOOM_DEVICE long long llmax(long long x, long long y) { return x > y ? x : y; }
LOOM_DEVICE unsigned long long ullmin(unsigned long long x, unsigned long long y) { return x < y ? x : y; }
LOOM_DEVICE unsigned long long ullmax(unsigned long long x, unsigned long long y) { return x > y ? x : y; }
#undef LOOM_MIN_MAX
#undef LOOM_MIN_MAX_MIXED
