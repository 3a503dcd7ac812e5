// Atomics of PyTorch's own headers, streams of the pool, events and guards, devices by name.
#include <ATen/ATen.h>
#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/detail/KernelUtils.h>
#include <ATen/ceil_div.h>
#include <ATen/OpMathType.h>
#include <ATen/native/cuda/KernelUtils.cuh>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/irange.h>
#include <string>
#include <vector>

namespace {
template <typename scalar_t, typename index_t>
__global__ void add_rows(const int64_t total, const scalar_t* __restrict__ src, const index_t* __restrict__ index,
                         scalar_t* out, const int width, const int64_t numel) {
  CUDA_KERNEL_LOOP_TYPE(i, total, int64_t) {
    const int64_t to = static_cast<int64_t>(__ldg(index + i / width)) * width + i % width;
    at::native::fastAtomicAdd(out, to, numel, src[i], true);
  }
}
template <typename index_t>
__global__ void count_rows(int n, const index_t* index, int* counts) {
  CUDA_KERNEL_LOOP(i, n) atomicAdd(&counts[index[i]], 1);
}
template <typename scalar_t>
__global__ void divide(at::GenericPackedTensorAccessor<scalar_t, 2, at::RestrictPtrTraits, int32_t> out,
                       const at::PackedTensorAccessor32<int, 1> counts) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= out.size(0) || column >= out.size(1)) return;
  using opmath_t = at::opmath_type<scalar_t>;
  out[row][column] =
      static_cast<scalar_t>(static_cast<opmath_t>(out[row][column]) / static_cast<opmath_t>(max(counts[row], 1)));
}
template <typename scalar_t>
struct Scale {
  scalar_t by;
  __device__ __forceinline__ scalar_t operator()(scalar_t v) const { return v * by; }
};
template <typename scalar_t, typename func_t>
__global__ void apply(const scalar_t* x, scalar_t* y, int64_t n, func_t f) {
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < n;
       i += gridDim.x * static_cast<int64_t>(blockDim.x))
    y[i] = f(x[i]);
}
at::Tensor counts_of(const at::Tensor& index, int64_t size) {
  auto counts = at::zeros({size}, index.options().dtype(at::kInt));
  AT_DISPATCH_INDEX_TYPES(index.scalar_type(), "count_rows", [&] {
    count_rows<index_t>
        <<<at::cuda::detail::GET_BLOCKS(index.numel()), at::cuda::detail::CUDA_NUM_THREADS, 0,
           c10::cuda::getCurrentCUDAStream()>>>(index.numel(), index.data_ptr<index_t>(), counts.data_ptr<int>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return counts;
}
}  // namespace

at::Tensor scatter_mean_cuda(const at::Tensor& src, const at::Tensor& index, int64_t size) {
  TORCH_CHECK(src.is_cuda() && index.is_cuda(), "expected CUDA tensors, got ", src.device(), " and ", index.device());
  TORCH_CHECK_EQ(src.dim(), 2);
  TORCH_CHECK(src.get_device() == index.get_device(), "on different devices");
  c10::cuda::OptionalCUDAGuard guard(at::device_of(src));
  auto from = src.contiguous();
  auto out = at::zeros({size, src.size(1)}, src.options());
  auto counts = counts_of(index, size);
  const int64_t n = from.numel();
  if (n == 0) return out;
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, from.scalar_type(), "scatter_mean", [&] {
    AT_DISPATCH_INDEX_TYPES(index.scalar_type(), "scatter_mean_index", [&] {
      add_rows<scalar_t, index_t><<<at::cuda::detail::GET_BLOCKS(n, 256), 256, 0, stream>>>(
          n, from.data_ptr<scalar_t>(), index.data_ptr<index_t>(), out.data_ptr<scalar_t>(), src.size(1), out.numel());
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
    const dim3 threads(32, 8), blocks(at::ceil_div<int>(out.size(1), 32), at::ceil_div<int>(out.size(0), 8));
    divide<scalar_t><<<blocks, threads, 0, stream>>>(
        out.generic_packed_accessor<scalar_t, 2, at::RestrictPtrTraits, int32_t>(), counts.packed_accessor32<int, 1>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return out;
}
at::Tensor scatter_mean_grad_cuda(const at::Tensor& grad, const at::Tensor& index, int64_t size) {
  auto counts = counts_of(index, size).clamp_min(1).to(grad.scalar_type());
  return grad.div(counts.unsqueeze(1)).index_select(0, index);
}
std::vector<at::Tensor> two_streams(at::Tensor x, int64_t pieces) {
  TORCH_CHECK(x.device().type() == at::DeviceType::CUDA);
  at::cuda::CUDAEvent start, done(cudaEventDisableTiming);
  start.record();
  std::vector<at::Tensor> result;
  auto parts = x.chunk(pieces);
  for (const auto i : c10::irange(parts.size())) {
    c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool(/*isHighPriority=*/i % 2 == 0, x.device().index());
    c10::cuda::CUDAStreamGuard guard(side);
    start.block(side);
    auto in = parts[i].contiguous();
    auto out = at::empty_like(in);
    c10::cuda::CUDACachingAllocator::recordStream(out.storage().data_ptr(), side);
    AT_DISPATCH_ALL_TYPES(in.scalar_type(), "apply", [&] {
      apply<<<at::cuda::getCurrentDeviceProperties()->multiProcessorCount, 64, 0, side.stream()>>>(
          in.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), in.numel(), Scale<scalar_t>{static_cast<scalar_t>(i + 2)});
    });
    done.record(side);
    done.block(at::cuda::getDefaultCUDAStream());
    result.push_back(out);
    TORCH_CHECK(at::cuda::getCurrentCUDAStream() == side && side != at::cuda::getDefaultCUDAStream());
  }
  at::cuda::stream_synchronize(at::cuda::getCurrentCUDAStream());
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  TORCH_CHECK(done.query());
  return result;
}
std::string device_name(c10::optional<at::Device> device) {
  const auto where = device.value_or(at::Device(at::kCUDA, at::cuda::current_device()));
  const c10::DeviceGuard guard(where);
  cudaDeviceProp* p = at::cuda::getDeviceProperties(0);
  TORCH_WARN_ONCE("warp size ", at::cuda::warp_size());
  return std::string(p->name) + " of " + std::to_string(c10::cuda::device_count()) + " " + where.str();
}
at::Tensor on_named(int64_t n, const std::string& name) {
  auto options = at::TensorOptions().dtype(at::kDouble).device(at::Device(name)).requires_grad(false);
  auto pinned = at::ones({n}, at::TensorOptions().dtype(at::kDouble));
  return pinned.to(options, /*non_blocking=*/true).to(at::Device(at::kCUDA, 0)).cuda() +
         at::arange(n, at::device(at::kCUDA).dtype(at::kDouble));
}
