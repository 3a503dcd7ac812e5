// The OpenMP runtime that kernels fork with, found when the first kernel runs: one that the process has loaded
// already (a program built with -fopenmp, or a host like PyTorch), else the one installed with us, else the system's.
// Objects thus need no OpenMP library when they are linked, and a process never has two teams of workers.
#include "runtime.h"
#include "team.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <mutex>
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
// And the number of iterations behind the line that the counter has.
long iterations(const void* context) { return ((const long*)context)[8]; }

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

// A worker's share of a region in several pieces, so that whoever is done takes pieces of those that are slower: cores of
// virtual machines differ by a quarter, and blocks have not all the same work. A piece looks to the emitted code like the
// share of one of more workers. Its own pieces come first, so a worker mostly runs the blocks that it ran last time.
struct Piece {
  int number, count;  // count 0: none
};
thread_local Piece piece = {0, 0};
constexpr long most_pieces = 8, usual_iterations = 8;
constexpr double piece_ns = 20000;  // at least: where workers meet after less, looking for pieces costs what it gains

// How long an iteration of a region took when this thread ran it last.
struct Pace {
  void (*work)(void*) = nullptr;
  double ns = 0;
};
Pace& pace_of(void (*work)(void*)) {
  static thread_local Pace paces[64];
  Pace& found = paces[((size_t)work >> 4) % 64];
  if (found.work != work) found = {work, 0};
  return found;
}
double ns_now() { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int pieces_of_share(const Pace& pace, const void* context, int workers) {
  double each = pace.ns > 0 ? std::max(1.0, piece_ns / pace.ns) : (double)usual_iterations;
  double pieces = (double)iterations(context) / (each * workers);
  return (int)std::min(std::max(pieces, 1.0), (double)most_pieces);
}

class Pieces {
 public:
  void begin(int each, int workers) {
    each_ = each;
    if (each == 1) return;
    if (taken_.size() != (size_t)workers) taken_ = std::vector<Taken>((size_t)workers);
    for (Taken& one : taken_) one.pieces.store(0, std::memory_order_relaxed);
  }
  // What a piece takes is noted in `pace`, of the thread that began the region.
  void work(void (*work)(void*), void* context, int worker, int team, Pace* pace = nullptr) {
    double begin = pace ? ns_now() : 0;
    auto note = [&] {
      if (pace) pace->ns = (ns_now() - begin) * team * each_ / (double)std::max(1L, iterations(context));
      pace = nullptr;
    };
    if (each_ == 1) return work(context), note();
    int workers = (int)taken_.size();
    for (int other = 0; other < workers; ++other) {
      int owner = (worker + other) % workers;
      Taken& taken = taken_[(size_t)owner];
      while (taken.pieces.load(std::memory_order_relaxed) < each_) {
        int next = taken.pieces.fetch_add(1, std::memory_order_relaxed);
        if (next >= each_) break;
        piece = {owner * each_ + next, workers * each_};
        work(context);
        note();
      }
    }
    piece = {0, 0};
  }

 private:
  struct alignas(64) Taken {
    std::atomic<int> pieces{0};
    Taken() = default;
    Taken(const Taken&) {}
  };
  std::vector<Taken> taken_;
  int each_ = 1;
};

// Regions go round a ring; every worker takes all of them in order, so each knows its next one by counting.
class Team {
 public:
  static thread_local Team* here;  // while the master runs its part

  void open(int workers) {
    done_ = std::vector<Count>((size_t)workers);
    workers_.store(workers, std::memory_order_release);
  }
  void run(void (*work)(void*), const void* context) {
    Slot& slot = next_slot();
    void* kept = slot.keep(context, context_bytes(context));
    Pace& pace = pace_of(work);
    slot.pieces.begin(in_order_ ? 1 : pieces_of_share(pace, context, workers()), workers());
    publish(slot, work);
    slot.pieces.work(work, kept, 0, workers(), &pace);
    done_[0].regions.store(published_, std::memory_order_release);
  }
  void join() { wait_for(published_); }
  void close() {
    join();
    publish(next_slot(), nullptr);
  }
  void serve(int worker) {
    wait_until([this] { return workers_.load(std::memory_order_acquire) != 0; });
    for (long next = 1;; ++next) {
      Slot& slot = slots_[next % slot_count];
      wait_until([&] { return slot.number.load(std::memory_order_acquire) == next; });
      if (!slot.work) return;
      slot.pieces.work(slot.work, slot.context, worker, workers());
      done_[(size_t)worker].regions.store(next, std::memory_order_release);
    }
  }
  void keep_order(bool wanted) { in_order_ = wanted; }
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
  // Workers look at the number, so that the line which tells them to begin is the one that tells what with.
  struct alignas(64) Slot {
    std::atomic<long> number{0};  // of the region, from 1 on
    void (*work)(void*) = nullptr;  // null: there is no more
    void* context = nullptr;
    Pieces pieces;
    Line small[4];
    std::vector<Line> large;

    void* keep(const void* given, size_t bytes) {
      if (bytes > sizeof small && large.size() * sizeof(Line) < bytes) large = std::vector<Line>(bytes / sizeof(Line) + 1);
      context = bytes > sizeof small ? large.data() : small;
      return memcpy(context, given, bytes);
    }
  };
  static constexpr long slot_count = 32;
  Slot slots_[slot_count];
  std::vector<Count> done_;
  std::atomic<int> workers_{0};
  long published_ = 0, met_ = 0;  // all workers are known to be done with the regions up to `met_`
  bool in_order_ = false;  // the next regions: each worker runs its own share, one region after the other

  Slot& next_slot() {
    ++published_;
    wait_for(published_ - slot_count);  // the slot's last region is done
    return slots_[published_ % slot_count];
  }
  void publish(Slot& slot, void (*work)(void*)) {
    slot.work = work;
    slot.number.store(published_, std::memory_order_release);
  }
  void wait_for(long regions) {
    if (regions <= met_) return;  // without a look at the lines that workers write
    for (Count& count : done_) wait_until([&] { return count.regions.load(std::memory_order_acquire) >= regions; });
    met_ = regions;
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
void start_workers() {
  static std::once_flag started;
  std::call_once(started, [] { openmp().parallel([](void*) {}, nullptr, (unsigned)openmp().max_threads(), 0); });
}
void with_team(const std::function<void()>& master) {
  int workers = openmp().max_threads();
  if (workers < 2) return master();
  std::unique_ptr<Batch> batch(new Batch{{}, master});
  openmp().parallel(member, batch.get(), (unsigned)workers, 0);
}
void join_team() {
  if (Team::here) Team::here->join();
}
void keep_team_in_order(bool wanted) {
  if (Team::here) Team::here->keep_order(wanted);
}
}  // namespace loom

namespace {
// A region outside a team.
struct Forked {
  void (*work)(void*);
  void* context;
  int threads;
  Pace* pace;  // of the thread that forks
  Pieces pieces;
};
void run_forked(void* forked) {
  Forked& all = *(Forked*)forked;
  int worker = openmp().thread_num();
  all.pieces.work(all.work, all.context, worker, all.threads, worker ? nullptr : all.pace);
}
}  // namespace

extern "C" {
// `context` need not be emitted code's.
void __loom_fork(void (*work)(void*), void* context, unsigned threads, unsigned flags) {
  Piece outer = piece;
  piece = {0, 0};
  openmp().parallel(work, context, threads, flags);
  piece = outer;
}
void __loom_parallel(void (*work)(void*), void* context, unsigned threads, unsigned flags) {
  if (Team::here) return Team::here->run(work, context);
  Pace& pace = pace_of(work);
  int each = pieces_of_share(pace, context, (int)threads);
  if (each == 1 && pace.ns > 0) return __loom_fork(work, context, threads, flags);
  Forked forked{work, context, (int)threads, &pace, {}};
  forked.pieces.begin(each, (int)threads);
  __loom_fork(run_forked, &forked, threads, flags);
}
int __loom_thread_num() { return piece.count ? piece.number : openmp().thread_num(); }
int __loom_home() { return openmp().thread_num(); }  // whose arena it is
int __loom_num_threads() { return piece.count ? piece.count : openmp().num_threads(); }
int __loom_max_threads() { return openmp().max_threads(); }
}
