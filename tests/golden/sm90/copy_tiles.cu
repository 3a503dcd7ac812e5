// copy_tiles for h200/8-direct, planned by joint
// tiles: m 1, n 256; 1 workers, 128 threads, 0 bytes of shared memory
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(128, 8)
copy_tiles(const u16* __restrict__ x, const i64 x_stride0, const i64 x_stride1, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_M, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
const i32 tiles_m = dim_M;
const i32 tiles_n = ceil_div(dim_N, 256);
const i32 tiles = tiles_m * tiles_n;
{
  // worker0
  constexpr i32 worker = 0;
  for (i32 tile = blockIdx.x; tile < tiles; tile = tiles) {
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
    const i32 m_at = index_m;
    const i32 n_at = index_n * 256;
    float x_2[8];
    // load_x: x
    #pragma unroll
    for (int i = 0; i < 8; i += 8) {
      u16 piece[8];
      load_vector<16>(piece, &x[(i64)(m_at) * x_stride0 + (i64)(n_at + (lane) * 8 + (i)) * x_stride1], (u32)(m_at) < (u32)dim_M && (u32)(n_at + (lane) * 8 + (i)) < (u32)dim_N);
      #pragma unroll
      for (int e = 0; e < 8; e++) x_2[i + e] = from_f16(piece[e]);
    }
    // store_out
    if (warp_in_group % 4 == 0) {
      #pragma unroll
      for (int i = 0; i < 8; i += 8) {
        u32 words[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) words[e] = pack_f16(x_2[(i + 2 * e + 0)], x_2[(i + 2 * e + 1)]);
        store_words<16>(&out[(i64)(m_at) * out_stride0 + (i64)(n_at + (lane) * 8 + (i)) * out_stride1], words, (u32)(m_at) < (u32)dim_M && (u32)(n_at + (lane) * 8 + (i)) < (u32)dim_N && n_at + (lane) * 8 + (i) < dim_N);
      }
    }
  }
}
}
