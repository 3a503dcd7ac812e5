// copy_tiles for a100, planned by joint
// tiles: m 8, n 512; 1 workers, 256 threads, 8192 bytes of shared memory
#include "sm80.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
copy_tiles(const u16* __restrict__ x, const i64 x_stride0, const i64 x_stride1, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_M, const i32 dim_N) {
  extern __shared__ __align__(128) u8 raw[];
  const u32 smem = smem_address(raw);
  const u32 smem_x = smem + 0;  // 1 slots of 8 x 512 f16, row
  constexpr i32 worker = 0;
  const i32 warp_in_group = warp_index(), lane = lane_index();
  const i32 tiles_m = ceil_div(dim_M, 8);
  const i32 tiles_n = ceil_div(dim_N, 512);
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
    const i32 m_at = index_m * 8;
    const i32 n_at = index_n * 512;
    group_sync(1 + worker, 256);  // all have read what is overwritten now
    // load_x: x
    const u16* x_from = x + (i64)(m_at + (warp_in_group)) * x_stride0 + (i64)(n_at + (lane) * 8) * x_stride1;
    #pragma unroll
    for (int i = 0; i < 16; i += 8) {
      const u32 row = (warp_in_group), column = (lane) * 8 + (i) % 8 + (i / 8) * 256;
      copy_async_if<16>(smem_x + column / 256 * 4096 + row * 512 + (column % 256) * 2, x_from + (i64)((i) % 8 + (i / 8) * 256) * x_stride1, (u32)(m_at + (warp_in_group)) < (u32)dim_M && n_at + (lane) * 8 + (i) % 8 + (i / 8) * 256 < dim_N);
    }
    copy_commit();
    copy_wait<0>();  // dependence: load_x -> store_out (x)
    group_sync(1 + worker, 256);  // and so have the copies of the other threads
    // store_out
    float x_2[16];
    #pragma unroll
    for (int i = 0; i < 16; i += 8) {
      const u32 piece_row = (warp_in_group), piece_column = (lane) * 8 + (i) % 8 + (i / 8) * 256;
      u16 piece[8];
      read_shared<16>(piece, smem_x + piece_column / 256 * 4096 + piece_row * 512 + (piece_column % 256) * 2);
      #pragma unroll
      for (int e = 0; e < 8; e++) x_2[i + e] = from_f16(piece[e]);
    }
    {
      #pragma unroll
      for (int i = 0; i < 16; i += 8) {
        u32 words[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) words[e] = pack_f16(x_2[(i + 2 * e + 0)], x_2[(i + 2 * e + 1)]);
        store_words<16>(&out[(i64)(m_at + (warp_in_group)) * out_stride0 + (i64)(n_at + (lane) * 8 + (i) % 8 + (i / 8) * 256) * out_stride1], words, (u32)(m_at + (warp_in_group)) < (u32)dim_M && (u32)(n_at + (lane) * 8 + (i) % 8 + (i / 8) * 256) < (u32)dim_N && m_at + (warp_in_group) < dim_M && n_at + (lane) * 8 + (i) % 8 + (i / 8) * 256 < dim_N);
      }
    }
    ring_0_1_0.advance();
  }
}
