// block_sparse_matmul for h200, planned by joint:greedy
// tiles: n 16; 1 workers, 256 threads, 49280 bytes of shared memory
// loop 1: one iteration every 159 cycles, 2 stages (predicted)
#include "sm90.cuh"

LOOM_DEVICE void mma_m64n16k16_f16_k_mn(float* d, u64 a, u64 b, i32 accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 1;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
    : "l"(a), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(256, 1)
block_sparse_matmul(const u16* __restrict__ a, const i64 a_stride0, const i64 a_stride1, const u16* __restrict__ b, const i64 b_stride0, const i64 b_stride1, const u8* __restrict__ mask, const i64 mask_stride0, const i64 mask_stride1, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_K, const i32 dim_K_p_32_m_1_div_32, const i32 dim_M, const i32 dim_M_p_32_m_1_div_32, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_a = smem + 0;  // 4 slots of 64 x 32 f16, swizzle-128
const u32 smem_b = smem + 32768;  // 4 slots of 32 x 16 f16, swizzle-128
const u32 full_a = smem + 49152;  // 4 barriers
const u32 empty_a = smem + 49184;  // 4 barriers
const u32 full_b = smem + 49216;  // 4 barriers
const u32 empty_b = smem + 49248;  // 4 barriers
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_a + 0, 4);
  barrier_init(full_a + 8, 4);
  barrier_init(full_a + 16, 4);
  barrier_init(full_a + 24, 4);
  barrier_init(empty_a + 0, 4);
  barrier_init(empty_a + 8, 4);
  barrier_init(empty_a + 16, 4);
  barrier_init(empty_a + 24, 4);
  barrier_init(full_b + 0, 4);
  barrier_init(full_b + 8, 4);
  barrier_init(full_b + 16, 4);
  barrier_init(full_b + 24, 4);
  barrier_init(empty_b + 0, 4);
  barrier_init(empty_b + 8, 4);
  barrier_init(empty_b + 16, 4);
  barrier_init(empty_b + 24, 4);
  barrier_init_done();
}
__syncthreads();
const i32 tiles_i = dim_M_p_32_m_1_div_32;
const i32 tiles_n = ceil_div(dim_N, 16);
const i32 tiles = tiles_i * tiles_n;
if (group == 0) {
  // producer
  shrink_registers<160>();
  const bool elected = warp_in_group == 0 && lane == 0;  // feeds the copy engine
  Ring<4> ring_1_4_0;
  for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    i32 rest = tile;
    const i32 index_n = rest % tiles_n;
    rest /= tiles_n;
    const i32 index_i = rest;
    const i32 i_at = index_i;
    const i32 n_at = index_n * 16;
    const i32 count_2 = dim_K_p_32_m_1_div_32;
    for (i32 t_2 = 0; t_2 < count_2; t_2++) {
      const i32 j_at = (t_2);
      const bool mask_2 = (u32)(i_at) < (u32)dim_M_p_32_m_1_div_32 && (u32)(j_at) < (u32)dim_K_p_32_m_1_div_32 ? (mask[(i64)(i_at) * mask_stride0 + (i64)(j_at) * mask_stride1] != 0) : bool(0);
      barrier_wait(empty_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 1);  // slot-free: dot_acc -> load_a (a)
      // load_a: a
      if (mask_2) {
        #pragma unroll 1
        for (int i = 0; i < 32; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) * 16, column = (lane) % 8 * 8 + (i) % 8;
          u16 piece[8];
          #pragma unroll
          for (int e = 0; e < 8; e++) {
            piece[e] = (u32)(32 * (i_at) + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 16) < (u32)dim_M && (u32)(32 * (j_at) + (lane) % 8 * 8 + ((i + e)) % 8) < (u32)dim_K && (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 16 < 32 && (lane) % 8 * 8 + ((i + e)) % 8 < 32 ? a[(i64)(32 * (i_at) + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 16) * a_stride0 + (i64)(32 * (j_at) + (lane) % 8 * 8 + ((i + e)) % 8) * a_stride1] : (u16)0;
          }
          write_shared<16>(smem_a + ring_1_4_0.slot * 8192 + row * 128 + ((column) * 2 ^ (row & 7) * 16), piece);
        }
      }
      fence_to_async();  // dependence: load_a -> dot_acc (a)
      __syncwarp();
      if (lane == 0) barrier_arrive(full_a + 8 * ring_1_4_0.slot);  // dependence: load_a -> dot_acc (a)
      barrier_wait(empty_b + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 3);  // slot-free: dot_acc -> load_b (b)
      // load_b: b
      if (mask_2) {
        #pragma unroll 1
        for (int i = 0; i < 16; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) * 16, column = (lane) % 8 * 8 + (i) % 8;
          u16 piece[8];
          #pragma unroll
          for (int e = 0; e < 8; e++) {
            piece[e] = (u32)(32 * (j_at) + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 16) < (u32)dim_K && (u32)(n_at + (lane) % 8 * 8 + ((i + e)) % 8) < (u32)dim_N && n_at + (lane) % 8 * 8 + ((i + e)) % 8 < min(dim_N, n_at + 16) ? b[(i64)(32 * (j_at) + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 16) * b_stride0 + (i64)(n_at + (lane) % 8 * 8 + ((i + e)) % 8) * b_stride1] : (u16)0;
          }
          write_shared<16>(smem_b + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 2 ^ (row & 7) * 16), piece);
        }
      }
      fence_to_async();  // dependence: load_b -> dot_acc (b)
      __syncwarp();
      if (lane == 0) barrier_arrive(full_b + 8 * ring_1_4_0.slot);  // dependence: load_b -> dot_acc (b)
      ring_1_4_0.advance();
    }
  }
}
else if (group == 1) {
  // worker0
  grow_registers<240>();
  constexpr i32 worker = 0;
  const u64 smem_a_desc = descriptor_k_major(smem_a);
  const u64 smem_b_desc_across = descriptor_mn_major(smem_b, 4096);
  Ring<4> ring_1_4_0;
  Ring<4> ring_1_4_1;
  for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    i32 rest = tile;
    const i32 index_n = rest % tiles_n;
    rest /= tiles_n;
    const i32 index_i = rest;
    const i32 i_at = index_i;
    const i32 n_at = index_n * 16;
    float acc[8];
    float t_2[8];
    // vector_acc: acc
    const float c = 0.0f;
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      acc[i] = c;
    }
    const i32 count_2 = dim_K_p_32_m_1_div_32;
    for (i32 t_3 = 0; t_3 < count_2; t_3++) {
      const i32 j_at = (t_3);
      const i32 j_at_2 = (t_3 - 1);
      const bool mask_2 = (u32)(i_at) < (u32)dim_M_p_32_m_1_div_32 && (u32)(j_at) < (u32)dim_K_p_32_m_1_div_32 ? (mask[(i64)(i_at) * mask_stride0 + (i64)(j_at) * mask_stride1] != 0) : bool(0);
      const bool mask_3 = (u32)(i_at) < (u32)dim_M_p_32_m_1_div_32 && (u32)(j_at_2) < (u32)dim_K_p_32_m_1_div_32 ? (mask[(i64)(i_at) * mask_stride0 + (i64)(j_at_2) * mask_stride1] != 0) : bool(0);
      barrier_wait(full_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 0,  // dependence: load_a -> dot_acc (a)
                   full_b + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 2);  // dependence: load_b -> dot_acc (b)
      // dot_acc: acc.3
      if (mask_2) {
        mma_fence();
        #pragma unroll
        for (int k = 0; k < 2; k++) {
          mma_m64n16k16_f16_k_mn(acc, smem_a_desc + ring_1_4_0.slot * 512 + k * 2, smem_b_desc_across + ring_1_4_0.slot * 256 + k * 128, 1);
        }
      }
      mma_commit();
      mma_wait<1>();  // slot-free: dot_acc -> load_a (a)
      if (t_3 >= 1) {
        if (lane == 0) barrier_arrive(empty_a + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_a (a)
      }
      if (t_3 >= 1) {
        if (lane == 0) barrier_arrive(empty_b + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_b (b)
      }
      ring_1_4_0.advance();
      if (t_3 >= 1) ring_1_4_1.advance();
    }
    if (count_2 > 0) {
      // epilogue 0
      {
        const i32 j_at = (count_2 - 1);
        const bool mask_2 = (u32)(i_at) < (u32)dim_M_p_32_m_1_div_32 && (u32)(j_at) < (u32)dim_K_p_32_m_1_div_32 ? (mask[(i64)(i_at) * mask_stride0 + (i64)(j_at) * mask_stride1] != 0) : bool(0);
        mma_wait<0>();  // slot-free: dot_acc -> load_a (a)
        if (lane == 0) barrier_arrive(empty_a + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_a (a)
        if (lane == 0) barrier_arrive(empty_b + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_b (b)
        ring_1_4_1.advance();
      }
    }
    mma_wait<0>();  // dependence: dot_acc -> vector_t (acc)
    pin(acc);
    // vector_t: t.2
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      t_2[i] = acc[i];
    }
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 8; i += 1) {
        if ((u32)(32 * (i_at) + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8) < (u32)dim_M && (u32)(n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8) < (u32)dim_N && (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8 < 32 && n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 < dim_N) *(&out[(i64)(32 * (i_at) + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8) * out_stride0 + (i64)(n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8) * out_stride1]) = to_f16(t_2[i]);
      }
    }
  }
}
}
