/* PyTorch's checks of runtime calls and launches: a failure is a c10::Error with the runtime's text. */
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <c10/cuda/CUDAMacros.h>
#include <c10/util/Exception.h>
#include <c10/util/irange.h>

#define C10_CUDA_CHECK(EXPR)                                                                       \
  do {                                                                                             \
    const cudaError_t loom_status = (EXPR);                                                        \
    TORCH_CHECK(loom_status == cudaSuccess, "CUDA error: ", cudaGetErrorString(loom_status));      \
  } while (0)
#define C10_CUDA_CHECK_WARN(EXPR)                                                                  \
  do {                                                                                             \
    const cudaError_t loom_status = (EXPR);                                                        \
    if (loom_status != cudaSuccess) TORCH_WARN("CUDA warning: ", cudaGetErrorString(loom_status)); \
  } while (0)
#define C10_CUDA_ERROR_HANDLED(EXPR) EXPR
#define C10_CUDA_IGNORE_ERROR(EXPR) \
  do {                              \
    if ((EXPR) != cudaSuccess) (void)cudaGetLastError(); \
  } while (0)
#define C10_CUDA_CLEAR_ERROR() (void)cudaGetLastError()
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define TORCH_DSA_KERNEL_LAUNCH(kernel, grid, block, shared, stream, ...) \
  do {                                                                    \
    kernel<<<grid, block, shared, stream>>>(__VA_ARGS__);                 \
    C10_CUDA_KERNEL_LAUNCH_CHECK();                                       \
  } while (0)
