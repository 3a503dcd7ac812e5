// Loops of kernels that may wait for other threads: device_functions.cpp decides when they let others run, turns.cpp does it.
#pragma once
#include <atomic>

namespace loom {
// A loop in which a thread of a kernel has been for long.
struct Asked {
  const char* file = nullptr;
  int line = 0;
  bool waits = false;  // it lets others run
  unsigned long long turns = 0, step = 1;  // when it asked last, and after how many more it asks again
  unsigned long long begin = 0, resumed = 0;  // ticks
};
Asked& asked(const char* file, int line);  // by the thread of a kernel that runs now

void let_others_run(const char* file, int line);

extern std::atomic<long> progress;  // threads that were given a stack, threads that ended, loops that ended after waiting
// Called now and then by a worker whose threads all wait; names the loop where nothing has happened for too long.
void look_for_progress(const char* file, int line, double slept);
}  // namespace loom
