/* Builtin variables, barriers, fences, warp operations: everything that names other threads.
   The `loom.*` functions have no body; the compiler gives them their meaning (threadloom/cuda/kernel.py). */
#pragma once

#define LOOM_INDEX __host__ __device__ __attribute__((const, nothrow)) unsigned
#define LOOM_TOGETHER __host__ __device__ __attribute__((convergent, nothrow))
extern "C" {
LOOM_INDEX __loom_thread_x() __asm__("loom.threadIdx.x");
LOOM_INDEX __loom_thread_y() __asm__("loom.threadIdx.y");
LOOM_INDEX __loom_thread_z() __asm__("loom.threadIdx.z");
LOOM_INDEX __loom_block_x() __asm__("loom.blockIdx.x");
LOOM_INDEX __loom_block_y() __asm__("loom.blockIdx.y");
LOOM_INDEX __loom_block_z() __asm__("loom.blockIdx.z");
LOOM_INDEX __loom_block_dim_x() __asm__("loom.blockDim.x");
LOOM_INDEX __loom_block_dim_y() __asm__("loom.blockDim.y");
LOOM_INDEX __loom_block_dim_z() __asm__("loom.blockDim.z");
LOOM_INDEX __loom_grid_dim_x() __asm__("loom.gridDim.x");
LOOM_INDEX __loom_grid_dim_y() __asm__("loom.gridDim.y");
LOOM_INDEX __loom_grid_dim_z() __asm__("loom.gridDim.z");
LOOM_INDEX __loom_shared_bytes() __asm__("loom.shared.bytes");
LOOM_TOGETHER void __loom_syncthreads() __asm__("loom.syncthreads");
LOOM_TOGETHER int __loom_syncthreads_count(int) __asm__("loom.syncthreads.count");
LOOM_TOGETHER int __loom_syncthreads_and(int) __asm__("loom.syncthreads.and");
LOOM_TOGETHER int __loom_syncthreads_or(int) __asm__("loom.syncthreads.or");
LOOM_TOGETHER void __loom_syncwarp(unsigned) __asm__("loom.syncwarp");
LOOM_TOGETHER void __loom_grid_sync() __asm__("loom.grid.sync");
LOOM_TOGETHER unsigned __loom_activemask() __asm__("loom.activemask");
LOOM_TOGETHER unsigned __loom_ballot(unsigned, int) __asm__("loom.vote.sync.ballot");
LOOM_TOGETHER int __loom_all(unsigned, int) __asm__("loom.vote.sync.all");
LOOM_TOGETHER int __loom_any(unsigned, int) __asm__("loom.vote.sync.any");
LOOM_TOGETHER int __loom_uni(unsigned, int) __asm__("loom.vote.sync.uni");
LOOM_TOGETHER unsigned __loom_match_any(unsigned, unsigned) __asm__("loom.match.sync.any.i32");
LOOM_TOGETHER unsigned __loom_match_any64(unsigned, unsigned long long) __asm__("loom.match.sync.any.i64");
LOOM_TOGETHER unsigned __loom_match_all(unsigned, unsigned) __asm__("loom.match.sync.all.i32");
LOOM_TOGETHER unsigned __loom_match_all64(unsigned, unsigned long long) __asm__("loom.match.sync.all.i64");
__host__ __device__ long long __loom_clock() __asm__("loom.clock");
__host__ __device__ __attribute__((noreturn)) void __loom_trap() __asm__("loom.trap");
}
#define LOOM_SHUFFLE(kind)                                                                                           \
  extern "C" LOOM_TOGETHER unsigned __loom_shfl_##kind(unsigned, unsigned, int, int)                                 \
      __asm__("loom.shfl.sync." #kind ".i32");                                                                       \
  extern "C" LOOM_TOGETHER unsigned long long __loom_shfl64_##kind(unsigned, unsigned long long, int, int)           \
      __asm__("loom.shfl.sync." #kind ".i64");                                                                       \
  template <class T> LOOM_HOST_DEVICE T __loom_shuffle_##kind(unsigned mask, T value, int lane, int width) {         \
    static_assert(sizeof(T) <= 32, "a shuffled value has at most 32 bytes");                                         \
    T result;                                                                                                        \
    if constexpr (sizeof(T) <= 4) {                                                                                  \
      unsigned bits = 0;                                                                                             \
      __builtin_memcpy(&bits, &value, sizeof(T));                                                                    \
      bits = __loom_shfl_##kind(mask, bits, lane, width);                                                            \
      __builtin_memcpy(&result, &bits, sizeof(T));                                                                   \
    } else {                                                                                                         \
      unsigned long long bits[(sizeof(T) + 7) / 8] = {};                                                             \
      __builtin_memcpy(bits, &value, sizeof(T));                                                                     \
      bits[0] = __loom_shfl64_##kind(mask, bits[0], lane, width);                                                    \
      if constexpr (sizeof(T) > 8) bits[1] = __loom_shfl64_##kind(mask, bits[1], lane, width);                       \
      if constexpr (sizeof(T) > 16) bits[2] = __loom_shfl64_##kind(mask, bits[2], lane, width);                      \
      if constexpr (sizeof(T) > 24) bits[3] = __loom_shfl64_##kind(mask, bits[3], lane, width);                      \
      __builtin_memcpy(&result, bits, sizeof(T));                                                                    \
    }                                                                                                                \
    return result;                                                                                                   \
  }
LOOM_SHUFFLE(idx)
LOOM_SHUFFLE(up)
LOOM_SHUFFLE(down)
LOOM_SHUFFLE(xor)

/* ---- builtin variables: objects without storage whose members are read through functions */
#define LOOM_BUILTIN_VARIABLE(name, prefix, Whole)                                                                   \
  struct __loom_##name {                                                                                             \
    __declspec(property(get = get_x)) unsigned x;                                                                    \
    __declspec(property(get = get_y)) unsigned y;                                                                    \
    __declspec(property(get = get_z)) unsigned z;                                                                    \
    __host__ __device__ __attribute__((always_inline)) unsigned get_x() const { return prefix##_x(); }               \
    __host__ __device__ __attribute__((always_inline)) unsigned get_y() const { return prefix##_y(); }               \
    __host__ __device__ __attribute__((always_inline)) unsigned get_z() const { return prefix##_z(); }               \
    __host__ __device__ __attribute__((always_inline)) operator Whole() const { return Whole{get_x(), get_y(), get_z()}; } \
  };                                                                                                                 \
  extern const __device__ __attribute__((weak)) __loom_##name name;
LOOM_BUILTIN_VARIABLE(threadIdx, __loom_thread, uint3)
LOOM_BUILTIN_VARIABLE(blockIdx, __loom_block, uint3)
LOOM_BUILTIN_VARIABLE(blockDim, __loom_block_dim, dim3)
LOOM_BUILTIN_VARIABLE(gridDim, __loom_grid_dim, dim3)
static const int warpSize = 32;

/* ---- barriers and fences (macros: clang knows some of these names as its own builtins in the host pass) */
#define __syncthreads() __loom_syncthreads()
#define __syncthreads_count(predicate) __loom_syncthreads_count(predicate)
#define __syncthreads_and(predicate) __loom_syncthreads_and(predicate)
#define __syncthreads_or(predicate) __loom_syncthreads_or(predicate)
LOOM_HOST_DEVICE void __syncwarp(unsigned mask = 0xffffffffu) { __loom_syncwarp(mask); }
LOOM_HOST_DEVICE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
/* Threads of a block run on one core: no instruction is needed. The checker tells the scopes apart by the order. */
LOOM_HOST_DEVICE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
LOOM_HOST_DEVICE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

/* ---- warp operations; the forms without _sync are those of CUDA 8 and speak for the lanes that are there: all count as named,
   but under loom check, which reports those that are named and do not come */
#ifdef LOOM_CHECKED
#define LOOM_UNNAMED __loom_activemask()
#else
#define LOOM_UNNAMED 0xffffffffu
#endif
template <class T> LOOM_HOST_DEVICE T __shfl_sync(unsigned mask, T v, int lane, int width = 32) { return __loom_shuffle_idx(mask, v, lane, width); }
template <class T> LOOM_HOST_DEVICE T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32) { return __loom_shuffle_up(mask, v, (int)delta, width); }
template <class T> LOOM_HOST_DEVICE T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32) { return __loom_shuffle_down(mask, v, (int)delta, width); }
template <class T> LOOM_HOST_DEVICE T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32) { return __loom_shuffle_xor(mask, v, lanes, width); }
template <class T> LOOM_HOST_DEVICE T __shfl(T v, int lane, int width = 32) { return __loom_shuffle_idx(LOOM_UNNAMED, v, lane, width); }
template <class T> LOOM_HOST_DEVICE T __shfl_up(T v, unsigned delta, int width = 32) { return __loom_shuffle_up(LOOM_UNNAMED, v, (int)delta, width); }
template <class T> LOOM_HOST_DEVICE T __shfl_down(T v, unsigned delta, int width = 32) { return __loom_shuffle_down(LOOM_UNNAMED, v, (int)delta, width); }
template <class T> LOOM_HOST_DEVICE T __shfl_xor(T v, int lanes, int width = 32) { return __loom_shuffle_xor(LOOM_UNNAMED, v, lanes, width); }
LOOM_HOST_DEVICE unsigned __ballot_sync(unsigned mask, int predicate) { return __loom_ballot(mask, predicate); }
LOOM_HOST_DEVICE int __all_sync(unsigned mask, int predicate) { return __loom_all(mask, predicate); }
LOOM_HOST_DEVICE int __any_sync(unsigned mask, int predicate) { return __loom_any(mask, predicate); }
LOOM_HOST_DEVICE int __uni_sync(unsigned mask, int predicate) { return __loom_uni(mask, predicate); }
LOOM_HOST_DEVICE unsigned __ballot(int predicate) { return __loom_ballot(LOOM_UNNAMED, predicate); }
LOOM_HOST_DEVICE int __all(int predicate) { return __loom_all(LOOM_UNNAMED, predicate); }
LOOM_HOST_DEVICE int __any(int predicate) { return __loom_any(LOOM_UNNAMED, predicate); }
LOOM_HOST_DEVICE unsigned __activemask() { return __loom_activemask(); }
template <class T> LOOM_HOST_DEVICE unsigned __match_any_sync(unsigned mask, T value) {
  if constexpr (sizeof(T) <= 4) {
    unsigned bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return __loom_match_any(mask, bits);
  } else {
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return __loom_match_any64(mask, bits);
  }
}
template <class T> LOOM_HOST_DEVICE unsigned __match_all_sync(unsigned mask, T value, int* all) {
  unsigned members;
  if constexpr (sizeof(T) <= 4) {
    unsigned bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    members = __loom_match_all(mask, bits);
  } else {
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    members = __loom_match_all64(mask, bits);
  }
  *all = members != 0;
  return members;
}
#define LOOM_REDUCE(cuda, kind, T)                                                                              \
  extern "C" LOOM_TOGETHER unsigned __loom_reduce_##kind(unsigned, unsigned) __asm__("loom.reduce.sync." #kind ".i32"); \
  LOOM_HOST_DEVICE T __reduce_##cuda##_sync(unsigned mask, T value) { return (T)__loom_reduce_##kind(mask, (unsigned)value); }
LOOM_REDUCE(add, add, unsigned)
LOOM_REDUCE(add, add, int)
LOOM_REDUCE(min, umin, unsigned)
LOOM_REDUCE(min, min, int)
LOOM_REDUCE(max, umax, unsigned)
LOOM_REDUCE(max, max, int)
LOOM_REDUCE(and, and, unsigned)
LOOM_REDUCE(or, or, unsigned)
LOOM_REDUCE(xor, xor, unsigned)

/* ---- clocks and traps */
LOOM_HOST_DEVICE long long clock64() { return __loom_clock(); }
LOOM_DEVICE void __trap() { __loom_trap(); }
LOOM_DEVICE void __brkpt() {}
LOOM_DEVICE void __nanosleep(unsigned) {}
LOOM_DEVICE void __prof_trigger(int) {}
