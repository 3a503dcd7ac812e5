/* Qualifiers and compiler switches. Works in three modes: CUDA C++ by clang (host and device pass), plain C++, plain C. */
#pragma once

#define LOOM_CUDA_VERSION 12080
#define CUDART_VERSION LOOM_CUDA_VERSION
#define CUDA_VERSION LOOM_CUDA_VERSION
#define __CUDART_API_VERSION LOOM_CUDA_VERSION
#define CUDARTAPI
#define CUDART_CB
#define CUDAAPI
/* NVIDIA's samples ask by these names what has been included. */
#define __CUDA_RUNTIME_H__ 1
#define __CUDA_RUNTIME_API_H__ 1
#define __DRIVER_TYPES_H__ 1
#define __VECTOR_TYPES_H__ 1

#if defined(__cplusplus)
#define LOOM_EXTERN_C_BEGIN extern "C" {
#define LOOM_EXTERN_C_END }
#define LOOM_DEFAULT(value) = value
#else
#define LOOM_EXTERN_C_BEGIN
#define LOOM_EXTERN_C_END
#define LOOM_DEFAULT(value)
#endif

#if defined(__CUDA__)
#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 8
#define __CUDACC_VER_BUILD__ 0
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
/* The annotations are how the IR says which variables are block-shared, constant or managed, and how many threads a
   kernel's blocks have at most. A declaration (`extern __shared__ float tile[]`) keeps no annotation: its alignment tells
   it (cfg/parsing.py). */
#define __shared__ __attribute__((shared, annotate("loom.shared"), aligned(64)))
#define __constant__ __attribute__((constant, annotate("loom.constant")))
#define __managed__ __attribute__((device, annotate("loom.managed")))
#define __grid_constant__
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__), annotate("loom.launch_bounds", __VA_ARGS__)))
#define __cluster_dims__(...)
#define __maxnreg__(...)
/* clang predefines __CUDA_ARCH__ in both passes here; only the device pass may see it. */
#undef __CUDA_ARCH__
#if defined(LOOM_DEVICE_PASS)
#if !defined(LOOM_CUDA_ARCH)
#define LOOM_CUDA_ARCH 750
#endif
#define __CUDA_ARCH__ LOOM_CUDA_ARCH
#endif
#else
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __launch_bounds__(...)
#endif

#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __device_builtin__
#define __cudart_builtin__
#define __no_return__ __attribute__((noreturn))

/* Short forms used by these headers. */
#define LOOM_HOST_DEVICE static __inline__ __attribute__((always_inline, unused)) __host__ __device__
#define LOOM_DEVICE static __inline__ __attribute__((always_inline, unused)) __device__
