/* Device-wide algorithms. Each is one kernel of one thread: correct for every operator, not yet spread over cores.
   As in CUB, a call with null temporary storage only says how much is wanted. */
#pragma once
#include "block.cuh"
#include "iterators.cuh"
namespace cub {
template <class F> __global__ void __loom_serial(F f) { f(); }
/* `f` runs on the device, in stream order. */
template <class F> static inline cudaError_t __loom_run(void* storage, size_t& bytes, cudaStream_t stream, F f) {
  if (!storage) return bytes = 1, cudaSuccess;
  __loom_serial<<<1, 1, 0, stream>>>(f);
  return cudaPeekAtLastError();
}
#define LOOM_SERIAL(...) return __loom_run(storage, bytes, stream, [=] __device__() mutable { __VA_ARGS__ })
#define LOOM_STORAGE void *storage, size_t &bytes
template <class It> using __loom_value = typename std::iterator_traits<It>::value_type;
/* What an operator makes of its own results: sums of bools are ints. */
template <class Op, class A, class B = A> using __loom_sum_of = std::decay_t<decltype(std::declval<Op&>()(std::declval<A>(), std::declval<B>()))>;

struct DeviceReduce {
  template <class In, class Out, class Op, class T> static cudaError_t Reduce(LOOM_STORAGE, In in, Out out, long n, Op op, T initial, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(T sum = initial; for (long i = 0; i < n; ++i) sum = op(sum, in[i]); *out = sum;);
  }
  template <class In, class Out> static cudaError_t Sum(LOOM_STORAGE, In in, Out out, long n, cudaStream_t stream = 0, bool = false) {
    typedef __loom_sum_of<cub::Sum, __loom_value<Out>, __loom_value<In>> T;
    LOOM_SERIAL(T sum = T(0); for (long i = 0; i < n; ++i) sum = sum + in[i]; *out = sum;);
  }
  template <class In, class Out> static cudaError_t Max(LOOM_STORAGE, In in, Out out, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(if (n <= 0) return; __loom_value<In> best = in[0]; for (long i = 1; i < n; ++i) if (best < in[i]) best = in[i]; *out = best;);
  }
  template <class In, class Out> static cudaError_t Min(LOOM_STORAGE, In in, Out out, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(if (n <= 0) return; __loom_value<In> best = in[0]; for (long i = 1; i < n; ++i) if (in[i] < best) best = in[i]; *out = best;);
  }
  template <class In, class Out> static cudaError_t ArgMax(LOOM_STORAGE, In in, Out out, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(if (n <= 0) return; long best = 0; for (long i = 1; i < n; ++i) if (in[best] < in[i]) best = i; out->key = (int)best; out->value = in[best];);
  }
  template <class In, class Out> static cudaError_t ArgMin(LOOM_STORAGE, In in, Out out, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(if (n <= 0) return; long best = 0; for (long i = 1; i < n; ++i) if (in[i] < in[best]) best = i; out->key = (int)best; out->value = in[best];);
  }
  template <class In, class Out, class Op, class Map, class T> static cudaError_t TransformReduce(LOOM_STORAGE, In in, Out out, long n, Op op, Map map, T initial, cudaStream_t stream = 0) {
    LOOM_SERIAL(T sum = initial; for (long i = 0; i < n; ++i) sum = op(sum, map(in[i])); *out = sum;);
  }
  template <class Keys, class Unique, class Values, class Sums, class Runs, class Op>
  static cudaError_t ReduceByKey(LOOM_STORAGE, Keys keys, Unique unique, Values values, Sums sums, Runs runs, Op op, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(long run = -1; for (long i = 0; i < n; ++i) {
      if (i == 0 || !(keys[i] == keys[i - 1])) ++run, unique[run] = keys[i], sums[run] = values[i];
      else sums[run] = op(sums[run], values[i]);
    } *runs = run + 1;);
  }
};

struct DeviceScan {
  template <class In, class Out, class Op, class T> static cudaError_t ExclusiveScan(LOOM_STORAGE, In in, Out out, Op op, T initial, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(T sum = initial; for (long i = 0; i < n; ++i) { T next = op(sum, in[i]); out[i] = sum; sum = next; });
  }
  template <class In, class Out, class Op> static cudaError_t InclusiveScan(LOOM_STORAGE, In in, Out out, Op op, long n, cudaStream_t stream = 0, bool = false) {
    typedef __loom_sum_of<Op, __loom_value<In>> T;
    LOOM_SERIAL(if (n <= 0) return; T sum = in[0]; out[0] = sum; for (long i = 1; i < n; ++i) out[i] = sum = op(sum, in[i]););
  }
  template <class In, class Out> static cudaError_t ExclusiveSum(LOOM_STORAGE, In in, Out out, long n, cudaStream_t stream = 0, bool = false) {
    return ExclusiveScan(storage, bytes, in, out, cub::Sum(), __loom_sum_of<cub::Sum, __loom_value<In>>(0), n, stream);
  }
  template <class In, class Out> static cudaError_t InclusiveSum(LOOM_STORAGE, In in, Out out, long n, cudaStream_t stream = 0, bool = false) {
    return InclusiveScan(storage, bytes, in, out, cub::Sum(), n, stream);
  }
  template <class It> static cudaError_t ExclusiveSum(LOOM_STORAGE, It data, long n, cudaStream_t stream = 0) { return ExclusiveSum(storage, bytes, data, data, n, stream); }
  template <class It> static cudaError_t InclusiveSum(LOOM_STORAGE, It data, long n, cudaStream_t stream = 0) { return InclusiveSum(storage, bytes, data, data, n, stream); }
  template <class Keys, class In, class Out> static cudaError_t ExclusiveSumByKey(LOOM_STORAGE, Keys keys, In in, Out out, long n, cudaStream_t stream = 0) {
    LOOM_SERIAL(__loom_value<In> sum = 0; for (long i = 0; i < n; ++i) { if (i && !(keys[i] == keys[i - 1])) sum = 0; auto next = sum + in[i]; out[i] = sum; sum = next; });
  }
  template <class Keys, class In, class Out> static cudaError_t InclusiveSumByKey(LOOM_STORAGE, Keys keys, In in, Out out, long n, cudaStream_t stream = 0) {
    LOOM_SERIAL(__loom_value<In> sum = 0; for (long i = 0; i < n; ++i) { if (i && !(keys[i] == keys[i - 1])) sum = 0; out[i] = sum = sum + in[i]; });
  }
};

template <bool descending, class Key, class Value, bool has_values>
static inline cudaError_t __loom_radix_sort(LOOM_STORAGE, const Key* in, Key* out, const Value* values_in, Value* values_out, long n, int begin, int end, cudaStream_t stream) {
  if (!storage) return bytes = (size_t)(n > 0 ? n : 1) * 2 * sizeof(long) + 16, cudaSuccess;
  LOOM_SERIAL(long* order = (long*)(((unsigned long)storage + 7) & ~7ul); long* spare = order + n;
    __loom_merge_sort(order, spare, n, [&](long a, long b) {
      auto x = __loom_radix_bits(in[a], begin, end), y = __loom_radix_bits(in[b], begin, end);
      return descending ? y < x : x < y;
    });
    for (long i = 0; i < n; ++i) { out[i] = in[order[i]]; if constexpr (has_values) values_out[i] = values_in[order[i]]; });
}
struct DeviceRadixSort {
  template <class Key> static cudaError_t SortKeys(LOOM_STORAGE, const Key* in, Key* out, long n, int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = 0, bool = false) {
    return __loom_radix_sort<false, Key, int, false>(storage, bytes, in, out, nullptr, nullptr, n, begin, end, stream);
  }
  template <class Key> static cudaError_t SortKeysDescending(LOOM_STORAGE, const Key* in, Key* out, long n, int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = 0, bool = false) {
    return __loom_radix_sort<true, Key, int, false>(storage, bytes, in, out, nullptr, nullptr, n, begin, end, stream);
  }
  template <class Key, class Value> static cudaError_t SortPairs(LOOM_STORAGE, const Key* in, Key* out, const Value* values_in, Value* values_out, long n, int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = 0, bool = false) {
    return __loom_radix_sort<false, Key, Value, true>(storage, bytes, in, out, values_in, values_out, n, begin, end, stream);
  }
  template <class Key, class Value> static cudaError_t SortPairsDescending(LOOM_STORAGE, const Key* in, Key* out, const Value* values_in, Value* values_out, long n, int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = 0, bool = false) {
    return __loom_radix_sort<true, Key, Value, true>(storage, bytes, in, out, values_in, values_out, n, begin, end, stream);
  }
  template <class Key> static cudaError_t SortKeys(LOOM_STORAGE, DoubleBuffer<Key>& keys, long n, int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = 0, bool = false) {
    cudaError_t error = SortKeys(storage, bytes, keys.Current(), keys.Alternate(), n, begin, end, stream);
    if (storage) keys.selector ^= 1;
    return error;
  }
  template <class Key, class Value> static cudaError_t SortPairs(LOOM_STORAGE, DoubleBuffer<Key>& keys, DoubleBuffer<Value>& values, long n, int begin = 0, int end = sizeof(Key) * 8, cudaStream_t stream = 0, bool = false) {
    cudaError_t error = SortPairs(storage, bytes, keys.Current(), keys.Alternate(), values.Current(), values.Alternate(), n, begin, end, stream);
    if (storage) keys.selector ^= 1, values.selector ^= 1;
    return error;
  }
};

struct DeviceSelect {
  template <class In, class Flags, class Out, class Count> static cudaError_t Flagged(LOOM_STORAGE, In in, Flags flags, Out out, Count count, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(long kept = 0; for (long i = 0; i < n; ++i) if (flags[i]) out[kept++] = in[i]; *count = kept;);
  }
  template <class In, class Out, class Count, class Op> static cudaError_t If(LOOM_STORAGE, In in, Out out, Count count, long n, Op op, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(long kept = 0; for (long i = 0; i < n; ++i) if (op(in[i])) out[kept++] = in[i]; *count = kept;);
  }
  template <class In, class Out, class Count> static cudaError_t Unique(LOOM_STORAGE, In in, Out out, Count count, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(long kept = 0; for (long i = 0; i < n; ++i) if (i == 0 || !(in[i] == in[i - 1])) out[kept++] = in[i]; *count = kept;);
  }
};
struct DevicePartition {
  template <class In, class Flags, class Out, class Count> static cudaError_t Flagged(LOOM_STORAGE, In in, Flags flags, Out out, Count count, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(long kept = 0, dropped = n; for (long i = 0; i < n; ++i) { if (flags[i]) out[kept++] = in[i]; else out[--dropped] = in[i]; } *count = kept;);
  }
  template <class In, class Out, class Count, class Op> static cudaError_t If(LOOM_STORAGE, In in, Out out, Count count, long n, Op op, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(long kept = 0, dropped = n; for (long i = 0; i < n; ++i) { if (op(in[i])) out[kept++] = in[i]; else out[--dropped] = in[i]; } *count = kept;);
  }
};
struct DeviceRunLengthEncode {
  template <class In, class Unique, class Counts, class Runs> static cudaError_t Encode(LOOM_STORAGE, In in, Unique unique, Counts counts, Runs runs, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(long run = -1; for (long i = 0; i < n; ++i) {
      if (i == 0 || !(in[i] == in[i - 1])) ++run, unique[run] = in[i], counts[run] = 0;
      counts[run] += 1;
    } *runs = run + 1;);
  }
};
struct DeviceHistogram {
  template <class In, class Counter, class Level> static cudaError_t HistogramEven(LOOM_STORAGE, In in, Counter* histogram, int levels, Level lower, Level upper, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(for (int b = 0; b < levels - 1; ++b) histogram[b] = 0; for (long i = 0; i < n; ++i) {
      Level value = (Level)in[i];
      if (value < lower || !(value < upper)) continue;
      int bin = (int)((double)(value - lower) * (levels - 1) / (double)(upper - lower));
      histogram[bin < levels - 1 ? bin : levels - 2] += 1;
    });
  }
  template <class In, class Counter, class Level> static cudaError_t HistogramRange(LOOM_STORAGE, In in, Counter* histogram, int levels, const Level* bounds, long n, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(for (int b = 0; b < levels - 1; ++b) histogram[b] = 0; for (long i = 0; i < n; ++i)
      for (int b = 0; b < levels - 1; ++b) if (!(in[i] < bounds[b]) && in[i] < bounds[b + 1]) { histogram[b] += 1; break; });
  }
};
struct DeviceSegmentedReduce {
  template <class In, class Out, class Begin, class End, class Op, class T> static cudaError_t Reduce(LOOM_STORAGE, In in, Out out, int segments, Begin begins, End ends, Op op, T initial, cudaStream_t stream = 0, bool = false) {
    LOOM_SERIAL(for (int s = 0; s < segments; ++s) { T sum = initial; for (long i = begins[s]; i < ends[s]; ++i) sum = op(sum, in[i]); out[s] = sum; });
  }
  template <class In, class Out, class Begin, class End> static cudaError_t Sum(LOOM_STORAGE, In in, Out out, int segments, Begin begins, End ends, cudaStream_t stream = 0, bool = false) {
    return Reduce(storage, bytes, in, out, segments, begins, ends, cub::Sum(), __loom_value<In>(0), stream);
  }
};
struct DeviceMergeSort {
  template <class Key, class Less> static cudaError_t SortKeys(LOOM_STORAGE, Key* keys, long n, Less less, cudaStream_t stream = 0) {
    if (!storage) return bytes = (size_t)(n > 0 ? n : 1) * (2 * sizeof(long) + sizeof(Key)) + 64, cudaSuccess;
    LOOM_SERIAL(long* order = (long*)(((unsigned long)storage + 31) & ~31ul); long* spare = order + n; Key* copy = (Key*)(((unsigned long)(spare + n) + 31) & ~31ul);
      __loom_merge_sort(order, spare, n, [&](long a, long b) { return less(keys[a], keys[b]); });
      for (long i = 0; i < n; ++i) copy[i] = keys[order[i]];
      for (long i = 0; i < n; ++i) keys[i] = copy[i];);
  }
};
#undef LOOM_SERIAL
#undef LOOM_STORAGE
}  // namespace cub
