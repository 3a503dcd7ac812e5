// What instrumented kernels call (threadloom/cuda/check/instrument.py): shadow memory that knows who touched each word (or
// byte) last, and reports races, accesses outside their object and reads of shared memory that nobody has written.
//
// Two accesses race if one of them writes, not both are atomic, and nothing orders them: within a block other
// threads between the same barriers (and, in one warp, between the same __syncwarp), otherwise other blocks between the
// same grid-wide barriers; check_order.cpp has what fences and atomics order. Of a thread that has plainly written a word, later
// reads at the same position add nothing. Kernels run with one worker, so a report does not depend on timing.
#include "check.h"
#include "freed.h"

#include <sys/mman.h>
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

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace {
// ---------------------------------------------------------------- shadow memory

char* reserve(int protection) {
  void* base = mmap(nullptr, Shadow::bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base != MAP_FAILED && (protection & PROT_WRITE)) madvise(base, Shadow::bytes, MADV_HUGEPAGE);
  if (base != MAP_FAILED) return (char*)base;
  fprintf(stderr, "loom check: cannot reserve address space for its shadow memory (see ulimit -v and vm.overcommit_memory)\n");
  _exit(2);
}

char* the_empty_shadow = nullptr;

__attribute__((noinline)) char* new_shadow(char*& base) { return base = reserve(PROT_READ | PROT_WRITE); }

ALWAYS_INLINE Shadow shadow_of(const char* address) {
  char*& base = state().shadows[(uintptr_t)address >> 32];
  return {base != the_empty_shadow ? base : new_shadow(base)};
}

// All numbers have been given away: start again, with empty shadows.
void forget_all() {
  State& s = state();
  for (char* base : s.shadows)
    if (base != the_empty_shadow) madvise(base, Shadow::bytes, MADV_DONTNEED);
  s.next = one_interval;
}

// ---------------------------------------------------------------- order

const Block& running(const void* block) { return *(const Block*)block; }
ALWAYS_INLINE bool in_block(const Block& block, Moment m) { return m - block.start < block.size; }

size_t grid_count(Moment m) {
  const std::vector<Moment>& passed = state().grids[block_of(m)];
  return (size_t)(std::upper_bound(passed.begin(), passed.end(), m) - passed.begin());
}

// Whether barriers, or one thread's own order, keep the two apart; both of this launch.
ALWAYS_INLINE bool apart(const Block& block, Moment old, Moment now) {
  if (!in_block(block, old)) return !state().grids.empty() && grid_count(old) != grid_count(now);
  if (interval(old) != interval(now) || same_thread(old, now)) return true;
  if (thread(old) / 32 != thread(now) / 32) return false;
  return block.warps ? met_since(block, old, now) : warp_count(old) != warp_count(now);
}

__attribute__((noinline)) void compare(const Block& block, Moment old, Moment now) {
  const Site &before = *state().sites[site_number(old)], &here = *state().sites[site_number(now)];
  if (reads_only(before.kind) && reads_only(here.kind)) return;
  if (before.kind >= Atomic && here.kind >= Atomic) return;  // they are meant to meet each other
  if (!happens_before(old, block, now)) report_race(old, now);
}

// ---------------------------------------------------------------- one cell

constexpr Moment many = 0;  // quick: any thread at this position may read
inline Moment own_read(Moment m) { return position(m) | (2 * thread(m) + 2); }
inline Moment own_write(Moment m) { return position(m) | (2 * thread(m) + 3); }  // the thread may write, and read

ALWAYS_INLINE void remember_read(const Block& block, Cell& cell, Moment now, Moment since) {
  Moment first = cell.read[0], second = cell.read[1];
  if (first < since) {
    cell.read[0] = now, cell.read[1] = 0;
  } else if (!in_block(block, first)) {  // a reader of another block meets this block's writers, too
    cell.read[1] = first, cell.read[0] = now;
  } else if (interval(first) != interval(now)) {
    cell.read[0] = now;
    if (in_block(block, second)) cell.read[1] = 0;
  } else if (same_thread(first, now)) {
    cell.read[0] = now;  // of one thread the last read will do
  } else if (second < since || (in_block(block, second) && (interval(second) != interval(now) || same_thread(second, now)))) {
    cell.read[1] = now;
  } else if (in_block(block, second) && position(second) != position(now)) {
    cell.read[1] = now;
  }
}

// What may pass unseen from now on, after a plain read.
ALWAYS_INLINE Moment after_read(const Block& block, const Cell& cell, Moment now, Moment since) {
  if (cell.write >= since && !(in_block(block, cell.write) && interval(cell.write) < interval(now))) return 0;
  Moment first = cell.read[0], second = cell.read[1];
  bool both = position(first) == position(now) && position(second) == position(now);
  if (both && !same_thread(first, second)) return position(now) | many;
  return first == now ? own_read(now) : 0;
}

// Most accesses find that all which the cell remembers came before a barrier of the block, or before all that counts;
// or that beside it there is only what the thread itself has read.
ALWAYS_INLINE bool all_before(const Block& block, const Cell& cell, Moment quick, Moment now, Moment since) {
  Moment begin = now & ~(one_interval - 1);
  auto before = [&](Moment m) { return m < since || (m < begin && m >= block.start); };
  return before(cell.write) & before(cell.read[1]) & (before(cell.read[0]) | ((quick | 1) == own_write(now)));
}

// Such an access, if it is one.
ALWAYS_INLINE bool settle(const Block& block, Cell& cell, Moment& quick, Moment now, Moment since, int kind, const Object* shared) {
  if (kind > Write || (kind == Read && shared && cell.write < since) || !all_before(block, cell, quick, now, since)) return false;
  if (kind == Write) cell = {now, {0, 0}}, quick = own_write(now);
  else cell.read[0] = now, cell.read[1] = 0, quick = own_read(now);
  return true;
}

ALWAYS_INLINE void touch(const Block& block, Cell& cell, Moment& quick, Moment now, int kind, const Object* shared) {
  Moment since = shared ? block.start : state().launch;
  if (settle(block, cell, quick, now, since, kind, shared)) return;
  bool written = cell.write >= since;
  if (shared && !written && !writes_only(kind)) report_uninitialised(now, shared->name);
  if (written && !apart(block, cell.write, now)) compare(block, cell.write, now);
  if (reads_only(kind)) {
    bool own = written && position(cell.write) == position(now) && same_thread(cell.write, now) &&
               state().sites[site_number(cell.write)]->kind == Write;
    if (own) {
      if (cell.read[0] < since) quick = own_write(now);
      return;
    }
    remember_read(block, cell, now, since);
    quick = kind == Read ? after_read(block, cell, now, since) : 0;
    return;
  }
  for (Moment read : cell.read)
    if (read >= since && !apart(block, read, now)) compare(block, read, now);
  cell.write = now;
  cell.read[0] = cell.read[1] = 0;
  quick = kind == Write ? own_write(now) : 0;
}

// ---------------------------------------------------------------- all cells of an access

inline bool is_fine(const Cell& cell) { return cell.read[1] == fine; }

__attribute__((noinline)) void refine(Shadow shadow, uint32_t low, Cell& cell) {
  for (uint32_t i = 0; i < 4; i++) *shadow.byte_cell(low + i) = cell, *shadow.byte_quick(low + i) = 0;
  cell.read[0] = 0, cell.read[1] = fine;
  *shadow.quick(low) = 0;
}

__attribute__((noinline)) void touch_bytes(const Block& block, const char* address, long bytes, Moment now, int kind, const Object* shared) {
  for (const char* end = address + bytes; address < end; address++) {
    Shadow shadow = shadow_of(address);
    uint32_t low = (uint32_t)(uintptr_t)address, word = low & ~3u;
    Cell& whole = *shadow.cell(word);
    if (!is_fine(whole)) refine(shadow, word, whole);
    whole.write = now;  // only tells when the bytes were last of interest
    touch(block, *shadow.byte_cell(low), *shadow.byte_quick(low), now, kind, shared);
  }
}

ALWAYS_INLINE void touch_word(const Block& block, const char* address, Moment now, int kind, const Object* shared) {
  Shadow shadow = shadow_of(address);
  uint32_t low = (uint32_t)(uintptr_t)address;
  Cell& cell = *shadow.cell(low);
  if (__builtin_expect(is_fine(cell), 0)) {
    if (cell.write >= (shared ? block.start : state().launch)) return touch_bytes(block, address, 4, now, kind, shared);
    cell = Cell{0, {0, 0}};
  }
  touch(block, cell, *shadow.quick(low), now, kind, shared);
}

__attribute__((noinline)) void touch_all(const Block& block, const char* address, long bytes, const Site& site, Moment now, const Object* shared) {
  if (((uintptr_t)address | (uintptr_t)bytes) & 3) return touch_bytes(block, address, bytes, now, site.kind, shared);
  for (const char* end = address + bytes; address < end; address += 4) touch_word(block, address, now, site.kind, shared);
}

// By threads whose addresses are `step` bytes and whose numbers are `threads` apart.
void touch_row(const Block& block, const char* address, long long count, long long step, Moment now, long long threads, const Site& site, const Object* shared) {
  for (; count > 0; count--, address += step, now += (Moment)threads << thread_shift) touch_all(block, address, site.bytes, site, now, shared);
}

__attribute__((noinline)) void touch_one(const Block& block, const char* address, Moment now, int kind, const Object* shared) {
  touch_word(block, address, now, kind, shared);
}

// The shadow of a row of words that is next: rows lie apart, and processors do not see them coming.
inline void fetch(const char* address, long long count) {
  Shadow shadow = shadow_of(address);
  const char* quick = (const char*)shadow.quick((uint32_t)(uintptr_t)address);
  const char* cell = (const char*)shadow.cell((uint32_t)(uintptr_t)address);
  count = std::min(count, 64ll);
  for (long long i = 0; i < count * 8; i += 64) __builtin_prefetch(quick + i, 1);
  for (long long i = 0; i < count * (long long)sizeof(Cell); i += 64) __builtin_prefetch(cell + i, 1);
}

// The same of words that lie side by side in one shadow; kind: Read or Write. What `settle` does is written out for speed.
template <int kind, bool shared>
void touch_words(const Block& block, const char* address, long long count, Moment now, long long threads, const Object* object) {
  Shadow shadow = shadow_of(address);
  Moment* quick = shadow.quick((uint32_t)(uintptr_t)address);
  Cell* cell = shadow.cell((uint32_t)(uintptr_t)address);
  const Moment start = block.start, since = shared ? start : state().launch, begin = now & ~(one_interval - 1);
  const Moment step = (Moment)threads << thread_shift, anybody = position(now) | many;
  Moment own = own_write(now);
  auto before = [=](Moment m) { return m < begin && (shared || m < since || m >= start); };
  for (long long i = 0; i < count; i++, cell++, now += step, own += 2 * threads) {
    Moment who = quick[i], write = cell->write;
    if (kind == Read ? who == anybody || (who | 1) == own : who == own) continue;
    bool settled = before(write) && before(cell->read[1]) && (before(cell->read[0]) || (who | 1) == own);
    if (__builtin_expect(!settled || (kind == Read && shared && write < since), 0)) {
      touch_one(block, address + 4 * i, now, kind, object);
      continue;
    }
    if (kind == Write) cell->write = now, cell->read[0] = 0;
    else cell->read[0] = now;
    cell->read[1] = 0;
    quick[i] = kind == Write ? own : own - 1;
  }
}

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

void clear(const char* memory, size_t bytes) {
  for (uintptr_t address = (uintptr_t)memory & ~3ull; address < (uintptr_t)memory + bytes; address += 4) {
    Shadow shadow = shadow_of((const char*)address);
    *shadow.cell((uint32_t)address) = Cell{0, {0, 0}};
    *shadow.quick((uint32_t)address) = 0;
  }
}

void start_state() {
  the_state = new State;
  the_empty_shadow = reserve(PROT_READ);
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
  if (word && site->kind == Read) touch_word(block, address, now, Read, shared);
  else if (word && site->kind == Write) touch_word(block, address, now, Write, shared);
  else touch_all(block, address, bytes, *site, now, shared);
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
    block = new Block{0, 0, 0, 0, new std::vector<Object>, nullptr};
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
  Moment common = position | (Moment)site->number;
  long long length = nx * 4;
  auto words = site->kind == Read ? (shared ? touch_words<Read, true> : touch_words<Read, false>) : (shared ? touch_words<Write, true> : touch_words<Write, false>);
  for (long long z = 0; z < nz; z++)
    for (long long y = 0; y < ny; y++) {
      char* address = (char*)(first + z * bytes_z + y * bytes_y);
      Moment now = common | (Moment)(thread + z * thread_z + y * thread_y) << thread_shift;
      bool dense = bytes_x == 4 && site->bytes == 4 && !((uintptr_t)address & 3) && (uintptr_t)address >> 32 == (uintptr_t)(address + length) >> 32;
      if (dense && !shared && y + 1 < ny) fetch(address + bytes_y, nx);
      if (dense) words(block, address, nx, now, thread_x, shared);
      else touch_row(block, address, nx, bytes_x, now, thread_x, *site, shared);
    }
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
  if (memory) clear(memory, (size_t)bytes);
}

void* __loom_check_outside(const void* block, char* base, long long bytes, char* address, const Site* site, const char* name) {
  report_out_of_bounds(*site, site->bytes, name, address - base, bytes, "a thread of block " + std::to_string(running(block).index));
  return instead(site->bytes);
}
}
