/* __half and __half2. */
#pragma once
#define __CUDA_FP16_H__
#include <loom/half_types.h>
#if defined(__cplusplus)
typedef struct __align__(2) __half_raw { unsigned short x; } __half_raw;
typedef struct __align__(4) __half2_raw { unsigned short x, y; } __half2_raw;
LOOM_DEFINE_FLOAT16(__half, __half2, _Float16, half, (_Float16))
typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
#if defined(__CUDA__)
LOOM_FLOAT16_FUNCTIONS(__half, __half2)
LOOM_FLOAT16_ATOMIC(__half, unsigned short)
LOOM_FLOAT16_ATOMIC(__half2, unsigned)
#endif
#endif
