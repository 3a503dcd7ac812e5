/* __nv_bfloat16 and __nv_bfloat162. */
#pragma once
#define __CUDA_BF16_H__
#include <loom/half_compare.h>
#include <loom/half_types.h>
#if defined(__cplusplus)
typedef struct __align__(2) __nv_bfloat16_raw { unsigned short x; } __nv_bfloat16_raw;
typedef struct __align__(4) __nv_bfloat162_raw { unsigned short x, y; } __nv_bfloat162_raw;
/* By hand, not the compiler's __bf16: for that it calls a function of libgcc 13, which not every system has. */
struct __loom_bf16 {
  unsigned short bits;
  __host__ __device__ constexpr operator float() const { return __builtin_bit_cast(float, (unsigned)bits << 16); }
};
LOOM_HOST_DEVICE constexpr __loom_bf16 __loom_narrow_bf16(float v) {
  unsigned bits = __builtin_bit_cast(unsigned, v);
  unsigned rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return {(unsigned short)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded)};
}
LOOM_HOST_DEVICE constexpr __loom_bf16 __loom_narrow_bf16(double v) { return __loom_narrow_bf16(__loom_round_to_odd(v)); }
template <class T> LOOM_HOST_DEVICE constexpr __loom_bf16 __loom_narrow_bf16(T v) { return __loom_narrow_bf16(__loom_whole(v)); }
LOOM_HOST_DEVICE constexpr float __loom_widen(__loom_bf16 v) { return v; }
LOOM_DEFINE_FLOAT16(__nv_bfloat16, __nv_bfloat162, __loom_bf16, bfloat16, __loom_narrow_bf16)
LOOM_FLOAT16_COMPARISONS(__nv_bfloat16, __nv_bfloat162, bfloat16)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80u)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fffu)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001u)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7f7fu)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000u)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000u)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80u)
#if defined(__CUDA__)
LOOM_FLOAT16_FUNCTIONS(__nv_bfloat16, __nv_bfloat162)
LOOM_FLOAT16_ATOMIC(__nv_bfloat16, unsigned short)
LOOM_FLOAT16_ATOMIC(__nv_bfloat162, unsigned)
#endif
#endif
