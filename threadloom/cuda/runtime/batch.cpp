// Launches of the default stream wait here until a call could see what they did, and then run in one parallel region
// (the paper's fusion of regions, and their hoisting out of the host's loops around launches). Between two of them the
// workers meet only if one writes an allocation that the other uses, unless both stay with their threads' own elements
// (threadloom/cuda/own_elements.py); else whoever is done with its share goes on.
//
// That is no more than a GPU does: a launch returns at once there, too. It is done for kernels whose every access goes
// through pointers among their arguments (threadloom/cuda/launch_effects.py), and where those lead to memory of
// cudaMalloc, which the host cannot look at without a call of ours.
#include "profile.h"
#include "runtime.h"
#include "team.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

extern "C" int __loom_max_threads();  // parallel.cpp

namespace loom {
namespace {
// What a launch does to one allocation.
struct Use {
  const char* allocation;
  const void* pointer;
  long own_bytes;  // of each thread, from `pointer` on; 0: anywhere
};

// Filled anew for each launch, so that no memory has to be asked for.
struct Postponed {
  const Kernel* kernel = nullptr;
  SavedArguments arguments;
  Geometry geometry;
  std::vector<Use> reads, writes;

  bool fill(const Kernel& launched, void** values, const Geometry& shape) {
    kernel = &launched;
    geometry = shape;
    reads.clear();
    writes.clear();
    for (int i = 0; i < launched.effect_count; ++i) {
      const Effect& effect = launched.effects[i];
      const void* p = *(const void**)((const char*)values[effect.argument] + effect.offset);
      if (!p) continue;
      Use use{device_allocation(p), p, own_bytes(effect)};
      if (!use.allocation) return false;
      if (effect.reads) reads.push_back(use);
      if (effect.writes) writes.push_back(use);
    }
    arguments.save(launched, values);
    return true;
  }
  // Thread numbers along x are all there is, and no index wraps.
  long own_bytes(const Effect& effect) const {
    const unsigned *grid = geometry.grid, *block = geometry.block;
    bool along_x = grid[1] == 1 && grid[2] == 1 && block[1] == 1 && block[2] == 1;
    bool fits = !effect.own_block || block[0] == (unsigned)effect.own_block;
    return along_x && fits && (double)grid[0] * block[0] * effect.own_bytes < 2147483648.0 ? effect.own_bytes : 0;
  }
  bool same_blocks(const Postponed& other) const {
    return geometry.grid[0] == other.geometry.grid[0] && geometry.block[0] == other.geometry.block[0];
  }
  bool has_own() const {
    auto own = [](const Use& use) { return use.own_bytes != 0; };
    return std::any_of(reads.begin(), reads.end(), own) || std::any_of(writes.begin(), writes.end(), own);
  }
  void run() { run_kernel(*kernel, arguments.pointers.data(), geometry); }
};
struct Launches {
  std::vector<Postponed> all;
  size_t count = 0;

  Postponed& next() {
    if (count == all.size()) all.emplace_back();
    return all[count];
  }
};
struct Waiting {
  std::mutex mutex;    // of what waits
  std::mutex running;  // one batch after another
  Launches launches, batch;
  std::atomic<bool> never{false};  // the host looks at device memory without a call of ours
};
Waiting& waiting() {
  static Waiting* all = new Waiting;
  return *all;
}
constexpr size_t most_launches = 256;
constexpr size_t most_in_flight = 32;  // each is compared with the next; waiting once for so many costs nothing

// What the team has not waited for yet.
struct InFlight {
  std::vector<const Postponed*> launches;

  // `same`: each worker runs the same blocks of both, so what every thread does to its own elements comes in order.
  static bool meet(const std::vector<Use>& some, const std::vector<Use>& others, bool same) {
    for (const Use& a : some)
      for (const Use& b : others)
        if (a.allocation == b.allocation && !(same && a.own_bytes && a.own_bytes == b.own_bytes && a.pointer == b.pointer)) return true;
    return false;
  }
  bool conflicts(const Postponed& next) const {
    return std::any_of(launches.begin(), launches.end(), [&](const Postponed* one) {
      bool same = next.same_blocks(*one);
      return meet(next.writes, one->reads, same) || meet(next.writes, one->writes, same) || meet(next.reads, one->writes, same);
    });
  }
};

void run_all(Launches& launches) {
  with_team([&] {
    InFlight before;
    for (size_t i = 0; i < launches.count; ++i) {
      Postponed& next = launches.all[i];
      if (before.launches.size() == most_in_flight || before.conflicts(next)) {
        join_team();
        before.launches.clear();
      }
      keep_team_in_order(next.has_own());
      if (!next.reads.empty() || !next.writes.empty()) before.launches.push_back(&next);
      next.run();
    }
  });
  profile_end();
}
}  // namespace

bool postpone(const Kernel& kernel, void** arguments, const Geometry& geometry) {
  if (waiting().never || kernel.effect_count < 0 || __loom_max_threads() < 2 || !streams_idle()) return false;
  // What has been issued is done before the program ends, and before the OpenMP runtime is: it started above, so ends later.
  static const int drained = atexit(run_postponed);
  (void)drained;
  std::unique_lock<std::mutex> guard(waiting().mutex);
  Launches& launches = waiting().launches;
  if (!launches.next().fill(kernel, arguments, geometry)) return false;
  bool full = ++launches.count == most_launches;
  guard.unlock();
  if (full) run_postponed();
  return true;
}

void run_postponed() {
  static thread_local bool inside = false;
  if (inside) return;
  inside = true;
  std::lock_guard<std::mutex> turn(waiting().running);  // also where another thread's batch runs just now
  Launches& batch = waiting().batch;
  batch.count = 0;
  {
    std::lock_guard<std::mutex> guard(waiting().mutex);
    std::swap(waiting().launches, batch);
  }
  if (batch.count == 1)
    batch.all[0].run();
  else if (batch.count)
    run_all(batch);
  inside = false;
}
}  // namespace loom

extern "C" int __loom_launch_at_once() {
  loom::run_postponed();
  loom::waiting().never = true;
  return 1;
}
