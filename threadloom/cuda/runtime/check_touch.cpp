// The shadow of memory, and what an access does to it: who touched each word (or byte) last, and whether the two race.
//
// Two accesses race if one of them writes, not both are atomic, and nothing orders them: within a block other
// threads between the same barriers (and, in one warp, between the same __syncwarp), otherwise other blocks between the
// same grid-wide barriers; check_order.cpp has what fences and atomics order. Of a thread that has plainly written a word, later
// reads at the same position add nothing.
#include "check_quick.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace loom {
namespace checking {
// ---------------------------------------------------------------- shadow memory

char* the_empty_shadow = nullptr;

char* reserve_shadow(bool writable) {
  void* base = mmap(nullptr, Shadow::bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base != MAP_FAILED && writable) madvise(base, Shadow::bytes, MADV_HUGEPAGE);
  if (base != MAP_FAILED) return (char*)base;
  fprintf(stderr, "loom check: cannot reserve address space for its shadow memory (see ulimit -v and vm.overcommit_memory)\n");
  _exit(2);
}

__attribute__((noinline)) char* new_shadow(char*& base) { return base = reserve_shadow(true); }

void forget_shadows() {
  for (char* base : state().shadows)
    if (base != the_empty_shadow) madvise(base, Shadow::bytes, MADV_DONTNEED);
}

void clear_shadow(const char* memory, size_t bytes) {
  for (uintptr_t address = (uintptr_t)memory & ~3ull; address < (uintptr_t)memory + bytes; address += 4)
    *shadow_of((const char*)address).quick((uint32_t)address) = 0;
}

namespace {
// ---------------------------------------------------------------- order

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

// What a quick number says of the word, as its cell says it.
ALWAYS_INLINE void fill(const Block& block, Cell& cell, Moment quick, const Object* shared) {
  if (!quick) cell = {0, {0, 0}};
  if (!alone(quick)) return;
  if (writes(quick)) cell = {access_of(quick), {0, 0}};
  else cell = {shared && quick >= block.start ? block.start : 0, {access_of(quick), 0}};
}

void remember_read(const Block& block, Cell& cell, Moment now, Moment since) {
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

// The quick number after a plain read. That any thread may read shared memory says, too, that it has been written.
Moment after_read(const Block& block, const Cell& cell, Moment now, Moment since, const Object* shared) {
  if (shared && cell.write < since) return see_cell;
  if (cell.write >= since && !(in_block(block, cell.write) && interval(cell.write) < interval(now))) return see_cell;
  Moment first = cell.read[0], second = cell.read[1];
  bool both = position(first) == position(now) && position(second) == position(now);
  if (both && !same_thread(first, second)) return position(now);
  return first == now ? own_read(now) : see_cell;
}

__attribute__((noinline)) void touch_cell(const Block& block, Cell& cell, Moment& quick, Moment now, int kind, const Object* shared) {
  const Moment since = shared ? block.start : state().launch;
  fill(block, cell, quick, shared);
  bool written = cell.write >= since;
  if (shared && !written && !writes_only(kind)) report_uninitialised(now, shared->name);
  if (written && !apart(block, cell.write, now)) compare(block, cell.write, now);
  if (reads_only(kind)) {
    bool own = written && position(cell.write) == position(now) && same_thread(cell.write, now) &&
               state().sites[site_number(cell.write)]->kind == Write;
    if (own) {
      if (!alone(quick) && cell.read[0] < since) quick = own_write(now);
      return;
    }
    remember_read(block, cell, now, since);
    quick = kind == Read ? after_read(block, cell, now, since, shared) : see_cell;
    return;
  }
  for (Moment read : cell.read)
    if (read >= since && !apart(block, read, now)) compare(block, read, now);
  cell = {now, {0, 0}};
  quick = kind == Write ? own_write(now) : see_cell;
}

// A second thread has read the word since the barrier, or since it was last of interest: now all may.
ALWAYS_INLINE bool shares(const Block& block, Cell& cell, Moment& quick, Moment now, int kind, const Object* shared) {
  if (kind != Read || !alone(quick) || writes(quick) || position(quick) != position(now)) return false;
  fill(block, cell, quick, shared);
  cell.read[1] = now;
  quick = position(now);
  return true;
}

ALWAYS_INLINE void touch_place(const Block& block, Cell* cell, Moment& quick, Moment now, int kind, const Object* shared) {
  if (settle(block, quick, now, kind, shared) || shares(block, *cell, quick, now, kind, shared)) return;
  touch_cell(block, *cell, quick, now, kind, shared);
}

// ---------------------------------------------------------------- all cells of an access

inline bool is_fine(const Cell& cell) { return cell.read[1] == fine; }

// From now on the word's bytes have cells of their own.
__attribute__((noinline)) void refine(Shadow shadow, uint32_t low, Moment since) {
  Cell& cell = *shadow.cell(low);
  Moment& quick = *shadow.quick(low);
  for (uint32_t i = 0; i < 4; i++) {
    Moment& byte = *shadow.byte_quick(low + i);
    if (alone(quick)) byte = quick;
    else if (quick < since && quick != see_cell) byte = 0;
    else byte = see_cell, *shadow.byte_cell(low + i) = cell;
  }
  cell.read[0] = 0, cell.read[1] = fine;
  quick = see_cell;
}

__attribute__((noinline)) void touch_bytes(const Block& block, const char* address, long bytes, Moment now, int kind, const Object* shared) {
  for (const char* end = address + bytes; address < end; address++) {
    Shadow shadow = shadow_of(address);
    uint32_t low = (uint32_t)(uintptr_t)address, word = low & ~3u;
    Cell& whole = *shadow.cell(word);
    if (*shadow.quick(word) != see_cell || !is_fine(whole)) refine(shadow, word, shared ? block.start : state().launch);
    whole.write = now;  // only tells when the bytes were last of interest
    touch_place(block, shadow.byte_cell(low), *shadow.byte_quick(low), now, kind, shared);
  }
}

ALWAYS_INLINE void touch_word(const Block& block, const char* address, Moment now, int kind, const Object* shared) {
  Shadow shadow = shadow_of(address);
  uint32_t low = (uint32_t)(uintptr_t)address;
  Moment& quick = *shadow.quick(low);
  Cell* cell = shadow.cell(low);
  if (quick == see_cell && is_fine(*cell)) {
    if (cell->write >= (shared ? block.start : state().launch)) return touch_bytes(block, address, 4, now, kind, shared);
    quick = 0;
  }
  touch_place(block, cell, quick, now, kind, shared);
}

__attribute__((noinline)) void touch_one(const Block& block, const char* address, Moment now, int kind, const Object* shared) {
  touch_word(block, address, now, kind, shared);
}

// ---------------------------------------------------------------- many threads at once

// By threads whose addresses are `step` bytes and whose numbers are `threads` apart.
void touch_row(const Block& block, const char* address, long long count, long long step, Moment now, long long threads, const Site& site, const Object* shared) {
  for (; count > 0; count--, address += step, now += (Moment)threads << thread_shift) touch(block, address, site.bytes, site, now, shared);
}

// The quick numbers of a row of words that is next: rows lie apart, and processors do not see them coming.
inline void fetch(const char* address, long long words) {
  const char* quick = (const char*)shadow_of(address).quick((uint32_t)(uintptr_t)address);
  for (long long i = 0; i < std::min(words, 64ll) * 8; i += 64) __builtin_prefetch(quick + i, 1);
}

// Whether so many numbers begin with `first` and grow by `step`.
bool grow(const Moment* quick, long long count, Moment first, Moment step) {
  Moment different = 0;
  for (long long i = 0; i < count; i++) different |= quick[i] ^ (first + (Moment)i * step);
  return !different;
}

// A row whose words are all alike, each known of its own thread, or all of the same: what holds of the first one holds of all.
template <int kind, bool shared>
bool touch_alike(const Block& block, Moment* quick, long long count, Moment now, long long threads) {
  const Moment first = quick[0], second = count > 1 ? quick[1] : first, step = 2 * (Moment)threads;
  const bool own = second - first == step;
  const long long most = (1 << 10) - 1;  // threads: numbers must not run over
  if (threads < 0 || thread(now) + count * threads > most || (first & code_mask) / 2 + count * threads > 2 * most) return false;
  if (!(own || first == second) || !grow(quick, count, first, own ? step : 0)) return false;
  if ((own || first == position(now)) && passes<kind>(first, now)) return true;
  Moment next = first;
  const bool same = (without_site(first) | 1) == own_write(now);
  if ((same && !own) || !settle<kind, shared>(block, next, now, shared ? block.start : state().launch)) return false;
  for (long long i = 0; i < count; i++) quick[i] = next + (Moment)i * step;
  return true;
}

// The same of words that lie side by side in one shadow, so many `each`.
template <int kind, bool shared>
void touch_words(const Block& block, const char* address, long long count, long long each, Moment now, long long threads, const Object* object) {
  Moment* quick = shadow_of(address).quick((uint32_t)(uintptr_t)address);
  if (each == 1 && touch_alike<kind, shared>(block, quick, count, now, threads)) return;
  const Moment since = shared ? block.start : state().launch, step = (Moment)threads << thread_shift;
  for (; count > 0; count--, now += step)
    for (long long i = 0; i < each; i++, quick++, address += 4)
      if (!passes<kind>(*quick, now) && !settle<kind, shared>(block, *quick, now, since)) touch_one(block, address, now, kind, object);
}
}  // namespace

void touch(const Block& block, const char* address, long long bytes, const Site& site, Moment now, const Object* shared) {
  if (((uintptr_t)address | (uintptr_t)bytes) & 3) return touch_bytes(block, address, bytes, now, site.kind, shared);
  for (const char* end = address + bytes; address < end; address += 4) touch_word(block, address, now, site.kind, shared);
}

void touch_threads(const Block& block, const Site& site, Moment first, const char* address, const Object* shared, const Threads& z, const Threads& y, const Threads& x) {
  const long long words = site.bytes / 4, length = x.count * site.bytes;
  const bool side_by_side = x.bytes == site.bytes && site.bytes % 4 == 0;
  auto touch_these = site.kind == Read ? (shared ? touch_words<Read, true> : touch_words<Read, false>) : (shared ? touch_words<Write, true> : touch_words<Write, false>);
  for (long long k = 0; k < z.count; k++)
    for (long long j = 0; j < y.count; j++) {
      const char* row = address + k * z.bytes + j * y.bytes;
      Moment now = first + ((Moment)(k * z.number + j * y.number) << thread_shift);
      bool dense = side_by_side && !((uintptr_t)row & 3) && (uintptr_t)row >> 32 == (uintptr_t)(row + length) >> 32;
      if (dense && !shared && j + 1 < y.count) fetch(row + y.bytes, x.count * words);
      if (dense) touch_these(block, row, x.count, words, now, x.number, shared);
      else touch_row(block, row, x.count, x.bytes, now, x.number, site, shared);
    }
}
}  // namespace checking
}  // namespace loom
