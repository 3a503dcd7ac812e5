// Hopper (sm_90a) idioms for generated kernels. With common.cuh, all that NVRTC needs.
//
// Shared-memory addresses are 32-bit addresses in the shared window (`smem_address`). A "swizzled tile" is rows of
// 128 bytes at a 1024-byte aligned base; inside row r the eight 16-byte chunks are permuted, chunk c standing at
// c ^ (r & 7). Bulk tensor copies with 128-byte swizzle write and read that form and so do wgmma descriptors of
// layout type 1. A tile whose rows are longer than 128 bytes is several such tiles ("panels") one after the other.
//
// Accumulators of wgmma m64nN: thread t of the warpgroup with warp w = t / 32 and lane l = t % 32 holds in register i
//   row 16 w + l / 4 + 8 ((i >> 1) & 1),   column 8 (i >> 2) + 2 (l & 3) + (i & 1).
// A 16-bit A operand in registers (m64k16, four 32-bit registers, two elements each) has the same arrangement with
// k for the column, so accumulator columns [16 k, 16 k + 16) become A operand k by packing neighbours.
#pragma once

#include "common.cuh"

struct alignas(64) TensorMap {
  u64 opaque[16];
};

// ---------------------------------------------------------------- addresses, roles

// True in one lane of a converged warp.
LOOM_DEVICE bool elect_lane() {
  u32 chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
  return chosen != 0;
}

template <int REGISTERS> LOOM_DEVICE void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> LOOM_DEVICE void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// ---------------------------------------------------------------- mbarriers
// A fresh barrier is in phase 0, and waiting for parity 1 on it returns at once: consumers start with parity 0,
// producers (who wait for free slots) with parity 1; both flip when their slot index wraps.

LOOM_DEVICE void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to bulk copies and to the cluster; a block-wide barrier must follow.
LOOM_DEVICE void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

LOOM_DEVICE void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Without .release.cluster on purpose: it would fence the whole GPU, and a freed slot carries no ordinary data.
LOOM_DEVICE void barrier_arrive_at(u32 barrier, u32 block_in_cluster) {
  asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [r];\n}"
               ::"r"(barrier), "r"(block_in_cluster) : "memory");
}
// One arrival and the promise of `bytes` more; stands before the copies that complete on the barrier.
LOOM_DEVICE void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
LOOM_DEVICE bool barrier_test(u32 barrier, u32 parity) {
  u32 done;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
  return done != 0;
}

#ifdef LOOM_WATCHDOG
// Host memory, set by driver.py: for each barrier (the last word for all from 63 on) 1 + the parity that never came.
__device__ volatile u32* loom_stuck;
#endif

// `index` names the barrier in reports of the watchdog, which gives up after LOOM_WATCHDOG cycles. It leaves the others
// an eighth of that to give up too, so that the report names all that hang.
LOOM_DEVICE void barrier_wait(u32 barrier, u32 parity, u32 index) {
#ifdef LOOM_WATCHDOG
  if (barrier_test(barrier, parity)) return;
  const i64 began = clock64();
  while (!barrier_test(barrier, parity))
    if (clock64() - began > (i64)LOOM_WATCHDOG) {
      loom_stuck[index < 63 ? index : 63] = parity + 1;
      __threadfence_system();
      while (clock64() - began < (i64)LOOM_WATCHDOG / 8 * 9) {
      }
      __trap();
      __builtin_unreachable();  // so nothing that the kernel holds in registers must outlive the report
    }
#else
  while (!barrier_test(barrier, parity)) {
  }
#endif
}

// For several: the tests of those that are complete, as most are, overlap.
template <typename... More> LOOM_DEVICE bool barriers_test(u32 barrier, u32 parity, u32 index, More... more) {
  const bool done = barrier_test(barrier, parity);
  if constexpr (sizeof...(more) > 0) return done & barriers_test(more...);
  return done;
}
template <typename... More> LOOM_DEVICE void barrier_wait(u32 barrier, u32 parity, u32 index, u32 next, More... more) {
  if (barriers_test(barrier, parity, index, next, more...)) return;
  barrier_wait(barrier, parity, index);
  barrier_wait(next, more...);
}

// Arrives at a named barrier without waiting; `threads` counts both.
LOOM_DEVICE void group_arrive(i32 id, i32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

LOOM_DEVICE u32 cluster_rank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
LOOM_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// ---------------------------------------------------------------- bulk tensor copies
// Coordinates in elements, innermost dimension first. Elements outside the tensor arrive as zero (and count as
// bytes); stores outside are dropped.

LOOM_DEVICE void prefetch_map(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

#define LOOM_LOAD(rank, coordinates, ...)                                                                           \
  asm volatile("cp.async.bulk.tensor." #rank "d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {"   \
               coordinates "}], [%2];" ::"r"(to), "l"(map), "r"(barrier), __VA_ARGS__ : "memory")
#define LOOM_LOAD_ALL(rank, coordinates, ...)                                                                       \
  asm volatile("cp.async.bulk.tensor." #rank                                                                        \
               "d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {" coordinates  \
               "}], [%2], %3;" ::"r"(to), "l"(map), "r"(barrier), "h"(blocks), __VA_ARGS__ : "memory")
#define LOOM_STORE(rank, coordinates, ...)                                                                          \
  asm volatile("cp.async.bulk.tensor." #rank "d.global.shared::cta.bulk_group [%0, {" coordinates "}], [%1];"       \
               ::"l"(map), "r"(from), __VA_ARGS__ : "memory")

LOOM_DEVICE void bulk_load(u32 to, const TensorMap* map, u32 barrier, i32 x) { LOOM_LOAD(1, "%3", "r"(x)); }
LOOM_DEVICE void bulk_load(u32 to, const TensorMap* map, u32 barrier, i32 x, i32 y) {
  LOOM_LOAD(2, "%3, %4", "r"(x), "r"(y));
}
LOOM_DEVICE void bulk_load(u32 to, const TensorMap* map, u32 barrier, i32 x, i32 y, i32 z) {
  LOOM_LOAD(3, "%3, %4, %5", "r"(x), "r"(y), "r"(z));
}
LOOM_DEVICE void bulk_load(u32 to, const TensorMap* map, u32 barrier, i32 x, i32 y, i32 z, i32 u) {
  LOOM_LOAD(4, "%3, %4, %5, %6", "r"(x), "r"(y), "r"(z), "r"(u));
}
LOOM_DEVICE void bulk_load(u32 to, const TensorMap* map, u32 barrier, i32 x, i32 y, i32 z, i32 u, i32 v) {
  LOOM_LOAD(5, "%3, %4, %5, %6, %7", "r"(x), "r"(y), "r"(z), "r"(u), "r"(v));
}
// The box lands at the same shared offset of every block in the mask `blocks`, each of whose barriers counts its bytes.
LOOM_DEVICE void bulk_load_all(u32 to, const TensorMap* map, u32 barrier, u16 blocks, i32 x, i32 y) {
  LOOM_LOAD_ALL(2, "%4, %5", "r"(x), "r"(y));
}
LOOM_DEVICE void bulk_load_all(u32 to, const TensorMap* map, u32 barrier, u16 blocks, i32 x, i32 y, i32 z) {
  LOOM_LOAD_ALL(3, "%4, %5, %6", "r"(x), "r"(y), "r"(z));
}
LOOM_DEVICE void bulk_load_all(u32 to, const TensorMap* map, u32 barrier, u16 blocks, i32 x, i32 y, i32 z, i32 u) {
  LOOM_LOAD_ALL(4, "%4, %5, %6, %7", "r"(x), "r"(y), "r"(z), "r"(u));
}
LOOM_DEVICE void bulk_load_all(
    u32 to, const TensorMap* map, u32 barrier, u16 blocks, i32 x, i32 y, i32 z, i32 u, i32 v) {
  LOOM_LOAD_ALL(5, "%4, %5, %6, %7, %8", "r"(x), "r"(y), "r"(z), "r"(u), "r"(v));
}
LOOM_DEVICE void bulk_store(const TensorMap* map, u32 from, i32 x) { LOOM_STORE(1, "%2", "r"(x)); }
LOOM_DEVICE void bulk_store(const TensorMap* map, u32 from, i32 x, i32 y) { LOOM_STORE(2, "%2, %3", "r"(x), "r"(y)); }
LOOM_DEVICE void bulk_store(const TensorMap* map, u32 from, i32 x, i32 y, i32 z) {
  LOOM_STORE(3, "%2, %3, %4", "r"(x), "r"(y), "r"(z));
}
LOOM_DEVICE void bulk_store(const TensorMap* map, u32 from, i32 x, i32 y, i32 z, i32 u) {
  LOOM_STORE(4, "%2, %3, %4, %5", "r"(x), "r"(y), "r"(z), "r"(u));
}
LOOM_DEVICE void bulk_store(const TensorMap* map, u32 from, i32 x, i32 y, i32 z, i32 u, i32 v) {
  LOOM_STORE(5, "%2, %3, %4, %5, %6", "r"(x), "r"(y), "r"(z), "r"(u), "r"(v));
}

// Store groups belong to the thread that committed them: the same thread issues, commits and waits.
LOOM_DEVICE void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// At most `PENDING` of this thread's store groups still read their shared source.
template <int PENDING> LOOM_DEVICE void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Ordinary writes to shared memory before, bulk copies and wgmma after: each writing thread needs one.
LOOM_DEVICE void fence_to_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---------------------------------------------------------------- wgmma

// Rows of the tile are M or N, their 128 bytes run along K. One k-step (32 bytes) on: descriptor + 2.
LOOM_DEVICE u64 descriptor_k_major(u32 address) {
  return (u64)((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}
// Rows of the tile are K, their 128 bytes run along M or N; `panel_bytes` between panels. 16 rows on: descriptor + 128.
LOOM_DEVICE u64 descriptor_mn_major(u32 address, u32 panel_bytes) {
  return (u64)((address & 0x3ffff) >> 4) | ((u64)((panel_bytes & 0x3ffff) >> 4) << 16) | (64ull << 32) | (1ull << 62);
}

LOOM_DEVICE void mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
LOOM_DEVICE void mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> LOOM_DEVICE void mma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Emits nothing; keeps the compiler's front end from moving uses of a product's registers across its wait.
template <int N> LOOM_DEVICE void pin(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N> LOOM_DEVICE void pin(i32 (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+r"(d[i])::"memory");
}
template <int N> LOOM_DEVICE void pin(u32 (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+r"(d[i])::"memory");
}

// ---------------------------------------------------------------- conversions of 8-bit floats

LOOM_DEVICE u16 pack_e4m3(float low, float high) {
  u16 r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
  return r;
}
LOOM_DEVICE u16 pack_e5m2(float low, float high) {
  u16 r;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
  return r;
}
LOOM_DEVICE float from_e4m3(u8 x) {
  u32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((u16)x));
  return from_f16((u16)(halves & 0xffff));
}
LOOM_DEVICE float from_e5m2(u8 x) {
  u32 halves;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"((u16)x));
  return from_f16((u16)(halves & 0xffff));
}

// ---------------------------------------------------------------- results on their way out

// Four 8x8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8, and register j holds,
// in lane l, row l / 4, columns 2 (l % 4) and the next of matrix j.
LOOM_DEVICE void store_matrices(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
LOOM_DEVICE void store_matrices_across(u32 address, u32 a, u32 b, u32 c, u32 d) {  // of their transposes
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
// A warp's 16 rows x COLUMNS (64, 32 or 16) of packed accumulators (`packed[2 j + h]`: columns 8 j + 2 (l & 3) and the
// next, row half h) as the 16 rows of a box for a bulk store, swizzled over its row's length so that banks do not meet.
template <int COLUMNS> LOOM_DEVICE void stage_box(u32 box, const u32* packed) {
  constexpr u32 row_bytes = 2 * COLUMNS, rows_per_step = 128 / row_bytes, chunks = row_bytes / 16;
  u32 lane = lane_index(), matrix = lane >> 3, row = (lane & 7) + 8 * (matrix & 1);
#pragma unroll
  for (int j = 0; j < COLUMNS / 16; j++) {
    u32 chunk = (2 * j + (matrix >> 1)) ^ (row / rows_per_step & (chunks - 1));
    store_matrices(box + row * row_bytes + chunk * 16, packed[4 * j], packed[4 * j + 1], packed[4 * j + 2], packed[4 * j + 3]);
  }
}
// The same where the tensor's rows run across: COLUMNS rows of 16 elements.
template <int COLUMNS> LOOM_DEVICE void stage_box_across(u32 box, const u32* packed) {
  u32 lane = lane_index(), matrix = lane >> 3, chunk = matrix & 1;
#pragma unroll
  for (int j = 0; j < COLUMNS / 16; j++) {
    u32 row = 16 * j + 8 * (matrix >> 1) + (lane & 7);
    u32 at = box + row * 32 + (chunk ^ (row >> 2 & 1)) * 16;
    store_matrices_across(at, packed[4 * j], packed[4 * j + 1], packed[4 * j + 2], packed[4 * j + 3]);
  }
}
