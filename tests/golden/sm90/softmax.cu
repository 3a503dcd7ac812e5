// softmax for h200/4-direct, planned by joint
// tiles: m 1; 1 workers, 128 threads, 1024 bytes of shared memory
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(128, 4)
softmax(const u16* __restrict__ x, const i64 x_stride0, const i64 x_stride1, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_M, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_scratch = smem + 0;  // where warps of a worker exchange values
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
const i32 tiles_m = dim_M;
const i32 tiles = tiles_m;
{
  // worker0
  constexpr i32 worker = 0;
  for (i32 tile = blockIdx.x; tile < tiles; tile = tiles) {
    i32 rest = tile;
    const i32 index_m = rest;
    const i32 m_at = index_m;
    float x_2[8];
    float t_4[8];
    // load_x: x
    #pragma unroll
    for (int i = 0; i < 8; i += 8) {
      u16 piece[8];
      load_vector<16>(piece, &x[(i64)(m_at) * x_stride0 + (i64)((lane) * 8 + (warp_in_group) * 256 + (i)) * x_stride1], (u32)(m_at) < (u32)dim_M && (u32)((lane) * 8 + (warp_in_group) * 256 + (i)) < (u32)dim_N);
      #pragma unroll
      for (int e = 0; e < 8; e++) x_2[i + e] = from_f16(piece[e]);
    }
    // vector_t: t.4
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      x_2[i] = x_2[i];
    }
    float max_2[1];
    #pragma unroll
    for (int r = 0; r < 1; r++) max_2[r] = -LOOM_INF;
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      max_2[0] = fmax_nan(max_2[0], x_2[i]);
    }
    #pragma unroll
    for (int r = 0; r < 1; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 1));
    #pragma unroll
    for (int r = 0; r < 1; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 2));
    #pragma unroll
    for (int r = 0; r < 1; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 4));
    #pragma unroll
    for (int r = 0; r < 1; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 8));
    #pragma unroll
    for (int r = 0; r < 1; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 16));
    #pragma unroll
    for (int r = 0; r < 1; r++) {
      group_sync(1 + worker, 128);  // scratch is free
      write_cell<float>(smem_scratch + worker * 1024, warp_in_group, max_2[r]);
      group_sync(1 + worker, 128);
      float all = read_cell<float>(smem_scratch + worker * 1024, (0) * 1);
      #pragma unroll
      for (int q = 1; q < 4; q++) all = fmax_nan(all, read_cell<float>(smem_scratch + worker * 1024, (q) * 1));
      max_2[r] = all;
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      const float t_1 = x_2[i] - max_2[0];
      x_2[i] = exp2_fast(fmaf(x_2[i], LOOM_LOG2E, -(max_2[0] * LOOM_LOG2E)));
    }
    float sum_2[1];
    #pragma unroll
    for (int r = 0; r < 1; r++) sum_2[r] = 0;
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      sum_2[0] = sum_2[0] + x_2[i];
    }
    #pragma unroll
    for (int r = 0; r < 1; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 1);
    #pragma unroll
    for (int r = 0; r < 1; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 2);
    #pragma unroll
    for (int r = 0; r < 1; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 4);
    #pragma unroll
    for (int r = 0; r < 1; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 8);
    #pragma unroll
    for (int r = 0; r < 1; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 16);
    #pragma unroll
    for (int r = 0; r < 1; r++) {
      group_sync(1 + worker, 128);  // scratch is free
      write_cell<float>(smem_scratch + worker * 1024, warp_in_group, sum_2[r]);
      group_sync(1 + worker, 128);
      float all = read_cell<float>(smem_scratch + worker * 1024, (0) * 1);
      #pragma unroll
      for (int q = 1; q < 4; q++) all = all + read_cell<float>(smem_scratch + worker * 1024, (q) * 1);
      sum_2[r] = all;
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      const float t_3 = divide(x_2[i], sum_2[0]);
      t_4[i] = t_3;
    }
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 8; i += 8) {
        u32 words[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) words[e] = pack_f16(t_4[(i + 2 * e + 0)], t_4[(i + 2 * e + 1)]);
        store_words<16>(&out[(i64)(m_at) * out_stride0 + (i64)((lane) * 8 + (warp_in_group) * 256 + (i)) * out_stride1], words, (u32)(m_at) < (u32)dim_M && (u32)((lane) * 8 + (warp_in_group) * 256 + (i)) < (u32)dim_N);
      }
    }
  }
}
}
