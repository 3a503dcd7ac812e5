// Hopper (sm_90a) idioms for generated kernels. Self-contained: NVRTC compiles it without any other header.
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

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef int i32;
typedef long long i64;

#define LOOM_DEVICE static __device__ __forceinline__
#define LOOM_INF __int_as_float(0x7f800000)

struct alignas(64) TensorMap {
  u64 opaque[16];
};

// ---------------------------------------------------------------- addresses, roles

LOOM_DEVICE u32 smem_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// The warp's index as a value the compiler knows to be equal in all its lanes.
LOOM_DEVICE i32 warp_index() { return __shfl_sync(0xffffffffu, (i32)(threadIdx.x >> 5), 0); }

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
    }
#else
  while (!barrier_test(barrier, parity)) {
  }
#endif
}

// Named barriers of the block; `threads` counts those that wait and those that only arrive.
LOOM_DEVICE void group_sync(i32 id, i32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
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
template <int N> LOOM_DEVICE void pin(u32 (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+r"(d[i])::"memory");
}

// ---------------------------------------------------------------- conversions

LOOM_DEVICE float from_f16(u16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
LOOM_DEVICE float from_bf16(u16 x) { return __uint_as_float((u32)x << 16); }
LOOM_DEVICE u16 to_f16(float x) { u16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
LOOM_DEVICE u16 to_bf16(float x) { u16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
LOOM_DEVICE u32 pack_f16(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
LOOM_DEVICE u32 pack_bf16(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
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
LOOM_DEVICE float round_tf32(float x) { u32 y; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x)); return __uint_as_float(y); }

// ---------------------------------------------------------------- vector accesses
// BYTES (2, 4, 8 or 16) to or from `piece` at an address aligned to them; zeros, or nothing, where not `inside`.

template <int BYTES> struct Bits;
template <> struct Bits<2> { typedef u16 type; };
template <> struct Bits<4> { typedef u32 type; };
template <> struct Bits<8> { typedef uint2 type; };
template <> struct Bits<16> { typedef uint4 type; };

template <int BYTES, typename T> LOOM_DEVICE void load_vector(T* piece, const T* from, bool inside) {
  typedef typename Bits<BYTES>::type V;
  union { V v; T e[BYTES / sizeof(T)]; } bits;
  bits.v = V();
  if (inside) bits.v = __ldg((const V*)from);
#pragma unroll
  for (int i = 0; i < BYTES / (int)sizeof(T); i++) piece[i] = bits.e[i];
}
template <int BYTES, typename T> LOOM_DEVICE void store_vector(T* to, const T* piece, bool inside) {
  typedef typename Bits<BYTES>::type V;
  union { V v; T e[BYTES / sizeof(T)]; } bits;
#pragma unroll
  for (int i = 0; i < BYTES / (int)sizeof(T); i++) bits.e[i] = piece[i];
  if (inside) *(V*)to = bits.v;
}

// BYTES from shared memory.
template <int BYTES, typename T> LOOM_DEVICE void read_shared(T* piece, u32 address) {
  union { u32 words[4]; u16 half; T e[BYTES / sizeof(T)]; } bits;
  if constexpr (BYTES == 2) asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits.half) : "r"(address) : "memory");
  if constexpr (BYTES == 4) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits.words[0]) : "r"(address) : "memory");
  if constexpr (BYTES == 8)
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(bits.words[0]), "=r"(bits.words[1]) : "r"(address) : "memory");
  if constexpr (BYTES == 16)
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.words[0]), "=r"(bits.words[1]), "=r"(bits.words[2]), "=r"(bits.words[3]) : "r"(address) : "memory");
#pragma unroll
  for (int i = 0; i < BYTES / (int)sizeof(T); i++) piece[i] = bits.e[i];
}

// 16 bytes to shared memory.
template <int BYTES, typename T> LOOM_DEVICE void write_shared(u32 address, const T* piece) {
  static_assert(BYTES == 16, "whole chunks only");
  union { u32 words[4]; T e[BYTES / sizeof(T)]; } bits;
#pragma unroll
  for (int i = 0; i < BYTES / (int)sizeof(T); i++) bits.e[i] = piece[i];
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
               ::"r"(address), "r"(bits.words[0]), "r"(bits.words[1]), "r"(bits.words[2]), "r"(bits.words[3]) : "memory");
}

// ---------------------------------------------------------------- counters

// Slot and phase of the running instance of a loop.
template <int SLOTS> struct Ring {
  u32 slot = 0, phase = 0;
  __device__ __forceinline__ void advance() {
    if (SLOTS == 1) phase ^= 1;
    else if (++slot == SLOTS) slot = 0, phase ^= 1;
  }
};
// The tile of this block in a round of gridDim.x tiles: every other round is dealt out backwards.
LOOM_DEVICE i32 back_and_forth(i32 round) {
  return round * (i32)gridDim.x + (round & 1 ? (i32)(gridDim.x - 1 - blockIdx.x) : (i32)blockIdx.x);
}
LOOM_DEVICE i32 ceil_div(i32 a, i32 b) { return (a + b - 1) / b; }

// ---------------------------------------------------------------- arithmetic

LOOM_DEVICE float exp2_fast(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
LOOM_DEVICE float log2_fast(float x) { float y; asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
LOOM_DEVICE float tanh_fast(float x) { float y; asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
// Within 2 units in the last place where 1 / b is finite; one reciprocal serves all elements of a row.
LOOM_DEVICE float divide(float a, float b) { float y; asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(b)); return a * y; }
// NaN if either is NaN, as NumPy's maximum.
LOOM_DEVICE float fmax_nan(float a, float b) { float y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
LOOM_DEVICE float fmin_nan(float a, float b) { float y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
LOOM_DEVICE double fmax_nan(double a, double b) { return a > b || a != a ? a : b; }
LOOM_DEVICE double fmin_nan(double a, double b) { return a < b || a != a ? a : b; }
template <typename T> LOOM_DEVICE T shift_left(T a, T n) { return n >= 0 && n < (T)(8 * sizeof(T)) ? a << n : 0; }
template <typename T> LOOM_DEVICE T shift_right(T a, T n) {
  return n >= 0 && n < (T)(8 * sizeof(T)) ? a >> n : (a < 0 ? (T)-1 : (T)0);
}
// Rounding towards minus infinity; 0 where the divisor is 0.
template <typename T> LOOM_DEVICE T floor_div(T a, T b) {
  return b == 0 ? 0 : a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}
template <typename T> LOOM_DEVICE T floor_mod(T a, T b) {
  T r = b == 0 ? 0 : a % b;
  return r + ((r != 0 && ((r < 0) != (b < 0))) ? b : 0);
}

// Four 8x8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8, and register j holds,
// in lane l, row l / 4, columns 2 (l % 4) and the next of matrix j.
LOOM_DEVICE void store_matrices(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
LOOM_DEVICE u32 lane_index() { return threadIdx.x & 31; }

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

// In-kernel clocks of one block: per role a list of (event, clock before, clock after). Written with predicated stores,
// because a branch between products would serialise them.
struct Clocks {
  u32* at;
  u32 count, capacity, writes;
  __device__ __forceinline__ Clocks(u32* events, u32 role, u32 capacity_, bool writes_)
      : at(events + role * (3 * capacity_ + 1)), count(0), capacity(capacity_), writes(writes_) {}
  static __device__ __forceinline__ u32 now() {
    u32 t;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory");
    return t;
  }
  __device__ __forceinline__ void record(u32 event, u32 before) {
    u32 after = now(), use = writes && count < capacity;
    u32* p = at + 1 + 3 * count;
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.u32 p, %0, 0;\n@p st.global.u32 [%1], %2;\n@p st.global.u32 [%1+4], %3;\n"
        "@p st.global.u32 [%1+8], %4;\n@p st.global.u32 [%5], %6;\n}"
        ::"r"(use), "l"(p), "r"(event), "r"(before), "r"(after), "l"(at), "r"(count + 1) : "memory");
    count += use;
  }
};
