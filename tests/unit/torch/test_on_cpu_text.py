"""What an extension's own text says about CUDA tensors, and what of it is left alone."""

from __future__ import annotations

import pytest

from threadloom.cuda.front import change_user_text
from threadloom.torch.on_cpu import on_cpu


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("x.is_cuda()", "x.is_cpu()"),
        ("x.device().is_cuda()", "x.device().is_cpu()"),
        ("torch::kCUDA", "torch::kCPU"),
        ("at::DeviceType::CUDA", "at::DeviceType::CPU"),
        ("c10 :: DispatchKey :: CUDA", "c10 :: DispatchKey :: CPU"),
        ("c10::DispatchKey::AutogradCUDA", "c10::DispatchKey::AutogradCPU"),
        ('torch::Device("cuda:1")', 'torch::Device("cpu")'),
        ("y = x.cuda();", "y = x.cpu();"),
        ("at::cuda::getCurrentCUDAStream()", "at::cuda::getCurrentCUDAStream()"),
        ("CUDAGuard guard(x.device());", "CUDAGuard guard(x.device());"),
        ('"x.is_cuda() must hold"', '"x.is_cuda() must hold"'),
        ("my_is_cuda_flag", "my_is_cuda_flag"),
    ],
)
def test_text_about_devices(written: str, read: str) -> None:
    assert on_cpu(written.encode()).decode() == read


def test_headers_keep_their_meaning() -> None:
    text = b'x.is_cuda()\n# 1 "/torch/Tensor.h" 1 3\nbool is_cuda() const;\n# 2 "mine.cu" 2\ny.is_cuda()\n'
    changed = change_user_text(text, on_cpu)
    assert changed == b'x.is_cpu()\n# 1 "/torch/Tensor.h" 1 3\nbool is_cuda() const;\n# 2 "mine.cu" 2\ny.is_cpu()\n'
