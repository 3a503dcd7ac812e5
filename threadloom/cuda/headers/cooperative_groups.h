/* Cooperative groups: handles over the block, its tiles and the grid. */
#pragma once
#include <loom/prelude.h>
#if defined(__CUDA__)
namespace cooperative_groups {

LOOM_DEVICE unsigned __loom_block_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
LOOM_DEVICE unsigned __loom_lane() { return __loom_block_rank() & 31u; }

class thread_block {
 public:
  __device__ void sync() const { __syncthreads(); }
  __device__ unsigned thread_rank() const { return __loom_block_rank(); }
  __device__ unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ unsigned num_threads() const { return size(); }
  __device__ dim3 group_index() const { return dim3(blockIdx); }
  __device__ dim3 thread_index() const { return dim3(threadIdx); }
  __device__ dim3 group_dim() const { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  __device__ dim3 dim_threads() const { return group_dim(); }
};
LOOM_DEVICE thread_block this_thread_block() { return thread_block(); }
/* Scratch memory for tiles of several warps: nothing is needed here. */
template <unsigned threads = 1024> struct block_tile_memory {};
template <unsigned threads> LOOM_DEVICE thread_block this_thread_block(block_tile_memory<threads>&) { return thread_block(); }
LOOM_DEVICE unsigned __loom_warps() { return (blockDim.x * blockDim.y * blockDim.z + 31) / 32; }

class grid_group {
 public:
  __device__ bool is_valid() const { return true; }
  __device__ void sync() const { __loom_grid_sync(); }
  __device__ unsigned long long size() const {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z * blockDim.x * blockDim.y * blockDim.z;
  }
  __device__ unsigned long long num_threads() const { return size(); }
  __device__ unsigned long long block_rank() const { return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
  __device__ unsigned long long num_blocks() const { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  __device__ unsigned long long thread_rank() const { return block_rank() * (blockDim.x * blockDim.y * blockDim.z) + __loom_block_rank(); }
  __device__ dim3 group_dim() const { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  __device__ dim3 dim_blocks() const { return group_dim(); }
  __device__ dim3 block_index() const { return dim3(blockIdx); }
};
LOOM_DEVICE grid_group this_grid() { return grid_group(); }

/* Any set of lanes of one warp: member i is the i-th set bit of the mask. */
class coalesced_group {
 public:
  __device__ explicit coalesced_group(unsigned mask) : mask_(mask) {}
  __device__ void sync() const { __syncwarp(mask_); }
  __device__ unsigned size() const { return (unsigned)__popc(mask_); }
  __device__ unsigned num_threads() const { return size(); }
  __device__ unsigned thread_rank() const { return (unsigned)__popc(mask_ & ((1u << __loom_lane()) - 1u)); }
  template <class T> __device__ T shfl(T v, unsigned rank) const { return __shfl_sync(mask_, v, lane_of(rank % size())); }
  template <class T> __device__ T shfl_up(T v, unsigned delta) const {
    unsigned rank = thread_rank();
    return __shfl_sync(mask_, v, rank >= delta ? lane_of(rank - delta) : (int)__loom_lane());
  }
  template <class T> __device__ T shfl_down(T v, unsigned delta) const {
    unsigned rank = thread_rank();
    return __shfl_sync(mask_, v, rank + delta < size() ? lane_of(rank + delta) : (int)__loom_lane());
  }
  __device__ int any(int predicate) const { return __any_sync(mask_, predicate); }
  __device__ int all(int predicate) const { return __all_sync(mask_, predicate); }
  __device__ unsigned ballot(int predicate) const { return packed(__ballot_sync(mask_, predicate)); }
  template <class T> __device__ unsigned match_any(T v) const { return packed(__match_any_sync(mask_, v)); }
  template <class T> __device__ unsigned match_all(T v, int& all) const { return packed(__match_all_sync(mask_, v, &all)); }
  __device__ unsigned __loom_mask() const { return mask_; }

 private:
  unsigned mask_;
  __device__ int lane_of(unsigned rank) const { return (int)__fns(mask_, 0, (int)rank + 1); }
  __device__ unsigned packed(unsigned lanes) const {
    unsigned result = 0, rank = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
      if (mask_ >> lane & 1u) result |= (lanes >> lane & 1u) << rank++;
    return result;
  }
};
LOOM_DEVICE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

template <unsigned Size, class Parent = void, bool of_warps = (Size > 32)> class thread_block_tile;

/* What a tile is a part of, in which its meta_group_rank() counts: a larger tile or the block. A parameter of type
   `thread_block_tile<Size>` does not say which, and stands for a tile of the block. */
template <class Parent> struct __loom_parent {
  static __device__ unsigned thread_rank() { return __loom_block_rank(); }
  static __device__ unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
};
template <unsigned Size, class Parent> struct __loom_parent<thread_block_tile<Size, Parent>> {
  static __device__ unsigned thread_rank() { return __loom_block_rank() & (Size - 1); }
  static __device__ unsigned size() { return Size; }
};

/* A tile of `Size` neighbouring threads of one warp. */
template <unsigned Size, class Parent, bool of_warps> class thread_block_tile {
  static_assert((Size & (Size - 1)) == 0, "the threads of a tile are a power of two");

 public:
  static constexpr unsigned __loom_size = Size;
  thread_block_tile() = default;
  template <class Other> __device__ thread_block_tile(const thread_block_tile<Size, Other, false>&) {}
  __device__ void sync() const { __syncwarp(__loom_mask()); }
  __device__ unsigned size() const { return Size; }
  __device__ unsigned num_threads() const { return Size; }
  __device__ unsigned thread_rank() const { return __loom_block_rank() & (Size - 1); }
  __device__ unsigned meta_group_rank() const { return __loom_parent<Parent>::thread_rank() / Size; }
  __device__ unsigned meta_group_size() const { return (__loom_parent<Parent>::size() + Size - 1) / Size; }
  template <class T> __device__ T shfl(T v, int rank) const { return __shfl_sync(__loom_mask(), v, rank, Size); }
  template <class T> __device__ T shfl_up(T v, unsigned delta) const { return __shfl_up_sync(__loom_mask(), v, delta, Size); }
  template <class T> __device__ T shfl_down(T v, unsigned delta) const { return __shfl_down_sync(__loom_mask(), v, delta, Size); }
  template <class T> __device__ T shfl_xor(T v, int lanes) const { return __shfl_xor_sync(__loom_mask(), v, lanes, Size); }
  __device__ int any(int predicate) const { return __any_sync(__loom_mask(), predicate); }
  __device__ int all(int predicate) const { return __all_sync(__loom_mask(), predicate); }
  __device__ unsigned ballot(int predicate) const { return shifted(__ballot_sync(__loom_mask(), predicate)); }
  template <class T> __device__ unsigned match_any(T v) const { return shifted(__match_any_sync(__loom_mask(), v)); }
  template <class T> __device__ unsigned match_all(T v, int& all) const { return shifted(__match_all_sync(__loom_mask(), v, &all)); }
  __device__ unsigned __loom_mask() const {
    if constexpr (Size == 32) return 0xffffffffu;
    else return ((1u << Size) - 1u) << first_lane();
  }
  __device__ operator coalesced_group() const { return coalesced_group(__loom_mask()); }

 private:
  __device__ unsigned first_lane() const { return __loom_lane() & ~(Size - 1); }
  __device__ unsigned shifted(unsigned lanes) const {
    if constexpr (Size == 32) return lanes;
    else return lanes >> first_lane() & ((1u << Size) - 1u);
  }
};

/* A tile of several warps. Its barrier is the block's, so all tiles of a block must come by (a barrier that only a part of them
   reaches stops the program with file and line); values are exchanged through shared memory. */
template <unsigned Size, class Parent> class thread_block_tile<Size, Parent, true> {
  static_assert((Size & (Size - 1)) == 0 && Size <= 1024, "the threads of a tile are a power of two");

 public:
  static constexpr unsigned __loom_size = Size;
  __device__ void sync() const { __syncthreads(); }
  __device__ unsigned size() const { return Size; }
  __device__ unsigned num_threads() const { return Size; }
  __device__ unsigned thread_rank() const { return __loom_block_rank() & (Size - 1); }
  __device__ unsigned meta_group_rank() const { return __loom_parent<Parent>::thread_rank() / Size; }
  __device__ unsigned meta_group_size() const { return (__loom_parent<Parent>::size() + Size - 1) / Size; }
  template <class T> __device__ T shfl(T v, unsigned rank) const {
    T* mine = __loom_slots<T>();
    mine[thread_rank()] = v;
    sync();
    T got = mine[rank & (Size - 1)];
    sync();
    return got;
  }
  template <class T> __device__ T shfl_up(T v, unsigned delta) const { return shfl(v, thread_rank() < delta ? thread_rank() : thread_rank() - delta); }  /* for scans */
  __device__ int any(int predicate) const { return __loom_reduce((int)(predicate != 0), [](int a, int b) { return a | b; }); }
  __device__ int all(int predicate) const { return __loom_reduce((int)(predicate != 0), [](int a, int b) { return a & b; }); }
  template <class T, class Op> __device__ T __loom_reduce(T v, Op op) const {
    T* mine = __loom_slots<T>();
    unsigned rank = thread_rank();
    mine[rank] = v;
    for (unsigned step = Size / 2; step > 0; step /= 2) {
      sync();
      if (rank < step) mine[rank] = op(mine[rank], mine[rank + step]);
    }
    sync();
    T total = mine[0];
    sync();
    return total;
  }

 private:
  template <class T> __device__ T* __loom_slots() const {
    __shared__ __attribute__((aligned(16))) char slots[1024 * sizeof(T)];
    return (T*)slots + (__loom_block_rank() & ~(Size - 1));
  }
};
template <unsigned Size, class Parent> LOOM_DEVICE thread_block_tile<Size, Parent> tiled_partition(const Parent&) { return {}; }
namespace experimental {
using cooperative_groups::block_tile_memory;
using cooperative_groups::this_thread_block;
using cooperative_groups::tiled_partition;
}  // namespace experimental
LOOM_DEVICE coalesced_group tiled_partition(const thread_block&, unsigned size) {
  unsigned lane = __loom_lane(), lanes = size >= 32 ? 0xffffffffu : ((1u << size) - 1u) << (lane & ~(size - 1));
  return coalesced_group(lanes);
}
LOOM_DEVICE coalesced_group tiled_partition(const coalesced_group& parent, unsigned size) {
  unsigned first = parent.thread_rank() / size * size, mask = 0;
  for (unsigned rank = first; rank < first + size && rank < parent.size(); ++rank) mask |= 1u << __fns(parent.__loom_mask(), 0, (int)rank + 1);
  return coalesced_group(mask);
}
template <class Group> LOOM_DEVICE coalesced_group binary_partition(const Group& group, bool predicate) {
  unsigned mask = group.__loom_mask(), yes = __ballot_sync(mask, predicate);
  return coalesced_group(predicate ? yes & mask : ~yes & mask);
}
template <class Group, class Label> LOOM_DEVICE coalesced_group labeled_partition(const Group& group, Label label) {
  return coalesced_group(__match_any_sync(group.__loom_mask(), label));
}

/* The base class of old code, for functions that take any group. Whether it is the block is a field of its own, and no
   mask of 0: it is a constant once all is inlined, and no barrier of the block is left where a tile's is meant. */
class thread_group {
 public:
  __device__ thread_group(const thread_block&) : mask_(0), block_(1) {}
  __device__ thread_group(const coalesced_group& group) : mask_(group.__loom_mask()), block_(0) {}
  template <unsigned Size, class Parent> __device__ thread_group(const thread_block_tile<Size, Parent>& tile) : mask_(tile.__loom_mask()), block_(0) {}
  __device__ void sync() const { if (block_) __syncthreads(); else __syncwarp((unsigned)mask_); }
  __device__ unsigned size() const { return block_ ? thread_block().size() : (unsigned)__popc((unsigned)mask_); }
  __device__ unsigned num_threads() const { return size(); }
  __device__ unsigned thread_rank() const { return block_ ? __loom_block_rank() : coalesced_group((unsigned)mask_).thread_rank(); }
  __device__ thread_group __loom_tile(unsigned size) const {
    if (block_) return thread_group(tiled_partition(thread_block(), size));
    return thread_group(tiled_partition(coalesced_group((unsigned)mask_), size));
  }

 private:
  unsigned long long mask_, block_;  /* a word each: passed by value they stay apart */
};
LOOM_DEVICE thread_group tiled_partition(const thread_group& parent, unsigned size) { return parent.__loom_tile(size); }

template <class Group> LOOM_DEVICE void sync(const Group& group) { group.sync(); }
template <class Group> LOOM_DEVICE unsigned thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group> LOOM_DEVICE unsigned group_size(const Group& group) { return group.size(); }

/* ---- collectives over tiles and coalesced groups */
template <class T = void> struct plus { template <class A> __device__ A operator()(A a, A b) const { return a + b; } };
template <class T = void> struct less { template <class A> __device__ A operator()(A a, A b) const { return b < a ? b : a; } };
template <class T = void> struct greater { template <class A> __device__ A operator()(A a, A b) const { return a < b ? b : a; } };
template <class T = void> struct bit_and { template <class A> __device__ A operator()(A a, A b) const { return a & b; } };
template <class T = void> struct bit_or { template <class A> __device__ A operator()(A a, A b) const { return a | b; } };
template <class T = void> struct bit_xor { template <class A> __device__ A operator()(A a, A b) const { return a ^ b; } };

template <unsigned Size, class Parent, class T, class Op>
LOOM_DEVICE T reduce(const thread_block_tile<Size, Parent, true>& tile, T value, Op op) { return tile.__loom_reduce(value, op); }
template <unsigned Size, class Parent, class T, class Op>
LOOM_DEVICE T reduce(const thread_block_tile<Size, Parent, false>& tile, T value, Op op) {
  for (unsigned step = Size / 2; step > 0; step /= 2) value = op(value, tile.shfl_xor(value, (int)step));
  return value;
}
template <class T, class Op> LOOM_DEVICE T reduce(const coalesced_group& group, T value, Op op) {
  T total = group.shfl(value, 0);
  for (unsigned rank = 1; rank < group.size(); ++rank) total = op(total, group.shfl(value, rank));
  return total;
}
template <class Group, class T, class Op> LOOM_DEVICE T inclusive_scan(const Group& group, T value, Op op) {
  for (unsigned step = 1; step < group.size(); step *= 2) {
    T other = group.shfl_up(value, step);
    if (group.thread_rank() >= step) value = op(other, value);
  }
  return value;
}
template <class Group, class T> LOOM_DEVICE T inclusive_scan(const Group& group, T value) { return inclusive_scan(group, value, plus<T>()); }
template <class Group, class T, class Op> LOOM_DEVICE T exclusive_scan(const Group& group, T value, Op op) {
  T before = group.shfl_up(inclusive_scan(group, value, op), 1);
  return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T> LOOM_DEVICE T exclusive_scan(const Group& group, T value) { return exclusive_scan(group, value, plus<T>()); }
template <class Group, class F> LOOM_DEVICE void invoke_one(const Group& group, F&& f) { if (group.thread_rank() == 0) f(); }

/* ---- asynchronous copies: done at once; `wait` is the barrier that makes them visible */
template <class Group, class T> LOOM_DEVICE void memcpy_async(const Group& group, T* to, const T* from, size_t bytes) {
  for (size_t i = group.thread_rank() * sizeof(int); i < bytes; i += group.size() * sizeof(int))
    for (size_t b = i; b < bytes && b < i + sizeof(int); ++b) ((char*)to)[b] = ((const char*)from)[b];
}
template <class Group> LOOM_DEVICE void wait(const Group& group) { group.sync(); }
template <unsigned stages, class Group> LOOM_DEVICE void wait_prior(const Group& group) { group.sync(); }

}  // namespace cooperative_groups
#endif
