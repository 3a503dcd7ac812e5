/* Where items of a block differ from their neighbours, and how many of each value there are. */
#pragma once
#include "block.cuh"
namespace cub {
enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

template <class T, int X, int Y = 1, int Z = 1, int Arch = 0> class BlockDiscontinuity {
  static constexpr int threads = X * Y * Z;

 public:
  struct TempStorage { __loom_slots<T, threads> values; };
  __device__ BlockDiscontinuity(TempStorage& storage) : storage_(storage) {}
  /* The block's first item is a head and its last a tail, unless the item before or behind the block is given. */
  template <int items, class Flag, class Op> __device__ void FlagHeads(Flag (&heads)[items], T (&in)[items], Op differ) { flag_heads(heads, in, differ, (const T*)nullptr); }
  template <int items, class Flag, class Op> __device__ void FlagHeads(Flag (&heads)[items], T (&in)[items], Op differ, T before) { flag_heads(heads, in, differ, &before); }
  template <int items, class Flag, class Op> __device__ void FlagTails(Flag (&tails)[items], T (&in)[items], Op differ) { flag_tails(tails, in, differ, (const T*)nullptr); }
  template <int items, class Flag, class Op> __device__ void FlagTails(Flag (&tails)[items], T (&in)[items], Op differ, T behind) { flag_tails(tails, in, differ, &behind); }
  template <int items, class Flag, class Op> __device__ void FlagHeadsAndTails(Flag (&heads)[items], Flag (&tails)[items], T (&in)[items], Op differ) {
    FlagHeads(heads, in, differ);
    FlagTails(tails, in, differ);
  }

 private:
  TempStorage& storage_;
  template <int items, class Flag, class Op> __device__ void flag_heads(Flag (&heads)[items], T (&in)[items], Op differ, const T* before) {
    int rank = __loom_rank();
    storage_.values[rank] = in[items - 1];
    __syncthreads();
    for (int i = items - 1; i > 0; --i) heads[i] = (Flag)differ(in[i - 1], in[i]);
    heads[0] = (Flag)(rank > 0 ? (bool)differ(storage_.values[rank - 1], in[0]) : before ? (bool)differ(*before, in[0]) : true);
    __syncthreads();
  }
  template <int items, class Flag, class Op> __device__ void flag_tails(Flag (&tails)[items], T (&in)[items], Op differ, const T* behind) {
    int rank = __loom_rank();
    storage_.values[rank] = in[0];
    __syncthreads();
    for (int i = 0; i < items - 1; ++i) tails[i] = (Flag)differ(in[i], in[i + 1]);
    tails[items - 1] = (Flag)(rank + 1 < threads ? (bool)differ(in[items - 1], storage_.values[rank + 1]) : behind ? (bool)differ(in[items - 1], *behind) : true);
    __syncthreads();
  }
};

template <class T, int X, int Items, int Bins, BlockHistogramAlgorithm = BLOCK_HISTO_SORT, int Y = 1, int Z = 1, int Arch = 0> class BlockHistogram {
  static constexpr int threads = X * Y * Z;

 public:
  struct TempStorage { char unused; };
  __device__ BlockHistogram(TempStorage&) {}
  template <class Counter> __device__ void InitHistogram(Counter (&histogram)[Bins]) {
    for (int bin = __loom_rank(); bin < Bins; bin += threads) histogram[bin] = 0;
  }
  template <class Counter> __device__ void Composite(T (&items)[Items], Counter (&histogram)[Bins]) {
    for (int i = 0; i < Items; ++i) atomicAdd(&histogram[items[i]], (Counter)1);
  }
  template <class Counter> __device__ void Histogram(T (&items)[Items], Counter (&histogram)[Bins]) {
    InitHistogram(histogram);
    __syncthreads();
    Composite(items, histogram);
  }
};
}  // namespace cub
