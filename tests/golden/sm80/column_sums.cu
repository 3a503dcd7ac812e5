// column_sums for a100, planned by joint
// tiles: m 16, n 128; 1 workers, 256 threads, 10240 bytes of shared memory
#include "sm80.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
column_sums(const float* __restrict__ x, const i64 x_stride0, const i64 x_stride1, float* __restrict__ out, const i64 out_stride0, const i32 dim_M, const i32 dim_N) {
  extern __shared__ __align__(128) u8 raw[];
  const u32 smem = smem_address(raw);
  const u32 smem_x = smem + 0;  // 1 slots of 16 x 128 f32, row
  const u32 smem_scratch = smem + 8192;  // where warps exchange values
  constexpr i32 worker = 0;
  const i32 warp_in_group = warp_index(), lane = lane_index();
  const i32 tiles_m = ceil_div(dim_M, 16);
  const i32 tiles_n = ceil_div(dim_N, 128);
  const i32 tiles = tiles_m * tiles_n;
  Ring<1> ring_0_1_0;
  for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    i32 rest = tile;
    i32 plane = tiles_m * tiles_n;
    i32 in_plane = rest % plane;
    rest /= plane;
    // 16 tiles of m are visited together: both operands stay in L2
    const i32 band = in_plane / (16 * tiles_n);
    const i32 height = min(16, tiles_m - band * 16);
    const i32 in_band = in_plane - band * 16 * tiles_n;
    const i32 index_m = band * 16 + in_band % height;
    const i32 index_n = in_band / height;
    const i32 m_at = index_m * 16;
    const i32 n_at = index_n * 128;
    float sum_2[4];
    group_sync(1 + worker, 256);  // all have read what is overwritten now
    // load_x: x
    const float* x_from = x + (i64)(m_at + (warp_in_group)) * x_stride0 + (i64)(n_at + (lane) * 4) * x_stride1;
    #pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const u32 row = (warp_in_group) + (i / 4) * 8, column = (lane) * 4 + (i) % 4;
      copy_async_if<16>(smem_x + row * 512 + (column) * 4, x_from + (i64)((i / 4) * 8) * x_stride0 + (i64)((i) % 4) * x_stride1, (u32)(m_at + (warp_in_group) + (i / 4) * 8) < (u32)dim_M && n_at + (lane) * 4 + (i) % 4 < dim_N);
    }
    copy_commit();
    copy_wait<0>();  // dependence: load_x -> vector_sum (x)
    group_sync(1 + worker, 256);  // and so have the copies of the other threads
    // vector_sum: sum
    float x_2[8];
    #pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const u32 piece_row = (warp_in_group) + (i / 4) * 8, piece_column = (lane) * 4 + (i) % 4;
      float piece[4];
      read_shared<16>(piece, smem_x + piece_row * 512 + (piece_column) * 4);
      #pragma unroll
      for (int e = 0; e < 4; e++) x_2[i + e] = piece[e];
    }
    if (m_at + 16 > dim_M) {
      #pragma unroll
      for (int i = 0; i < 8; i++) {
        if (m_at + (warp_in_group) + (i / 4) * 8 >= dim_M) x_2[i] = 0;
      }
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      sum_2[(i) % 4] = i / 4 % 2 == 0 ? x_2[i] : sum_2[(i) % 4] + x_2[i];
    }
    #pragma unroll
    for (int r = 0; r < 4; r++) {
      group_sync(1 + worker, 256);  // scratch is free
      write_cell<float>(smem_scratch + worker * 2048, warp_in_group, sum_2[r]);
      group_sync(1 + worker, 256);
      float all = read_cell<float>(smem_scratch + worker * 2048, (0) * 1);
      #pragma unroll
      for (int q = 1; q < 8; q++) all = all + read_cell<float>(smem_scratch + worker * 2048, (q) * 1);
      sum_2[r] = all;
    }
    // atomic_out
    if (warp_in_group % 8 == 0) {
      #pragma unroll
      for (int i = 0; i < 4; i += 1) {
        if ((u32)(n_at + (lane) * 4 + (i)) < (u32)dim_N && n_at + (lane) * 4 + (i) < dim_N) atomicAdd(&out[(i64)(n_at + (lane) * 4 + (i)) * out_stride0], sum_2[i]);
      }
    }
    ring_0_1_0.advance();
  }
}
