// column_sums for h200/8-direct, planned by joint
// tiles: m 1, n 128; 1 workers, 128 threads, 0 bytes of shared memory
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(128, 8)
column_sums(const float* __restrict__ x, const i64 x_stride0, const i64 x_stride1, float* __restrict__ out, const i64 out_stride0, const i32 dim_M, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
const i32 tiles_m = dim_M;
const i32 tiles_n = ceil_div(dim_N, 128);
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
    const i32 n_at = index_n * 128;
    float x_2[4];
    float sum_2[4];
    // load_x: x
    #pragma unroll
    for (int i = 0; i < 4; i += 4) {
      float piece[4];
      load_vector<16>(piece, &x[(i64)(m_at) * x_stride0 + (i64)(n_at + (lane) * 4 + (i)) * x_stride1], (u32)(m_at) < (u32)dim_M && (u32)(n_at + (lane) * 4 + (i)) < (u32)dim_N);
      #pragma unroll
      for (int e = 0; e < 4; e++) x_2[i + e] = piece[e];
    }
    // vector_sum: sum
    #pragma unroll
    for (int r = 0; r < 4; r++) sum_2[r] = 0;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      sum_2[i] = sum_2[i] + x_2[i];
    }
    // atomic_out
    if (warp_in_group % 4 == 0) {
      #pragma unroll
      for (int i = 0; i < 4; i += 1) {
        if ((u32)(n_at + (lane) * 4 + (i)) < (u32)dim_N && n_at + (lane) * 4 + (i) < dim_N) atomicAdd(&out[(i64)(n_at + (lane) * 4 + (i)) * out_stride0], sum_2[i]);
      }
    }
  }
}
}
