// scaled for h200, planned by joint
// tiles: m 1; 1 workers, 256 threads, 1040 bytes of shared memory
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
scaled(const __grid_constant__ TensorMap map_x, float* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_M, const i32 dim_N, const float by) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_x = smem + 0;  // 1 slots of 1 x 128 f32, row
const u32 full_x = smem + 1024;  // 1 barriers
const u32 empty_x = smem + 1032;  // 1 barriers
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_x + 0, 1);
  barrier_init(empty_x + 0, 4);
  barrier_init_done();
}
__syncthreads();
const i32 tiles_m = dim_M;
const i32 tiles = tiles_m;
if (group == 0) {
  // producer
  shrink_registers<40>();
  if (warp_in_group == 0 && elect_lane()) {
    Ring<1> ring_0_1_0;
    for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      i32 rest = tile;
      const i32 index_m = rest;
      const i32 m_at = index_m;
      barrier_wait(empty_x, ring_0_1_0.phase ^ 1, 1);  // slot-free: vector_t -> load_x (x)
      // load_x: x
      barrier_expect(full_x, 512);
      bulk_load(smem_x, &map_x, full_x, 0, m_at);
      ring_0_1_0.advance();
    }
  }
}
else if (group == 1) {
  // worker0
  grow_registers<240>();
  constexpr i32 worker = 0;
  Ring<1> ring_0_1_0;
  for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    i32 rest = tile;
    const i32 index_m = rest;
    const i32 m_at = index_m;
    float t_2[4];
    barrier_wait(full_x, ring_0_1_0.phase, 0);  // dependence: load_x -> vector_t (x)
    // vector_t: t
    float x_2[4];
    #pragma unroll
    for (int i = 0; i < 4; i += 4) {
      const u32 piece_row = 0, piece_column = (lane) * 4 + (i);
      float piece[4];
      read_shared<16>(piece, smem_x + piece_row * 512 + (piece_column) * 4);
      #pragma unroll
      for (int e = 0; e < 4; e++) x_2[i + e] = piece[e];
    }
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      t_2[i] = x_2[i] * by;
    }
    fence_to_async();  // what was read has left shared memory before a copy comes there
    __syncwarp();
    if (lane == 0) barrier_arrive(empty_x);  // slot-free: vector_t -> load_x (x)
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
    ring_0_1_0.advance();
  }
}
}
