// What a quick number says, and the accesses that end with it: the most frequent ones, here to be inlined.
//
// A word's quick number says most of it alone; its cell, which is three times as large, is only looked at for the rest:
//   0                          nobody has touched it (the cell may hold anything)
//   see_cell                   the cell has it, or those of its bytes
//   position | site | code     one plain access is all there is (the cell may hold anything); of shared memory the word
//                              has been written in this block, too. code: 2 * thread + 2 for a read, + 3 for a write
//   position | code            the same thread may go on so without telling anything new; the cell has the rest
//   position                   any thread at this position may read; the cell has the rest
#pragma once
#include "check.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace loom {
namespace checking {
constexpr Moment see_cell = 1, code_mask = (1 << 12) - 1;
constexpr int quick_site_shift = 12;
constexpr Moment most_sites = 1 << 14, quick_site_mask = (most_sites - 1) << quick_site_shift;

ALWAYS_INLINE Moment own_read(Moment m) { return position(m) | (2 * thread(m) + 2); }
ALWAYS_INLINE Moment own_write(Moment m) { return position(m) | (2 * thread(m) + 3); }  // the thread may write, and read
ALWAYS_INLINE bool alone(Moment quick) { return quick & quick_site_mask; }
ALWAYS_INLINE bool writes(Moment quick) { return quick & 1; }
ALWAYS_INLINE Moment without_site(Moment quick) { return quick & ~quick_site_mask; }
ALWAYS_INLINE Moment site_bits(Moment m) { return (Moment)site_number(m) << quick_site_shift; }

// The access that a number of one access stands for.
inline Moment access_of(Moment quick) {
  return position(quick) | ((quick & code_mask) / 2 - 1) << thread_shift | (quick & quick_site_mask) >> quick_site_shift;
}

// Whether an access may pass without telling anything new; the instrumented code asks the same (inline_calls.py).
template <int kind>
ALWAYS_INLINE bool passes(Moment quick, Moment now) {
  return kind == Read ? quick == position(now) || (without_site(quick) | 1) == own_write(now) : without_site(quick) == own_write(now);
}

// Whether a plain access may take the place of all that is known: this came before a barrier of the block, or before all
// that counts, or is the thread's own. Reading of shared memory must find it written; what the block has
// written to other memory must stay known to other blocks.
template <int kind, bool shared>
ALWAYS_INLINE bool settles(const Block& block, Moment quick, Moment now, Moment since) {
  const Moment begin = now & ~(one_interval - 1);
  const bool old = (quick < since) & (quick != see_cell);
  const bool known = alone(quick) | (quick == position(quick));
  const bool mine = known & (quick >= block.start) & (quick < begin);
  if (kind == Write) return old | mine | (alone(quick) & ((without_site(quick) | 1) == own_write(now)));
  return shared ? mine : old | (mine & alone(quick) & !writes(quick));
}

template <int kind, bool shared>
ALWAYS_INLINE bool settle(const Block& block, Moment& quick, Moment now, Moment since) {
  if (!settles<kind, shared>(block, quick, now, since) || site_number(now) >= most_sites) return false;
  quick = (kind == Write ? own_write(now) : own_read(now)) | site_bits(now);
  return true;
}

// The same for a site of any kind; false: touch.
ALWAYS_INLINE bool settle(const Block& block, Moment& quick, Moment now, int kind, const Object* shared) {
  if (kind == Read) return shared ? settle<Read, true>(block, quick, now, block.start) : settle<Read, false>(block, quick, now, state().launch);
  if (kind == Write) return shared ? settle<Write, true>(block, quick, now, block.start) : settle<Write, false>(block, quick, now, state().launch);
  return false;
}
}  // namespace checking
}  // namespace loom
