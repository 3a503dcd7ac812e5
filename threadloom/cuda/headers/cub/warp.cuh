/* Warp-wide reductions and scans over logical warps of any size up to 32. */
#pragma once
#include <cooperative_groups.h>
#include "functors.cuh"
namespace cub {
enum { CUB_PTX_WARP_THREADS = 32 };
LOOM_DEVICE unsigned LaneId() { return cooperative_groups::__loom_lane(); }
LOOM_DEVICE unsigned WarpId() { return cooperative_groups::__loom_block_rank() / 32; }
LOOM_DEVICE unsigned RowMajorTid(int, int, int) { return cooperative_groups::__loom_block_rank(); }
LOOM_DEVICE unsigned __loom_logical_mask(int width) {
  return width == 32 ? 0xffffffffu : ((1u << width) - 1u) << (LaneId() / (unsigned)width * (unsigned)width);
}
template <int width, class T> LOOM_DEVICE T ShuffleDown(T value, int delta, int, unsigned mask) { return __shfl_down_sync(mask, value, delta, width); }
template <int width, class T> LOOM_DEVICE T ShuffleUp(T value, int delta, int, unsigned mask) { return __shfl_up_sync(mask, value, delta, width); }
template <int width, class T> LOOM_DEVICE T ShuffleIndex(T value, int lane, unsigned mask) { return __shfl_sync(mask, value, lane, width); }

template <class T, int Width = 32, int Arch = 0> class WarpReduce {
 public:
  struct TempStorage {};
  __device__ WarpReduce(TempStorage&) {}
  template <class Op> __device__ T Reduce(T value, Op op, int valid = Width) {
    int lane = (int)LaneId() % Width;
    for (int step = 1; step < Width; step *= 2) {
      T other = __shfl_down_sync(__loom_logical_mask(Width), value, step, Width);
      if (lane + step < valid && lane % (2 * step) == 0) value = op(value, other);
    }
    return value;
  }
  __device__ T Sum(T value) { return Reduce(value, cub::Sum()); }
  __device__ T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
  __device__ T Max(T value) { return Reduce(value, cub::Max()); }
  __device__ T Min(T value) { return Reduce(value, cub::Min()); }
};

template <class T, int Width = 32, int Arch = 0> class WarpScan {
 public:
  struct TempStorage {};
  __device__ WarpScan(TempStorage&) {}
  template <class Op> __device__ void InclusiveScan(T in, T& out, Op op) {
    int lane = (int)LaneId() % Width;
    for (int step = 1; step < Width; step *= 2) {
      T other = __shfl_up_sync(__loom_logical_mask(Width), in, step, Width);
      if (lane >= step) in = op(other, in);
    }
    out = in;
  }
  template <class Op> __device__ void InclusiveScan(T in, T& out, Op op, T& total) {
    InclusiveScan(in, out, op);
    total = __shfl_sync(__loom_logical_mask(Width), out, Width - 1, Width);
  }
  template <class Op> __device__ void ExclusiveScan(T in, T& out, T initial, Op op) {
    T all;
    InclusiveScan(in, all, op);
    T before = __shfl_up_sync(__loom_logical_mask(Width), all, 1, Width);
    out = LaneId() % Width == 0 ? initial : op(initial, before);
  }
  template <class Op> __device__ void ExclusiveScan(T in, T& out, T initial, Op op, T& total) {
    T all;
    InclusiveScan(in, all, op, total);
    T before = __shfl_up_sync(__loom_logical_mask(Width), all, 1, Width);
    out = LaneId() % Width == 0 ? initial : op(initial, before);
  }
  __device__ void InclusiveSum(T in, T& out) { InclusiveScan(in, out, cub::Sum()); }
  __device__ void InclusiveSum(T in, T& out, T& total) { InclusiveScan(in, out, cub::Sum(), total); }
  __device__ void ExclusiveSum(T in, T& out) { ExclusiveScan(in, out, T(0), cub::Sum()); }
  __device__ void ExclusiveSum(T in, T& out, T& total) { ExclusiveScan(in, out, T(0), cub::Sum(), total); }
  __device__ T Broadcast(T value, unsigned lane) { return __shfl_sync(__loom_logical_mask(Width), value, (int)lane, Width); }
};
}  // namespace cub
