// What kernels ask before their blocks begin (threadloom/cuda/lower/prefetch_blocks.py).
#include "check.h"

#include <unistd.h>

extern "C" {
int __loom_max_threads();  // parallel.cpp

// 0 where a worker's share of the array that `p` points into fits into a quarter of its core's second-level cache, so that
// it is still there from the launch before; 1 for an array or a cache that is not known.
int __loom_far(const void* p) {
  static const long cache_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const char* base;
  size_t bytes;
  return cache_bytes <= 0 || !loom::owner_of(p, &base, &bytes) || bytes / (size_t)__loom_max_threads() > (size_t)cache_bytes / 4;
}
}
