/* Launches are never captured into PyTorch's graphs here. */
#pragma once
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/PhiloxUtils.cuh>

#include <string>

namespace at::cuda {
inline void assertNotCapturing(const std::string&) {}
}  // namespace at::cuda
