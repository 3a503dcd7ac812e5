// Ampere (sm_80) idioms for generated kernels: asynchronous copies, matrix fragments, warp-wide products.
//
// Shared-memory addresses are 32-bit addresses in the shared window. A "swizzled tile" is rows of 128 bytes; inside row
// r the eight 16-byte chunks are permuted, chunk c standing at c ^ (r & 7), so that the eight rows of a matrix lie in
// different banks. A tile whose rows are longer than 128 bytes is several such tiles ("panels") one after the other.
//
// Results of mma m16n8: lane l holds rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next, as
//   d[0], d[1] (first row), d[2], d[3] (second row).
// A 16-bit row operand m16k16 has the same arrangement, two neighbours in a register: the results of two neighbouring
// products, packed, are the row operand of a third without any movement.
#pragma once

#include "common.cuh"

// ---------------------------------------------------------------- asynchronous copies
// BYTES (16, 8 or 4) from global to shared memory, of which the first `valid` are read and the others become 0. Copies
// belong to the group that their thread commits next; a block-wide barrier after the wait shows them to all threads.

template <int BYTES> LOOM_DEVICE void copy_async(u32 to, const void* from, u32 valid) {
  const u64 source = (u64)__cvta_generic_to_global(from);
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(source), "r"(valid) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(source), "n"(BYTES), "r"(valid) : "memory");
}
// All of BYTES, or zeros where not `inside`: one predicated instruction, where any other `valid` costs several.
template <int BYTES> LOOM_DEVICE void copy_async_if(u32 to, const void* from, bool inside) {
  copy_async<BYTES>(to, from, inside ? BYTES : 0);
}
LOOM_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// At most the `PENDING` groups committed last are still on their way.
template <int PENDING> LOOM_DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

// ---------------------------------------------------------------- matrix fragments

// Address of a 16-byte chunk of a swizzled row; `row` counts from the tile's begin.
LOOM_DEVICE u32 chunk_at(u32 row_address, u32 chunk, u32 row) { return row_address + ((chunk ^ (row & 7)) << 4); }

// As load_matrices, of two; `_turned`: of their transposes.
LOOM_DEVICE void load_matrices_turned(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
LOOM_DEVICE void load_two_matrices(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1]) : "r"(address) : "memory");
}
LOOM_DEVICE void load_two_matrices_turned(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1]) : "r"(address) : "memory");
}

// One element from shared memory, as the bits that a fragment holds.
LOOM_DEVICE u32 element_b8(u32 address) {
  u32 x;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}
LOOM_DEVICE u32 element_b16(u32 address) {
  u16 x;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(address) : "memory");
  return x;
}
LOOM_DEVICE u32 element_b32(u32 address) {
  u32 x;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}
LOOM_DEVICE double element_f64(u32 address) {
  double x;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(address) : "memory");
  return x;
}

// ---------------------------------------------------------------- products of a warp
// d += a * b: 16 rows, 8 columns, 32 bytes of depth.

#define LOOM_MMA(name, shape, types, D, c)                                                                   \
  LOOM_DEVICE void name(D* d, const u32* a, const u32* b) {                                                          \
    asm("mma.sync.aligned." shape ".row.col." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : "+" c(d[0]), "+" c(d[1]), "+" c(d[2]), "+" c(d[3])                                                         \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                         \
  }
LOOM_MMA(mma_f16, "m16n8k16", "f32.f16.f16.f32", float, "f")
LOOM_MMA(mma_bf16, "m16n8k16", "f32.bf16.bf16.f32", float, "f")
LOOM_MMA(mma_tf32, "m16n8k8", "f32.tf32.tf32.f32", float, "f")
LOOM_MMA(mma_i8_i8, "m16n8k32", "s32.s8.s8.s32", i32, "r")
LOOM_MMA(mma_i8_u8, "m16n8k32", "s32.s8.u8.s32", i32, "r")
LOOM_MMA(mma_u8_i8, "m16n8k32", "s32.u8.s8.s32", i32, "r")
LOOM_MMA(mma_u8_u8, "m16n8k32", "s32.u8.u8.s32", i32, "r")
#undef LOOM_MMA

// As two products of 8 rows and a depth of 4: a[h] is row l / 4 + 8 h, b column l / 4, both at depth l % 4.
LOOM_DEVICE void mma_f64(double* d, const double* a, const double* b) {
#pragma unroll
  for (int h = 0; h < 2; h++)
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(d[2 * h]), "+d"(d[2 * h + 1]) : "d"(a[h]), "d"(b[0]));
}

// ---------------------------------------------------------------- conversions of 8-bit floats (no instructions here)

LOOM_DEVICE float from_e5m2(u8 x) { return from_f16((u16)(x << 8)); }
LOOM_DEVICE float from_e4m3(u8 x) {
  if ((x & 0x7f) == 0x7f) return __int_as_float(0x7fffffff);
  const float size = from_f16((u16)((x & 0x7f) << 7)) * 256.f;  // the exponent's bias is 7, not 15
  return x & 0x80 ? -size : size;
}
// The nearest number with MANTISSA bits of fraction and at least the exponent LEAST, ties to even, at most `most`.
template <int MANTISSA, int LEAST> LOOM_DEVICE float round_narrow(float size, float most) {
  const i32 exponent = max((i32)((__float_as_uint(size) >> 23) & 255) - 127, LEAST);
  const float step = __uint_as_float((u32)(exponent - MANTISSA + 127) << 23);
  return fminf(rintf(size / step) * step, most);
}
LOOM_DEVICE u8 to_e4m3(float x) {
  const u8 sign = (u8)(__float_as_uint(x) >> 24 & 0x80);
  if (x != x) return 0x7f;
  return sign | (u8)(to_f16(round_narrow<3, -6>(fabsf(x), 448.f) / 256.f) >> 7);
}
LOOM_DEVICE u8 to_e5m2(float x) {
  const u8 sign = (u8)(__float_as_uint(x) >> 24 & 0x80);
  if (x != x) return 0x7f;
  return sign | (u8)(to_f16(round_narrow<2, -14>(fabsf(x), 57344.f)) >> 8);
}
LOOM_DEVICE u16 pack_e4m3(float low, float high) { return (u16)(to_e4m3(low) | to_e4m3(high) << 8); }
LOOM_DEVICE u16 pack_e5m2(float low, float high) { return (u16)(to_e5m2(low) | to_e5m2(high) << 8); }
