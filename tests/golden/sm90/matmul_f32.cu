// matmul for h200, planned by joint:greedy
// tiles: m 64, n 16, k 32; 1 workers, 256 threads, 50320 bytes of shared memory
// loop 1: one iteration every 418 cycles, 1 stages (predicted)
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
matmul(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_bias, float* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_K, const i32 dim_M, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_a = smem + 0;  // 4 slots of 64 x 32 f32, swizzle-128
const u32 smem_b = smem + 32768;  // 4 slots of 32 x 32 f32, swizzle-128
const u32 smem_bias = smem + 49152;  // 1 slots of 32 f32, row
const u32 full_bias = smem + 50176;  // 1 barriers
const u32 empty_bias = smem + 50184;  // 1 barriers
const u32 full_a = smem + 50192;  // 4 barriers
const u32 empty_a = smem + 50224;  // 4 barriers
const u32 full_b = smem + 50256;  // 4 barriers
const u32 empty_b = smem + 50288;  // 4 barriers
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_bias + 0, 1);
  barrier_init(empty_bias + 0, 4);
  barrier_init(full_a + 0, 1);
  barrier_init(full_a + 8, 1);
  barrier_init(full_a + 16, 1);
  barrier_init(full_a + 24, 1);
  barrier_init(empty_a + 0, 4);
  barrier_init(empty_a + 8, 4);
  barrier_init(empty_a + 16, 4);
  barrier_init(empty_a + 24, 4);
  barrier_init(full_b + 0, 1);
  barrier_init(full_b + 8, 1);
  barrier_init(full_b + 16, 1);
  barrier_init(full_b + 24, 1);
  barrier_init(empty_b + 0, 4);
  barrier_init(empty_b + 8, 4);
  barrier_init(empty_b + 16, 4);
  barrier_init(empty_b + 24, 4);
  barrier_init_done();
}
__syncthreads();
const i32 tiles_m = ceil_div(dim_M, 64);
const i32 tiles_n = ceil_div(dim_N, 16);
const i32 tiles = tiles_m * tiles_n;
if (group == 0) {
  // producer
  shrink_registers<40>();
  if (warp_in_group == 0 && elect_lane()) {
    Ring<1> ring_0_1_0;
    Ring<4> ring_1_4_0;
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
      const i32 m_at = index_m * 64;
      const i32 n_at = index_n * 16;
      const i32 count_2 = ceil_div(dim_K, 32);
      for (i32 t_2 = 0; t_2 < count_2; t_2++) {
        const i32 k_at = (t_2) * 32;
        barrier_wait(empty_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 3);  // slot-free: dot_acc -> load_a (a)
        // load_a: a
        barrier_expect(full_a + 8 * ring_1_4_0.slot, 8192);
        bulk_load(smem_a + ring_1_4_0.slot * 8192, &map_a, full_a + 8 * ring_1_4_0.slot, k_at, m_at);
        barrier_wait(empty_b + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 5);  // slot-free: dot_acc -> load_b (b)
        // load_b: b
        barrier_expect(full_b + 8 * ring_1_4_0.slot, 4096);
        bulk_load(smem_b + ring_1_4_0.slot * 4096, &map_b, full_b + 8 * ring_1_4_0.slot, n_at, k_at);
        ring_1_4_0.advance();
      }
      barrier_wait(empty_bias, ring_0_1_0.phase ^ 1, 1);  // slot-free: vector_t -> load_bias (bias)
      // load_bias: bias
      barrier_expect(full_bias, 128);
      bulk_load(smem_bias, &map_bias, full_bias, n_at);
      ring_0_1_0.advance();
    }
  }
}
else if (group == 1) {
  // worker0
  grow_registers<240>();
  constexpr i32 worker = 0;
  const u64 smem_a_desc = descriptor_k_major(smem_a);
  const u64 smem_b_desc_across = descriptor_mn_major(smem_b, 4096);
  Ring<1> ring_0_1_0;
  Ring<4> ring_1_4_0;
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
    const i32 m_at = index_m * 64;
    const i32 n_at = index_n * 16;
    float acc[16];
    float t_3[16];
    // vector_acc: acc
    const float c = 0.0f;
    #pragma unroll
    for (int i = 0; i < 16; i++) {
      acc[i] = c;
    }
    const i32 count_2 = ceil_div(dim_K, 32);
    for (i32 t_2 = 0; t_2 < count_2; t_2++) {
      const i32 k_at = (t_2) * 32;
      barrier_wait(full_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 2,  // dependence: load_a -> dot_acc (a)
                   full_b + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 4);  // dependence: load_b -> dot_acc (b)
      // dot_acc: acc.2
      {
        #pragma unroll 1
        for (int depth = 0; depth < 8; depth++) {
          float from_rows[4][4], from_columns[4][4];
          #pragma unroll
          for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int e = 0; e < 4; e += 4) {
              const u32 at_row = (lane / 8 + warp_in_group * 4 + 16 * i), at_column = depth * 4 + e;
              float piece[4];
              read_shared<16>(piece, smem_a + ring_1_4_0.slot * 8192 + at_row * 128 + ((at_column) * 4 ^ (at_row & 7) * 16));
              #pragma unroll
              for (int f = 0; f < 4; f++) from_rows[i][e + f] = (float)(piece[f]);
            }
          }
          #pragma unroll
          for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int e = 0; e < 4; e += 1) {
              const u32 at_row = (depth * 4 + e), at_column = (lane % 8 + i / 4 * 8) * 4 + i % 4;
              float piece[1];
              read_shared<4>(piece, smem_b + ring_1_4_0.slot * 4096 + at_row * 128 + ((at_column) * 4 ^ (at_row & 7) * 16));
              #pragma unroll
              for (int f = 0; f < 1; f++) from_columns[i][e + f] = (float)(piece[f]);
            }
          }
          #pragma unroll
          for (int i = 0; i < 16; i++) {
            #pragma unroll
            for (int e = 0; e < 4; e++) acc[i] += from_rows[i / 4][e] * from_columns[i % 4][e];
          }
        }
      }
      fence_to_async();  // what was read has left shared memory before a copy comes there
      __syncwarp();
      if (lane == 0) barrier_arrive(empty_a + 8 * ring_1_4_0.slot);  // slot-free: dot_acc -> load_a (a)
      __syncwarp();
      if (lane == 0) barrier_arrive(empty_b + 8 * ring_1_4_0.slot);  // slot-free: dot_acc -> load_b (b)
      ring_1_4_0.advance();
    }
    barrier_wait(full_bias, ring_0_1_0.phase, 0);  // dependence: load_bias -> vector_t (bias)
    // vector_t: t.3
    float bias_2[4];
    #pragma unroll
    for (int i = 0; i < 4; i += 4) {
      const u32 piece_row = 0, piece_column = (lane) % 8 * 4 + (i);
      float piece[4];
      read_shared<16>(piece, smem_bias + piece_row * 128 + (piece_column) * 4);
      #pragma unroll
      for (int e = 0; e < 4; e++) bias_2[i + e] = piece[e];
    }
    #pragma unroll
    for (int i = 0; i < 16; i++) {
      const float t_2_2 = acc[i] + bias_2[(i) % 4];
      t_3[i] = fmax_nan(t_2_2, c);
    }
    fence_to_async();  // what was read has left shared memory before a copy comes there
    __syncwarp();
    if (lane == 0) barrier_arrive(empty_bias);  // slot-free: vector_t -> load_bias (bias)
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        float piece[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) piece[e] = t_3[i + e];
        store_vector<16>(&out[(i64)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) * 16) * out_stride0 + (i64)(n_at + (lane) % 8 * 4 + (i) % 4) * out_stride1], piece, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) * 16) < (u32)dim_M && (u32)(n_at + (lane) % 8 * 4 + (i) % 4) < (u32)dim_N && m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) * 16 < dim_M && n_at + (lane) % 8 * 4 + (i) % 4 < min(dim_N, n_at + 16));
      }
    }
    ring_0_1_0.advance();
  }
}
}
