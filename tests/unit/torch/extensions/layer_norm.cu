// Layer norm with its gradients as a torch::autograd::Function.
#include <torch/extension.h>
#include <ATen/ATen.h>
#include <ATen/AccumulateType.h>
#include <ATen/OpMathType.h>
#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/DeviceUtils.cuh>
#include <ATen/native/cuda/block_reduce.cuh>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/macros/Macros.h>
#include <vector>

using namespace at;
#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)
constexpr int kThreads = 128;

template <typename scalar_t, typename acc_t>
C10_LAUNCH_BOUNDS_1(kThreads)
__global__
    void ln_forward(const torch::PackedTensorAccessor64<scalar_t, 2, torch::RestrictPtrTraits> x,
                    const scalar_t* __restrict__ gamma, const scalar_t* __restrict__ beta, const acc_t eps,
                    torch::PackedTensorAccessor64<scalar_t, 2, torch::RestrictPtrTraits> y, acc_t* mean, acc_t* rstd) {
  __shared__ acc_t shared[C10_WARP_SIZE];
  __shared__ acc_t stat[2];
  const int64_t row = blockIdx.x, n = x.size(1);
  acc_t sum = 0, square = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const acc_t v = static_cast<acc_t>(x[row][i]);
    sum += v;
    square += v * v;
  }
  sum = at::native::cuda_utils::BlockReduceSum<acc_t>(sum, shared);
  __syncthreads();
  square = at::native::cuda_utils::BlockReduceSum<acc_t>(square, shared);
  if (threadIdx.x == 0) {
    const acc_t m = sum / n;
    stat[0] = m;
    stat[1] = ::rsqrt(square / n - m * m + eps);
    mean[row] = stat[0];
    rstd[row] = stat[1];
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    y[row][i] =
        static_cast<scalar_t>((static_cast<acc_t>(x[row][i]) - stat[0]) * stat[1] * static_cast<acc_t>(gamma[i]) +
                              static_cast<acc_t>(beta[i]));
}

template <typename scalar_t, typename acc_t>
__global__ void ln_backward(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                            const scalar_t* __restrict__ gamma, const acc_t* __restrict__ mean,
                            const acc_t* __restrict__ rstd, scalar_t* dx, acc_t* dgamma, acc_t* dbeta, int n) {
  extern __shared__ unsigned char raw[];
  acc_t* buffer = reinterpret_cast<acc_t*>(raw);
  const int row = blockIdx.x;
  const acc_t m = mean[row], r = rstd[row];
  acc_t a = 0, b = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const acc_t g = static_cast<acc_t>(dy[row * n + i]) * static_cast<acc_t>(gamma[i]),
                h = (static_cast<acc_t>(x[row * n + i]) - m) * r;
    a += g;
    b += g * h;
    gpuAtomicAdd(dgamma + i, static_cast<acc_t>(dy[row * n + i]) * h);
    gpuAtomicAdd(dbeta + i, static_cast<acc_t>(dy[row * n + i]));
  }
#pragma unroll
  for (int offset = C10_WARP_SIZE / 2; offset > 0; offset >>= 1) {
    a += WARP_SHFL_XOR(a, offset);
    b += WARP_SHFL_XOR(b, offset);
  }
  const int warp = threadIdx.x / C10_WARP_SIZE, lane = threadIdx.x % C10_WARP_SIZE, warps = blockDim.x / C10_WARP_SIZE;
  if (lane == 0) {
    buffer[warp] = a;
    buffer[warps + warp] = b;
  }
  __syncthreads();
  a = b = 0;
  for (int w = 0; w < warps; w++) {
    a += buffer[w];
    b += buffer[warps + w];
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const acc_t g = static_cast<acc_t>(dy[row * n + i]) * static_cast<acc_t>(gamma[i]),
                h = (static_cast<acc_t>(x[row * n + i]) - m) * r;
    dx[row * n + i] = static_cast<scalar_t>((g - (a + h * b) / n) * r);
  }
}

class LayerNorm : public torch::autograd::Function<LayerNorm> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor x, torch::Tensor gamma,
                               torch::Tensor beta, double eps) {
    CHECK_CUDA(x);
    CHECK_INPUT(gamma);
    CHECK_INPUT(beta);
    TORCH_CHECK(x.dim() == 2 && x.size(1) == gamma.numel(), "shapes differ: ", x.sizes(), " and ", gamma.sizes());
    const at::cuda::CUDAGuard device_guard(x.device());
    auto stream = at::cuda::getCurrentCUDAStream();
    auto y = torch::empty_like(x, x.options().memory_format(c10::MemoryFormat::Contiguous));
    const auto acc = toAccumulateType(x.scalar_type(), true);
    auto mean = torch::empty({x.size(0)}, x.options().dtype(acc)), rstd = torch::empty_like(mean);
    AT_DISPATCH_FLOATING_TYPES_AND2(kHalf, kBFloat16, x.scalar_type(), "ln_forward", [&] {
      using acc_t = acc_type<scalar_t, true>;
      ln_forward<scalar_t, acc_t><<<x.size(0), kThreads, 0, stream>>>(
          x.packed_accessor64<scalar_t, 2, torch::RestrictPtrTraits>(), gamma.data_ptr<scalar_t>(),
          beta.const_data_ptr<scalar_t>(), static_cast<acc_t>(eps),
          y.packed_accessor64<scalar_t, 2, torch::RestrictPtrTraits>(), mean.mutable_data_ptr<acc_t>(),
          rstd.data_ptr<acc_t>());
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
    ctx->save_for_backward({x, gamma, mean, rstd});
    ctx->saved_data["rows"] = x.size(0);
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    auto x = saved[0].contiguous(), gamma = saved[1], mean = saved[2], rstd = saved[3], dy = grads[0].contiguous();
    const int64_t rows = ctx->saved_data["rows"].toInt(), n = x.size(1);
    auto dx = at::empty_like(x);
    auto dgamma = at::zeros({n}, mean.options()), dbeta = at::zeros({n}, mean.options());
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "ln_backward", ([&] {
          using acc_t = at::acc_type<scalar_t, true>;
          const int shared = 2 * kThreads / C10_WARP_SIZE * sizeof(acc_t);
          ln_backward<scalar_t, acc_t>
              <<<dim3(rows), dim3(kThreads), shared, at::cuda::getCurrentCUDAStream().stream()>>>(
                  dy.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), gamma.data_ptr<scalar_t>(), mean.data_ptr<acc_t>(),
                  rstd.data_ptr<acc_t>(), dx.data_ptr<scalar_t>(), dgamma.data_ptr<acc_t>(), dbeta.data_ptr<acc_t>(),
                  n);
        }));
    AT_CUDA_CHECK(cudaGetLastError());
    return {dx, dgamma.to(gamma.dtype()), dbeta.to(gamma.dtype()), torch::Tensor()};
  }
};
torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& gamma, const torch::Tensor& beta, double eps) {
  return LayerNorm::apply(x, gamma, beta, eps);
}
