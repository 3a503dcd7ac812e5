"""PyTorch's CUDA extensions on a machine without a GPU: `load` and `load_inline` as in torch.utils.cpp_extension.

    module = threadloom.torch.load_inline("scale", cpp_sources=..., cuda_sources=..., functions=["scale"])
    y = module.scale(torch.randn(1000), 2.0)          # CPU tensors

The tensors are CPU tensors and the device is the CPU: in the extension's own files `is_cuda`, `kCUDA`,
`DeviceType::CUDA` and the dispatch key CUDA mean the CPU (on_cpu.py), and <c10/cuda/...>, <ATen/cuda/...> are ours.
"""

from threadloom.torch.extension import load, load_inline

__all__ = ["load", "load_inline"]
