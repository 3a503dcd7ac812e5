"""Whole extensions as their authors write them for a GPU, built and run on CPU tensors, forward and backward."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.clang, pytest.mark.slow]

SOURCES = Path(__file__).parent / "extensions"
NORM = "at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, double eps);"
TOLERANCES = {"float32": 1e-5, "float64": 1e-12, "float16": 1e-2, "bfloat16": 8e-2}
FUSED = """
void adam_step(std::vector<std::vector<at::Tensor>> lists, double lr, double b1, double b2, double eps, int64_t step);
std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& x, double p, c10::optional<at::Generator> generator);
at::Tensor swiglu(at::Tensor gate, at::Tensor up);
std::tuple<at::Tensor, at::Tensor> max_rows(at::Tensor x);
"""


def test_layer_norm_and_its_gradients_in_four_types() -> None:
    import torch

    from threadloom.torch import load_inline

    norm = load_inline("stranger_norm", NORM, (SOURCES / "layer_norm.cu").read_text(), functions=["layer_norm"],
                       extra_cuda_cflags=["-O3", "--use_fast_math"]).layer_norm  # fmt: skip
    torch.manual_seed(0)
    for name, tolerance in TOLERANCES.items():
        dtype = getattr(torch, name)
        for rows, columns in ((5, 300), (3, 64), (2, 1)):
            shapes = ((rows, columns), (columns,), (columns,))
            x, gamma, beta = (torch.randn(shape).to(dtype).requires_grad_() for shape in shapes)
            y, upstream = norm(x, gamma, beta, 1e-5), torch.randn(rows, columns).to(dtype)
            wide = torch.nn.functional.layer_norm(x.double(), (columns,), gamma.double(), beta.double(), 1e-5)
            torch.testing.assert_close(y.double(), wide, atol=tolerance, rtol=tolerance)
            got = torch.autograd.grad(y, (x, gamma, beta), upstream)
            wanted = torch.autograd.grad(wide, (x, gamma, beta), upstream.double())
            for one, other in zip(got, wanted, strict=True):
                torch.testing.assert_close(one.double(), other.double(), atol=2 * tolerance, rtol=2 * tolerance)
    wide = [torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in ((4, 33), (33,), (33,))]
    assert torch.autograd.gradcheck(lambda *tensors: norm(*tensors, 1e-5), wide)
    with pytest.raises(RuntimeError, match="not implemented for 'Int'"):
        norm(torch.ones(2, 3, dtype=torch.int32), torch.ones(3), torch.ones(3), 1e-5)
    with pytest.raises(RuntimeError, match="shapes differ"):
        norm(torch.ones(2, 3), torch.ones(4), torch.ones(4), 1e-5)


def test_operators_atomics_streams_and_devices_by_name(tmp_path: Path) -> None:
    import torch

    from threadloom.torch import load

    files = [str(SOURCES / name) for name in ("scatter_mean.cpp", "scatter_mean_kernels.cu")]
    module = load("stranger_ops", files, extra_cflags=["-O2", "-Wall"], with_cuda=True,
                  extra_cuda_cflags=["-lineinfo", "-gencode=arch=compute_80,code=sm_80"],
                  build_directory=str(tmp_path))  # fmt: skip
    mean = torch.ops.stranger.scatter_mean
    torch.manual_seed(0)
    for name, tolerance in TOLERANCES.items():
        dtype = getattr(torch, name)
        for kind in (torch.int32, torch.int64):
            source, index = torch.randn(97, 13).to(dtype), torch.randint(0, 11, (97,), dtype=kind)
            counts = torch.bincount(index, minlength=12).clamp_min(1)[:, None]
            wanted = torch.zeros(12, 13, dtype=torch.double).index_add_(0, index, source.double()) / counts
            torch.testing.assert_close(mean(source, index, 12).double(), wanted, atol=tolerance, rtol=tolerance)
    source, index = torch.randn(20, 3, dtype=torch.double, requires_grad=True), torch.randint(0, 5, (20,))
    assert torch.autograd.gradcheck(lambda given: mean(given, index, 5), (source,))
    assert mean(torch.empty(8, 3, device="meta"), torch.empty(8, dtype=torch.int64, device="meta"), 5).shape == (5, 3)
    for dtype in (torch.float32, torch.int32, torch.uint8):
        x = torch.arange(1000).to(dtype)
        parts = module.two_streams(x, pieces=5)
        for i, (part, own) in enumerate(zip(parts, x.chunk(5), strict=True)):
            assert torch.equal(part, own * (2 + i))
    assert module.device_name().endswith("of 1 cpu:0")
    assert torch.equal(module.on_named(5, "cpu"), 1 + torch.arange(5, dtype=torch.double))


def test_many_tensors_philox_pairs_of_halves_and_cub() -> None:
    import torch

    from threadloom.torch import load_inline

    flags = ["-O3", "-std=c++17", "-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__"]
    names = {"adam_step": "a step", "dropout": "and its mask", "swiglu": "silu(gate) * up", "max_rows": "and where"}
    module = load_inline("stranger_fused", FUSED, (SOURCES / "fused.cu").read_text(), functions=names,
                         extra_cuda_cflags=flags, extra_ldflags=["-lcublas", "-lcurand"])  # fmt: skip
    torch.manual_seed(0)
    for dtype, tolerance in ((torch.float32, 5e-6), (torch.float64, 5e-6), (torch.float16, 1e-2)):
        own = [torch.randn(n).to(dtype) for n in (1, 99, 100, 101, 777)]
        wanted = [one.double().clone().requires_grad_() for one in own]
        moments = [[torch.zeros(one.numel()) for one in own] for _ in range(2)]
        adam = torch.optim.Adam(wanted, lr=0.01)
        for step in range(1, 4):
            gradients = [torch.randn(one.numel()).to(dtype) for one in own]
            for one, gradient in zip(wanted, gradients, strict=True):
                one.grad = gradient.double()
            adam.step()
            module.adam_step([own, gradients, *moments], 0.01, 0.9, 0.999, 1e-8, step)
        for one, other in zip(own, wanted, strict=True):
            torch.testing.assert_close(one.double(), other.detach(), atol=tolerance, rtol=tolerance)
    torch.manual_seed(5)
    first, second = (module.dropout(torch.ones(10_001), 0.3, None) for _ in range(2))
    torch.manual_seed(5)
    assert torch.equal(module.dropout(torch.ones(10_001), 0.3, None)[0], first[0])
    assert not torch.equal(first[0], second[0]) and torch.equal(first[0] != 0, first[1])
    for dtype, tolerance in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
        gate, up = torch.randn(3, 402).to(dtype), torch.randn(3, 402).to(dtype)
        wide = torch.nn.functional.silu(gate.double()) * up.double()
        torch.testing.assert_close(module.swiglu(gate, up).double(), wide, atol=tolerance, rtol=tolerance)
    for dtype in (torch.float32, torch.float64, torch.int32, torch.uint8, torch.int64):
        x = (torch.randn(6, 333) * 50).to(dtype)
        values, where = module.max_rows(x)
        assert torch.equal(values, x.max(1).values) and torch.equal(x.gather(1, where[:, None])[:, 0], values)
    with pytest.raises(ValueError, match="an even number of elements, not 3"):
        module.swiglu(torch.ones(3).half(), torch.ones(3).half())
    with pytest.raises(TypeError, match="half or bfloat16"):
        module.swiglu(torch.ones(4), torch.ones(4))
