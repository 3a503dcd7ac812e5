/* Block-wide collectives over shared memory. Every thread of the block calls them. Reductions, scans and sorts are done by
   the block's first thread in the order of ranks: on a CPU one loop is less work than a tree of barriers, to run and to compile. */
#pragma once
#include "sort.cuh"
#include "warp.cuh"
namespace cub {
enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm { BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE };
enum BlockStoreAlgorithm { BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE };

LOOM_DEVICE int __loom_rank() { return (int)cooperative_groups::__loom_block_rank(); }

/* Memory for values whose constructors must not run. */
template <class T, int count> struct __loom_slots {
  alignas(T) char bytes[sizeof(T) * count];
  __device__ T& operator[](int i) { return ((T*)bytes)[i]; }
};

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int Arch = 0> class BlockReduce {
  static constexpr int threads = X * Y * Z;

 public:
  struct TempStorage { __loom_slots<T, threads> values; };
  __device__ BlockReduce(TempStorage& storage) : storage_(storage) {}
  template <class Op> __device__ T Reduce(T value, Op op, int valid = threads) {
    int rank = __loom_rank();
    storage_.values[rank] = value;
    __syncthreads();
    if (rank == 0) {
      T sum = value;
      for (int i = 1; i < valid; ++i) sum = op(sum, storage_.values[i]);
      storage_.values[0] = sum;
    }
    __syncthreads();
    T result = storage_.values[0];
    __syncthreads();
    return result;
  }
  template <int items, class Op> __device__ T Reduce(T (&values)[items], Op op) {
    T own = values[0];
    for (int i = 1; i < items; ++i) own = op(own, values[i]);
    return Reduce(own, op);
  }
  __device__ T Sum(T value) { return Reduce(value, cub::Sum()); }
  __device__ T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
  template <int items> __device__ T Sum(T (&values)[items]) { return Reduce(values, cub::Sum()); }

 private:
  TempStorage& storage_;
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int Arch = 0> class BlockScan {
  static constexpr int threads = X * Y * Z;

 public:
  struct TempStorage { __loom_slots<T, threads> values; T prefix; };
  __device__ BlockScan(TempStorage& storage) : storage_(storage) {}

  template <class Op> __device__ void InclusiveScan(T in, T& out, Op op, T& total) {
    int rank = __loom_rank();
    storage_.values[rank] = in;
    __syncthreads();
    if (rank == 0) {
      T sum = in;
      for (int i = 1; i < threads; ++i) storage_.values[i] = sum = op(sum, storage_.values[i]);
    }
    __syncthreads();
    out = storage_.values[rank];
    total = storage_.values[threads - 1];
    __syncthreads();
  }
  template <class Op> __device__ void InclusiveScan(T in, T& out, Op op) { T total; InclusiveScan(in, out, op, total); }
  template <class Op> __device__ void ExclusiveScan(T in, T& out, T initial, Op op, T& total) {
    int rank = __loom_rank();
    T all;
    InclusiveScan(in, all, op, total);
    storage_.values[rank] = all;
    __syncthreads();
    out = rank == 0 ? initial : op(initial, storage_.values[rank - 1]);
    __syncthreads();
  }
  template <class Op> __device__ void ExclusiveScan(T in, T& out, T initial, Op op) { T total; ExclusiveScan(in, out, initial, op, total); }
  __device__ void InclusiveSum(T in, T& out) { InclusiveScan(in, out, cub::Sum()); }
  __device__ void InclusiveSum(T in, T& out, T& total) { InclusiveScan(in, out, cub::Sum(), total); }
  __device__ void ExclusiveSum(T in, T& out) { ExclusiveScan(in, out, T(0), cub::Sum()); }
  __device__ void ExclusiveSum(T in, T& out, T& total) { ExclusiveScan(in, out, T(0), cub::Sum(), total); }

  /* Several items per thread, blocked: thread t has items t*items ... */
  template <int items, class Op> __device__ void InclusiveScan(T (&in)[items], T (&out)[items], Op op, T& total) {
    T own = in[0], before;
    for (int i = 1; i < items; ++i) own = op(own, in[i]);
    bool first = exclusive(own, before, op, total);
    T running = first ? in[0] : op(before, in[0]);
    out[0] = running;
    for (int i = 1; i < items; ++i) out[i] = running = op(running, in[i]);
  }
  template <int items, class Op> __device__ void InclusiveScan(T (&in)[items], T (&out)[items], Op op) { T total; InclusiveScan(in, out, op, total); }
  template <int items, class Op> __device__ void ExclusiveScan(T (&in)[items], T (&out)[items], T initial, Op op, T& total) {
    T own = in[0], before;
    for (int i = 1; i < items; ++i) own = op(own, in[i]);
    bool first = exclusive(own, before, op, total);
    T running = first ? initial : op(initial, before);
    for (int i = 0; i < items; ++i) {
      T next = op(running, in[i]);
      out[i] = running;
      running = next;
    }
  }
  template <int items, class Op> __device__ void ExclusiveScan(T (&in)[items], T (&out)[items], T initial, Op op) { T total; ExclusiveScan(in, out, initial, op, total); }
  template <int items> __device__ void InclusiveSum(T (&in)[items], T (&out)[items]) { InclusiveScan(in, out, cub::Sum()); }
  template <int items> __device__ void InclusiveSum(T (&in)[items], T (&out)[items], T& total) { InclusiveScan(in, out, cub::Sum(), total); }
  template <int items> __device__ void ExclusiveSum(T (&in)[items], T (&out)[items]) { ExclusiveScan(in, out, T(0), cub::Sum()); }
  template <int items> __device__ void ExclusiveSum(T (&in)[items], T (&out)[items], T& total) { ExclusiveScan(in, out, T(0), cub::Sum(), total); }

  /* A running prefix over several calls: thread 0 asks the callback. */
  template <class Callback> __device__ void InclusiveSum(T in, T& out, Callback& callback) {
    T total;
    InclusiveScan(in, out, cub::Sum(), total);
    out = shared_prefix(total, callback) + out;
  }
  template <class Callback> __device__ void ExclusiveSum(T in, T& out, Callback& callback) {
    T total;
    ExclusiveScan(in, out, T(0), cub::Sum(), total);
    out = shared_prefix(total, callback) + out;
  }
  template <int items, class Callback> __device__ void ExclusiveSum(T (&in)[items], T (&out)[items], Callback& callback) {
    T total;
    ExclusiveScan(in, out, T(0), cub::Sum(), total);
    T prefix = shared_prefix(total, callback);
    for (int i = 0; i < items; ++i) out[i] = prefix + out[i];
  }

 private:
  TempStorage& storage_;
  /* The scan of what lies before this thread; true for thread 0, which has nothing before it. */
  template <class Op> __device__ bool exclusive(T own, T& before, Op op, T& total) {
    int rank = __loom_rank();
    T all;
    InclusiveScan(own, all, op, total);
    storage_.values[rank] = all;
    __syncthreads();
    if (rank > 0) before = storage_.values[rank - 1];
    __syncthreads();
    return rank == 0;
  }
  template <class Callback> __device__ T shared_prefix(T total, Callback& callback) {
    if (__loom_rank() == 0) storage_.prefix = callback(total);
    __syncthreads();
    T prefix = storage_.prefix;
    __syncthreads();
    return prefix;
  }
};

/* ---- loads and stores: all but the striped forms give thread t the items t*items ... */
template <class T, int items, class In> LOOM_DEVICE void LoadDirectBlocked(int rank, In in, T (&values)[items]) {
  for (int i = 0; i < items; ++i) values[i] = in[rank * items + i];
}
template <class T, int items, class In> LOOM_DEVICE void LoadDirectBlocked(int rank, In in, T (&values)[items], int valid) {
  for (int i = 0; i < items; ++i) if (rank * items + i < valid) values[i] = in[rank * items + i];
}
template <int threads, class T, int items, class In> LOOM_DEVICE void LoadDirectStriped(int rank, In in, T (&values)[items]) {
  for (int i = 0; i < items; ++i) values[i] = in[i * threads + rank];
}
template <int threads, class T, int items, class In> LOOM_DEVICE void LoadDirectStriped(int rank, In in, T (&values)[items], int valid) {
  for (int i = 0; i < items; ++i) if (i * threads + rank < valid) values[i] = in[i * threads + rank];
}
template <class T, int items, class Out> LOOM_DEVICE void StoreDirectBlocked(int rank, Out out, T (&values)[items]) {
  for (int i = 0; i < items; ++i) out[rank * items + i] = values[i];
}
template <int threads, class T, int items, class Out> LOOM_DEVICE void StoreDirectStriped(int rank, Out out, T (&values)[items]) {
  for (int i = 0; i < items; ++i) out[i * threads + rank] = values[i];
}
template <class T, int X, int Items, BlockLoadAlgorithm algorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int Arch = 0> class BlockLoad {
 public:
  struct TempStorage {};
  __device__ BlockLoad() {}
  __device__ BlockLoad(TempStorage&) {}
  template <class In> __device__ void Load(In in, T (&values)[Items]) { Load(in, values, X * Y * Z * Items); }
  template <class In> __device__ void Load(In in, T (&values)[Items], int valid) {
    int rank = __loom_rank();
    if constexpr (algorithm == BLOCK_LOAD_STRIPED) LoadDirectStriped<X * Y * Z>(rank, in, values, valid);
    else LoadDirectBlocked(rank, in, values, valid);
  }
  template <class In, class Default> __device__ void Load(In in, T (&values)[Items], int valid, Default other) {
    for (int i = 0; i < Items; ++i) values[i] = (T)other;
    Load(in, values, valid);
  }
};
template <class T, int X, int Items, BlockStoreAlgorithm algorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int Arch = 0> class BlockStore {
 public:
  struct TempStorage {};
  __device__ BlockStore() {}
  __device__ BlockStore(TempStorage&) {}
  template <class Out> __device__ void Store(Out out, T (&values)[Items]) { Store(out, values, X * Y * Z * Items); }
  template <class Out> __device__ void Store(Out out, T (&values)[Items], int valid) {
    int rank = __loom_rank();
    for (int i = 0; i < Items; ++i) {
      int place = algorithm == BLOCK_STORE_STRIPED ? i * X * Y * Z + rank : rank * Items + i;
      if (place < valid) out[place] = values[i];
    }
  }
};

/* ---- sorting within a block: the first thread merges positions, which is stable */
template <class Key, int X, int Items, class Value = NullType, int = 4, bool = true, int = 0, int = 0, int Y = 1, int Z = 1, int Arch = 0>
class BlockRadixSort {
  static constexpr int threads = X * Y * Z, count = threads * Items;

 public:
  struct TempStorage { __loom_slots<Key, count> keys; __loom_slots<Value, count> values; int order[count], spare[count]; };
  __device__ BlockRadixSort(TempStorage& storage) : storage_(storage) {}
  __device__ void Sort(Key (&keys)[Items], int low = 0, int high = sizeof(Key) * 8) { Value none[Items]; sort<false, false>(keys, none, low, high); }
  __device__ void SortDescending(Key (&keys)[Items], int low = 0, int high = sizeof(Key) * 8) { Value none[Items]; sort<true, false>(keys, none, low, high); }
  __device__ void Sort(Key (&keys)[Items], Value (&values)[Items], int low = 0, int high = sizeof(Key) * 8) { sort<false, false>(keys, values, low, high); }
  __device__ void SortDescending(Key (&keys)[Items], Value (&values)[Items], int low = 0, int high = sizeof(Key) * 8) { sort<true, false>(keys, values, low, high); }
  __device__ void SortBlockedToStriped(Key (&keys)[Items], int low = 0, int high = sizeof(Key) * 8) { Value none[Items]; sort<false, true>(keys, none, low, high); }
  __device__ void SortBlockedToStriped(Key (&keys)[Items], Value (&values)[Items], int low = 0, int high = sizeof(Key) * 8) { sort<false, true>(keys, values, low, high); }

 private:
  TempStorage& storage_;
  template <bool descending, bool striped> __device__ void sort(Key (&keys)[Items], Value (&values)[Items], int low, int high) {
    int rank = __loom_rank();
    for (int i = 0; i < Items; ++i) storage_.keys[rank * Items + i] = keys[i], storage_.values[rank * Items + i] = values[i];
    __syncthreads();
    if (rank == 0) {
      TempStorage& all = storage_;
      if (low == 0 && high == (int)sizeof(Key) * 8)
        __loom_merge_sort(all.order, all.spare, count, [&](int a, int b) { return descending ? all.keys[b] < all.keys[a] : all.keys[a] < all.keys[b]; });
      else
        __loom_merge_sort(all.order, all.spare, count, [&](int a, int b) {
          unsigned long long first = __loom_radix_bits(all.keys[a], low, high), second = __loom_radix_bits(all.keys[b], low, high);
          return descending ? second < first : first < second;
        });
    }
    __syncthreads();
    for (int i = 0; i < Items; ++i) {
      int place = storage_.order[striped ? i * threads + rank : rank * Items + i];
      keys[i] = storage_.keys[place];
      values[i] = storage_.values[place];
    }
    __syncthreads();
  }
};

/* ---- neighbours: what lies before the first and behind the last item of the block stays, or is given */
template <class T, int X, int Y = 1, int Z = 1, int Arch = 0> class BlockAdjacentDifference {
  static constexpr int threads = X * Y * Z;

 public:
  struct TempStorage { __loom_slots<T, threads> values; };
  __device__ BlockAdjacentDifference(TempStorage& storage) : storage_(storage) {}
  template <int items, class Out, class Op> __device__ void SubtractLeft(T (&in)[items], Out (&out)[items], Op op) {
    left<items, Out>(in, out, op, nullptr, threads * items);
  }
  template <int items, class Out, class Op> __device__ void SubtractLeft(T (&in)[items], Out (&out)[items], Op op, T before) {
    left<items, Out>(in, out, op, &before, threads * items);
  }
  template <int items, class Out, class Op> __device__ void SubtractLeftPartialTile(T (&in)[items], Out (&out)[items], Op op, int valid) {
    left<items, Out>(in, out, op, nullptr, valid);
  }
  template <int items, class Out, class Op> __device__ void SubtractRight(T (&in)[items], Out (&out)[items], Op op) {
    right<items, Out>(in, out, op, nullptr, threads * items);
  }
  template <int items, class Out, class Op> __device__ void SubtractRight(T (&in)[items], Out (&out)[items], Op op, T behind) {
    right<items, Out>(in, out, op, &behind, threads * items);
  }
  template <int items, class Out, class Op> __device__ void SubtractRightPartialTile(T (&in)[items], Out (&out)[items], Op op, int valid) {
    right<items, Out>(in, out, op, nullptr, valid);
  }

 private:
  TempStorage& storage_;
  template <int items, class Out, class Op> __device__ void left(T (&in)[items], Out (&out)[items], Op op, T* before, int valid) {
    int rank = __loom_rank();
    storage_.values[rank] = in[items - 1];
    __syncthreads();
    T first = in[0], other = rank > 0 ? storage_.values[rank - 1] : before ? *before : first;
    for (int i = items - 1; i > 0; --i) out[i] = rank * items + i < valid ? (Out)op(in[i], in[i - 1]) : (Out)in[i];
    out[0] = rank * items < valid && (rank > 0 || before) ? (Out)op(first, other) : (Out)first;
    __syncthreads();
  }
  template <int items, class Out, class Op> __device__ void right(T (&in)[items], Out (&out)[items], Op op, T* behind, int valid) {
    int rank = __loom_rank();
    storage_.values[rank] = in[0];
    __syncthreads();
    T last = in[items - 1], other = rank + 1 < threads ? storage_.values[rank + 1] : behind ? *behind : last;
    for (int i = 0; i < items - 1; ++i) out[i] = rank * items + i + 1 < valid ? (Out)op(in[i], in[i + 1]) : (Out)in[i];
    bool known = behind ? true : (rank + 1) * items < valid;
    out[items - 1] = known && (rank + 1 < threads || behind) ? (Out)op(last, other) : (Out)last;
    __syncthreads();
  }
};

template <class T, int X, int Items, bool = false, int Y = 1, int Z = 1, int Arch = 0> class BlockExchange {
  static constexpr int threads = X * Y * Z;

 public:
  struct TempStorage { __loom_slots<T, threads * Items> values; };
  __device__ BlockExchange(TempStorage& storage) : storage_(storage) {}
  __device__ void BlockedToStriped(T (&in)[Items], T (&out)[Items]) {
    int rank = __loom_rank();
    for (int i = 0; i < Items; ++i) storage_.values[rank * Items + i] = in[i];
    __syncthreads();
    for (int i = 0; i < Items; ++i) out[i] = storage_.values[i * threads + rank];
    __syncthreads();
  }
  __device__ void StripedToBlocked(T (&in)[Items], T (&out)[Items]) {
    int rank = __loom_rank();
    for (int i = 0; i < Items; ++i) storage_.values[i * threads + rank] = in[i];
    __syncthreads();
    for (int i = 0; i < Items; ++i) out[i] = storage_.values[rank * Items + i];
    __syncthreads();
  }
  __device__ void BlockedToStriped(T (&values)[Items]) { BlockedToStriped(values, values); }
  __device__ void StripedToBlocked(T (&values)[Items]) { StripedToBlocked(values, values); }

 private:
  TempStorage& storage_;
};
}  // namespace cub
#include "block_heads.cuh"
