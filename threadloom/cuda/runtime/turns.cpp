// Loops over blocks that may wait for one another (lower/watch_waits.py). Blocks are taken from a counter, one at a time, so a
// thread more that runs the region's work goes on with those behind one that waits.
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "runtime.h"

extern "C" void __loom_fork(void (*work)(void*), void* context, unsigned threads, unsigned flags);  // parallel.cpp

namespace {
struct Region {
  void (*work)(void*);
  void* context;
  std::mutex mutex;
  std::vector<pthread_t> helpers;
};
thread_local Region* here = nullptr;
thread_local bool is_helper = false;
std::atomic<int> helping{0};
constexpr int most_helpers = 500;  // fewer than there are arenas (targets/cpu/arena.py)
constexpr size_t stack_bytes = 1 << 20;

void work_in(Region* region) {
  here = region;
  region->work(region->context);
  here = nullptr;
}

void* help(void* region) {
  is_helper = true;
  work_in((Region*)region);
  --helping;
  return nullptr;
}

void send_helper(Region* region) {
  if (++helping > most_helpers) {
    --helping;
    return;
  }
  pthread_attr_t how;
  pthread_attr_init(&how);
  pthread_attr_setstacksize(&how, stack_bytes);
  std::lock_guard<std::mutex> guard(region->mutex);
  pthread_t helper;
  if (pthread_create(&helper, &how, help, region) == 0)
    region->helpers.push_back(helper);
  else
    --helping;
  pthread_attr_destroy(&how);
}

// Helpers may have called for others: until there are none.
void join_helpers(Region& region) {
  for (;;) {
    std::vector<pthread_t> helpers;
    {
      std::lock_guard<std::mutex> guard(region.mutex);
      helpers.swap(region.helpers);
    }
    if (helpers.empty()) return;
    for (pthread_t helper : helpers) pthread_join(helper, nullptr);
  }
}
}  // namespace

namespace loom {
bool helps() { return is_helper; }

// Called again and again in a loop that waits; `first`: it has just been found to. Returns the seconds that it slept.
double let_others_run(bool first) {
  static thread_local int asked;
  if (first) asked = 0;
  if (here && asked == 1) send_helper(here);
  timespec moment = {0, 20000L << (asked < 8 ? asked : 8)};  // up to 5 ms, so that hundreds that wait cost little
  nanosleep(&moment, nullptr);
  ++asked;
  return 1e-9 * (double)moment.tv_nsec;
}
}  // namespace loom

extern "C" void __loom_turns(void (*work)(void*), void* context, unsigned threads, unsigned) {
  Region region{work, context};
  __loom_fork([](void* region) { work_in((Region*)region); }, &region, threads, 0);
  join_helpers(region);
}
