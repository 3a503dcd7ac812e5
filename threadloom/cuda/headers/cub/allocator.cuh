/* CUB's allocator. There is nothing to win by caching: memory is the host's, whose allocator does that. */
#pragma once
#include <loom/prelude.h>
namespace cub {
struct CachingDeviceAllocator {
  bool skip_cleanup, debug;
  CachingDeviceAllocator(unsigned, unsigned = 1, unsigned = (unsigned)-1, size_t = (size_t)-1, bool skip_cleanup = false, bool debug = false)
      : skip_cleanup(skip_cleanup), debug(debug) {}
  CachingDeviceAllocator(bool skip_cleanup = false, bool debug = false) : skip_cleanup(skip_cleanup), debug(debug) {}
  cudaError_t SetMaxCachedBytes(size_t) { return cudaSuccess; }
  cudaError_t DeviceAllocate(void** p, size_t bytes, cudaStream_t = 0) { return cudaMalloc(p, bytes); }
  cudaError_t DeviceAllocate(int, void** p, size_t bytes, cudaStream_t = 0) { return cudaMalloc(p, bytes); }
  cudaError_t DeviceFree(void* p) { return cudaFree(p); }
  cudaError_t DeviceFree(int, void* p) { return cudaFree(p); }
  cudaError_t FreeAllCached() { return cudaSuccess; }
};
}  // namespace cub
