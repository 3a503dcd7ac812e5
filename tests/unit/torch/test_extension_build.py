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


LIBRARIES = r"""
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cublas_v2.h>
#include <curand_kernel.h>

__global__ void dropout_kernel(const float* x, float* y, float p, int n, at::PhiloxCudaState philox) {
  auto [seed, offset] = at::cuda::philox::unpack(philox);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  curandStatePhilox4_32_10_t state;
  curand_init(seed, i, offset, &state);
  y[i] = curand_uniform(&state) < p ? 0.0f : x[i];
}

torch::Tensor dropout(torch::Tensor x, double p, std::optional<at::Generator> given) {
  const at::Generator& usual = at::cuda::detail::getDefaultCUDAGenerator();
  auto* generator = at::get_generator_or_default<at::CUDAGeneratorImpl>(given, usual);
  at::PhiloxCudaState philox;
  {
    std::lock_guard<std::mutex> lock(generator->mutex_);
    philox = generator->philox_cuda_state(4);
  }
  auto y = torch::empty_like(x);
  int n = x.numel();
  dropout_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), p, n, philox);
  return y;
}

torch::Tensor product(torch::Tensor a, torch::Tensor b) {  // row-major, by way of memory of the allocator
  int m = a.size(0), k = a.size(1), n = b.size(1);
  float one = 1, zero = 0, *c = (float*)c10::cuda::CUDACachingAllocator::raw_alloc(m * n * sizeof(float));
  TORCH_CUDABLAS_CHECK(cublasSgemm(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one,
                                   b.data_ptr<float>(), n, a.data_ptr<float>(), k, &zero, c, n));
  auto out = torch::empty({m, n}, a.options());
  C10_CUDA_CHECK(cudaMemcpy(out.data_ptr<float>(), c, m * n * sizeof(float), cudaMemcpyDeviceToDevice));
  c10::cuda::CUDACachingAllocator::raw_delete(c);
  return out;
}
"""
DECLARED = """torch::Tensor dropout(torch::Tensor x, double p, std::optional<at::Generator> given);
torch::Tensor product(torch::Tensor a, torch::Tensor b);"""


def test_generators_the_allocator_and_blas_handles_are_the_cpus(tmp_path: Path) -> None:
    import torch

    from threadloom.torch import load_inline

    names = ["dropout", "product"]
    module = load_inline("loom_libraries", DECLARED, LIBRARIES, functions=names, build_directory=str(tmp_path))
    x = torch.ones(10_000)
    torch.manual_seed(3)
    first, second = module.dropout(x, 0.25, None), module.dropout(x, 0.25, None)
    torch.manual_seed(3)
    assert torch.equal(module.dropout(x, 0.25, None), first) and not torch.equal(first, second)
    assert abs(first.mean() - 0.75) < 0.03
    mine = torch.Generator().manual_seed(5)
    of_mine = module.dropout(x, 0.25, mine)
    assert torch.equal(module.dropout(x, 0.25, torch.Generator().manual_seed(5)), of_mine)
    assert not torch.equal(of_mine, first)
    a, b = torch.randn(30, 50), torch.randn(50, 20)
    torch.testing.assert_close(module.product(a, b), a @ b)
