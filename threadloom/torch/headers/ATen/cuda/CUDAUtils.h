#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
namespace at::cuda {
inline bool check_device(ArrayRef<Tensor> tensors) {
  for (const Tensor& tensor : tensors)
    if (tensor.defined() && !tensor.is_cpu()) return false;
  return true;
}
}  // namespace at::cuda
