// Order that is not made by barriers: a fence, then an atomic; another thread's atomic on the same address that comes later.
//
//   block 0:  partial[0] = x;  __threadfence();  atomicInc(&count)
//   block 1:                                       atomicInc(&count);  __syncthreads();  ... = partial[0]
//
// A happens before B if barriers say so, or if A comes before a fence, that before an atomic or volatile write to some
// address, that before an atomic or volatile read of it, and that before B; where "before" inside a block is program
// order or barriers. Chains count (a block hands on what it got). Only device-wide fences are considered, and the read is
// not asked for a fence, as CUDA's own examples have none. PTX ISA, memory consistency model: release and acquire patterns.
#include "check.h"

#include <map>
#include <set>
#include <unordered_map>

namespace loom {
namespace checking {
namespace {
struct Release {
  Moment at;
  unsigned number;    // among those of the address
  unsigned acquires;  // that its block had by then
};
struct Address {
  unsigned count = 0;
  std::unordered_map<unsigned, std::vector<Release>> by_block;
};
struct Acquire {
  const Address* address;
  unsigned count;  // releases of the address that it saw
  Moment at;
};
struct Order {  // of a block
  std::vector<Acquire> acquires;
  std::map<Moment, std::vector<unsigned char>> fences;  // by interval, then thread: how many it has passed there
};

struct Orders {
  bool any = false;  // fences in this launch
  std::unordered_map<unsigned, Order> blocks;
  std::unordered_map<const char*, Address> addresses;
};
Orders& orders() {
  static Orders* all = new Orders;
  return *all;
}

// Whether `old`, of the block that released, comes before a fence that comes before the release.
bool covers(const Release& release, Moment old, const Order& order) {
  if (interval(old) > interval(release.at)) return false;
  if (interval(old) == interval(release.at))
    return same_thread(old, release.at) && (fence_count(old) < fence_count(release.at) || fence_count(old) == 7);
  if (fence_count(release.at)) return true;  // a barrier, then this thread's own fence
  auto fence = order.fences.lower_bound(interval(old));
  if (fence != order.fences.end() && fence->first == interval(old) && fence->first < interval(release.at)) {
    unsigned own = fence->second[thread(old)];
    if (own > fence_count(old) || own == 7) return true;  // its own fence, then a barrier
    ++fence;
  }
  return fence != order.fences.end() && fence->first < interval(release.at);
}

bool precedes(const Acquire& acquire, Moment at) {
  return interval(acquire.at) < interval(at) || (interval(acquire.at) == interval(at) && same_thread(acquire.at, at));
}

struct Place {
  unsigned block;
  Moment at;
  size_t acquires;
};
}  // namespace

void order_launch() {
  Orders& all = orders();
  if (!all.any) return;
  all.any = false;
  all.blocks.clear();
  all.addresses.clear();
}

void order_fence(unsigned block, Moment after) {
  Orders& all = orders();
  all.any = true;
  std::vector<unsigned char>& passed = all.blocks[block].fences[interval(after)];
  if (passed.empty()) passed.resize(1024);
  passed[thread(after)] = (unsigned char)fence_count(after);
}

void order_atomic(const Block& block, Moment now, const char* address, int kind) {
  Orders& all = orders();
  if (!all.any) return;
  Order& order = all.blocks[block.index];
  if (!writes_only(kind)) {
    auto found = all.addresses.find(address);
    if (found != all.addresses.end()) {
      Acquire acquire{&found->second, found->second.count, now};
      if (order.acquires.empty() || order.acquires.back().address != acquire.address || order.acquires.back().count != acquire.count ||
          interval(order.acquires.back().at) != interval(now) || !same_thread(order.acquires.back().at, now))
        order.acquires.push_back(acquire);
    }
  }
  if (reads_only(kind) || order.fences.empty()) return;
  Address& here = all.addresses[address];
  std::vector<Release>& own = here.by_block[block.index];
  unsigned acquires = (unsigned)order.acquires.size();
  if (own.empty() || position(own.back().at) != position(now) || !same_thread(own.back().at, now) || own.back().acquires != acquires)
    own.push_back({now, here.count++, acquires});
}

bool happens_before(Moment old, const Block& block, Moment now) {
  Orders& all = orders();
  if (!all.any) return false;
  unsigned goal = block_of(old);
  auto here = all.blocks.find(block.index);
  if (here == all.blocks.end()) return false;
  std::vector<Place> open{{block.index, now, here->second.acquires.size()}};
  std::set<std::pair<const Address*, unsigned>> seen;
  while (!open.empty()) {
    Place place = open.back();
    open.pop_back();
    const Order& order = all.blocks[place.block];
    for (size_t i = 0; i < place.acquires; i++) {
      const Acquire& acquire = order.acquires[i];
      if (!precedes(acquire, place.at)) continue;
      auto direct = acquire.address->by_block.find(goal);
      if (direct != acquire.address->by_block.end())
        for (const Release& release : direct->second)
          if (release.number < acquire.count && covers(release, old, all.blocks[goal])) return true;
      if (!seen.insert({acquire.address, acquire.count}).second) continue;
      for (const auto& [other, releases] : acquire.address->by_block)
        for (const Release& release : releases)
          if (release.number < acquire.count && release.acquires) open.push_back({other, release.at, release.acquires});
    }
  }
  return false;
}
}  // namespace checking
}  // namespace loom
