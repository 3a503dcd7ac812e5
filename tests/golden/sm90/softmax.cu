// softmax for h200/4, planned by joint
// tiles: m 1; 1 workers, 256 threads, 3088 bytes of shared memory
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(256, 4)
softmax(const __grid_constant__ TensorMap map_x, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_M, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_x = smem + 0;  // 1 slots of 1 x 1024 f16, row
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
      barrier_expect(full_x, 2048);
      bulk_load(smem_x, &map_x, full_x, 0, m_at);
      bulk_load(smem_x + 512, &map_x, full_x, 256, m_at);
      bulk_load(smem_x + 1024, &map_x, full_x, 512, m_at);
      bulk_load(smem_x + 1536, &map_x, full_x, 768, m_at);
      ring_0_1_0.advance();
    }
  }
}
else if (group == 1) {
  // worker0
  grow_registers<88>();
  constexpr i32 worker = 0;
  Ring<1> ring_0_1_0;
  for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    i32 rest = tile;
    const i32 index_m = rest;
    const i32 m_at = index_m;
    float t_4[8];
    barrier_wait(full_x, ring_0_1_0.phase, 0);  // dependence: load_x -> vector_t (x)
    // vector_t: t.4
    float x_2[8];
    #pragma unroll
    for (int i = 0; i < 8; i += 8) {
      const u32 piece_row = 0, piece_column = (lane) * 8 + (warp_in_group) * 256 + (i);
      u16 piece[8];
      read_shared<16>(piece, smem_x + piece_column / 256 * 512 + piece_row * 512 + (piece_column % 256) * 2);
      #pragma unroll
      for (int e = 0; e < 8; e++) x_2[i + e] = from_f16(piece[e]);
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      x_2[i] = x_2[i];
    }
    float max_2[1];
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      max_2[0] = i % 8 == 0 ? x_2[i] : fmax_nan(max_2[0], x_2[i]);
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
    for (int r = 0; r < 1; r++) {
      group_sync(1 + worker, 128);  // scratch is free
      write_cell<float>(smem_scratch + worker * 1024, warp_in_group, max_2[r]);
      group_sync(1 + worker, 128);
      float all = read_cell<float>(smem_scratch + worker * 1024, (0) * 1);
      #pragma unroll
      for (int q = 1; q < 4; q++) all = fmax_nan(all, read_cell<float>(smem_scratch + worker * 1024, (q) * 1));
      max_2[r] = all;
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      const float t_1 = x_2[i] - max_2[0];
      x_2[i] = exp2_fast(fmaf(x_2[i], LOOM_LOG2E, -(max_2[0] * LOOM_LOG2E)));
    }
    float sum_2[1];
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      sum_2[0] = i % 8 == 0 ? x_2[i] : sum_2[0] + x_2[i];
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
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      const float t_3 = divide(x_2[i], sum_2[0]);
      t_4[i] = t_3;
    }
    fence_to_async();  // what was read has left shared memory before a copy comes there
    __syncwarp();
    if (lane == 0) barrier_arrive(empty_x);  // slot-free: vector_t -> load_x (x)
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 8; i += 8) {
        u32 words[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) words[e] = pack_f16(t_4[(i + 2 * e + 0)], t_4[(i + 2 * e + 1)]);
        store_words<16>(&out[(i64)(m_at) * out_stride0 + (i64)((lane) * 8 + (warp_in_group) * 256 + (i)) * out_stride1], words, (u32)(m_at) < (u32)dim_M && (u32)((lane) * 8 + (warp_in_group) * 256 + (i)) < (u32)dim_N);
      }
    }
    ring_0_1_0.advance();
  }
}
}
