/* What CUDA has beyond C for host code, too; glibc declares reciprocal roots from 2.42 on and sines of multiples of pi from 2.41. */
#pragma once
#define LOOM_HOST static __inline__ __attribute__((always_inline, unused)) __host__
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#define LOOM_GLIBC_FROM(minor) __GLIBC_PREREQ(2, minor)
#else
#define LOOM_GLIBC_FROM(minor) 0
#endif
#if !LOOM_GLIBC_FROM(42)
LOOM_HOST float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
LOOM_HOST double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
#endif
LOOM_HOST float rcbrtf(float x) { return (float)(1.0 / __builtin_cbrt((double)x)); }
LOOM_HOST double rcbrt(double x) { return 1.0 / __builtin_cbrt(x); }
#if !LOOM_GLIBC_FROM(41)
/* Reduced to half a period first, exactly. */
LOOM_HOST double sinpi(double x) { return __builtin_sin(__builtin_remainder(x, 2.0) * 3.141592653589793); }
LOOM_HOST double cospi(double x) { return __builtin_cos(__builtin_remainder(x, 2.0) * 3.141592653589793); }
LOOM_HOST float sinpif(float x) { return (float)sinpi((double)x); }
LOOM_HOST float cospif(float x) { return (float)cospi((double)x); }
#endif
LOOM_HOST double normcdf(double x) { return 0.5 * __builtin_erfc(-x * 0.7071067811865475244); }
LOOM_HOST float normcdff(float x) { return (float)normcdf((double)x); }
#undef LOOM_GLIBC_FROM
#undef LOOM_HOST
