#pragma once
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/core/Allocator.h>
#include <cublas_v2.h>

namespace at::cuda {
inline c10::Allocator* getCUDADeviceAllocator() { return c10::GetAllocator(c10::DeviceType::CPU); }

/* The calling thread's handle, on its current stream. */
inline cublasHandle_t getCurrentCUDABlasHandle() {
  static thread_local cublasHandle_t handle = [] {
    cublasHandle_t made = nullptr;
    TORCH_CUDABLAS_CHECK(cublasCreate_v2(&made));
    return made;
  }();
  TORCH_CUDABLAS_CHECK(cublasSetStream_v2(handle, c10::cuda::getCurrentCUDAStream()));
  return handle;
}
}  // namespace at::cuda
