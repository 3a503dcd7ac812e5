// rmsnorm for h200/2, planned by joint
// tiles: m 2; 1 workers, 256 threads, 7200 bytes of shared memory
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(256, 2)
rmsnorm(const __grid_constant__ TensorMap map_weight, const __grid_constant__ TensorMap map_x, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_M, const i32 dim_N, const float eps) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_x = smem + 0;  // 1 slots of 2 x 1024 f16, row
const u32 smem_weight = smem + 4096;  // 1 slots of 1024 f16, row
const u32 full_weight = smem + 6144;  // 1 barriers
const u32 empty_weight = smem + 6152;  // 1 barriers
const u32 full_x = smem + 6160;  // 1 barriers
const u32 empty_x = smem + 6168;  // 1 barriers
const u32 smem_scratch = smem + 6176;  // where warps of a worker exchange values
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_weight + 0, 1);
  barrier_init(empty_weight + 0, 4);
  barrier_init(full_x + 0, 1);
  barrier_init(empty_x + 0, 4);
  barrier_init_done();
}
__syncthreads();
const i32 tiles_m = ceil_div(dim_M, 2);
const i32 tiles = tiles_m;
if (group == 0) {
  // producer
  shrink_registers<40>();
  if (warp_in_group == 0 && elect_lane()) {
    Ring<1> ring_0_1_0;
    for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      i32 rest = tile;
      const i32 index_m = rest;
      const i32 m_at = index_m * 2;
      const float t_3 = (float)(dim_N);
      barrier_wait(empty_x, ring_0_1_0.phase ^ 1, 3);  // slot-free: vector_t -> load_x (x)
      // load_x: x
      barrier_expect(full_x, 4096);
      bulk_load(smem_x, &map_x, full_x, 0, m_at);
      bulk_load(smem_x + 1024, &map_x, full_x, 256, m_at);
      bulk_load(smem_x + 2048, &map_x, full_x, 512, m_at);
      bulk_load(smem_x + 3072, &map_x, full_x, 768, m_at);
      barrier_wait(empty_weight, ring_0_1_0.phase ^ 1, 1);  // slot-free: vector_t -> load_weight (weight)
      // load_weight: weight
      barrier_expect(full_weight, 2048);
      bulk_load(smem_weight, &map_weight, full_weight, 0);
      bulk_load(smem_weight + 512, &map_weight, full_weight, 256);
      bulk_load(smem_weight + 1024, &map_weight, full_weight, 512);
      bulk_load(smem_weight + 1536, &map_weight, full_weight, 768);
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
    const i32 index_m = rest;
    const i32 m_at = index_m * 2;
    float t_10[16];
    const float t_3 = (float)(dim_N);
    barrier_wait(full_weight, ring_0_1_0.phase, 0,  // dependence: load_weight -> vector_t (weight)
                 full_x, ring_0_1_0.phase, 2);  // dependence: load_x -> vector_t (x)
    // vector_t: t.10
    float row_2[16];
    #pragma unroll
    for (int p = 0; p < 16; p += 8) {
      const u32 x_piece_row = (warp_in_group) % 2, x_piece_column = (lane) * 8 + (warp_in_group / 2) * 256 + ((p)) % 8 + ((p) / 8) * 512;
      u16 x_piece[8];
      read_shared<16>(x_piece, smem_x + x_piece_column / 256 * 1024 + x_piece_row * 512 + (x_piece_column % 256) * 2);
      #pragma unroll
      for (int e = 0; e < 8; e++) {
        const int i = p + e;
        row_2[i] = from_f16(x_piece[e]);
      }
    }
    float sum_2[1];
    float sum_2_parts[4];  // 4 chains a row: additions overlap
    #pragma unroll
    for (int i = 0; i < 16; i++) {
      const float t_1 = row_2[i] * row_2[i];
      sum_2_parts[(0) * 4 + i % 4] = i % 8 < 4 && i / 8 % 2 == 0 ? t_1 : sum_2_parts[(0) * 4 + i % 4] + t_1;
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
    for (int r = 0; r < 1; r++) {
      group_sync(1 + worker, 128);  // scratch is free
      write_cell<float>(smem_scratch + worker * 1024, warp_in_group, sum_2[r]);
      group_sync(1 + worker, 128);
      float all = read_cell<float>(smem_scratch + worker * 1024, (0) * 2 + warp_in_group % 2);
      #pragma unroll
      for (int q = 1; q < 2; q++) all = all + read_cell<float>(smem_scratch + worker * 1024, (q) * 2 + warp_in_group % 2);
      sum_2[r] = all;
    }
    const float t_4 = divide(sum_2[0], t_3);
    const float t_5 = t_4 + eps;
    float scale[1];
    scale[0] = rsqrtf(t_5);
    #pragma unroll
    for (int p = 0; p < 16; p += 8) {
      const u32 weight_piece_row = 0, weight_piece_column = (lane) * 8 + (warp_in_group / 2) * 256 + ((p)) % 8 + ((p) / 8) * 512;
      u16 weight_piece[8];
      read_shared<16>(weight_piece, smem_weight + weight_piece_column / 256 * 512 + weight_piece_row * 512 + (weight_piece_column % 256) * 2);
      #pragma unroll
      for (int e = 0; e < 8; e++) {
        const int i = p + e;
        const float t_8 = from_f16(weight_piece[e]);
        const float t_7 = row_2[i] * scale[0];
        const float t_9 = t_7 * t_8;
        t_10[i] = t_9;
      }
    }
    fence_to_async();  // what was read has left shared memory before a copy comes there
    __syncwarp();
    if (lane == 0) barrier_arrive(empty_weight);  // slot-free: vector_t -> load_weight (weight)
    __syncwarp();
    if (lane == 0) barrier_arrive(empty_x);  // slot-free: vector_t -> load_x (x)
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 16; i += 8) {
        u32 words[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) words[e] = pack_f16(t_10[(i + 2 * e + 0)], t_10[(i + 2 * e + 1)]);
        store_words<16>(&out[(i64)(m_at + (warp_in_group) % 2) * out_stride0 + (i64)((lane) * 8 + (warp_in_group / 2) * 256 + (i) % 8 + (i / 8) * 512) * out_stride1], words, (u32)(m_at + (warp_in_group) % 2) < (u32)dim_M && (u32)((lane) * 8 + (warp_in_group / 2) * 256 + (i) % 8 + (i / 8) * 512) < (u32)dim_N && m_at + (warp_in_group) % 2 < dim_M);
      }
    }
    ring_0_1_0.advance();
  }
}
}
