// Times of kernels and copies, kept only where LOOM_PROFILE asks for them.
#pragma once
#include <chrono>

namespace loom {
using Clock = std::chrono::steady_clock;

bool profiling();
void profile_kernel(const struct Kernel& kernel, void** arguments, const struct Geometry& geometry, Clock::time_point start);
void profile_copy(Clock::time_point start);
void profile_end();  // all kernels so far have ended
void profile_result(const void* p, size_t bytes);  // what the host got, so that two builds can be compared

// Runs `work`, a copy or a fill of memory.
template <class F> void timed_copy(const F& work) {
  if (!profiling()) return work();
  Clock::time_point start = Clock::now();
  work();
  profile_copy(start);
}
}  // namespace loom
