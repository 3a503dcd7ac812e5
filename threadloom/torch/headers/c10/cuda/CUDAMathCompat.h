/* One name for float and double versions of the device's mathematical functions. */
#pragma once
#include <cmath>
#define LOOM_COMPAT_1(name)                                                             \
  __device__ __forceinline__ float name(float x) { return ::name##f(x); }               \
  __device__ __forceinline__ double name(double x) { return ::name(x); }
#define LOOM_COMPAT_2(name)                                                             \
  __device__ __forceinline__ float name(float x, float y) { return ::name##f(x, y); }   \
  __device__ __forceinline__ double name(double x, double y) { return ::name(x, y); }
namespace c10::cuda::compat {
#if defined(__CUDA__)
LOOM_COMPAT_1(ceil) LOOM_COMPAT_1(exp) LOOM_COMPAT_1(floor) LOOM_COMPAT_1(log) LOOM_COMPAT_1(log1p)
LOOM_COMPAT_1(rsqrt) LOOM_COMPAT_1(sin) LOOM_COMPAT_1(cos) LOOM_COMPAT_1(sqrt) LOOM_COMPAT_1(tan) LOOM_COMPAT_1(tanh)
LOOM_COMPAT_2(copysign) LOOM_COMPAT_2(pow)
__device__ __forceinline__ float abs(float x) { return ::fabsf(x); }
__device__ __forceinline__ double abs(double x) { return ::fabs(x); }
__device__ __forceinline__ float max(float x, float y) { return ::fmaxf(x, y); }
__device__ __forceinline__ double max(double x, double y) { return ::fmax(x, y); }
__device__ __forceinline__ float min(float x, float y) { return ::fminf(x, y); }
__device__ __forceinline__ double min(double x, double y) { return ::fmin(x, y); }
__device__ __forceinline__ float div(float x, float y) { return x / y; }
__device__ __forceinline__ double div(double x, double y) { return x / y; }
#endif
}  // namespace c10::cuda::compat
#undef LOOM_COMPAT_1
#undef LOOM_COMPAT_2
