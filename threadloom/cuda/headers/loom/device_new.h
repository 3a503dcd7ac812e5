/* Device operator new and delete, where clang's own wrapper of <new> did not bring them. */
#pragma once
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winline-new-delete"
__device__ inline void* operator new(__SIZE_TYPE__ bytes) { return malloc(bytes); }
__device__ inline void* operator new[](__SIZE_TYPE__ bytes) { return malloc(bytes); }
__device__ inline void operator delete(void* p) noexcept { free(p); }
__device__ inline void operator delete[](void* p) noexcept { free(p); }
__device__ inline void operator delete(void* p, __SIZE_TYPE__) noexcept { free(p); }
__device__ inline void operator delete[](void* p, __SIZE_TYPE__) noexcept { free(p); }
#pragma clang diagnostic pop
