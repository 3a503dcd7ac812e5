// layernorm for a100, planned by joint
// tiles: m 8; 1 workers, 256 threads, 20480 bytes of shared memory
#include "sm80.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
layernorm(const u16* __restrict__ x, const i64 x_stride0, const i64 x_stride1, const u16* __restrict__ weight, const i64 weight_stride0, const u16* __restrict__ bias, const i64 bias_stride0, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_M, const i32 dim_N, const float eps) {
  extern __shared__ __align__(128) u8 raw[];
  const u32 smem = smem_address(raw);
  const u32 smem_x = smem + 0;  // 1 slots of 8 x 1024 f16, row
  const u32 smem_weight = smem + 16384;  // 1 slots of 1024 f16, row
  const u32 smem_bias = smem + 18432;  // 1 slots of 1024 f16, row
  constexpr i32 worker = 0;
  const i32 warp_in_group = warp_index(), lane = lane_index();
  const i32 tiles_m = ceil_div(dim_M, 8);
  const i32 tiles = tiles_m;
  Ring<1> ring_0_1_0;
  for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    i32 rest = tile;
    const i32 index_m = rest;
    const i32 m_at = index_m * 8;
    float t_16[32];
    const float t_2 = (float)(dim_N);
    group_sync(1 + worker, 256);  // all have read what is overwritten now
    // load_x: x
    const u16* x_from = x + (i64)(m_at + (warp_in_group)) * x_stride0 + (i64)((lane) * 8) * x_stride1;
    #pragma unroll
    for (int i = 0; i < 32; i += 8) {
      const u32 row = (warp_in_group), column = (lane) * 8 + (i) % 8 + (i / 8) * 256;
      copy_async_if<16>(smem_x + column / 256 * 4096 + row * 512 + (column % 256) * 2, x_from + (i64)((i) % 8 + (i / 8) * 256) * x_stride1, (u32)(m_at + (warp_in_group)) < (u32)dim_M && (lane) * 8 + (i) % 8 + (i / 8) * 256 < dim_N);
    }
    copy_commit();
    // load_weight: weight
    const u16* weight_from = weight + (i64)((lane) * 8) * weight_stride0;
    #pragma unroll
    for (int i = 0; i < 32; i += 8) {
      const u32 row = 0, column = (lane) * 8 + (i) % 8 + (i / 8) * 256;
      if (warp_in_group % 8 == 0) copy_async_if<16>(smem_weight + column / 256 * 512 + row * 512 + (column % 256) * 2, weight_from + (i64)((i) % 8 + (i / 8) * 256) * weight_stride0, (lane) * 8 + (i) % 8 + (i / 8) * 256 < dim_N);
    }
    copy_commit();
    // load_bias: bias
    const u16* bias_from = bias + (i64)((lane) * 8) * bias_stride0;
    #pragma unroll
    for (int i = 0; i < 32; i += 8) {
      const u32 row = 0, column = (lane) * 8 + (i) % 8 + (i / 8) * 256;
      if (warp_in_group % 8 == 0) copy_async_if<16>(smem_bias + column / 256 * 512 + row * 512 + (column % 256) * 2, bias_from + (i64)((i) % 8 + (i / 8) * 256) * bias_stride0, (lane) * 8 + (i) % 8 + (i / 8) * 256 < dim_N);
    }
    copy_commit();
    copy_wait<0>();  // dependence: load_bias -> vector_t (bias)
    group_sync(1 + worker, 256);  // and so have the copies of the other threads
    // vector_t: t.16
    float row_2[32];
    #pragma unroll
    for (int p = 0; p < 32; p += 8) {
      const u32 x_piece_row = (warp_in_group), x_piece_column = (lane) * 8 + ((p)) % 8 + ((p) / 8) * 256;
      u16 x_piece[8];
      read_shared<16>(x_piece, smem_x + x_piece_column / 256 * 4096 + x_piece_row * 512 + (x_piece_column % 256) * 2);
      #pragma unroll
      for (int e = 0; e < 8; e++) {
        const int i = p + e;
        row_2[i] = from_f16(x_piece[e]);
      }
    }
    float sum_2[1];
    float sum_2_parts[4];  // 4 chains a row: additions overlap
    #pragma unroll
    for (int i = 0; i < 32; i++) {
      sum_2_parts[(0) * 4 + i % 4] = i % 8 < 4 && i / 8 % 4 == 0 ? row_2[i] : sum_2_parts[(0) * 4 + i % 4] + row_2[i];
    }
    #pragma unroll
    for (int r = 0; r < 1; r++) {
      sum_2[r] = sum_2_parts[4 * r] + sum_2_parts[4 * r + 1] + sum_2_parts[4 * r + 2] + sum_2_parts[4 * r + 3];
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
    float t_3[1];
    t_3[0] = divide(sum_2[0], t_2);
    #pragma unroll
    for (int i = 0; i < 32; i++) {
      row_2[i] = row_2[i] - t_3[0];
    }
    float sum_1[1];
    float sum_1_parts[4];  // 4 chains a row: additions overlap
    #pragma unroll
    for (int i = 0; i < 32; i++) {
      const float t_5 = row_2[i] * row_2[i];
      sum_1_parts[(0) * 4 + i % 4] = i % 8 < 4 && i / 8 % 4 == 0 ? t_5 : sum_1_parts[(0) * 4 + i % 4] + t_5;
    }
    #pragma unroll
    for (int r = 0; r < 1; r++) {
      sum_1[r] = sum_1_parts[4 * r] + sum_1_parts[4 * r + 1] + sum_1_parts[4 * r + 2] + sum_1_parts[4 * r + 3];
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
    const float variance = divide(sum_1[0], t_2);
    const float t_9 = variance + eps;
    float t_10[1];
    t_10[0] = rsqrtf(t_9);
    #pragma unroll
    for (int p = 0; p < 32; p += 8) {
      const u32 bias_piece_row = 0, bias_piece_column = (lane) * 8 + ((p)) % 8 + ((p) / 8) * 256;
      u16 bias_piece[8];
      read_shared<16>(bias_piece, smem_bias + bias_piece_column / 256 * 512 + bias_piece_row * 512 + (bias_piece_column % 256) * 2);
      const u32 weight_piece_row = 0, weight_piece_column = (lane) * 8 + ((p)) % 8 + ((p) / 8) * 256;
      u16 weight_piece[8];
      read_shared<16>(weight_piece, smem_weight + weight_piece_column / 256 * 512 + weight_piece_row * 512 + (weight_piece_column % 256) * 2);
      #pragma unroll
      for (int e = 0; e < 8; e++) {
        const int i = p + e;
        const float t_14 = from_f16(bias_piece[e]);
        const float t_12 = from_f16(weight_piece[e]);
        const float t_11 = row_2[i] * t_10[0];
        const float t_13 = t_11 * t_12;
        const float t_15 = t_13 + t_14;
        t_16[i] = from_f16(to_f16(t_15));
      }
    }
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 32; i += 8) {
        u32 words[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) words[e] = pack_f16(t_16[(i + 2 * e + 0)], t_16[(i + 2 * e + 1)]);
        store_words<16>(&out[(i64)(m_at + (warp_in_group)) * out_stride0 + (i64)((lane) * 8 + (i) % 8 + (i / 8) * 256) * out_stride1], words, (u32)(m_at + (warp_in_group)) < (u32)dim_M && (u32)((lane) * 8 + (i) % 8 + (i / 8) * 256) < (u32)dim_N && m_at + (warp_in_group) < dim_M);
      }
    }
    ring_0_1_0.advance();
  }
}
