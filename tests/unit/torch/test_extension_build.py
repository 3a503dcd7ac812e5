"""A PyTorch extension with kernels, operators for two devices and a stream, built and run on CPU tensors."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.clang, pytest.mark.slow]

CUDA = r"""
#include <torch/library.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

template <typename T>
__global__ void scale_kernel(torch::PackedTensorAccessor32<T, 2, torch::RestrictPtrTraits> x,
                             torch::PackedTensorAccessor32<T, 2, torch::RestrictPtrTraits> y, T a) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (column < x.size(1)) y[row][column] = a * x[row][column];
}

torch::Tensor scale(torch::Tensor x, double a) {
  TORCH_CHECK(x.device().is_cuda(), "x must be a CUDA tensor");
  c10::cuda::CUDAGuard guard(x.device());
  auto y = torch::empty_like(x, x.options().device(torch::kCUDA));
  dim3 grid((x.size(1) + 127) / 128, x.size(0));
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "scale", [&] {
    scale_kernel<scalar_t><<<grid, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
        y.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), static_cast<scalar_t>(a));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  C10_CUDA_CHECK(cudaStreamSynchronize(at::cuda::getCurrentCUDAStream()));
  return y;
}

torch::Tensor slow_scale(torch::Tensor x, double a) { TORCH_CHECK(false, "the kernel was registered, too"); }

TORCH_LIBRARY(loom_scaling, m) { m.def("scale(Tensor x, float a) -> Tensor"); }
TORCH_LIBRARY_IMPL(loom_scaling, CPU, m) { m.impl("scale", &slow_scale); }
TORCH_LIBRARY_IMPL(loom_scaling, CUDA, m) { m.impl("scale", &scale); }
"""


def test_kernels_of_an_extension_take_cpu_tensors(tmp_path: Path) -> None:
    import torch

    from threadloom.torch import load_inline

    declaration = "torch::Tensor scale(torch::Tensor x, double a);"
    module = load_inline("loom_scaling", declaration, CUDA, functions={"scale": "a x"}, build_directory=str(tmp_path))
    assert "a x" in module.scale.__doc__
    for dtype in (torch.float32, torch.float64, torch.float16):
        x = torch.randn(5, 1000).to(dtype)
        torch.testing.assert_close(module.scale(x, 2.5), x * 2.5)
        torch.testing.assert_close(torch.ops.loom_scaling.scale(x, 2.5), x * 2.5)
    with pytest.raises(RuntimeError, match="not implemented"):
        module.scale(torch.zeros(2, 2, dtype=torch.int32), 1.0)
