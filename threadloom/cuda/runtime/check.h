// What the parts of the checker share: when an access was, where a kernel's objects lie, and the shadow of memory.
//
// A moment is one 64-bit number:  interval : 30 | warp : 5 | fences : 3 | thread : 10 | site : 16
// Intervals are numbered through the program: a block begins one, and so does each barrier that it passes. So "in this
// block" and "in this launch" are comparisons with the number they began with, nothing is cleared between launches, and
// equal intervals mean the same block between the same barriers. `warp` counts the __syncwarp that the thread has passed in
// the interval (modulo 32), `fences` its device-wide fences (at most 7). instrument.py counts; the layout is known there.
// Where all __syncwarp are for whole warps, other counts mean order; else check_warps.cpp knows who has met whom.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace loom {
bool owner_of(const void* p, const char** base, size_t* bytes);  // memory.cpp
void check_divergent(const char* file, int line);

namespace checking {
using Moment = unsigned long long;
constexpr int interval_shift = 34, warp_shift = 29, fences_shift = 26, thread_shift = 16;
constexpr Moment one_interval = 1ull << interval_shift, position_mask = ~((1ull << fences_shift) - 1);
constexpr Moment grid_intervals = 1ull << 18;  // kept for each block of a launch that has grid-wide barriers
inline Moment interval(Moment m) { return m >> interval_shift; }
inline Moment position(Moment m) { return m & position_mask; }  // interval, warp, fences
inline unsigned warp_count(Moment m) { return (unsigned)(m >> warp_shift) & 31; }
inline unsigned fence_count(Moment m) { return (unsigned)(m >> fences_shift) & 7; }
inline unsigned thread(Moment m) { return (unsigned)(m >> thread_shift) & 1023; }
inline unsigned site_number(Moment m) { return (unsigned)m & 0xffff; }
inline bool same_thread(Moment a, Moment b) { return (((a ^ b) >> thread_shift) & 1023) == 0; }

enum Kind { Read, Write, Atomic, VolatileRead, VolatileWrite };  // atomic loads and stores count as volatile ones
inline bool reads_only(int kind) { return kind == Read || kind == VolatileRead; }
inline bool writes_only(int kind) { return kind == Write || kind == VolatileWrite; }

struct Site {  // written by instrument.py
  const char* file;
  const char* text;
  int line, bytes, kind, object;
  int number;  // in State::sites; 0: not yet there
};

// The last write to a word, and two reads since. The `fine` mark: its bytes have cells of their own.
struct Cell {
  Moment write, read[2];
};
constexpr Moment fine = ~0ull;

// The shadow of 4 GiB of memory, as reserved address space. `quick` has a number per word (and per byte): what a thread
// must look like to access it without telling anything new (check_touch.cpp), so that most accesses end after one comparison.
struct Shadow {
  char* base;
  static constexpr size_t quick_bytes = 8ull << 30, byte_quick_bytes = 32ull << 30, cell_bytes = 24ull << 30, byte_cell_bytes = 96ull << 30;
  static constexpr size_t byte_quick_at = quick_bytes, cells_at = byte_quick_at + byte_quick_bytes;
  static constexpr size_t byte_cells_at = cells_at + cell_bytes, bytes = byte_cells_at + byte_cell_bytes;

  Moment* quick(uint32_t low) const { return (Moment*)(base + (size_t)(low >> 2) * 8); }
  Moment* byte_quick(uint32_t low) const { return (Moment*)(base + byte_quick_at + (size_t)low * 8); }
  Cell* cell(uint32_t low) const { return (Cell*)(base + cells_at + (size_t)(low >> 2) * sizeof(Cell)); }
  Cell* byte_cell(uint32_t low) const { return (Cell*)(base + byte_cells_at + (size_t)low * sizeof(Cell)); }
};
constexpr size_t shadow_count = 1 << 16;  // addresses have 48 bits

struct Object {
  const char *base = nullptr, *name = "";
  long long bytes = -1;  // -1: unknown
  bool shared = false, written = false, freed = false;
  const char *whole_from = nullptr, *whole_to = nullptr;  // a part of which every word has been written in this block
};

struct Warps;  // of a block whose lanes meet in parts (check_warps.cpp)
struct Aside;  // which of a block's threads go other ways than those that meet

struct Block {
  Moment latest = 0;  // its last interval; at offset 0, where instrumented code stores it
  Moment start = 0, size = 0;  // its intervals
  unsigned index = 0;
  std::vector<Object>* objects = nullptr;
  Warps* warps = nullptr;
  Aside* aside = nullptr;
};

struct State {
  char* shadows[shadow_count];  // of each 4 GiB; the empty one where nothing has been touched
  std::vector<const Site*> sites{nullptr};
  Moment next = one_interval, launch = one_interval;  // the next interval to give away; this launch's first
  std::vector<Moment> starts;  // of the launch's blocks
  std::vector<std::vector<Moment>> grids;  // by block: the intervals with which it passed grid-wide barriers
  const char* kernel = "";
  Block block;  // the one that runs
  std::vector<Block*> kept;  // all blocks of a launch with grid-wide barriers
  alignas(64) char harmless[4096];
};
extern State* the_state;  // from the first launch of an instrumented kernel on
inline State& state() { return *the_state; }
unsigned block_of(Moment m);

// ---- shadow memory, and what an access does to it (check_touch.cpp)
extern char* the_empty_shadow;
char* reserve_shadow(bool writable);
char* new_shadow(char*& base);
inline Shadow shadow_of(const char* address) {
  char*& base = state().shadows[(uintptr_t)address >> 32];
  return {base != the_empty_shadow ? base : new_shadow(base)};
}
void forget_shadows();
void clear_shadow(const char* memory, size_t bytes);
struct Threads {  // of one dimension of a loop: so many, whose addresses and numbers are so far apart
  long long count, bytes, number;
};
void touch(const Block& block, const char* address, long long bytes, const Site& site, Moment now, const Object* shared);
void touch_threads(const Block& block, const Site& site, Moment first, const char* address, const Object* shared, const Threads& z, const Threads& y, const Threads& x);

// ---- order between blocks, and inside one without barriers (check_order.cpp)
void order_launch();
void order_fence(unsigned block, Moment after);
void order_atomic(const Block& block, Moment now, const char* address, int kind);
bool happens_before(Moment old, const Block& block, Moment now);

// ---- lanes of a warp (check_warps.cpp)
bool met_since(const Block& block, Moment old, Moment now);  // two lanes of a warp, in one interval
void forget_warps(Block& block);

// ---- findings (check_report.cpp)
void report_race(Moment old, Moment now);
void report_uninitialised(Moment now, const char* object);
void report_out_of_bounds(const Site& site, long long size, const char* object, long long offset, long long bytes, const std::string& who);
void report_freed(const Site& site, const char* object, const std::string& who);
void report_call(const std::string& call, const std::string& what);  // of the host
void report_divergent(const Site& site);
void report_absent(const Site& site, const char* operation, unsigned warp, unsigned lanes);
[[noreturn]] void end_waiting(const Site& site, const std::string& who);
void write_findings();
std::string who(const Block& block, unsigned thread);
}  // namespace checking
}  // namespace loom
