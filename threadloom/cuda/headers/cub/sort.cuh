/* What block-wide and device-wide sorting have in common. */
#pragma once
#include <loom/prelude.h>
namespace cub {
/* A stable merge sort of positions, bottom up; `less(i, j)` compares two original positions. */
template <class Index, class Less> LOOM_DEVICE void __loom_merge_sort(Index* order, Index* spare, Index n, Less less) {
  for (Index i = 0; i < n; ++i) order[i] = i;
  for (Index width = 1; width < n; width *= 2) {
    for (Index low = 0; low < n; low += 2 * width) {
      Index middle = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n, a = low, b = middle;
      for (Index k = low; k < high; ++k) spare[k] = a < middle && (b >= high || !less(order[b], order[a])) ? order[a++] : order[b++];
    }
    for (Index k = 0; k < n; ++k) order[k] = spare[k];
  }
}
/* Keys by the bits [begin, end), as radix sorting sees them: sign bits turned so that order is numeric. */
template <class Key> LOOM_DEVICE unsigned long long __loom_radix_bits(Key key, int begin, int end) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &key, sizeof key);
  constexpr unsigned long long sign = 1ull << (8 * sizeof(Key) - 1);
  if constexpr (!__is_integral(Key)) bits = bits & sign ? ~bits : bits | sign;
  else if constexpr ((Key)-1 < (Key)0) bits ^= sign;
  if (8 * sizeof(Key) < 64) bits &= (sign << 1) - 1;
  bits >>= begin;
  int width = end - begin;
  return width >= 64 ? bits : bits & ((1ull << width) - 1);
}
}  // namespace cub
