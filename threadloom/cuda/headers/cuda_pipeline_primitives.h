/* Asynchronous copies of one thread, in C: done at once, so there is nothing to wait for. */
#pragma once
#if defined(__CUDA__)
LOOM_DEVICE void __pipeline_memcpy_async(void* __restrict__ to, const void* __restrict__ from, size_t bytes, size_t zeros = 0) {
  __builtin_memcpy(to, from, bytes - zeros);
  __builtin_memset((char*)to + bytes - zeros, 0, zeros);
}
LOOM_DEVICE void __pipeline_commit() {}
LOOM_DEVICE void __pipeline_wait_prior(size_t) {}
#endif
