/* Device memory is the CPU's: blocks come from PyTorch's allocator of CPU memory, and nothing is kept back. */
#pragma once
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAStream.h>

namespace c10::cuda::CUDACachingAllocator {
inline Allocator* get() { return GetAllocator(DeviceType::CPU); }
inline void* raw_alloc(size_t bytes) { return get()->raw_allocate(bytes); }
inline void* raw_alloc_with_stream(size_t bytes, cudaStream_t) { return raw_alloc(bytes); }
inline void raw_delete(void* memory) { get()->raw_deallocate(memory); }
inline void recordStream(const DataPtr&, CUDAStream stream) { stream.synchronize(); }  // freed at once when its owner goes
inline void emptyCache() {}
}  // namespace c10::cuda::CUDACachingAllocator
