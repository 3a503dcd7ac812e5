// scaled for h200/3-direct, planned by joint
// tiles: m 1; 1 workers, 128 threads, 0 bytes of shared memory
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(128, 3)
scaled(const float* __restrict__ x, const i64 x_stride0, const i64 x_stride1, float* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_M, const i32 dim_N, const float by) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
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
    float x_2[4];
    float t_2[4];
    // load_x: x
    #pragma unroll
    for (int i = 0; i < 4; i += 4) {
      float piece[4];
      load_vector<16>(piece, &x[(i64)(m_at) * x_stride0 + (i64)((lane) * 4 + (i)) * x_stride1], (u32)(m_at) < (u32)dim_M && (u32)((lane) * 4 + (i)) < (u32)dim_N);
      #pragma unroll
      for (int e = 0; e < 4; e++) x_2[i + e] = piece[e];
    }
    // vector_t: t
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      t_2[i] = x_2[i] * by;
    }
    // store_out
    if (warp_in_group % 4 == 0) {
      #pragma unroll
      for (int i = 0; i < 4; i += 4) {
        float piece[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) piece[e] = t_2[i + e];
        store_vector<16>(&out[(i64)(m_at) * out_stride0 + (i64)((lane) * 4 + (i)) * out_stride1], piece, (u32)(m_at) < (u32)dim_M && (u32)((lane) * 4 + (i)) < (u32)dim_N);
      }
    }
  }
}
}
