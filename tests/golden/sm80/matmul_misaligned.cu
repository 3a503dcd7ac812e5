// matmul for a100, planned by joint:greedy
// tiles: m 64, n 16, k 128; 1 workers, 256 threads, 131200 bytes of shared memory
// loop 1: one iteration every 426 cycles, 3 stages (predicted)
#include "sm80.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
matmul(const u16* __restrict__ a, const i64 a_stride0, const i64 a_stride1, const u16* __restrict__ b, const i64 b_stride0, const i64 b_stride1, const float* __restrict__ bias, const i64 bias_stride0, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_K, const i32 dim_M, const i32 dim_N) {
  extern __shared__ __align__(128) u8 raw[];
  const u32 smem = smem_address(raw);
  const u32 smem_a = smem + 0;  // 4 slots of 64 x 128 f16, swizzle-128
  const u32 smem_b = smem + 65536;  // 4 slots of 128 x 16 f16, swizzle-128
  const u32 smem_bias = smem + 131072;  // 1 slots of 16 f32, row
  constexpr i32 worker = 0;
  const i32 warp_in_group = warp_index(), lane = lane_index();
  const i32 tiles_m = ceil_div(dim_M, 64);
  const i32 tiles_n = ceil_div(dim_N, 16);
  const i32 tiles = tiles_m * tiles_n;
  Ring<1> ring_0_1_0;
  Ring<4> ring_1_4_0;
  Ring<4> ring_1_4_2;
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
    float acc[4];
    float t_4[4];
    // vector_acc: acc
    const float c = 0.0f;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      acc[i] = c;
    }
    const i32 count_2 = ceil_div(dim_K, 128);
    i32 t_2 = 0;
    // the pipeline fills
    for (; t_2 < 2; t_2++) {
      const i32 k_at = (t_2) * 128;
      const i32 k_at_2 = (t_2 - 2) * 128;
      // load_a: a
      if ((u32)(t_2) < (u32)count_2) {
        #pragma unroll 1
        for (int i = 0; i < 32; i += 8) {
          const u32 row = (lane / 16) + (warp_in_group) * 2 + (i / 8) * 16, column = (lane) % 16 * 8 + (i) % 8;
          u16 piece[8];
          #pragma unroll
          for (int e = 0; e < 8; e++) {
            piece[e] = (u32)(m_at + (lane / 16) + (warp_in_group) * 2 + ((i + e) / 8) * 16) < (u32)dim_M && (u32)(k_at + (lane) % 16 * 8 + ((i + e)) % 8) < (u32)dim_K && m_at + (lane / 16) + (warp_in_group) * 2 + ((i + e) / 8) * 16 < dim_M && k_at + (lane) % 16 * 8 + ((i + e)) % 8 < dim_K ? a[(i64)(m_at + (lane / 16) + (warp_in_group) * 2 + ((i + e) / 8) * 16) * a_stride0 + (i64)(k_at + (lane) % 16 * 8 + ((i + e)) % 8) * a_stride1] : (u16)0;
          }
          write_shared<16>(smem_a + ring_1_4_0.slot * 16384 + column / 64 * 8192 + row * 128 + ((column % 64) * 2 ^ (row & 7) * 16), piece);
        }
        group_sync(1 + worker, 256);  // all of the tile is there
      }
      copy_commit();
      copy_wait<3>();  // dependence: load_b -> dot_acc (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      if ((u32)(t_2 - 2) < (u32)count_2) {
        #pragma unroll
        for (int k = 0; k < 8; k++) {
          u32 x[1][4];
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            load_matrices(x[i], chunk_at(smem_a + ring_1_4_2.slot * 16384 + k / 4 * 8192 + (warp_in_group % 4 * 16 + i * 64 + lane % 16) * 128, k % 4 * 2 + lane / 16, lane));
          }
          #pragma unroll
          for (int j = 0; j < 1; j++) {
            u32 y[2];
            load_two_matrices_turned(y, chunk_at(smem_b + ring_1_4_2.slot * 16384 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, (warp_in_group / 4 * 8 + j * 8) / 8, lane));
            #pragma unroll
            for (int i = 0; i < 1; i++) {
              mma_f16(acc + 4 * (i * 1 + j), x[i], y);
            }
          }
        }
      }
      // load_b: b
      if ((u32)(t_2) < (u32)count_2) {
        #pragma unroll 1
        for (int i = 0; i < 32; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) * 32, column = (lane) % 8 * 8 + (i) % 8;
          u16 piece[8];
          #pragma unroll
          for (int e = 0; e < 8; e++) {
            piece[e] = (u32)(k_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 32) < (u32)dim_K && (u32)(n_at + (lane) % 8 * 8 + ((i + e)) % 8) < (u32)dim_N && k_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 32 < dim_K && n_at + (lane) % 8 * 8 + ((i + e)) % 8 < min(dim_N, n_at + 16) ? b[(i64)(k_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 32) * b_stride0 + (i64)(n_at + (lane) % 8 * 8 + ((i + e)) % 8) * b_stride1] : (u16)0;
          }
          write_shared<16>(smem_b + ring_1_4_0.slot * 16384 + row * 128 + ((column) * 2 ^ (row & 7) * 16), piece);
        }
        group_sync(1 + worker, 256);  // all of the tile is there
      }
      copy_commit();
      if ((u32)(t_2) < (u32)count_2) ring_1_4_0.advance();
      if ((u32)(t_2 - 2) < (u32)count_2) ring_1_4_2.advance();
    }
    // steady state
    for (; t_2 < count_2; t_2++) {
      const i32 k_at = (t_2) * 128;
      const i32 k_at_2 = (t_2 - 2) * 128;
      // load_a: a
      #pragma unroll 1
      for (int i = 0; i < 32; i += 8) {
        const u32 row = (lane / 16) + (warp_in_group) * 2 + (i / 8) * 16, column = (lane) % 16 * 8 + (i) % 8;
        u16 piece[8];
        #pragma unroll
        for (int e = 0; e < 8; e++) {
          piece[e] = (u32)(m_at + (lane / 16) + (warp_in_group) * 2 + ((i + e) / 8) * 16) < (u32)dim_M && (u32)(k_at + (lane) % 16 * 8 + ((i + e)) % 8) < (u32)dim_K && m_at + (lane / 16) + (warp_in_group) * 2 + ((i + e) / 8) * 16 < dim_M && k_at + (lane) % 16 * 8 + ((i + e)) % 8 < dim_K ? a[(i64)(m_at + (lane / 16) + (warp_in_group) * 2 + ((i + e) / 8) * 16) * a_stride0 + (i64)(k_at + (lane) % 16 * 8 + ((i + e)) % 8) * a_stride1] : (u16)0;
        }
        write_shared<16>(smem_a + ring_1_4_0.slot * 16384 + column / 64 * 8192 + row * 128 + ((column % 64) * 2 ^ (row & 7) * 16), piece);
      }
      group_sync(1 + worker, 256);  // all of the tile is there
      copy_commit();
      copy_wait<3>();  // dependence: load_b -> dot_acc (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      #pragma unroll
      for (int k = 0; k < 8; k++) {
        u32 x[1][4];
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          load_matrices(x[i], chunk_at(smem_a + ring_1_4_2.slot * 16384 + k / 4 * 8192 + (warp_in_group % 4 * 16 + i * 64 + lane % 16) * 128, k % 4 * 2 + lane / 16, lane));
        }
        #pragma unroll
        for (int j = 0; j < 1; j++) {
          u32 y[2];
          load_two_matrices_turned(y, chunk_at(smem_b + ring_1_4_2.slot * 16384 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, (warp_in_group / 4 * 8 + j * 8) / 8, lane));
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            mma_f16(acc + 4 * (i * 1 + j), x[i], y);
          }
        }
      }
      // load_b: b
      #pragma unroll 1
      for (int i = 0; i < 32; i += 8) {
        const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) * 32, column = (lane) % 8 * 8 + (i) % 8;
        u16 piece[8];
        #pragma unroll
        for (int e = 0; e < 8; e++) {
          piece[e] = (u32)(k_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 32) < (u32)dim_K && (u32)(n_at + (lane) % 8 * 8 + ((i + e)) % 8) < (u32)dim_N && k_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 32 < dim_K && n_at + (lane) % 8 * 8 + ((i + e)) % 8 < min(dim_N, n_at + 16) ? b[(i64)(k_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 32) * b_stride0 + (i64)(n_at + (lane) % 8 * 8 + ((i + e)) % 8) * b_stride1] : (u16)0;
        }
        write_shared<16>(smem_b + ring_1_4_0.slot * 16384 + row * 128 + ((column) * 2 ^ (row & 7) * 16), piece);
      }
      group_sync(1 + worker, 256);  // all of the tile is there
      copy_commit();
      ring_1_4_0.advance();
      ring_1_4_2.advance();
    }
    // the pipeline drains
    for (; t_2 < count_2 + 2; t_2++) {
      const i32 k_at = (t_2) * 128;
      const i32 k_at_2 = (t_2 - 2) * 128;
      // load_a: a
      if ((u32)(t_2) < (u32)count_2) {
        #pragma unroll 1
        for (int i = 0; i < 32; i += 8) {
          const u32 row = (lane / 16) + (warp_in_group) * 2 + (i / 8) * 16, column = (lane) % 16 * 8 + (i) % 8;
          u16 piece[8];
          #pragma unroll
          for (int e = 0; e < 8; e++) {
            piece[e] = (u32)(m_at + (lane / 16) + (warp_in_group) * 2 + ((i + e) / 8) * 16) < (u32)dim_M && (u32)(k_at + (lane) % 16 * 8 + ((i + e)) % 8) < (u32)dim_K && m_at + (lane / 16) + (warp_in_group) * 2 + ((i + e) / 8) * 16 < dim_M && k_at + (lane) % 16 * 8 + ((i + e)) % 8 < dim_K ? a[(i64)(m_at + (lane / 16) + (warp_in_group) * 2 + ((i + e) / 8) * 16) * a_stride0 + (i64)(k_at + (lane) % 16 * 8 + ((i + e)) % 8) * a_stride1] : (u16)0;
          }
          write_shared<16>(smem_a + ring_1_4_0.slot * 16384 + column / 64 * 8192 + row * 128 + ((column % 64) * 2 ^ (row & 7) * 16), piece);
        }
        group_sync(1 + worker, 256);  // all of the tile is there
      }
      copy_commit();
      copy_wait<3>();  // dependence: load_b -> dot_acc (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      if ((u32)(t_2 - 2) < (u32)count_2) {
        #pragma unroll
        for (int k = 0; k < 8; k++) {
          u32 x[1][4];
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            load_matrices(x[i], chunk_at(smem_a + ring_1_4_2.slot * 16384 + k / 4 * 8192 + (warp_in_group % 4 * 16 + i * 64 + lane % 16) * 128, k % 4 * 2 + lane / 16, lane));
          }
          #pragma unroll
          for (int j = 0; j < 1; j++) {
            u32 y[2];
            load_two_matrices_turned(y, chunk_at(smem_b + ring_1_4_2.slot * 16384 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, (warp_in_group / 4 * 8 + j * 8) / 8, lane));
            #pragma unroll
            for (int i = 0; i < 1; i++) {
              mma_f16(acc + 4 * (i * 1 + j), x[i], y);
            }
          }
        }
      }
      // load_b: b
      if ((u32)(t_2) < (u32)count_2) {
        #pragma unroll 1
        for (int i = 0; i < 32; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) * 32, column = (lane) % 8 * 8 + (i) % 8;
          u16 piece[8];
          #pragma unroll
          for (int e = 0; e < 8; e++) {
            piece[e] = (u32)(k_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 32) < (u32)dim_K && (u32)(n_at + (lane) % 8 * 8 + ((i + e)) % 8) < (u32)dim_N && k_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 32 < dim_K && n_at + (lane) % 8 * 8 + ((i + e)) % 8 < min(dim_N, n_at + 16) ? b[(i64)(k_at + (lane / 8) + (warp_in_group) * 4 + ((i + e) / 8) * 32) * b_stride0 + (i64)(n_at + (lane) % 8 * 8 + ((i + e)) % 8) * b_stride1] : (u16)0;
          }
          write_shared<16>(smem_b + ring_1_4_0.slot * 16384 + row * 128 + ((column) * 2 ^ (row & 7) * 16), piece);
        }
        group_sync(1 + worker, 256);  // all of the tile is there
      }
      copy_commit();
      if ((u32)(t_2) < (u32)count_2) ring_1_4_0.advance();
      if ((u32)(t_2 - 2) < (u32)count_2) ring_1_4_2.advance();
    }
    group_sync(1 + worker, 256);  // all have read what is overwritten now
    // load_bias: bias
    const float* bias_from = bias + (i64)(n_at + (lane) % 4 * 4) * bias_stride0;
    #pragma unroll
    for (int i = 0; i < 4; i += 4) {
      const u32 row = 0, column = (lane) % 4 * 4 + (i);
      if ((lane / 4) % 8 == 0 && warp_in_group % 8 == 0) copy_async_if<16>(smem_bias + row * 64 + (column) * 4, bias_from + (i64)((i)) * bias_stride0, n_at + (lane) % 4 * 4 + (i) < dim_N);
    }
    copy_commit();
    copy_wait<0>();  // dependence: load_bias -> vector_t (bias)
    group_sync(1 + worker, 256);  // and so have the copies of the other threads
    // vector_t: t.4
    float bias_2[2];
    #pragma unroll
    for (int i = 0; i < 2; i += 2) {
      const u32 piece_row = 0, piece_column = (lane) % 4 * 2 + (warp_in_group / 4) * 8 + (i);
      float piece[2];
      read_shared<8>(piece, smem_bias + piece_row * 64 + (piece_column) * 4);
      #pragma unroll
      for (int e = 0; e < 2; e++) bias_2[i + e] = piece[e];
    }
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      const float t_2_2 = acc[i] + bias_2[(i) % 2];
      const float t_3 = fmax_nan(t_2_2, c);
      t_4[i] = from_f16(to_f16(t_3));
    }
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 4; i += 2) {
        u32 words[1];
        #pragma unroll
        for (int e = 0; e < 1; e++) words[e] = pack_f16(t_4[(i + 2 * e + 0)], t_4[(i + 2 * e + 1)]);
        store_words<4>(&out[(i64)(m_at + (lane / 4) + (warp_in_group) % 4 * 16 + (i / 2) * 8) * out_stride0 + (i64)(n_at + (lane) % 4 * 2 + (warp_in_group / 4) * 8 + (i) % 2) * out_stride1], words, (u32)(m_at + (lane / 4) + (warp_in_group) % 4 * 16 + (i / 2) * 8) < (u32)dim_M && (u32)(n_at + (lane) % 4 * 2 + (warp_in_group / 4) * 8 + (i) % 2) < (u32)dim_N && m_at + (lane / 4) + (warp_in_group) % 4 * 16 + (i / 2) * 8 < dim_M && n_at + (lane) % 4 * 2 + (warp_in_group / 4) * 8 + (i) % 2 < dim_N);
      }
    }
    ring_0_1_0.advance();
  }
}
