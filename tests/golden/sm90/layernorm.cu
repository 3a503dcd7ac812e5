// layernorm for h200, planned by joint
// tiles: m 1; 1 workers, 256 threads, 1024 bytes of shared memory
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
layernorm(const u16* __restrict__ x, const i64 x_stride0, const i64 x_stride1, const u16* __restrict__ weight, const i64 weight_stride0, const u16* __restrict__ bias, const i64 bias_stride0, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_M, const i32 dim_N, const float eps) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_scratch = smem + 0;  // where warps of a worker exchange values
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
const i32 tiles_m = dim_M;
const i32 tiles = tiles_m;
if (group == 0) {
  // producer
  shrink_registers<40>();
  if (warp_in_group == 0 && elect_lane()) {
    for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      i32 rest = tile;
      const i32 index_m = rest;
      const i32 m_at = index_m;
      const float t_2 = (float)(dim_N);
    }
  }
}
else if (group == 1) {
  // worker0
  grow_registers<240>();
  constexpr i32 worker = 0;
  for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    i32 rest = tile;
    const i32 index_m = rest;
    const i32 m_at = index_m;
    float x_2[3];
    float weight_2[3];
    float bias_2[3];
    float t_16[3];
    const float t_2 = (float)(dim_N);
    // load_x: x
    #pragma unroll
    for (int i = 0; i < 3; i += 1) {
      x_2[i] = (u32)(m_at) < (u32)dim_M && (u32)((lane) + (warp_in_group) * 32 + (i) * 128) < (u32)dim_N ? from_f16(x[(i64)(m_at) * x_stride0 + (i64)((lane) + (warp_in_group) * 32 + (i) * 128) * x_stride1]) : float(0);
    }
    // load_weight: weight
    #pragma unroll
    for (int i = 0; i < 3; i += 1) {
      weight_2[i] = (u32)((lane) + (warp_in_group) * 32 + (i) * 128) < (u32)dim_N ? from_f16(weight[(i64)((lane) + (warp_in_group) * 32 + (i) * 128) * weight_stride0]) : float(0);
    }
    // load_bias: bias
    #pragma unroll
    for (int i = 0; i < 3; i += 1) {
      bias_2[i] = (u32)((lane) + (warp_in_group) * 32 + (i) * 128) < (u32)dim_N ? from_f16(bias[(i64)((lane) + (warp_in_group) * 32 + (i) * 128) * bias_stride0]) : float(0);
    }
    // vector_t: t.16
    float row_2[3];
    #pragma unroll
    for (int i = 0; i < 3; i++) {
      row_2[i] = x_2[i];
    }
    if (0 + 384 > 257) {
      #pragma unroll
      for (int i = 0; i < 3; i++) {
        if ((lane) + (warp_in_group) * 32 + (i) * 128 >= 257) row_2[i] = 0;
      }
    }
    float sum_2[1];
    #pragma unroll
    for (int i = 0; i < 3; i++) {
      sum_2[0] = i % 3 == 0 ? row_2[i] : sum_2[0] + row_2[i];
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
    float t_3[1];
    t_3[0] = divide(sum_2[0], t_2);
    float centred[3];
    float t_5[3];
    #pragma unroll
    for (int i = 0; i < 3; i++) {
      centred[i] = row_2[i] - t_3[0];
      t_5[i] = centred[i] * centred[i];
    }
    if (0 + 384 > 257) {
      #pragma unroll
      for (int i = 0; i < 3; i++) {
        if ((lane) + (warp_in_group) * 32 + (i) * 128 >= 257) t_5[i] = 0;
      }
    }
    float sum_1[1];
    #pragma unroll
    for (int i = 0; i < 3; i++) {
      sum_1[0] = i % 3 == 0 ? t_5[i] : sum_1[0] + t_5[i];
    }
    #pragma unroll
    for (int r = 0; r < 1; r++) sum_1[r] = sum_1[r] + __shfl_xor_sync(0xffffffffu, sum_1[r], 1);
    #pragma unroll
    for (int r = 0; r < 1; r++) sum_1[r] = sum_1[r] + __shfl_xor_sync(0xffffffffu, sum_1[r], 2);
    #pragma unroll
    for (int r = 0; r < 1; r++) sum_1[r] = sum_1[r] + __shfl_xor_sync(0xffffffffu, sum_1[r], 4);
    #pragma unroll
    for (int r = 0; r < 1; r++) sum_1[r] = sum_1[r] + __shfl_xor_sync(0xffffffffu, sum_1[r], 8);
    #pragma unroll
    for (int r = 0; r < 1; r++) sum_1[r] = sum_1[r] + __shfl_xor_sync(0xffffffffu, sum_1[r], 16);
    #pragma unroll
    for (int r = 0; r < 1; r++) {
      group_sync(1 + worker, 128);  // scratch is free
      write_cell<float>(smem_scratch + worker * 1024, warp_in_group, sum_1[r]);
      group_sync(1 + worker, 128);
      float all = read_cell<float>(smem_scratch + worker * 1024, (0) * 1);
      #pragma unroll
      for (int q = 1; q < 4; q++) all = all + read_cell<float>(smem_scratch + worker * 1024, (q) * 1);
      sum_1[r] = all;
    }
    const float variance = divide(sum_1[0], t_2);
    const float t_9 = variance + eps;
    float t_10[1];
    t_10[0] = rsqrtf(t_9);
    #pragma unroll
    for (int i = 0; i < 3; i++) {
      const float t_14 = bias_2[i];
      const float t_12 = weight_2[i];
      const float t_11 = centred[i] * t_10[0];
      const float t_13 = t_11 * t_12;
      const float t_15 = t_13 + t_14;
      t_16[i] = t_15;
    }
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 3; i += 1) {
        if ((u32)(m_at) < (u32)dim_M && (u32)((lane) + (warp_in_group) * 32 + (i) * 128) < (u32)dim_N && (lane) + (warp_in_group) * 32 + (i) * 128 < 257) *(&out[(i64)(m_at) * out_stride0 + (i64)((lane) + (warp_in_group) * 32 + (i) * 128) * out_stride1]) = to_f16(t_16[i]);
      }
    }
  }
}
}
