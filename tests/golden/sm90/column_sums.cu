// column_sums for h200/2, planned by joint
// tiles: m 4, n 128; 1 workers, 256 threads, 3088 bytes of shared memory
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(256, 2)
column_sums(const __grid_constant__ TensorMap map_x, float* __restrict__ out, const i64 out_stride0, const i32 dim_M, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_x = smem + 0;  // 1 slots of 4 x 128 f32, row
const u32 full_x = smem + 2048;  // 1 barriers
const u32 empty_x = smem + 2056;  // 1 barriers
const u32 smem_scratch = smem + 2064;  // where warps of a worker exchange values
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_x + 0, 1);
  barrier_init(empty_x + 0, 4);
  barrier_init_done();
}
__syncthreads();
const i32 tiles_m = ceil_div(dim_M, 4);
const i32 tiles_n = ceil_div(dim_N, 128);
const i32 tiles = tiles_m * tiles_n;
if (group == 0) {
  // producer
  shrink_registers<40>();
  if (warp_in_group == 0 && elect_lane()) {
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
      const i32 m_at = index_m * 4;
      const i32 n_at = index_n * 128;
      barrier_wait(empty_x, ring_0_1_0.phase ^ 1, 1);  // slot-free: vector_sum -> load_x (x)
      // load_x: x
      barrier_expect(full_x, 2048);
      bulk_load(smem_x, &map_x, full_x, n_at, m_at);
      ring_0_1_0.advance();
    }
  }
}
else if (group == 1) {
  // worker0
  grow_registers<216>();
  constexpr i32 worker = 0;
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
    const i32 m_at = index_m * 4;
    const i32 n_at = index_n * 128;
    float sum_2[4];
    barrier_wait(full_x, ring_0_1_0.phase, 0);  // dependence: load_x -> vector_sum (x)
    // vector_sum: sum
    float x_2[4];
    #pragma unroll
    for (int i = 0; i < 4; i += 4) {
      const u32 piece_row = (warp_in_group), piece_column = (lane) * 4 + (i);
      float piece[4];
      read_shared<16>(piece, smem_x + piece_row * 512 + (piece_column) * 4);
      #pragma unroll
      for (int e = 0; e < 4; e++) x_2[i + e] = piece[e];
    }
    if (m_at + 4 > dim_M) {
      #pragma unroll
      for (int i = 0; i < 4; i++) {
        if (m_at + (warp_in_group) >= dim_M) x_2[i] = 0;
      }
    }
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      sum_2[i] = x_2[i];
    }
    #pragma unroll
    for (int r = 0; r < 4; r++) {
      group_sync(1 + worker, 128);  // scratch is free
      write_cell<float>(smem_scratch + worker * 1024, warp_in_group, sum_2[r]);
      group_sync(1 + worker, 128);
      float all = read_cell<float>(smem_scratch + worker * 1024, (0) * 1);
      #pragma unroll
      for (int q = 1; q < 4; q++) all = all + read_cell<float>(smem_scratch + worker * 1024, (q) * 1);
      sum_2[r] = all;
    }
    fence_to_async();  // what was read has left shared memory before a copy comes there
    __syncwarp();
    if (lane == 0) barrier_arrive(empty_x);  // slot-free: vector_sum -> load_x (x)
    // atomic_out
    if (warp_in_group % 4 == 0) {
      #pragma unroll
      for (int i = 0; i < 4; i += 1) {
        if ((u32)(n_at + (lane) * 4 + (i)) < (u32)dim_N && n_at + (lane) * 4 + (i) < dim_N) atomicAdd(&out[(i64)(n_at + (lane) * 4 + (i)) * out_stride0], sum_2[i]);
      }
    }
    ring_0_1_0.advance();
  }
}
}
