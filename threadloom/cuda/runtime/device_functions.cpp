// What lowered device code calls: clock, assert, trap, barrier errors.
#include "runtime.h"
#include "turns.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace loom {
void check_divergent(const char* file, int line);  // check.cpp
}

namespace {
// About a third of a nanosecond, or one where there is no such counter.
unsigned long long ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return (unsigned long long)std::chrono::steady_clock::now().time_since_epoch().count() * 3;
#endif
}
constexpr unsigned long long patience_ticks = 60000;  // 20 us: a loop that has lasted for so long may wait
constexpr unsigned long long turn_ticks = 1500;       // half a microsecond: a loop that waits looks again for so long

// CPU seconds of this thread of the system.
double busy_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}
}  // namespace

extern "C" {
long long __loom_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The thread then leaves the kernel; the launch has failed with cudaErrorAssert.
void __loom_assert_fail(const char* expression, const char* file, unsigned line, const char* function) {
  fprintf(stderr, "%s:%u: %s: Assertion `%s` failed.\n", file, line, function, expression);
  loom::break_device(cudaErrorAssert);
}
void __loom_trap() { loom::break_device(cudaErrorLaunchFailure); }

void __loom_divergent_barrier(const char* file, int line) {
  loom::check_divergent(file, line);  // does not return where the program is being checked
  fflush(stdout);
  fprintf(stderr, "%s:%d: error: __syncthreads() was reached by a part of the block only\n", file, line);
  fprintf(stderr, "  why: its condition differs between the threads of one block\n");
  fprintf(stderr, "  try: move the barrier out of the condition, or make the condition uniform; `loom check` shows the threads\n");
  _exit(134);
}

// Seconds without progress, computing or asleep, until there is a warning, and until the program ends. Tests make them shorter.
double __loom_waiting_seconds[2] = {10, 300};

// A thread of a kernel has gone round a loop `turns` times, and some other thread may have to end it (lower/watch_waits.py).
// Returns after how many it asks again.
unsigned long long __loom_waiting(const char* file, int line, unsigned long long turns) {
  constexpr unsigned long long first = 32;  // as in watch_waits.py
  loom::Asked& loop = loom::asked(file, line);
  unsigned long long now = ticks();
  if (!loop.turns || turns <= loop.turns) {  // it has begun anew
    if (loop.waits) loom::progress.fetch_add(1, std::memory_order_relaxed);
    loop = {file, line, false, turns, turns, now, now};
    return turns + first;
  }
  unsigned long long spent = now - loop.resumed, made = turns - loop.turns;
  loop.turns = turns;
  if (!loop.waits) {
    loop.waits = now - loop.begin > patience_ticks;
    loop.step = loop.waits ? std::max(1ull, made * turn_ticks / (spent + 1)) : made * 2;
    if (!loop.waits) return turns + loop.step;
  } else if (spent < turn_ticks / 2) {
    loop.step *= 2;
  } else if (spent > turn_ticks * 2) {
    loop.step = std::max(1ull, loop.step / 2);
  }
  loom::let_others_run(file, line);
  loop.resumed = ticks();
  return turns + loop.step;
}
}

void loom::look_for_progress(const char* file, int line, double slept_now) {
  static thread_local long seen = -1;
  static thread_local double since, slept;
  static thread_local bool told;
  slept += slept_now;
  double now = busy_seconds() + slept;
  long made = progress.load(std::memory_order_relaxed);
  if (made != seen) {
    seen = made, since = now, told = false;
    return;
  }
  double spent = now - since, stop_after = __loom_waiting_seconds[1];
  if (spent < __loom_waiting_seconds[0] || (told && spent < stop_after)) return;
  fflush(stdout);
  bool stop = spent >= stop_after;
  fprintf(stderr, "%s:%d: %s: threads of a kernel have been in this loop for %.0f s\n", file, line, stop ? "error" : "warning", spent);
  fprintf(stderr, "  why: it reads what other threads write; all that can run have had their turns, and nothing has ended it\n");
  fprintf(stderr, "  try: `loom check`, which names the write that is missing\n");
  if (stop) _exit(134);
  told = true;
}
