// softmax for a100, planned by joint
// tiles: m 8; 1 workers, 256 threads, 16384 bytes of shared memory
#include "sm80.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
softmax(const u16* __restrict__ x, const i64 x_stride0, const i64 x_stride1, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_M, const i32 dim_N) {
  extern __shared__ __align__(128) u8 raw[];
  const u32 smem = smem_address(raw);
  const u32 smem_x = smem + 0;  // 1 slots of 8 x 1024 f16, row
  constexpr i32 worker = 0;
  const i32 warp_in_group = warp_index(), lane = lane_index();
  const i32 tiles_m = ceil_div(dim_M, 8);
  const i32 tiles = tiles_m;
  Ring<1> ring_0_1_0;
  for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    i32 rest = tile;
    const i32 index_m = rest;
    const i32 m_at = index_m * 8;
    float t_4[32];
    group_sync(1 + worker, 256);  // all have read what is overwritten now
    // load_x: x
    const u16* x_from = x + (i64)(m_at + (warp_in_group)) * x_stride0 + (i64)((lane) * 8) * x_stride1;
    #pragma unroll
    for (int i = 0; i < 32; i += 8) {
      const u32 row = (warp_in_group), column = (lane) * 8 + (i) % 8 + (i / 8) * 256;
      copy_async_if<16>(smem_x + column / 256 * 4096 + row * 512 + (column % 256) * 2, x_from + (i64)((i) % 8 + (i / 8) * 256) * x_stride1, (u32)(m_at + (warp_in_group)) < (u32)dim_M && (lane) * 8 + (i) % 8 + (i / 8) * 256 < dim_N);
    }
    copy_commit();
    copy_wait<0>();  // dependence: load_x -> vector_t (x)
    group_sync(1 + worker, 256);  // and so have the copies of the other threads
    // vector_t: t.4
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
    float max_2[1];
    float max_2_parts[4];  // 4 chains a row: additions overlap
    #pragma unroll
    for (int i = 0; i < 32; i++) {
      max_2_parts[(0) * 4 + i % 4] = i % 8 < 4 && i / 8 % 4 == 0 ? row_2[i] : fmax_nan(max_2_parts[(0) * 4 + i % 4], row_2[i]);
    }
    #pragma unroll
    for (int r = 0; r < 1; r++) {
      max_2[r] = fmax_nan(fmax_nan(fmax_nan(max_2_parts[4 * r], max_2_parts[4 * r + 1]), max_2_parts[4 * r + 2]), max_2_parts[4 * r + 3]);
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
    for (int i = 0; i < 32; i++) {
      const float t_1 = row_2[i] - max_2[0];
      row_2[i] = expf(t_1);
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
    #pragma unroll
    for (int i = 0; i < 32; i++) {
      const float t_3 = divide(row_2[i], sum_2[0]);
      t_4[i] = from_f16(to_f16(t_3));
    }
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 32; i += 8) {
        u32 words[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) words[e] = pack_f16(t_4[(i + 2 * e + 0)], t_4[(i + 2 * e + 1)]);
        store_words<16>(&out[(i64)(m_at + (warp_in_group)) * out_stride0 + (i64)((lane) * 8 + (i) % 8 + (i / 8) * 256) * out_stride1], words, (u32)(m_at + (warp_in_group)) < (u32)dim_M && (u32)((lane) * 8 + (i) % 8 + (i / 8) * 256) < (u32)dim_N && m_at + (warp_in_group) < dim_M);
      }
    }
    ring_0_1_0.advance();
  }
}
