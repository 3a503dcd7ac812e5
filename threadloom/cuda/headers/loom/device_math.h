/* Device overloads of the C mathematics library.
   Declared before any libc header: then `using ::sin` in <cmath> takes them along and calls from device code find them. */
#pragma once

#define LOOM_MATH_UNARY(name)                                                              \
  LOOM_DEVICE float name##f(float x) { return __builtin_##name##f(x); }                    \
  LOOM_DEVICE double name(double x) { return __builtin_##name(x); }                        \
  LOOM_DEVICE float name(float x) { return __builtin_##name##f(x); }                       \
  template <class T, __loom_if<__is_integral(T)> = 0>                                      \
  LOOM_DEVICE double name(T x) { return __builtin_##name((double)x); }

#define LOOM_MATH_BINARY(name)                                                             \
  LOOM_DEVICE float name##f(float x, float y) { return __builtin_##name##f(x, y); }        \
  LOOM_DEVICE double name(double x, double y) { return __builtin_##name(x, y); }           \
  LOOM_DEVICE float name(float x, float y) { return __builtin_##name##f(x, y); }           \
  template <class T, class U, __loom_if<__loom_mixed<T, U>::value> = 0>                    \
  LOOM_DEVICE double name(T x, U y) { return __builtin_##name((double)x, (double)y); }

template <bool> struct __loom_enable {};
template <> struct __loom_enable<true> { typedef int type; };
template <bool condition> using __loom_if = typename __loom_enable<condition>::type;
/* Two arithmetic types that are not both float: the result is double, as in C++'s overload rules. */
template <class T, class U> struct __loom_mixed { static constexpr bool value = __is_arithmetic(T) && __is_arithmetic(U); };
template <> struct __loom_mixed<float, float> { static constexpr bool value = false; };
template <> struct __loom_mixed<double, double> { static constexpr bool value = false; };

/* Where the C library's double functions are further off than CUDA's (1 ulp): its result and a correction. */
LOOM_DEVICE double __loom_cbrt(double x) {
#pragma clang fp contract(off)
  double y = __builtin_cbrt(x), square = y * y, cube = square * y;
  if (x == 0 || !__builtin_isfinite(cube)) return y;
  double below = __builtin_fma(square, y, -cube) + __builtin_fma(y, y, -square) * y;
  return y - ((cube - x) + below) / (3 * square);
}
LOOM_DEVICE double __loom_rsqrt(double x) {
#pragma clang fp contract(off)
  double y = 1.0 / __builtin_sqrt(x), square = y * y;
  double off = __builtin_fma(-x, square, 1.0) - x * __builtin_fma(y, y, -square);
  return off == off && square != 0 ? __builtin_fma(y, 0.5 * off, y) : y;
}
/* 10^x = 2^n * exp(r ln 10), with n log10(2) taken off x exactly. */
LOOM_DEVICE double __loom_exp10(double x) {
#pragma clang fp contract(off)
  double bounded = x < -400 ? -400 : x > 400 ? 400 : x, n = __builtin_rint(bounded * 3.321928094887362);
  if (bounded == __builtin_rint(bounded) && bounded >= 0 && bounded <= 22) return __builtin_exp10(bounded);
  double whole = n * 0.3010299956639812, apart = bounded - whole, under = __builtin_fma(n, 0.3010299956639812, -whole);
  double r = apart - under, lost = (apart - r) - under + n * 2.8037281277851704e-18;
  double t = r * 2.302585092994046, grown = __builtin_expm1(t);
  double below = __builtin_fma(r, 2.302585092994046, -t) + r * -2.1707562233822494e-16 + lost * 2.302585092994046;
  double value = 1.0 + (grown + __builtin_fma(grown, below, below));
  return x != x ? x : __builtin_ldexp(value, (int)n);
}
/* Its series up to 0.35, beyond that expm1(2x) / (expm1(2x) + 2) with what rounding the sum loses. */
LOOM_DEVICE double __loom_tanh(double x) {
#pragma clang fp contract(off)
  double size = __builtin_fabs(x);
  if (size < 0.35) {
    constexpr double c[] = {
        -0.3333333333333333, 0.13333333333333333, -0.05396825396825397, 0.021869488536155203,
        -0.008863235529902197, 0.003592128036572481, -0.0014558343870513183, 0.000590027440945586,
        -0.00023912911424355248, 9.691537956929451e-05, -3.927832388331683e-05, 1.5918905069328964e-05,
        -6.451689215655431e-06, 2.6147711512907546e-06};
    double square = x * x, sum = c[13];
    for (int i = 12; i >= 0; --i) sum = __builtin_fma(sum, square, c[i]);
    return __builtin_fma(x * square, sum, x);
  }
  if (!(size < 22)) return x != x ? x : __builtin_copysign(1.0, x);
  double t = __builtin_expm1(2 * size), under = t + 2, lost = t > 2 ? 2 - (under - t) : t - (under - 2);
  double ratio = t / under;
  ratio += (__builtin_fma(-ratio, under, t) - ratio * lost) / under;
  return __builtin_copysign(ratio, x);
}
#define LOOM_MATH_CORRECTED(name)                                                          \
  LOOM_DEVICE float name##f(float x) { return __builtin_##name##f(x); }                    \
  LOOM_DEVICE double name(double x) { return __loom_##name(x); }                           \
  LOOM_DEVICE float name(float x) { return __builtin_##name##f(x); }                       \
  template <class T, __loom_if<__is_integral(T)> = 0>                                      \
  LOOM_DEVICE double name(T x) { return __loom_##name((double)x); }

LOOM_MATH_UNARY(sin) LOOM_MATH_UNARY(cos) LOOM_MATH_UNARY(tan)
LOOM_MATH_UNARY(asin) LOOM_MATH_UNARY(acos) LOOM_MATH_UNARY(atan)
LOOM_MATH_UNARY(sinh) LOOM_MATH_UNARY(cosh) LOOM_MATH_CORRECTED(tanh)
LOOM_MATH_UNARY(asinh) LOOM_MATH_UNARY(acosh) LOOM_MATH_UNARY(atanh)
LOOM_MATH_UNARY(exp) LOOM_MATH_UNARY(exp2) LOOM_MATH_UNARY(expm1)
LOOM_MATH_UNARY(log) LOOM_MATH_UNARY(log2) LOOM_MATH_UNARY(log10) LOOM_MATH_UNARY(log1p) LOOM_MATH_UNARY(logb)
LOOM_MATH_UNARY(sqrt) LOOM_MATH_CORRECTED(cbrt) LOOM_MATH_UNARY(fabs)
LOOM_MATH_UNARY(floor) LOOM_MATH_UNARY(ceil) LOOM_MATH_UNARY(trunc) LOOM_MATH_UNARY(round)
LOOM_MATH_UNARY(rint) LOOM_MATH_UNARY(nearbyint)
LOOM_MATH_UNARY(erf) LOOM_MATH_UNARY(erfc) LOOM_MATH_UNARY(lgamma)
/* The C library's in float is off by more than five units between the poles. */
LOOM_DEVICE float tgammaf(float x) { return (float)__builtin_tgamma(x); }
LOOM_DEVICE double tgamma(double x) { return __builtin_tgamma(x); }
LOOM_DEVICE float tgamma(float x) { return tgammaf(x); }
template <class T, __loom_if<__is_integral(T)> = 0>
LOOM_DEVICE double tgamma(T x) { return __builtin_tgamma((double)x); }
LOOM_MATH_BINARY(pow) LOOM_MATH_BINARY(atan2) LOOM_MATH_BINARY(fmod) LOOM_MATH_BINARY(hypot)
LOOM_MATH_BINARY(fmin) LOOM_MATH_BINARY(fmax) LOOM_MATH_BINARY(fdim) LOOM_MATH_BINARY(copysign)
LOOM_MATH_BINARY(remainder) LOOM_MATH_BINARY(nextafter)

LOOM_DEVICE float pow(float x, int n) { return __builtin_powf(x, (float)n); }
LOOM_DEVICE float powf(float x, int n) { return __builtin_powf(x, (float)n); }
LOOM_DEVICE double pow(double x, int n) { return __builtin_pow(x, (double)n); }
LOOM_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
LOOM_DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
LOOM_DEVICE float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
LOOM_DEVICE float ldexpf(float x, int e) { return __builtin_ldexpf(x, e); }
LOOM_DEVICE double ldexp(double x, int e) { return __builtin_ldexp(x, e); }
LOOM_DEVICE float ldexp(float x, int e) { return __builtin_ldexpf(x, e); }
LOOM_DEVICE float scalbnf(float x, int e) { return __builtin_ldexpf(x, e); }
LOOM_DEVICE double scalbn(double x, int e) { return __builtin_ldexp(x, e); }
LOOM_DEVICE float scalbn(float x, int e) { return __builtin_ldexpf(x, e); }
LOOM_DEVICE float scalblnf(float x, long e) { return __builtin_scalblnf(x, e); }
LOOM_DEVICE double scalbln(double x, long e) { return __builtin_scalbln(x, e); }
LOOM_DEVICE float scalbln(float x, long e) { return __builtin_scalblnf(x, e); }
LOOM_DEVICE float frexpf(float x, int* e) { return __builtin_frexpf(x, e); }
LOOM_DEVICE double frexp(double x, int* e) { return __builtin_frexp(x, e); }
LOOM_DEVICE float frexp(float x, int* e) { return __builtin_frexpf(x, e); }
LOOM_DEVICE float modff(float x, float* whole) { return __builtin_modff(x, whole); }
LOOM_DEVICE double modf(double x, double* whole) { return __builtin_modf(x, whole); }
LOOM_DEVICE float modf(float x, float* whole) { return __builtin_modff(x, whole); }
LOOM_DEVICE float remquof(float x, float y, int* q) { return __builtin_remquof(x, y, q); }
LOOM_DEVICE double remquo(double x, double y, int* q) { return __builtin_remquo(x, y, q); }
LOOM_DEVICE int ilogbf(float x) { return __builtin_ilogbf(x); }
LOOM_DEVICE int ilogb(double x) { return __builtin_ilogb(x); }
LOOM_DEVICE int ilogb(float x) { return __builtin_ilogbf(x); }
LOOM_DEVICE long lround(double x) { return __builtin_lround(x); }
LOOM_DEVICE long lround(float x) { return __builtin_lroundf(x); }
LOOM_DEVICE long lroundf(float x) { return __builtin_lroundf(x); }
LOOM_DEVICE long lrint(double x) { return __builtin_lrint(x); }
LOOM_DEVICE long lrint(float x) { return __builtin_lrintf(x); }
LOOM_DEVICE long lrintf(float x) { return __builtin_lrintf(x); }
LOOM_DEVICE long long llround(double x) { return __builtin_llround(x); }
LOOM_DEVICE long long llroundf(float x) { return __builtin_llroundf(x); }
LOOM_DEVICE long long llrint(double x) { return __builtin_llrint(x); }
LOOM_DEVICE long long llrintf(float x) { return __builtin_llrintf(x); }
LOOM_DEVICE float nanf(const char*) { return __builtin_nanf(""); }
LOOM_DEVICE double nan(const char*) { return __builtin_nan(""); }
/* Of the least number itself, as on the device; C leaves that undefined. */
LOOM_DEVICE int abs(int x) { return __builtin_elementwise_abs(x); }
LOOM_DEVICE long abs(long x) { return __builtin_elementwise_abs(x); }
LOOM_DEVICE long long abs(long long x) { return __builtin_elementwise_abs(x); }
LOOM_DEVICE float abs(float x) { return __builtin_fabsf(x); }
LOOM_DEVICE double abs(double x) { return __builtin_fabs(x); }
LOOM_DEVICE long labs(long x) { return abs(x); }
LOOM_DEVICE long long llabs(long long x) { return abs(x); }
LOOM_DEVICE void sincosf(float x, float* s, float* c) { *s = __builtin_sinf(x), *c = __builtin_cosf(x); }
LOOM_DEVICE void sincos(double x, double* s, double* c) { *s = __builtin_sin(x), *c = __builtin_cos(x); }
LOOM_DEVICE void sincos(float x, float* s, float* c) { *s = __builtin_sinf(x), *c = __builtin_cosf(x); }
LOOM_DEVICE bool isnan(float x) { return __builtin_isnan(x); }
LOOM_DEVICE bool isnan(double x) { return __builtin_isnan(x); }
LOOM_DEVICE bool isinf(float x) { return __builtin_isinf(x); }
LOOM_DEVICE bool isinf(double x) { return __builtin_isinf(x); }
LOOM_DEVICE bool isfinite(float x) { return __builtin_isfinite(x); }
LOOM_DEVICE bool isfinite(double x) { return __builtin_isfinite(x); }
LOOM_DEVICE bool signbit(float x) { return __builtin_signbit(x); }
LOOM_DEVICE bool signbit(double x) { return __builtin_signbit(x); }

/* What CUDA has beyond C. The host's versions of some are in host_math.h: newer C libraries declare these themselves. */
LOOM_DEVICE float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
LOOM_DEVICE double rsqrt(double x) { return __loom_rsqrt(x); }
LOOM_DEVICE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
LOOM_DEVICE float rcbrtf(float x) { return (float)(1.0 / __builtin_cbrt((double)x)); }
LOOM_DEVICE double rcbrt(double x) {
#pragma clang fp contract(off)
  double y = 1.0 / __loom_cbrt(x), square = y * y, cube = square * y;
  if (x == 0 || !__builtin_isfinite(cube)) return y;
  double under = __builtin_fma(square, y, -cube) + __builtin_fma(y, y, -square) * y;  // of the cube
  double off = __builtin_fma(-x, cube, 1.0) - x * under;
  return off == off ? __builtin_fma(y, off * (1.0 / 3), y) : y;
}
LOOM_DEVICE float exp10f(float x) { return __builtin_exp10f(x); }
LOOM_DEVICE double exp10(double x) { return __loom_exp10(x); }
/* Reduce to |r| <= 1/4 of a period first: the product with pi is then exact enough for CUDA's bound of 2 ulp. */
LOOM_DEVICE double sinpi(double x) {
  double whole = __builtin_rint(x * 2.0), r = __builtin_fma(whole, -0.5, x) * 3.141592653589793;
  long long quarter = (long long)__builtin_fmod(whole, 4.0) & 3;
  double value = quarter & 1 ? __builtin_cos(r) : __builtin_sin(r);
  return value == 0 ? __builtin_copysign(0.0, x) : quarter & 2 ? -value : value;
}
LOOM_DEVICE double cospi(double x) {
  double whole = __builtin_rint(x * 2.0), r = __builtin_fma(whole, -0.5, x) * 3.141592653589793;
  long long quarter = (long long)__builtin_fmod(whole, 4.0) & 3;
  double value = quarter & 1 ? __builtin_sin(r) : __builtin_cos(r);
  return value == 0 ? 0.0 : (quarter == 1 || quarter == 2) ? -value : value;
}
LOOM_DEVICE float sinpif(float x) { return (float)sinpi((double)x); }
LOOM_DEVICE float cospif(float x) { return (float)cospi((double)x); }
LOOM_DEVICE void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
LOOM_DEVICE void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
/* A double's root of a sum of squares, or its reciprocal, within one unit in the last place (CUDA's bound for three and
   four numbers): scaled by a power of two, the sum kept in two parts, the root corrected by what it lost. */
LOOM_DEVICE double __loom_norm(int n, const double* x, bool reciprocal) {
#pragma clang fp contract(off)
  double largest = 0;
  for (int i = 0; i < n; ++i) largest = __builtin_fmax(largest, __builtin_fabs(x[i]));
  if (largest == 0 || __builtin_isinf(largest)) {
    for (int i = 0; i < n && largest == 0; ++i) largest += __builtin_fabs(x[i]);  // not a number
    return reciprocal ? 1 / largest : largest;
  }
  int exponent = __builtin_ilogb(largest);
  double high = 0, low = 0;
  for (int i = 0; i < n; ++i) {
    double part = __builtin_ldexp(x[i], -exponent), square = part * part, sum = high + square, added = sum - high;
    low += __builtin_fma(part, part, -square) + ((high - (sum - added)) + (square - added));
    high = sum;
  }
  double root = __builtin_sqrt(high), lost = (__builtin_fma(-root, root, high) + low) / (2 * root);
  if (!reciprocal) return __builtin_ldexp(root + lost, exponent);
  double inverse = 1 / root;
  return __builtin_ldexp(inverse + inverse * (__builtin_fma(-root, inverse, 1.0) - lost * inverse), -exponent);
}
LOOM_DEVICE double norm(int n, const double* x) { return __loom_norm(n, x, false); }
LOOM_DEVICE double rnorm(int n, const double* x) { return __loom_norm(n, x, true); }
LOOM_DEVICE double norm3d(double a, double b, double c) { double x[] = {a, b, c}; return __loom_norm(3, x, false); }
LOOM_DEVICE double rnorm3d(double a, double b, double c) { double x[] = {a, b, c}; return __loom_norm(3, x, true); }
LOOM_DEVICE double norm4d(double a, double b, double c, double d) { double x[] = {a, b, c, d}; return __loom_norm(4, x, false); }
LOOM_DEVICE double rnorm4d(double a, double b, double c, double d) { double x[] = {a, b, c, d}; return __loom_norm(4, x, true); }
LOOM_DEVICE double rhypot(double a, double b) { double x[] = {a, b}; return __loom_norm(2, x, true); }
/* Of floats the squares are exact in double. One that is infinite decides, whatever the others are. */
LOOM_DEVICE double __loom_normf(int n, const float* x) {
  double sum = 0;
  bool infinite = false;
  for (int i = 0; i < n; ++i) sum += (double)x[i] * x[i], infinite |= __builtin_isinf(x[i]) != 0;
  return infinite ? __builtin_inf() : __builtin_sqrt(sum);
}
LOOM_DEVICE float normf(int n, const float* x) { return (float)__loom_normf(n, x); }
LOOM_DEVICE float rnormf(int n, const float* x) { return (float)(1.0 / __loom_normf(n, x)); }
LOOM_DEVICE float norm3df(float a, float b, float c) { float x[] = {a, b, c}; return normf(3, x); }
LOOM_DEVICE float rnorm3df(float a, float b, float c) { float x[] = {a, b, c}; return rnormf(3, x); }
LOOM_DEVICE float norm4df(float a, float b, float c, float d) { float x[] = {a, b, c, d}; return normf(4, x); }
LOOM_DEVICE float rnorm4df(float a, float b, float c, float d) { float x[] = {a, b, c, d}; return rnormf(4, x); }
LOOM_DEVICE float rhypotf(float a, float b) { float x[] = {a, b}; return rnormf(2, x); }

extern "C" __device__ long long __loom_device_clock() __asm__("loom.clock");
LOOM_DEVICE long clock() { return (long)__loom_device_clock(); }

extern "C" {
__device__ double erfcx(double);
__device__ float erfcxf(float);
__device__ double erfinv(double);
__device__ float erfinvf(float);
__device__ double erfcinv(double);
__device__ float erfcinvf(float);
__device__ double normcdf(double);
__device__ float normcdff(float);
__device__ double normcdfinv(double);
__device__ float normcdfinvf(float);
__device__ double cyl_bessel_i0(double);
__device__ float cyl_bessel_i0f(float);
__device__ double cyl_bessel_i1(double);
__device__ float cyl_bessel_i1f(float);
__device__ double j0(double) __asm__("__loom_j0");
__device__ float j0f(float) __asm__("__loom_j0f");
__device__ double j1(double) __asm__("__loom_j1");
__device__ float j1f(float) __asm__("__loom_j1f");
__device__ double jn(int, double) __asm__("__loom_jn");
__device__ float jnf(int, float) __asm__("__loom_jnf");
__device__ double y0(double) __asm__("__loom_y0");
__device__ float y0f(float) __asm__("__loom_y0f");
__device__ double y1(double) __asm__("__loom_y1");
__device__ float y1f(float) __asm__("__loom_y1f");
__device__ double yn(int, double) __asm__("__loom_yn");
__device__ float ynf(int, float) __asm__("__loom_ynf");

/* The parts of the C library that device code may call: the host's own functions serve. */
__device__ int printf(const char*, ...);
__device__ void* malloc(__SIZE_TYPE__);
__device__ void free(void*);
__device__ void* memcpy(void*, const void*, __SIZE_TYPE__);
__device__ void* memmove(void*, const void*, __SIZE_TYPE__);
__device__ void* memset(void*, int, __SIZE_TYPE__);
__device__ int memcmp(const void*, const void*, __SIZE_TYPE__);
__device__ __SIZE_TYPE__ strlen(const char*);
__device__ void __assert_fail(const char*, const char*, unsigned, const char*) throw() __asm__("loom.assert.fail") __attribute__((noreturn));
}
