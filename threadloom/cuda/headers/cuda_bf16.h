/* __nv_bfloat16 and __nv_bfloat162. */
#pragma once
#include <loom/half_types.h>
#if defined(__cplusplus) && (defined(__clang__) || __GNUC__ >= 13)
typedef struct __align__(2) __nv_bfloat16_raw { unsigned short x; } __nv_bfloat16_raw;
LOOM_DEFINE_FLOAT16(__nv_bfloat16, __nv_bfloat162, __bf16, bfloat16)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
#if defined(__CUDA__)
LOOM_FLOAT16_FUNCTIONS(__nv_bfloat16, __nv_bfloat162)
LOOM_FLOAT16_ATOMIC(__nv_bfloat16, unsigned short)
LOOM_FLOAT16_ATOMIC(__nv_bfloat162, unsigned)
#endif
#endif
