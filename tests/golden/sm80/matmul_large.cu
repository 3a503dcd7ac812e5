// matmul for a100, planned by joint:greedy
// tiles: m 128, n 160, k 64; 1 workers, 256 threads, 164480 bytes of shared memory
// loop 1: one iteration every 1681 cycles, 2 stages (predicted)
#include "sm80.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
matmul(const u16* __restrict__ a, const i64 a_stride0, const i64 a_stride1, const u16* __restrict__ b, const i64 b_stride0, const i64 b_stride1, const float* __restrict__ bias, const i64 bias_stride0, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_K, const i32 dim_M, const i32 dim_N) {
  extern __shared__ __align__(128) u8 raw[];
  const u32 smem = smem_address(raw);
  const u32 smem_a = smem + 0;  // 4 slots of 128 x 64 bf16, swizzle-128
  const u32 smem_b = smem + 65536;  // 4 slots of 64 x 160 bf16, swizzle-128
  const u32 smem_bias = smem + 163840;  // 1 slots of 160 f32, row
  constexpr i32 worker = 0;
  const i32 warp_in_group = warp_index(), lane = lane_index();
  const i32 tiles_m = ceil_div(dim_M, 128);
  const i32 tiles_n = ceil_div(dim_N, 160);
  const i32 tiles = tiles_m * tiles_n;
  Ring<1> ring_0_1_0;
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
    const i32 m_at = index_m * 128;
    const i32 n_at = index_n * 160;
    float acc[80];
    float t_4[80];
    // vector_acc: acc
    const float c = 0.0f;
    #pragma unroll
    for (int i = 0; i < 80; i++) {
      acc[i] = c;
    }
    const i32 count_2 = ceil_div(dim_K, 64);
    i32 t_2 = 0;
    // the pipeline fills
    for (; t_2 < 1; t_2++) {
      const i32 k_at = (t_2) * 64;
      const i32 k_at_2 = (t_2 - 1) * 64;
      // load_a: a
      if ((u32)(t_2) < (u32)count_2) {
        const u16* a_from = a + (i64)(m_at + (lane / 8) + (warp_in_group) * 4) * a_stride0 + (i64)(k_at + (lane) % 8 * 8) * a_stride1;
        #pragma unroll
        for (int i = 0; i < 32; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) * 32, column = (lane) % 8 * 8 + (i) % 8;
          copy_async_if<16>(smem_a + ring_1_4_0.slot * 16384 + row * 128 + ((column) * 2 ^ (row & 7) * 16), a_from + (i64)((i / 8) * 32) * a_stride0 + (i64)((i) % 8) * a_stride1, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 8) * 32) < (u32)dim_M && k_at + (lane) % 8 * 8 + (i) % 8 < dim_K);
        }
      }
      copy_commit();
      // load_b: b
      if ((u32)(t_2) < (u32)count_2) {
        const u16* b_from = b + (i64)(k_at + (lane / 8) + (warp_in_group) * 4) * b_stride0 + (i64)(n_at + (lane) % 8 * 8) * b_stride1;
        #pragma unroll 3
        for (int i = 0; i < 48; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) % 2 * 32, column = (lane) % 8 * 8 + (i) % 8 + (i / 16) * 64;
          copy_async_if<16>(smem_b + ring_1_4_0.slot * 24576 + column / 64 * 8192 + row * 128 + ((column % 64) * 2 ^ (row & 7) * 16), b_from + (i64)((i / 8) % 2 * 32) * b_stride0 + (i64)((i) % 8 + (i / 16) * 64) * b_stride1, (u32)(k_at + (lane / 8) + (warp_in_group) * 4 + (i / 8) % 2 * 32) < (u32)dim_K && n_at + (lane) % 8 * 8 + (i) % 8 + (i / 16) * 64 < dim_N && n_at + (lane) % 8 * 8 + (i) % 8 + (i / 16) * 64 < min(dim_N, n_at + 160));
        }
      }
      copy_commit();
      copy_wait<2>();  // dependence: load_b -> dot_acc (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      if ((u32)(t_2 - 1) < (u32)count_2) {
        #pragma unroll
        for (int k = 0; k < 4; k++) {
          u32 x[4][4];
          #pragma unroll
          for (int i = 0; i < 4; i++) {
            load_matrices(x[i], chunk_at(smem_a + ring_1_4_1.slot * 16384 + (warp_in_group % 2 * 16 + i * 32 + lane % 16) * 128, k * 2 + lane / 16, lane));
          }
          #pragma unroll
          for (int j = 0; j < 4; j += 2) {
            u32 y[4];
            load_matrices_turned(y, chunk_at(smem_b + ring_1_4_1.slot * 24576 + ((warp_in_group / 2 * 40 + j * 8) / 8 + lane / 16) / 8 * 8192 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, ((warp_in_group / 2 * 40 + j * 8) / 8 + lane / 16) % 8, lane));
            #pragma unroll
            for (int i = 0; i < 4; i++) {
              mma_bf16(acc + 4 * (i * 5 + j), x[i], y);
              mma_bf16(acc + 4 * (i * 5 + j + 1), x[i], y + 2);
            }
          }
          #pragma unroll
          for (int j = 4; j < 5; j++) {
            u32 y[2];
            load_two_matrices_turned(y, chunk_at(smem_b + ring_1_4_1.slot * 24576 + ((warp_in_group / 2 * 40 + j * 8) / 8) / 8 * 8192 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, ((warp_in_group / 2 * 40 + j * 8) / 8) % 8, lane));
            #pragma unroll
            for (int i = 0; i < 4; i++) {
              mma_bf16(acc + 4 * (i * 5 + j), x[i], y);
            }
          }
        }
      }
      if ((u32)(t_2) < (u32)count_2) ring_1_4_0.advance();
      if ((u32)(t_2 - 1) < (u32)count_2) ring_1_4_1.advance();
    }
    // steady state
    for (; t_2 < count_2; t_2++) {
      const i32 k_at = (t_2) * 64;
      const i32 k_at_2 = (t_2 - 1) * 64;
      // load_a: a
      const u16* a_from = a + (i64)(m_at + (lane / 8) + (warp_in_group) * 4) * a_stride0 + (i64)(k_at + (lane) % 8 * 8) * a_stride1;
      #pragma unroll
      for (int i = 0; i < 32; i += 8) {
        const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) * 32, column = (lane) % 8 * 8 + (i) % 8;
        copy_async_if<16>(smem_a + ring_1_4_0.slot * 16384 + row * 128 + ((column) * 2 ^ (row & 7) * 16), a_from + (i64)((i / 8) * 32) * a_stride0 + (i64)((i) % 8) * a_stride1, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 8) * 32) < (u32)dim_M && k_at + (lane) % 8 * 8 + (i) % 8 < dim_K);
      }
      copy_commit();
      // load_b: b
      const u16* b_from = b + (i64)(k_at + (lane / 8) + (warp_in_group) * 4) * b_stride0 + (i64)(n_at + (lane) % 8 * 8) * b_stride1;
      #pragma unroll 3
      for (int i = 0; i < 48; i += 8) {
        const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) % 2 * 32, column = (lane) % 8 * 8 + (i) % 8 + (i / 16) * 64;
        copy_async_if<16>(smem_b + ring_1_4_0.slot * 24576 + column / 64 * 8192 + row * 128 + ((column % 64) * 2 ^ (row & 7) * 16), b_from + (i64)((i / 8) % 2 * 32) * b_stride0 + (i64)((i) % 8 + (i / 16) * 64) * b_stride1, (u32)(k_at + (lane / 8) + (warp_in_group) * 4 + (i / 8) % 2 * 32) < (u32)dim_K && n_at + (lane) % 8 * 8 + (i) % 8 + (i / 16) * 64 < dim_N && n_at + (lane) % 8 * 8 + (i) % 8 + (i / 16) * 64 < min(dim_N, n_at + 160));
      }
      copy_commit();
      copy_wait<2>();  // dependence: load_b -> dot_acc (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        u32 x[4][4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
          load_matrices(x[i], chunk_at(smem_a + ring_1_4_1.slot * 16384 + (warp_in_group % 2 * 16 + i * 32 + lane % 16) * 128, k * 2 + lane / 16, lane));
        }
        #pragma unroll
        for (int j = 0; j < 4; j += 2) {
          u32 y[4];
          load_matrices_turned(y, chunk_at(smem_b + ring_1_4_1.slot * 24576 + ((warp_in_group / 2 * 40 + j * 8) / 8 + lane / 16) / 8 * 8192 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, ((warp_in_group / 2 * 40 + j * 8) / 8 + lane / 16) % 8, lane));
          #pragma unroll
          for (int i = 0; i < 4; i++) {
            mma_bf16(acc + 4 * (i * 5 + j), x[i], y);
            mma_bf16(acc + 4 * (i * 5 + j + 1), x[i], y + 2);
          }
        }
        #pragma unroll
        for (int j = 4; j < 5; j++) {
          u32 y[2];
          load_two_matrices_turned(y, chunk_at(smem_b + ring_1_4_1.slot * 24576 + ((warp_in_group / 2 * 40 + j * 8) / 8) / 8 * 8192 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, ((warp_in_group / 2 * 40 + j * 8) / 8) % 8, lane));
          #pragma unroll
          for (int i = 0; i < 4; i++) {
            mma_bf16(acc + 4 * (i * 5 + j), x[i], y);
          }
        }
      }
      ring_1_4_0.advance();
      ring_1_4_1.advance();
    }
    // the pipeline drains
    for (; t_2 < count_2 + 1; t_2++) {
      const i32 k_at = (t_2) * 64;
      const i32 k_at_2 = (t_2 - 1) * 64;
      // load_a: a
      if ((u32)(t_2) < (u32)count_2) {
        const u16* a_from = a + (i64)(m_at + (lane / 8) + (warp_in_group) * 4) * a_stride0 + (i64)(k_at + (lane) % 8 * 8) * a_stride1;
        #pragma unroll
        for (int i = 0; i < 32; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) * 32, column = (lane) % 8 * 8 + (i) % 8;
          copy_async_if<16>(smem_a + ring_1_4_0.slot * 16384 + row * 128 + ((column) * 2 ^ (row & 7) * 16), a_from + (i64)((i / 8) * 32) * a_stride0 + (i64)((i) % 8) * a_stride1, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 8) * 32) < (u32)dim_M && k_at + (lane) % 8 * 8 + (i) % 8 < dim_K);
        }
      }
      copy_commit();
      // load_b: b
      if ((u32)(t_2) < (u32)count_2) {
        const u16* b_from = b + (i64)(k_at + (lane / 8) + (warp_in_group) * 4) * b_stride0 + (i64)(n_at + (lane) % 8 * 8) * b_stride1;
        #pragma unroll 3
        for (int i = 0; i < 48; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) % 2 * 32, column = (lane) % 8 * 8 + (i) % 8 + (i / 16) * 64;
          copy_async_if<16>(smem_b + ring_1_4_0.slot * 24576 + column / 64 * 8192 + row * 128 + ((column % 64) * 2 ^ (row & 7) * 16), b_from + (i64)((i / 8) % 2 * 32) * b_stride0 + (i64)((i) % 8 + (i / 16) * 64) * b_stride1, (u32)(k_at + (lane / 8) + (warp_in_group) * 4 + (i / 8) % 2 * 32) < (u32)dim_K && n_at + (lane) % 8 * 8 + (i) % 8 + (i / 16) * 64 < dim_N && n_at + (lane) % 8 * 8 + (i) % 8 + (i / 16) * 64 < min(dim_N, n_at + 160));
        }
      }
      copy_commit();
      copy_wait<2>();  // dependence: load_b -> dot_acc (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      if ((u32)(t_2 - 1) < (u32)count_2) {
        #pragma unroll
        for (int k = 0; k < 4; k++) {
          u32 x[4][4];
          #pragma unroll
          for (int i = 0; i < 4; i++) {
            load_matrices(x[i], chunk_at(smem_a + ring_1_4_1.slot * 16384 + (warp_in_group % 2 * 16 + i * 32 + lane % 16) * 128, k * 2 + lane / 16, lane));
          }
          #pragma unroll
          for (int j = 0; j < 4; j += 2) {
            u32 y[4];
            load_matrices_turned(y, chunk_at(smem_b + ring_1_4_1.slot * 24576 + ((warp_in_group / 2 * 40 + j * 8) / 8 + lane / 16) / 8 * 8192 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, ((warp_in_group / 2 * 40 + j * 8) / 8 + lane / 16) % 8, lane));
            #pragma unroll
            for (int i = 0; i < 4; i++) {
              mma_bf16(acc + 4 * (i * 5 + j), x[i], y);
              mma_bf16(acc + 4 * (i * 5 + j + 1), x[i], y + 2);
            }
          }
          #pragma unroll
          for (int j = 4; j < 5; j++) {
            u32 y[2];
            load_two_matrices_turned(y, chunk_at(smem_b + ring_1_4_1.slot * 24576 + ((warp_in_group / 2 * 40 + j * 8) / 8) / 8 * 8192 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, ((warp_in_group / 2 * 40 + j * 8) / 8) % 8, lane));
            #pragma unroll
            for (int i = 0; i < 4; i++) {
              mma_bf16(acc + 4 * (i * 5 + j), x[i], y);
            }
          }
        }
      }
      if ((u32)(t_2) < (u32)count_2) ring_1_4_0.advance();
      if ((u32)(t_2 - 1) < (u32)count_2) ring_1_4_1.advance();
    }
    group_sync(1 + worker, 256);  // all have read what is overwritten now
    // load_bias: bias
    const float* bias_from = bias + (i64)(n_at + (lane) * 4) * bias_stride0;
    #pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const u32 row = 0, column = (lane) * 4 + (i) % 4 + (i / 4) * 128;
      if (warp_in_group % 8 == 0 && (lane) * 4 + (i) % 4 + (i / 4) * 128 < 160) copy_async_if<16>(smem_bias + row * 640 + (column) * 4, bias_from + (i64)((i) % 4 + (i / 4) * 128) * bias_stride0, (lane) * 4 + (i) % 4 + (i / 4) * 128 < 160 && n_at + (lane) * 4 + (i) % 4 + (i / 4) * 128 < dim_N && n_at + (lane) * 4 + (i) % 4 + (i / 4) * 128 < min(dim_N, n_at + 160));
    }
    copy_commit();
    copy_wait<0>();  // dependence: load_bias -> vector_t (bias)
    group_sync(1 + worker, 256);  // and so have the copies of the other threads
    // vector_t: t.4
    float bias_2[10];
    #pragma unroll
    for (int i = 0; i < 10; i += 2) {
      const u32 piece_row = 0, piece_column = (lane) % 4 * 2 + (warp_in_group / 2) * 40 + (i) % 2 + (i / 2) * 8;
      float piece[2];
      read_shared<8>(piece, smem_bias + piece_row * 640 + (piece_column) * 4);
      #pragma unroll
      for (int e = 0; e < 2; e++) bias_2[i + e] = piece[e];
    }
    #pragma unroll
    for (int i = 0; i < 80; i++) {
      const float t_2_2 = acc[i] + bias_2[(i) % 2 + (i / 4) % 5 * 2];
      const float t_3 = fmax_nan(t_2_2, c);
      t_4[i] = from_bf16(to_bf16(t_3));
    }
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 80; i += 2) {
        u32 words[1];
        #pragma unroll
        for (int e = 0; e < 1; e++) words[e] = pack_bf16(t_4[(i + 2 * e + 0)], t_4[(i + 2 * e + 1)]);
        store_words<4>(&out[(i64)(m_at + (lane / 4) + (warp_in_group) % 2 * 16 + (i / 2) % 2 * 8 + (i / 20) * 32) * out_stride0 + (i64)(n_at + (lane) % 4 * 2 + (warp_in_group / 2) * 40 + (i) % 2 + (i / 4) % 5 * 8) * out_stride1], words, (u32)(m_at + (lane / 4) + (warp_in_group) % 2 * 16 + (i / 2) % 2 * 8 + (i / 20) * 32) < (u32)dim_M && (u32)(n_at + (lane) % 4 * 2 + (warp_in_group / 2) * 40 + (i) % 2 + (i / 4) % 5 * 8) < (u32)dim_N && m_at + (lane / 4) + (warp_in_group) % 2 * 16 + (i / 2) % 2 * 8 + (i / 20) * 32 < dim_M && n_at + (lane) % 4 * 2 + (warp_in_group / 2) * 40 + (i) % 2 + (i / 4) % 5 * 8 < dim_N);
      }
    }
    ring_0_1_0.advance();
  }
}
