/* __half and __half2. */
#pragma once
#define __CUDA_FP16_H__
#include <loom/half_compare.h>
#include <loom/half_types.h>
#if defined(__cplusplus)
typedef struct __align__(2) __half_raw { unsigned short x; } __half_raw;
typedef struct __align__(4) __half2_raw { unsigned short x, y; } __half2_raw;
#if defined(LOOM_DEVICE_PASS)
LOOM_HOST_DEVICE constexpr _Float16 __loom_narrow_half(float v) { return (_Float16)v; }
LOOM_HOST_DEVICE constexpr _Float16 __loom_narrow_half(double v) { return (_Float16)v; }
LOOM_HOST_DEVICE constexpr float __loom_widen(_Float16 v) { return (float)v; }
#else
/* Host code is compiled for any x86-64, where the compiler calls libgcc, which goes bit by bit. */
LOOM_HOST_DEVICE constexpr _Float16 __loom_narrow_half(float v) {
  unsigned bits = __builtin_bit_cast(unsigned, v), sign = bits & 0x80000000u, half = 0;
  bits ^= sign;
  if (bits >= 0x47800000u) half = bits > 0x7f800000u ? 0x7e00u | (bits >> 13 & 0x3ffu) : 0x7c00u; /* NaN, or 65536 and up */
  else if (bits < 0x38800000u) half = __builtin_bit_cast(unsigned, __builtin_bit_cast(float, bits) + 0.5f) - 0x3f000000u; /* subnormal */
  else half = (bits + 0xc8000fffu + (bits >> 13 & 1u)) >> 13; /* exponent from bias 127 to 15, nearest even */
  return __builtin_bit_cast(_Float16, (unsigned short)(half | sign >> 16));
}
LOOM_HOST_DEVICE constexpr _Float16 __loom_narrow_half(double v) { return __loom_narrow_half(__loom_round_to_odd(v)); }
LOOM_HOST_DEVICE constexpr float __loom_widen(_Float16 v) {
  unsigned half = __builtin_bit_cast(unsigned short, v), sign = (half & 0x8000u) << 16, bits = (half & 0x7fffu) << 13;
  if (bits >= 0x0f800000u) bits |= 0x7f800000u; /* infinity and NaN */
  else bits = __builtin_bit_cast(unsigned, __builtin_bit_cast(float, bits) * 0x1p112f);
  return __builtin_bit_cast(float, bits | sign);
}
#endif
/* Whole numbers: those that a float does not hold are infinite here. */
template <class T> LOOM_HOST_DEVICE constexpr _Float16 __loom_narrow_half(T v) { return __loom_narrow_half((float)v); }
LOOM_DEFINE_FLOAT16(__half, __half2, _Float16, half, __loom_narrow_half)
LOOM_FLOAT16_COMPARISONS(__half, __half2, half)
typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00u)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fffu)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001u)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bffu)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000u)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000u)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00u)
#if defined(__CUDA__)
LOOM_FLOAT16_FUNCTIONS(__half, __half2)
LOOM_FLOAT16_ATOMIC(__half, unsigned short)
LOOM_FLOAT16_ATOMIC(__half2, unsigned)
#endif
#endif
