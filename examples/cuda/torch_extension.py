"""A PyTorch extension with a CUDA kernel, built and run without a GPU: python examples/cuda/torch_extension.py"""

import torch

import threadloom.torch

DECLARATION = "torch::Tensor leaky_relu(torch::Tensor x, double slope);"

CUDA = """
template <class T> __global__ void leaky_relu_kernel(const T *x, T *y, T slope, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > T(0) ? x[i] : slope * x[i];
}

torch::Tensor leaky_relu(torch::Tensor x, double slope) {
    TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
    x = x.contiguous();
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "leaky_relu", [&] {
        leaky_relu_kernel<scalar_t><<<(x.numel() + 255) / 256, 256>>>(
            x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), scalar_t(slope), x.numel());
    });
    return y;
}
"""


def main() -> None:
    extension = threadloom.torch.load_inline("leaky", DECLARATION, CUDA, functions=["leaky_relu"])
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(100_000, dtype=dtype)
        torch.testing.assert_close(extension.leaky_relu(x, 0.1), torch.nn.functional.leaky_relu(x, 0.1))
    print("leaky_relu: agrees with PyTorch")


if __name__ == "__main__":
    main()
