/* Atomic addition under PyTorch's names. */
#pragma once
#if defined(__CUDA__)
template <typename T> __device__ __forceinline__ T gpuAtomicAdd(T* address, T value) { return atomicAdd(address, value); }
template <typename T> __device__ __forceinline__ void gpuAtomicAddNoReturn(T* address, T value) { atomicAdd(address, value); }
namespace at::native {
template <typename T, typename index_t>
__device__ __forceinline__ void fastAtomicAdd(T* tensor, index_t index, const index_t, T value, bool = true) {
  atomicAdd(tensor + index, value);
}
}  // namespace at::native
#endif
