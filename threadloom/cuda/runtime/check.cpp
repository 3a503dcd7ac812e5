// What instrumented kernels call (threadloom/cuda/check/instrument.py): launches, blocks, the objects that they may touch, and
// an access, which must lie in its object; check_touch.cpp has who touched the memory before. Kernels run with one worker,
// so a report does not depend on timing.
#include "check_quick.h"
#include "freed.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace loom {
namespace checking {
State* the_state = nullptr;

unsigned block_of(Moment m) {
  const std::vector<Moment>& starts = state().starts;
  return (unsigned)(std::upper_bound(starts.begin(), starts.end(), m) - starts.begin()) - 1;
}
}  // namespace checking

void check_divergent(const char* file, int line) {
  if (!checking::the_state) return;  // the program is not being checked
  checking::report_divergent({file, "", line, 0, checking::Write, -1, 0});
  fflush(stdout);
  checking::write_findings();
  _exit(1);
}
}  // namespace loom

using namespace loom::checking;

namespace {
// All numbers have been given away: start again, with empty shadows.
void forget_all() {
  forget_shadows();
  state().next = one_interval;
}

const Block& running(const void* block) { return *(const Block*)block; }

__attribute__((noinline)) void number_site(Site& site) {
  State& s = state();
  site.number = (int)s.sites.size();
  if (site.number < 65535) s.sites.push_back(&site);
  else site.number = 65534;  // a program with more accesses than that shares the last one's name
}

const Object* shared_object(const Block& block, const char* address) {
  for (const Object& object : *block.objects)
    if (object.shared && address >= object.base && address < object.base + object.bytes) return &object;
  return nullptr;
}

// Where an access may go that must not happen.
char* instead(long long bytes) {
  if (bytes <= (long long)sizeof state().harmless) return (char*)memset(state().harmless, 0, bytes);
  static std::vector<char*> large;  // for copies
  large.push_back((char*)calloc(1, bytes));
  if (large.back()) return large.back();
  write_findings();  // there is not even so much memory
  _exit(1);
}

void start_state() {
  the_state = new State;
  the_empty_shadow = reserve_shadow(false);
  std::fill_n(state().shadows, shadow_count, the_empty_shadow);
}
}  // namespace

namespace loom {
namespace checking {
namespace {
// Kernels and blocks run one after another here, so who waits for a later one, or for the host, waits for ever. Taken for
// that: a block has found the same value at one place so many times, by volatile or atomic accesses, a few seconds long.
constexpr long long most_times = 1ll << 26;
struct Watched {
  const char* address;
  Moment block;
  unsigned long long value;
  long long times;
};

bool waits_in_vain(const Block& block, const char* address, const Site& site) {
  static Watched watched[64];  // several threads may wait in turn
  Watched& w = watched[((uintptr_t)address >> 2) & 63];
  unsigned long long value = 0;
  memcpy(&value, address, std::min<size_t>(site.bytes, sizeof value));
  if (w.address != address || w.block != block.start || w.value != value) w = {address, block.start, value, 0};
  return ++w.times == most_times;
}
}  // namespace
}  // namespace checking
}  // namespace loom

namespace {
ALWAYS_INLINE void* check(const Block& block, int thread, unsigned long long position, char* address, long long bytes, Site* site) {
  const Object* shared = nullptr;
  if (site->object >= 0) {
    const Object& object = (*block.objects)[site->object];
    if (object.shared) shared = &object;
    if (object.bytes >= 0 && (address < object.base || bytes > object.bytes - (address - object.base))) {
      if (object.freed) report_freed(*site, object.name, who(block, thread));
      else report_out_of_bounds(*site, bytes, object.name, address - object.base, object.bytes, who(block, thread));
      return instead(bytes);
    }
  } else {
    shared = shared_object(block, address);
    const char* base;
    size_t size;
    if (!shared && loom::freed_range(address, &base, &size)) {
      report_freed(*site, nullptr, who(block, thread));
      return instead(bytes);
    }
  }
  if ((uintptr_t)address < 4096 || (uintptr_t)address >> 48) {
    report_out_of_bounds(*site, bytes, (uintptr_t)address < 4096 ? "null" : "no memory", (long long)(uintptr_t)address, 0, who(block, thread));
    return instead(bytes);
  }
  if (!site->number) number_site(*site);
  Moment now = position | (Moment)(thread & 1023) << thread_shift | (Moment)site->number;
  bool word = bytes == 4 && !((uintptr_t)address & 3);
  if (word && settle(block, *shadow_of(address).quick((uint32_t)(uintptr_t)address), now, site->kind, shared)) return address;
  touch(block, address, bytes, *site, now, shared);
  if (site->kind >= Atomic) {
    order_atomic(block, now, address, site->kind);
    if (waits_in_vain(block, address, *site)) end_waiting(*site, who(block, thread));
  }
  return address;
}
}  // namespace

extern "C" {

extern int loom_thread_limit __attribute__((weak));  // of the compiled kernels (targets/cpu/outline.py)

void __loom_check_launch(const char* kernel) {
  if (!the_state) start_state();
  State& s = state();
  if (&loom_thread_limit) loom_thread_limit = 1;
  s.next = std::max(s.next, (s.block.latest & ~(one_interval - 1)) + one_interval);
  if (interval(s.next) >> 29) forget_all();
  s.launch = s.next;
  s.kernel = kernel;
  s.starts.clear();
  s.grids.clear();
  for (Block* block : s.kept) {
    forget_warps(*block);
    delete block->objects;
    delete block;
  }
  s.kept.clear();
  order_launch();
}

// A block begins. `grid`: the launch has grid-wide barriers, so all its blocks are alive at once.
void* __loom_check_block(int grid) {
  State& s = state();
  if (!grid && !s.starts.empty()) s.next = std::max(s.next, s.block.latest + one_interval);
  Block* block = &s.block;
  if (grid) {
    block = new Block{0, 0, 0, 0, new std::vector<Object>, nullptr, nullptr};
    s.kept.push_back(block);
    s.grids.emplace_back();
  } else if (!block->objects) {
    block->objects = new std::vector<Object>;
  }
  block->index = (unsigned)s.starts.size();
  block->start = block->latest = s.next;
  s.next += grid ? grid_intervals * one_interval : one_interval;
  block->size = (grid ? s.next : ~0ull) - block->start;
  s.starts.push_back(block->start);
  block->objects->clear();
  forget_warps(*block);
  return block;
}

unsigned long long __loom_check_start(const void* block) { return running(block).start; }

// flags: 1: the kernel may write to it. bytes < 0: the size of the allocation it lies in.
void __loom_check_object(void* block, int number, const char* base, long long bytes, int flags, const char* name) {
  std::vector<Object>& objects = *running(block).objects;
  if ((int)objects.size() <= number) objects.resize(number + 1);
  Object& object = objects[number];
  object.base = base, object.name = name, object.bytes = bytes;
  object.shared = flags & 2, object.written = flags & 1;
  object.whole_from = object.whole_to = base;
  size_t size;
  const char* start;
  object.freed = bytes < 0 && loom::freed_range(base, &start, &size);
  if (object.freed) object.bytes = 0;  // nothing of it may be touched
  else if (bytes < 0 && loom::owner_of(base, &start, &size)) object.base = start, object.bytes = (long long)size;
}

// Where the part of the object begins that lies in one shadow, and how much of it does; accesses elsewhere take the long way.
const char* __loom_check_base(const void* block, int number) {
  const Object& object = (*running(block).objects)[number];
  return object.bytes < 0 ? (const char*)((uintptr_t)object.base >> 32 << 32) : object.base;
}
unsigned long long __loom_check_extent(const void* block, int number) {
  const Object& object = (*running(block).objects)[number];
  if (object.bytes < 0) return (uintptr_t)object.base < 4096 ? 0 : 1ull << 32;
  if ((uintptr_t)object.base & 3) return 0;
  return std::min<unsigned long long>(object.bytes, (1ull << 32) - (uint32_t)(uintptr_t)object.base);
}
// The same of an array on which threads cannot race if the launch is as the proof wants it.
unsigned long long __loom_check_proved(const void* block, int number, int proved) {
  return proved ? __loom_check_extent(block, number) : 0;
}
void* __loom_check_quick(const void* block, int number) {
  const char* base = __loom_check_base(block, number);
  return shadow_of(base).quick((uint32_t)(uintptr_t)base);
}
void* __loom_check_quick_bytes(const void* block, int number) {
  const char* base = __loom_check_base(block, number);
  return shadow_of(base).byte_quick((uint32_t)(uintptr_t)base);
}
void* __loom_check_shadows() { return state().shadows; }

// Whether all words of [from, to) of a disjoint array have been written in this block.
int __loom_check_written(const void* block, const Site* site, const char* from, const char* to) {
  Object& object = (*running(block).objects)[site->object];
  if (from < object.base || to > object.base + object.bytes) return 0;
  if (from >= object.whole_from && to <= object.whole_to) return 1;
  Moment start = running(block).start;
  for (const char* word = from; word < to; word += 4)
    if (*shadow_of(word).quick((uint32_t)(uintptr_t)word) != start) return 0;
  object.whole_from = from, object.whole_to = to;
  return 1;
}

// Whether an object that the kernel only reads lies where it may write: else reading it needs no watching.
int __loom_check_watch(const void* block, int number) {
  const std::vector<Object>& objects = *running(block).objects;
  const Object& object = objects[number];
  if (object.bytes < 0) return 1;
  for (const Object& other : objects)
    if (other.written && (other.bytes < 0 || (other.base < object.base + object.bytes && object.base < other.base + other.bytes))) return 1;
  return 0;
}

void* __loom_check_access(void* which, int thread, unsigned long long position, char* address, Site* site) {
  return check(running(which), thread, position, address, site->bytes, site);
}

// The same for all threads of a loop over three dimensions, whose addresses and numbers are linear and lie in the object.
void __loom_check_threads(void* which, Site* site, unsigned long long position, long long first, long long thread, long long nz, long long bytes_z,
                          long long thread_z, long long ny, long long bytes_y, long long thread_y, long long nx, long long bytes_x, long long thread_x) {
  const Block& block = running(which);
  if (!site->number) number_site(*site);
  const Object& object = (*block.objects)[site->object];
  const Object* shared = object.shared ? &object : nullptr;
  Moment now = position | (Moment)site->number | (Moment)thread << thread_shift;
  touch_threads(block, *site, now, (const char*)first, shared, {nz, bytes_z, thread_z}, {ny, bytes_y, thread_y}, {nx, bytes_x, thread_x});
}

// The same of a copy, of whose bytes only the run knows how many there are; and of one in memory of the thread's own.
void* __loom_check_copy(void* which, int thread, unsigned long long position, char* address, long long bytes, Site* site) {
  return bytes ? check(running(which), thread, position, address, bytes, site) : address;
}
void* __loom_check_copy_private(const void* block, char* base, long long size, char* address, long long bytes, const Site* site, const char* name) {
  if (!bytes || (address >= base && address <= base + size && bytes <= size - (address - base))) return address;
  report_out_of_bounds(*site, bytes, name, address - base, size, "a thread of block " + std::to_string(running(block).index));
  return instead(bytes);
}

// A thread has passed a device-wide fence, a grid-wide barrier; `position` is the one behind it.
void __loom_check_fence(void* block, int thread, unsigned long long position) {
  order_fence(running(block).index, position | (Moment)(thread & 1023) << thread_shift);
}
void __loom_check_grid(void* block, unsigned long long position) {
  std::vector<Moment>& passed = state().grids[running(block).index];
  if (passed.empty() || passed.back() != position) passed.push_back(position);
}

// Memory that a thread has just got from malloc: who had it before does not matter.
void __loom_check_fresh(char* memory, long long bytes) {
  if (memory) clear_shadow(memory, (size_t)bytes);
}

void* __loom_check_outside(const void* block, char* base, long long bytes, char* address, const Site* site, const char* name) {
  report_out_of_bounds(*site, site->bytes, name, address - base, bytes, "a thread of block " + std::to_string(running(block).index));
  return instead(site->bytes);
}
}
