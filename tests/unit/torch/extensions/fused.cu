// Adam over many tensors in one launch, dropout by Philox, SwiGLU on pairs of halves, the largest of a row by CUB.
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>
#include <ATen/cuda/PhiloxUtils.cuh>
#include <ATen/cuda/NumericLimits.cuh>
#include <c10/cuda/CUDAMathCompat.h>
#include <cub/cub.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <curand_kernel.h>
#include <tuple>

// ---- many tensors in one launch
template <int depth>
struct TensorList {
  void* pointers[depth][24];
  int64_t sizes[24];
  unsigned char tensor_of[96];
  int chunk_of[96];
};
template <typename T, int depth, typename functor_t, typename... args_t>
__global__ void multi_tensor(int64_t chunk, TensorList<depth> list, functor_t functor, args_t... args) {
  functor(chunk, list, args...);
}
template <typename T>
struct Adam {
  using opmath = at::opmath_type<T>;
  __device__ __forceinline__ void operator()(int64_t chunk, TensorList<4>& list, const float lr, const float b1,
                                             const float b2, const float eps, const int step) {
    const int which = list.tensor_of[blockIdx.x];
    const int64_t first = list.chunk_of[blockIdx.x] * chunk, n = min(list.sizes[which] - first, chunk);
    T* p = static_cast<T*>(list.pointers[0][which]) + first;
    const T* g = (const T*)list.pointers[1][which] + first;
    float* m = (float*)list.pointers[2][which] + first;
    float* v = (float*)list.pointers[3][which] + first;
    constexpr int ilp = 4;
    for (int64_t base = threadIdx.x; base < n; base += blockDim.x * ilp) {
      opmath values[ilp];
#pragma unroll
      for (int k = 0; k < ilp; k++) {
        const int64_t i = base + k * blockDim.x;
        if (i < n) {
          const float grad = static_cast<float>(g[i]);
          m[i] = b1 * m[i] + (1 - b1) * grad;
          v[i] = b2 * v[i] + (1 - b2) * grad * grad;
          const float mh = m[i] / (1 - c10::cuda::compat::pow(b1, (float)step)), vh = v[i] / (1.f - powf(b2, step));
          values[k] = static_cast<opmath>(p[i]) - lr * mh / (sqrtf(vh) + eps);
        }
      }
#pragma unroll
      for (int k = 0; k < ilp; k++)
        if (base + k * blockDim.x < n) p[base + k * blockDim.x] = static_cast<T>(values[k]);
    }
  }
};
void adam_step(std::vector<std::vector<at::Tensor>> lists, double lr, double b1, double b2, double eps, int64_t step) {
  TORCH_CHECK(lists.size() == 4, "four lists");
  const int64_t chunk = 100;
  TensorList<4> list;
  int blocks = 0;
  const auto type = lists[0][0].scalar_type();
  int loc = 0;
  for (size_t t = 0; t < lists[0].size(); t++, loc++) {
    for (int d = 0; d < 4; d++) {
      TORCH_CHECK(lists[d][t].is_cuda());
      list.pointers[d][t] = lists[d][t].data_ptr();
    }
    list.sizes[t] = lists[0][t].numel();
    for (int64_t c = 0; c < (list.sizes[t] + chunk - 1) / chunk; c++) {
      list.tensor_of[blocks] = t;
      list.chunk_of[blocks] = c;
      ++blocks;
    }
  }
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, "adam", [&] {
    multi_tensor<scalar_t, 4><<<blocks, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
        chunk, list, Adam<scalar_t>(), (float)lr, (float)b1, (float)b2, (float)eps, (int)step);
  });
  AT_CUDA_CHECK(cudaGetLastError());
}
// ---- dropout
template <typename T>
__global__ void __launch_bounds__(256)
    dropout_kernel(const T* x, T* y, bool* mask, int64_t n, float keep, at::PhiloxCudaState philox) {
  auto [seed, offset] = at::cuda::philox::unpack(philox);
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(seed, i, offset, &state);
  const float4 r = curand_uniform4(&state);
  const float all[4] = {r.x, r.y, r.z, r.w};
  for (int k = 0; k < 4; k++) {
    const int64_t at = i * 4 + k;
    if (at < n) {
      const bool on = all[k] <= keep;
      mask[at] = on;
      y[at] = on ? static_cast<T>(static_cast<float>(x[at]) / keep) : T(0);
    }
  }
}
std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& x, double p, c10::optional<at::Generator> generator) {
  auto gen =
      at::get_generator_or_default<at::CUDAGeneratorImpl>(generator, at::cuda::detail::getDefaultCUDAGenerator());
  at::PhiloxCudaState state;
  {
    std::lock_guard<std::mutex> lock(gen->mutex_);
    state = gen->philox_cuda_state(4);
  }
  auto y = at::empty_like(x), mask = at::empty(x.sizes(), x.options().dtype(at::kBool));
  const int64_t n = x.numel(), threads = 256, blocks = (n + 4 * threads - 1) / (4 * threads);
  AT_DISPATCH_SWITCH(x.scalar_type(), "dropout", AT_DISPATCH_CASE(at::kFloat, [&] {
                       dropout_kernel<scalar_t><<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
                           x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), mask.data_ptr<bool>(), n, 1 - p, state);
                     }) AT_DISPATCH_CASE(at::kHalf, [&] {
                       dropout_kernel<scalar_t><<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
                           x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), mask.data_ptr<bool>(), n, 1 - p, state);
                     }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {y, mask};
}
// ---- SwiGLU on half2 and bfloat162
__device__ __forceinline__ float2 wide(__half2 v) { return __half22float2(v); }
__device__ __forceinline__ float2 wide(__nv_bfloat162 v) { return __bfloat1622float2(v); }
template <typename V>
__device__ __forceinline__ V narrow(float2 v);
template <>
__device__ __forceinline__ __half2 narrow<__half2>(float2 v) {
  return __float22half2_rn(v);
}
template <>
__device__ __forceinline__ __nv_bfloat162 narrow<__nv_bfloat162>(float2 v) {
  return __float22bfloat162_rn(v);
}
__device__ float silu(float v) { return __fdividef(v, 1.0f + __expf(-v)); }
template <typename V>
__global__ void swiglu_kernel(const V* __restrict__ gate, const V* __restrict__ up, V* out, int pairs) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += blockDim.x * gridDim.x) {
    const float2 g = wide(gate[i]), u = wide(__ldg(up + i));
    out[i] = narrow<V>(make_float2(silu(g.x) * u.x, silu(g.y) * u.y));
  }
}
at::Tensor swiglu(at::Tensor gate, at::Tensor up) {
  TORCH_CHECK_VALUE(gate.numel() % 2 == 0, "an even number of elements, not ", gate.numel());
  TORCH_CHECK_TYPE(gate.scalar_type() == at::kHalf || gate.scalar_type() == at::kBFloat16, "half or bfloat16");
  auto out = at::empty_like(gate);
  auto stream = at::cuda::getCurrentCUDAStream(gate.device().index());
  if (gate.scalar_type() == at::kHalf)
    swiglu_kernel<<<3, 64, 0, stream>>>(reinterpret_cast<const __half2*>(gate.data_ptr<at::Half>()),
                                        (const __half2*)up.data_ptr<at::Half>(),
                                        reinterpret_cast<__half2*>(out.data_ptr<at::Half>()), gate.numel() / 2);
  else
    swiglu_kernel<<<3, 64, 0, stream>>>(reinterpret_cast<const __nv_bfloat162*>(gate.data_ptr<c10::BFloat16>()),
                                        (const __nv_bfloat162*)up.data_ptr(),
                                        static_cast<__nv_bfloat162*>(out.data_ptr()), gate.numel() / 2);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
// ---- the largest of each row and where, by CUB
template <typename T, int threads>
__global__ void row_max(const at::PackedTensorAccessor32<T, 2> x, at::PackedTensorAccessor32<T, 1> best,
                        at::PackedTensorAccessor32<int64_t, 1> where) {
  using Pair = cub::KeyValuePair<int, T>;
  using Reduce = cub::BlockReduce<Pair, threads>;
  __shared__ typename Reduce::TempStorage storage;
  Pair mine(-1, at::numeric_limits<T>::lower_bound());
  for (int c = threadIdx.x; c < x.size(1); c += threads) mine = cub::ArgMax()(mine, Pair(c, x[blockIdx.x][c]));
  mine = Reduce(storage).Reduce(mine, cub::ArgMax());
  if (threadIdx.x == 0) {
    best[blockIdx.x] = mine.value;
    where[blockIdx.x] = mine.key;
  }
}
std::tuple<at::Tensor, at::Tensor> max_rows(at::Tensor x) {
  auto best = at::empty({x.size(0)}, x.options()), where = at::empty({x.size(0)}, x.options().dtype(at::kLong));
  AT_DISPATCH_ALL_TYPES(x.scalar_type(), "max_rows", [&] {
    row_max<scalar_t, 128><<<x.size(0), 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.packed_accessor32<scalar_t, 2>(), best.packed_accessor32<scalar_t, 1>(),
        where.packed_accessor32<int64_t, 1>());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return std::make_tuple(best, where);
}
