// conv2d for h200, planned by joint:greedy
// tiles: i 1, j 64, f 16, c 64; 1 workers, 256 threads, 65664 bytes of shared memory
// loop 1: one iteration every 288 cycles, 2 stages (predicted)
#include "sm90.cuh"

LOOM_DEVICE void mma_m64n16k16_f16_k_mn(float* d, u64 a, u64 b, i32 accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 1;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
    : "l"(a), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(256, 1)
conv2d(const u16* __restrict__ x, const i64 x_stride0, const i64 x_stride1, const i64 x_stride2, const i64 x_stride3, const u16* __restrict__ w, const i64 w_stride0, const i64 w_stride1, const i64 w_stride2, const i64 w_stride3, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i64 out_stride2, const i64 out_stride3, const i32 dim_B, const i32 dim_C, const i32 dim_F, const i32 dim_H, const i32 dim_H_p_2_x_1_m_R_div_1_p_1, const i32 dim_R, const i32 dim_S, const i32 dim_W, const i32 dim_W_p_2_x_1_m_S_div_1_p_1) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_x = smem + 0;  // 4 slots of 1 x 64 x 64 f16, swizzle-128
const u32 smem_w = smem + 32768;  // 4 slots of 64 x 16 f16, swizzle-128
const u32 full_w = smem + 65536;  // 4 barriers
const u32 empty_w = smem + 65568;  // 4 barriers
const u32 full_x = smem + 65600;  // 4 barriers
const u32 empty_x = smem + 65632;  // 4 barriers
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_w + 0, 4);
  barrier_init(full_w + 8, 4);
  barrier_init(full_w + 16, 4);
  barrier_init(full_w + 24, 4);
  barrier_init(empty_w + 0, 4);
  barrier_init(empty_w + 8, 4);
  barrier_init(empty_w + 16, 4);
  barrier_init(empty_w + 24, 4);
  barrier_init(full_x + 0, 4);
  barrier_init(full_x + 8, 4);
  barrier_init(full_x + 16, 4);
  barrier_init(full_x + 24, 4);
  barrier_init(empty_x + 0, 4);
  barrier_init(empty_x + 8, 4);
  barrier_init(empty_x + 16, 4);
  barrier_init(empty_x + 24, 4);
  barrier_init_done();
}
__syncthreads();
const i32 tiles_b = dim_B;
const i32 tiles_i = dim_H_p_2_x_1_m_R_div_1_p_1;
const i32 tiles_j = ceil_div(dim_W_p_2_x_1_m_S_div_1_p_1, 64);
const i32 tiles_f = ceil_div(dim_F, 16);
const i32 tiles = tiles_b * tiles_i * tiles_j * tiles_f;
if (group == 0) {
  // producer
  shrink_registers<160>();
  const bool elected = warp_in_group == 0 && lane == 0;  // feeds the copy engine
  Ring<4> ring_1_4_0;
  for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    i32 rest = tile;
    const i32 index_f = rest % tiles_f;
    rest /= tiles_f;
    const i32 index_j = rest % tiles_j;
    rest /= tiles_j;
    const i32 index_i = rest % tiles_i;
    rest /= tiles_i;
    const i32 index_b = rest;
    const i32 b_at = index_b;
    const i32 i_at = index_i;
    const i32 j_at = index_j * 64;
    const i32 f_at = index_f * 16;
    const i32 tiles_r = dim_R;
    const i32 tiles_s = dim_S;
    const i32 tiles_c = ceil_div(dim_C, 64);
    const i32 count_2 = tiles_r * tiles_s * tiles_c;
    for (i32 t_2 = 0; t_2 < count_2; t_2++) {
      i32 rest_2 = t_2;
      const i32 index_c = rest_2 % tiles_c;
      rest_2 /= tiles_c;
      const i32 index_s = rest_2 % tiles_s;
      rest_2 /= tiles_s;
      const i32 index_r = rest_2;
      const i32 r_at = index_r;
      const i32 s_at = index_s;
      const i32 c_at = index_c * 64;
      barrier_wait(empty_x + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 3);  // slot-free: dot_acc -> load_x (x)
      // load_x: x
      #pragma unroll 1
      for (int i = 0; i < 32; i += 8) {
        const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) * 16 + (0) * 64, column = (lane) % 8 * 8 + (i) % 8;
        u16 piece[8];
        #pragma unroll
        for (int e = 0; e < 8; e++) {
          piece[e] = (u32)(b_at) < (u32)dim_B && (u32)(i_at + r_at + -1) < (u32)dim_H && (u32)(j_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 16 + s_at + -1) < (u32)dim_W && (u32)(c_at + (lane) % 8 * 8 + ((i + e)) % 8) < (u32)dim_C && j_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 16 < dim_W_p_2_x_1_m_S_div_1_p_1 && c_at + (lane) % 8 * 8 + ((i + e)) % 8 < dim_C ? x[(i64)(b_at) * x_stride0 + (i64)(i_at + r_at + -1) * x_stride1 + (i64)(j_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 16 + s_at + -1) * x_stride2 + (i64)(c_at + (lane) % 8 * 8 + ((i + e)) % 8) * x_stride3] : (u16)0;
        }
        write_shared<16>(smem_x + ring_1_4_0.slot * 8192 + row * 128 + ((column) * 2 ^ (row & 7) * 16), piece);
      }
      fence_to_async();  // dependence: load_x -> dot_acc (x)
      __syncwarp();
      if (lane == 0) barrier_arrive(full_x + 8 * ring_1_4_0.slot);  // dependence: load_x -> dot_acc (x)
      barrier_wait(empty_w + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 1);  // slot-free: dot_acc -> load_w (w)
      // load_w: w
      #pragma unroll 1
      for (int i = 0; i < 32; i += 8) {
        const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) * 16, column = (lane) % 8 * 8 + (i) % 8;
        u16 piece[8];
        #pragma unroll
        for (int e = 0; e < 8; e++) {
          piece[e] = (u32)(r_at) < (u32)dim_R && (u32)(s_at) < (u32)dim_S && (u32)(c_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 16) < (u32)dim_C && (u32)(f_at + (lane) % 8 * 8 + ((i + e)) % 8) < (u32)dim_F && c_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 16 < dim_C && f_at + (lane) % 8 * 8 + ((i + e)) % 8 < min(dim_F, f_at + 16) ? w[(i64)(r_at) * w_stride0 + (i64)(s_at) * w_stride1 + (i64)(c_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 16) * w_stride2 + (i64)(f_at + (lane) % 8 * 8 + ((i + e)) % 8) * w_stride3] : (u16)0;
        }
        write_shared<16>(smem_w + ring_1_4_0.slot * 8192 + row * 128 + ((column) * 2 ^ (row & 7) * 16), piece);
      }
      fence_to_async();  // dependence: load_w -> dot_acc (w)
      __syncwarp();
      if (lane == 0) barrier_arrive(full_w + 8 * ring_1_4_0.slot);  // dependence: load_w -> dot_acc (w)
      ring_1_4_0.advance();
    }
  }
}
else if (group == 1) {
  // worker0
  grow_registers<240>();
  constexpr i32 worker = 0;
  const u64 smem_x_desc = descriptor_k_major(smem_x);
  const u64 smem_w_desc_across = descriptor_mn_major(smem_w, 8192);
  Ring<4> ring_1_4_0;
  Ring<4> ring_1_4_1;
  for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    i32 rest = tile;
    const i32 index_f = rest % tiles_f;
    rest /= tiles_f;
    const i32 index_j = rest % tiles_j;
    rest /= tiles_j;
    const i32 index_i = rest % tiles_i;
    rest /= tiles_i;
    const i32 index_b = rest;
    const i32 b_at = index_b;
    const i32 i_at = index_i;
    const i32 j_at = index_j * 64;
    const i32 f_at = index_f * 16;
    float acc[8];
    float t_2[8];
    // vector_acc: acc
    const float c = 0.0f;
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      acc[i] = c;
    }
    const i32 tiles_r = dim_R;
    const i32 tiles_s = dim_S;
    const i32 tiles_c = ceil_div(dim_C, 64);
    const i32 count_2 = tiles_r * tiles_s * tiles_c;
    for (i32 t_3 = 0; t_3 < count_2; t_3++) {
      i32 rest_2 = t_3;
      const i32 index_c = rest_2 % tiles_c;
      rest_2 /= tiles_c;
      const i32 index_s = rest_2 % tiles_s;
      rest_2 /= tiles_s;
      const i32 index_r = rest_2;
      const i32 r_at = index_r;
      const i32 s_at = index_s;
      const i32 c_at = index_c * 64;
      i32 rest_3 = t_3 - 1;
      const i32 index_c_2 = rest_3 % tiles_c;
      rest_3 /= tiles_c;
      const i32 index_s_2 = rest_3 % tiles_s;
      rest_3 /= tiles_s;
      const i32 index_r_2 = rest_3;
      const i32 r_at_2 = index_r_2;
      const i32 s_at_2 = index_s_2;
      const i32 c_at_2 = index_c_2 * 64;
      barrier_wait(full_w + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 0,  // dependence: load_w -> dot_acc (w)
                   full_x + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 2);  // dependence: load_x -> dot_acc (x)
      // dot_acc: acc.2
      mma_fence();
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        mma_m64n16k16_f16_k_mn(acc, smem_x_desc + ring_1_4_0.slot * 512 + k * 2, smem_w_desc_across + ring_1_4_0.slot * 512 + k * 128, 1);
      }
      mma_commit();
      mma_wait<1>();  // slot-free: dot_acc -> load_w (w)
      if (t_3 >= 1) {
        if (lane == 0) barrier_arrive(empty_w + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_w (w)
      }
      if (t_3 >= 1) {
        if (lane == 0) barrier_arrive(empty_x + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_x (x)
      }
      ring_1_4_0.advance();
      if (t_3 >= 1) ring_1_4_1.advance();
    }
    if (count_2 > 0) {
      // epilogue 0
      {
        i32 rest_2 = count_2 - 1;
        const i32 index_c = rest_2 % tiles_c;
        rest_2 /= tiles_c;
        const i32 index_s = rest_2 % tiles_s;
        rest_2 /= tiles_s;
        const i32 index_r = rest_2;
        const i32 r_at = index_r;
        const i32 s_at = index_s;
        const i32 c_at = index_c * 64;
        mma_wait<0>();  // slot-free: dot_acc -> load_w (w)
        if (lane == 0) barrier_arrive(empty_w + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_w (w)
        if (lane == 0) barrier_arrive(empty_x + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_x (x)
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
        if ((u32)(b_at) < (u32)dim_B && (u32)(i_at) < (u32)dim_H_p_2_x_1_m_R_div_1_p_1 && (u32)(j_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8) < (u32)dim_W_p_2_x_1_m_S_div_1_p_1 && (u32)(f_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8) < (u32)dim_F && j_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8 < dim_W_p_2_x_1_m_S_div_1_p_1 && f_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 < dim_F) *(&out[(i64)(b_at) * out_stride0 + (i64)(i_at) * out_stride1 + (i64)(j_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8) * out_stride2 + (i64)(f_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8) * out_stride3]) = to_f16(t_2[i]);
      }
    }
  }
}
}
