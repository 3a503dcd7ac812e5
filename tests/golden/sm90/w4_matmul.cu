// w4_matmul for h200, planned by joint:greedy-aligned
// tiles: m 16, n 64; 1 workers, 256 threads, 32896 bytes of shared memory
// loop 1: one iteration every 817 cycles, 2 stages (predicted)
#include "sm90.cuh"

LOOM_DEVICE void mma_m64n16k16_f16_registers_k(float* d, const u32* a, u64 b, i32 accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, p, 1, 1, 0;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(256, 1)
w4_matmul(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_w, const u16* __restrict__ scales, const i64 scales_stride0, const i64 scales_stride1, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_K, const i32 dim_K_p_128_m_1_div_128, const i32 dim_M, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_w = smem + 0;  // 4 slots of 64 x 128 u4, row
const u32 smem_a = smem + 16384;  // 4 slots of 16 x 128 f16, swizzle-128
const u32 full_w = smem + 32768;  // 4 barriers
const u32 empty_w = smem + 32800;  // 4 barriers
const u32 full_a = smem + 32832;  // 4 barriers
const u32 empty_a = smem + 32864;  // 4 barriers
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_w + 0, 1);
  barrier_init(full_w + 8, 1);
  barrier_init(full_w + 16, 1);
  barrier_init(full_w + 24, 1);
  barrier_init(empty_w + 0, 4);
  barrier_init(empty_w + 8, 4);
  barrier_init(empty_w + 16, 4);
  barrier_init(empty_w + 24, 4);
  barrier_init(full_a + 0, 1);
  barrier_init(full_a + 8, 1);
  barrier_init(full_a + 16, 1);
  barrier_init(full_a + 24, 1);
  barrier_init(empty_a + 0, 4);
  barrier_init(empty_a + 8, 4);
  barrier_init(empty_a + 16, 4);
  barrier_init(empty_a + 24, 4);
  barrier_init_done();
}
__syncthreads();
const i32 tiles_m = ceil_div(dim_M, 16);
const i32 tiles_n = ceil_div(dim_N, 64);
const i32 tiles = tiles_m * tiles_n;
if (group == 0) {
  // producer
  shrink_registers<40>();
  if (warp_in_group == 0 && elect_lane()) {
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
      const i32 m_at = index_m * 16;
      const i32 n_at = index_n * 64;
      const i32 count_2 = dim_K_p_128_m_1_div_128;
      for (i32 t_2 = 0; t_2 < count_2; t_2++) {
        const i32 g_at = (t_2);
        barrier_wait(empty_w + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 1);  // slot-free: vector_weights -> load_w (w)
        // load_w: w
        barrier_expect(full_w + 8 * ring_1_4_0.slot, 4096);
        bulk_load(smem_w + ring_1_4_0.slot * 4096, &map_w, full_w + 8 * ring_1_4_0.slot, (128 * (g_at)) / 2, n_at);
        barrier_wait(empty_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 3);  // slot-free: dot_acc -> load_a (a)
        // load_a: a
        barrier_expect(full_a + 8 * ring_1_4_0.slot, 4096);
        bulk_load(smem_a + ring_1_4_0.slot * 4096, &map_a, full_a + 8 * ring_1_4_0.slot, 128 * (g_at), m_at);
        bulk_load(smem_a + ring_1_4_0.slot * 4096 + 2048, &map_a, full_a + 8 * ring_1_4_0.slot, 128 * (g_at) + 64, m_at);
        ring_1_4_0.advance();
      }
    }
  }
}
else if (group == 1) {
  // worker0
  grow_registers<240>();
  constexpr i32 worker = 0;
  const u64 smem_a_desc = descriptor_k_major(smem_a);
  Ring<4> ring_1_4_0;
  Ring<4> ring_1_4_1;
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
    const i32 n_at = index_n * 64;
    float acc[8];
    float t_6[8];
    float scales_2[2];
    u32 weights_packed[32];
    // vector_acc: acc
    const float c = 0.0f;
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      acc[i] = c;
    }
    const i32 count_2 = dim_K_p_128_m_1_div_128;
    u16 scales_ahead[2];
    const u16* scales_from[2];
    #pragma unroll
    for (int i = 0; i < 2; i++) scales_from[i] = &scales[(i64)(n_at + (lane / 4) + (warp_in_group) * 16 + (i) * 8) * scales_stride0];
    if (count_2 > 0) {
      const i32 g_at = (0);
      const i64 scales_moved = (i64)(g_at);
      #pragma unroll
      for (int i = 0; i < 2; i += 1) {
        scales_ahead[i] = (u32)(n_at + (lane / 4) + (warp_in_group) * 16 + (i) * 8) < (u32)dim_N && (u32)(g_at) < (u32)dim_K_p_128_m_1_div_128 ? scales_from[i][scales_moved] : u16(0);
      }
    }
    for (i32 later = 1; later < min(4, count_2); later++) {
      const i32 g_at_2 = (later);
      if ((g_at_2) % 16 < 1) {
        #pragma unroll
        for (int i = 0; i < 2; i += 1) {
          prefetch_global(&scales[(i64)(n_at + (lane / 4) + (warp_in_group) * 16 + (i) * 8) * scales_stride0 + (i64)(g_at_2)], (u32)(n_at + (lane / 4) + (warp_in_group) * 16 + (i) * 8) < (u32)dim_N && (u32)(g_at_2) < (u32)dim_K_p_128_m_1_div_128);
        }
      }
    }
    for (i32 t_2 = 0; t_2 < count_2; t_2++) {
      const i32 g_at_3 = (t_2);
      const i32 g_at_4 = (t_2 - 1);
      // load_scales: scales
      #pragma unroll
      for (int i = 0; i < 2; i++) scales_2[i] = from_f16(scales_ahead[i]);
      // for the next pass
      if (t_2 + 1 < count_2) {
        const i32 g_at_5 = (t_2 + 1);
        const i64 scales_moved_2 = (i64)(g_at_5);
        #pragma unroll
        for (int i = 0; i < 2; i += 1) {
          scales_ahead[i] = (u32)(n_at + (lane / 4) + (warp_in_group) * 16 + (i) * 8) < (u32)dim_N && (u32)(g_at_5) < (u32)dim_K_p_128_m_1_div_128 ? scales_from[i][scales_moved_2] : u16(0);
        }
      }
      if (t_2 + 4 < count_2) {
        const i32 g_at_6 = (t_2 + 4);
        if ((g_at_6) % 16 < 1) {
          #pragma unroll
          for (int i = 0; i < 2; i += 1) {
            prefetch_global(&scales[(i64)(n_at + (lane / 4) + (warp_in_group) * 16 + (i) * 8) * scales_stride0 + (i64)(g_at_6)], (u32)(n_at + (lane / 4) + (warp_in_group) * 16 + (i) * 8) < (u32)dim_N && (u32)(g_at_6) < (u32)dim_K_p_128_m_1_div_128);
          }
        }
      }
      barrier_wait(full_w + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 0);  // dependence: load_w -> vector_weights (w)
      mma_wait<0>();  // slot-free: dot_acc -> vector_weights (weights, 1 iterations earlier)
      pin(weights_packed);
      // vector_weights: weights
      {
        const u32 byte = 0x4040 + lane % 4 * 0x101;  // of each word, for both halves of a register
        const u32 parts = opaque(0x2c003c00);  // 1 and a sixteenth
        #pragma unroll
        for (int other = 0; other < 2; other++) {
          #pragma unroll
          for (int word = 0; word < 16; word += 4) {
            const int i = other / 1 % 2 * 2 + word * 4;
            const u32 piece_row = (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8, piece_column = (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8;
            u32 piece[4];
            read_shared<16>(piece, smem_w + ring_1_4_0.slot * 4096 + piece_row * 64 + (((piece_column & ~7)) / 2 ^ (piece_row / 2 & 3) * 16));
            const u32 scale = pack_f16(scales_2[(i / 2) % 2], scales_2[(i / 2) % 2]);
            #pragma unroll
            for (int e = 0; e < 4; e++) weights_packed[i / 2 + e * 2] = multiply_f16(nibbles_f16(piece[e], byte, parts, 0xd480e408), scale);
          }
        }
      }
      fence_to_async();  // what was read has left shared memory before a copy comes there
      __syncwarp();
      if (lane == 0) barrier_arrive(empty_w + 8 * ring_1_4_0.slot);  // slot-free: vector_weights -> load_w (w)
      if (t_2 >= 1) {
        if (lane == 0) barrier_arrive(empty_a + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_a (a)
      }
      barrier_wait(full_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 2);  // dependence: load_a -> dot_acc (a)
      // dot_acc: acc.2
      mma_fence();
      #pragma unroll
      for (int k = 0; k < 8; k++) {
        mma_m64n16k16_f16_registers_k(acc, weights_packed + 4 * k, smem_a_desc + ring_1_4_0.slot * 256 + k / 4 * 128 + k % 4 * 2, 1);
      }
      mma_commit();
      ring_1_4_0.advance();
      if (t_2 >= 1) ring_1_4_1.advance();
    }
    if (count_2 > 0) {
      // epilogue 0
      {
        const i32 g_at_3 = (count_2 - 1);
        mma_wait<0>();  // slot-free: dot_acc -> load_a (a)
        if (lane == 0) barrier_arrive(empty_a + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_a (a)
        ring_1_4_1.advance();
      }
    }
    mma_wait<0>();  // dependence: dot_acc -> vector_t (acc)
    pin(acc);
    // vector_t: t.6
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      t_6[i] = acc[i];
    }
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 8; i += 1) {
        if ((u32)(m_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8) < (u32)dim_M && (u32)(n_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8) < (u32)dim_N && m_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 < dim_M && n_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8 < dim_N) *(&out[(i64)(m_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8) * out_stride0 + (i64)(n_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8) * out_stride1]) = to_f16(t_6[i]);
      }
    }
  }
}
}
