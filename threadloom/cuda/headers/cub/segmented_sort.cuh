/* Sorting within segments: a block of one thread sorts each, so segments are spread over the cores. Stable. */
#pragma once
#include "iterators.cuh"
#include "sort.cuh"
namespace cub {
template <bool descending, bool has_values, class Key, class Value, class Begin, class End>
__global__ void __loom_sort_segments(const Key* in, Key* out, const Value* values_in, Value* values_out, long n, Begin begins, End ends, int low, int high, long* order) {
  long first = begins[blockIdx.x], last = ends[blockIdx.x];
  if (first >= last) return;
  long *own = order + first, *spare = order + n + first;
  __loom_merge_sort(own, spare, last - first, [&](long a, long b) {
    auto x = __loom_radix_bits(in[first + a], low, high), y = __loom_radix_bits(in[first + b], low, high);
    return descending ? y < x : x < y;
  });
  for (long i = first; i < last; ++i) {
    out[i] = in[first + order[i]];
    if constexpr (has_values) values_out[i] = values_in[first + order[i]];
  }
}
template <bool descending, bool has_values, class Key, class Value, class Begin, class End>
static inline cudaError_t __loom_segmented_sort(void* storage, size_t& bytes, const Key* in, Key* out, const Value* values_in, Value* values_out, long n, long segments, Begin begins, End ends, int low, int high, cudaStream_t stream) {
  if (!storage) return bytes = (size_t)(n > 0 ? n : 1) * 2 * sizeof(long) + 16, cudaSuccess;
  if (segments <= 0) return cudaSuccess;
  long* order = (long*)(((unsigned long)storage + 7) & ~7ul);
  __loom_sort_segments<descending, has_values><<<(unsigned)segments, 1, 0, stream>>>(in, out, values_in, values_out, n, begins, ends, low, high, order);
  return cudaPeekAtLastError();
}
/* One name in its four forms: keys or pairs, from one array to another or by a double buffer. `bits` are parameters. */
#define LOOM_SEGMENTED(keys_name, pairs_name, descending, low, high, ...)                                                                            \
  template <class Key, class Begin, class End>                                                                                                       \
  static cudaError_t keys_name(void* storage, size_t& bytes, const Key* in, Key* out, long n, long segments, Begin begins, End ends, ##__VA_ARGS__) { \
    return __loom_segmented_sort<descending, false, Key, int>(storage, bytes, in, out, nullptr, nullptr, n, segments, begins, ends, low, high, stream); \
  }                                                                                                                                                  \
  template <class Key, class Begin, class End>                                                                                                       \
  static cudaError_t keys_name(void* storage, size_t& bytes, DoubleBuffer<Key>& keys, long n, long segments, Begin begins, End ends, ##__VA_ARGS__) { \
    cudaError_t error = __loom_segmented_sort<descending, false, Key, int>(storage, bytes, keys.Current(), keys.Alternate(), nullptr, nullptr, n, segments, begins, ends, low, high, stream); \
    if (storage) keys.selector ^= 1;                                                                                                                 \
    return error;                                                                                                                                    \
  }                                                                                                                                                  \
  template <class Key, class Value, class Begin, class End>                                                                                          \
  static cudaError_t pairs_name(void* storage, size_t& bytes, const Key* in, Key* out, const Value* values_in, Value* values_out, long n, long segments, Begin begins, End ends, ##__VA_ARGS__) { \
    return __loom_segmented_sort<descending, true>(storage, bytes, in, out, values_in, values_out, n, segments, begins, ends, low, high, stream);     \
  }                                                                                                                                                  \
  template <class Key, class Value, class Begin, class End>                                                                                          \
  static cudaError_t pairs_name(void* storage, size_t& bytes, DoubleBuffer<Key>& keys, DoubleBuffer<Value>& values, long n, long segments, Begin begins, End ends, ##__VA_ARGS__) { \
    cudaError_t error = __loom_segmented_sort<descending, true, Key, Value>(storage, bytes, keys.Current(), keys.Alternate(), values.Current(), values.Alternate(), n, segments, begins, ends, low, high, stream); \
    if (storage) keys.selector ^= 1, values.selector ^= 1;                                                                                           \
    return error;                                                                                                                                    \
  }
struct DeviceSegmentedRadixSort {
  LOOM_SEGMENTED(SortKeys, SortPairs, false, begin, end, int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = 0, bool = false)
  LOOM_SEGMENTED(SortKeysDescending, SortPairsDescending, true, begin, end, int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = 0, bool = false)
};
struct DeviceSegmentedSort {
  LOOM_SEGMENTED(SortKeys, SortPairs, false, 0, sizeof(Key) * 8, cudaStream_t stream = 0, bool = false)
  LOOM_SEGMENTED(SortKeysDescending, SortPairsDescending, true, 0, sizeof(Key) * 8, cudaStream_t stream = 0, bool = false)
  LOOM_SEGMENTED(StableSortKeys, StableSortPairs, false, 0, sizeof(Key) * 8, cudaStream_t stream = 0, bool = false)
  LOOM_SEGMENTED(StableSortKeysDescending, StableSortPairsDescending, true, 0, sizeof(Key) * 8, cudaStream_t stream = 0, bool = false)
};
#undef LOOM_SEGMENTED
}  // namespace cub
