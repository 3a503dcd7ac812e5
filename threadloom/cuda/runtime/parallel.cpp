// The OpenMP runtime that kernels fork with, found when the first kernel runs: one that the process has loaded
// already (a program built with -fopenmp, or a host like PyTorch), else the one installed with us, else the system's.
// Objects thus need no OpenMP library when they are linked, and a process never has two teams of workers.
#include "runtime.h"
#include "team.h"

#include <dlfcn.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#ifndef LOOM_OPENMP_PATH
#define LOOM_OPENMP_PATH ""
#endif

namespace {
struct OpenMp {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned);
  int (*thread_num)();
  int (*num_threads)();
  int (*max_threads)();

  bool take(void* library) {
    parallel = (decltype(parallel))dlsym(library, "GOMP_parallel");
    thread_num = (decltype(thread_num))dlsym(library, "omp_get_thread_num");
    num_threads = (decltype(num_threads))dlsym(library, "omp_get_num_threads");
    max_threads = (decltype(max_threads))dlsym(library, "omp_get_max_threads");
    return parallel && thread_num && num_threads && max_threads;
  }

  OpenMp() {
    if (take(RTLD_DEFAULT)) return;
    for (const char* name : {LOOM_OPENMP_PATH, "libgomp.so.1", "libomp.so.5", "libomp.so"})
      if (*name)
        if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL))
          if (take(library)) return;
    parallel = [](void (*work)(void*), void* context, unsigned, unsigned) { work(context); };
    thread_num = [] { return 0; };
    num_threads = max_threads = [] { return 1; };
  }
};

const OpenMp& openmp() {
  static const OpenMp found;
  return found;
}

// Emitted code leaves the size of a region's context in its second word (threadloom/targets/cpu/outline.py).
size_t context_bytes(const void* context) { return ((const size_t*)context)[1]; }

void rest_a_moment() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <class Reached> void wait_until(Reached reached) {
  for (int turns = 0; !reached(); ++turns) turns < 4096 ? rest_a_moment() : (void)sched_yield();
}

// Regions go round a ring; every worker takes all of them in order, so each knows its next one by counting.
class Team {
 public:
  static thread_local Team* here;  // while the master runs its part

  void open(int workers) {
    done_ = std::vector<Count>((size_t)workers);
    workers_.store(workers, std::memory_order_release);
  }
  void run(void (*work)(void*), const void* context) {
    long number = published_.load(std::memory_order_relaxed);
    wait_for(number - slot_count + 1);  // the slot's last region is done
    Slot& slot = slots_[number % slot_count];
    size_t lines = (context_bytes(context) + sizeof(Line) - 1) / sizeof(Line);
    if (slot.context.size() < lines) slot.context = std::vector<Line>(lines);
    memcpy(slot.context.data(), context, context_bytes(context));
    slot.work = work;
    published_.store(number + 1, std::memory_order_release);
    work(slot.context.data());
    done_[0].regions.store(number + 1, std::memory_order_release);
  }
  void join() { wait_for(published_.load(std::memory_order_relaxed)); }
  void close() {
    join();
    closed_.store(true, std::memory_order_release);
  }
  void serve(int worker) {
    wait_until([this] { return workers_.load(std::memory_order_acquire) != 0; });
    for (long next = 0;; ++next) {
      wait_until([&] { return published_.load(std::memory_order_acquire) > next || closed_.load(std::memory_order_acquire); });
      if (published_.load(std::memory_order_acquire) <= next) return;
      Slot& slot = slots_[next % slot_count];
      slot.work(slot.context.data());
      done_[(size_t)worker].regions.store(next + 1, std::memory_order_release);
    }
  }
  int workers() const { return workers_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
  struct alignas(64) Count {
    std::atomic<long> regions{0};
    Count() = default;
    Count(const Count&) {}
  };
  struct Slot {
    void (*work)(void*) = nullptr;
    std::vector<Line> context;
  };
  static constexpr long slot_count = 32;
  Slot slots_[slot_count];
  std::vector<Count> done_;
  alignas(64) std::atomic<long> published_{0};
  std::atomic<bool> closed_{false};
  std::atomic<int> workers_{0};

  void wait_for(long regions) {
    for (Count& count : done_) wait_until([&] { return count.regions.load(std::memory_order_acquire) >= regions; });
  }
};
thread_local Team* Team::here = nullptr;

struct Batch {
  Team team;
  const std::function<void()>& master;
};

void member(void* context) {
  Batch& batch = *(Batch*)context;
  int worker = openmp().thread_num();
  if (worker) return batch.team.serve(worker);
  batch.team.open(openmp().num_threads());
  Team::here = &batch.team;
  batch.master();
  Team::here = nullptr;
  batch.team.close();
}
}  // namespace

namespace loom {
void with_team(const std::function<void()>& master) {
  int workers = openmp().max_threads();
  if (workers < 2) return master();
  std::unique_ptr<Batch> batch(new Batch{{}, master});
  openmp().parallel(member, batch.get(), (unsigned)workers, 0);
}
void join_team() {
  if (Team::here) Team::here->join();
}
}  // namespace loom

extern "C" {
void __loom_parallel(void (*work)(void*), void* context, unsigned threads, unsigned flags) {
  if (Team::here) return Team::here->run(work, context);
  openmp().parallel(work, context, threads, flags);
}
int __loom_thread_num() { return loom::helps() ? 0 : openmp().thread_num(); }
int __loom_num_threads() { return loom::helps() ? 1 : openmp().num_threads(); }
int __loom_max_threads() { return openmp().max_threads(); }
}
