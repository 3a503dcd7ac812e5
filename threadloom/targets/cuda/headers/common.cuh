// What generated kernels of all NVIDIA architectures (sm_80 on) share: types, conversions, accesses in pieces, counters,
// arithmetic. Self-contained.
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
#define LOOM_LOG2E 1.442695041f

// ---------------------------------------------------------------- addresses, warps

LOOM_DEVICE u32 smem_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// The warp's index as a value the compiler knows to be equal in all its lanes.
LOOM_DEVICE i32 warp_index() { return __shfl_sync(0xffffffffu, (i32)(threadIdx.x >> 5), 0); }
LOOM_DEVICE u32 lane_index() { return threadIdx.x & 31; }

// Named barriers of the block; `threads` counts all that come to it.
LOOM_DEVICE void group_sync(i32 id, i32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// ---------------------------------------------------------------- conversions

LOOM_DEVICE float from_f16(u16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
LOOM_DEVICE float from_bf16(u16 x) { return __uint_as_float((u32)x << 16); }
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
// A number that the compiler does not know: it would write a constant anew before each use. Grids have one layer.
LOOM_DEVICE u32 opaque(u32 x) { return x * gridDim.z; }
// The two 4-bit numbers of one byte of `word` as f16, the low one first. `byte` puts it into both halves below 0x64, which
// makes 1024 + low and 1024 + 16 high; `parts`: 1 and 1 / 16; `less`: what is added to 1024 + low and to 64 + high.
LOOM_DEVICE u32 nibbles_f16(u32 word, u32 byte, u32 parts, u32 less) {
  const u32 both = __byte_perm(word, 0x64646464, byte) & 0x64f0640f;
  u32 r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(both), "r"(parts), "r"(less));
  return r;
}
LOOM_DEVICE u32 multiply_f16(u32 a, u32 b) {
  u32 r;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
// By the conversion of pairs: those of single elements run on the unit of exponentials, at its quarter rate.
LOOM_DEVICE u16 to_f16(float x) { return (u16)pack_f16(x, 0.f); }
LOOM_DEVICE u16 to_bf16(float x) { return (u16)pack_bf16(x, 0.f); }
LOOM_DEVICE float round_tf32(float x) { u32 y; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x)); return __uint_as_float(y); }

// ---------------------------------------------------------------- atomic changes of narrow elements

// An element of one or two bytes, changed by compare and swap of the aligned word around it:
//   for (AtomicChange<T> one(at); !one.done; ) one.put(f(one.seen()));
template <typename T> struct AtomicChange {
  u32* word;
  u32 shift, mask, old;
  bool done;

  __device__ __forceinline__ explicit AtomicChange(T* at) : word((u32*)((u64)at & ~3ull)), done(false) {
    shift = ((u64)at & 3) * 8, mask = ((1u << 8 * sizeof(T)) - 1) << shift;
    old = *(volatile u32*)word;
  }
  __device__ __forceinline__ T seen() const { return (T)(old >> shift); }
  __device__ __forceinline__ void put(T next) {
    const u32 expected = old;
    old = atomicCAS(word, expected, (expected & ~mask) | (((u32)next << shift) & mask));
    done = old == expected;
  }
};

// A 4-bit element into the low or the high half of a byte whose other half another thread may be writing; `last`: the
// row ends with a low half, and 0 goes beside it.
LOOM_DEVICE void store_nibble(u8* at, bool high, u32 value, bool last) {
  const u32 mask = high ? 0xf0u : last ? 0xffu : 0x0fu;
  for (AtomicChange<u8> one(at); !one.done;) one.put((u8)((one.seen() & ~mask) | (high ? value << 4 : value)));
}

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

// The same of packed pairs.
template <int BYTES, typename T> LOOM_DEVICE void store_words(T* to, const u32* words, bool inside) {
  typedef typename Bits<BYTES>::type V;
  union { V v; u32 words[BYTES / 4]; } bits;
#pragma unroll
  for (int i = 0; i < BYTES / 4; i++) bits.words[i] = words[i];
  if (inside) *(V*)to = bits.v;
}

// What is loaded for later stays as it lies in memory until it is unpacked.
template <int BYTES, typename T> LOOM_DEVICE void load_words(u32* words, const T* from, bool inside) {
  typedef typename Bits<BYTES>::type V;
  union { V v; u32 words[BYTES / 4]; } bits;
  bits.v = V();
  if (inside) bits.v = __ldg((const V*)from);
#pragma unroll
  for (int i = 0; i < BYTES / 4; i++) words[i] = bits.words[i];
}
LOOM_DEVICE void prefetch_global(const void* from, bool inside) {
  if (inside) asm volatile("prefetch.global.L2 [%0];" :: "l"(from));
}
template <int BYTES, typename T> LOOM_DEVICE void from_words(T* piece, const u32* words) {
  union { u32 words[BYTES / 4]; T e[BYTES / sizeof(T)]; } bits;
#pragma unroll
  for (int i = 0; i < BYTES / 4; i++) bits.words[i] = words[i];
#pragma unroll
  for (int i = 0; i < BYTES / (int)sizeof(T); i++) piece[i] = bits.e[i];
}

// Four 8x8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8, and register j receives,
// in lane l, row l / 4, columns 2 (l % 4) and the next of matrix j.
LOOM_DEVICE void load_matrices(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
template <typename T> LOOM_DEVICE void read_matrices(T* piece, u32 address) {
  u32 words[4];
  load_matrices(words, address);
#pragma unroll
  for (int i = 0; i < 4; i++) piece[2 * i] = (T)words[i], piece[2 * i + 1] = (T)(words[i] >> 16);
}

// BYTES from shared memory.
template <int BYTES, typename T> LOOM_DEVICE void read_shared(T* piece, u32 address) {
  union { u32 words[4]; u16 half; u8 byte; T e[BYTES / sizeof(T)]; } bits;
  if constexpr (BYTES == 1) {
    u32 wide;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(wide) : "r"(address) : "memory");
    bits.byte = (u8)wide;
  }
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

// BYTES (1, 2, 4, 8 or 16) to shared memory.
template <int BYTES, typename T> LOOM_DEVICE void write_shared(u32 address, const T* piece) {
  union { u32 words[4]; u16 half; u8 byte; T e[BYTES / sizeof(T)]; } bits;
#pragma unroll
  for (int i = 0; i < BYTES / (int)sizeof(T); i++) bits.e[i] = piece[i];
  if constexpr (BYTES == 1) asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"((u32)bits.byte) : "memory");
  if constexpr (BYTES == 2) asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(bits.half) : "memory");
  if constexpr (BYTES == 4) asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(bits.words[0]) : "memory");
  if constexpr (BYTES == 8)
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(bits.words[0]), "r"(bits.words[1]) : "memory");
  if constexpr (BYTES == 16)
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 ::"r"(address), "r"(bits.words[0]), "r"(bits.words[1]), "r"(bits.words[2]), "r"(bits.words[3]) : "memory");
}

// A worker's scratch: 8 bytes for each of its threads. `warp`: whose cell, in the same lane.
template <typename T> LOOM_DEVICE void write_cell(u32 scratch, i32 warp, T value) {
  write_shared<sizeof(T)>(scratch + (warp * 32 + (threadIdx.x & 31)) * 8, &value);
}
template <typename T> LOOM_DEVICE T read_cell(u32 scratch, i32 warp) {
  T value;
  read_shared<sizeof(T)>(&value, scratch + (warp * 32 + (threadIdx.x & 31)) * 8);
  return value;
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
// Whether `a` at position `at` is the extreme rather than `b`: the first one of equals; NaN is more than anything.
template <typename T> LOOM_DEVICE bool larger_first(T a, i64 at, T b, i64 b_at) {
  return a > b || (a != a && b == b) || ((a == b || (a != a && b != b)) && at < b_at);
}
template <typename T> LOOM_DEVICE bool smaller_first(T a, i64 at, T b, i64 b_at) {
  return a < b || (a != a && b == b) || ((a == b || (a != a && b != b)) && at < b_at);
}
// -x. CUDA compilers before 13.5 may make one VIMNMX3 of two min or max and lose the sign of an operand (found with
// 13.0: max of -a over an axis), unless it is made by other means than a negation. Our own front end says build 0.
LOOM_DEVICE i32 negative(i32 x) {
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1305 && __CUDACC_VER_BUILD__
  i32 y;
  asm("{\n.reg .b32 t;\nnot.b32 t, %1;\nadd.s32 %0, t, 1;\n}" : "=r"(y) : "r"(x));
  return y;
#else
  return -x;
#endif
}
LOOM_DEVICE i64 negative(i64 x) { return -x; }
// Casts from floats cut off and saturate; NaN gives 0 (as the hardware does it for f32 to i32).
LOOM_DEVICE i32 to_i32(float x) { return __float2int_rz(x); }
LOOM_DEVICE i32 to_i32(double x) { return x != x ? 0 : __double2int_rz(x); }
LOOM_DEVICE i64 to_i64(float x) { return x != x ? 0 : __float2ll_rz(x); }
LOOM_DEVICE i64 to_i64(double x) { return x != x ? 0 : __double2ll_rz(x); }
template <typename T> LOOM_DEVICE i32 to_narrow(T x, i32 least, i32 most) { return min(max(to_i32(x), least), most); }
template <typename T, typename N> LOOM_DEVICE T shift_left(T a, N n) {
  return n >= 0 && n < (N)(8 * sizeof(T)) ? a << n : 0;
}
template <typename T, typename N> LOOM_DEVICE T shift_right(T a, N n) {
  return n >= 0 && n < (N)(8 * sizeof(T)) ? a >> n : (a < 0 ? (T)-1 : (T)0);
}
// Rounding towards minus infinity; 0 where the divisor is 0.
template <typename T> LOOM_DEVICE T floor_div(T a, T b) {
  return b == 0 ? 0 : a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}
template <typename T> LOOM_DEVICE T floor_mod(T a, T b) {
  T r = b == 0 ? 0 : a % b;
  return r + ((r != 0 && ((r < 0) != (b < 0))) ? b : 0);
}
// Of an extent, which is a 32-bit parameter, and a 64-bit index.
LOOM_DEVICE i64 floor_div(i64 a, i64 b) { return floor_div<i64>(a, b); }
LOOM_DEVICE i64 floor_mod(i64 a, i64 b) { return floor_mod<i64>(a, b); }

// ---------------------------------------------------------------- clocks

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

// ---------------------------------------------------------------- passes of loops
// The first pass from `t` on for which `test`, which is the same in all lanes, fails; at most `count`. The lanes of a warp
// test 32 passes together.
template <typename Test> LOOM_DEVICE i32 first_without(i32 t, i32 count, Test test) {
  for (;; t += 32) {
    const i32 mine = t + (i32)(threadIdx.x & 31);
    const u32 passing = __ballot_sync(0xffffffffu, mine < count && test(mine));
    if (~passing) return t + __ffs(~passing) - 1;
  }
}
