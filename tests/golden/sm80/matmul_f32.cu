// matmul for a100, planned by joint:greedy
// tiles: m 64, n 16, k 32; 1 workers, 256 threads, 49280 bytes of shared memory
// loop 1: one iteration every 615 cycles, 3 stages (predicted)
#include "sm80.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
matmul(const float* __restrict__ a, const i64 a_stride0, const i64 a_stride1, const float* __restrict__ b, const i64 b_stride0, const i64 b_stride1, const float* __restrict__ bias, const i64 bias_stride0, float* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_K, const i32 dim_M, const i32 dim_N) {
  extern __shared__ __align__(128) u8 raw[];
  const u32 smem = smem_address(raw);
  const u32 smem_a = smem + 0;  // 4 slots of 64 x 32 f32, swizzle-128
  const u32 smem_b = smem + 32768;  // 4 slots of 32 x 32 f32, swizzle-128
  const u32 smem_bias = smem + 49152;  // 1 slots of 32 f32, row
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
    float acc[8];
    float t_3[8];
    // vector_acc: acc
    const float c = 0.0f;
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      acc[i] = c;
    }
    const i32 count_2 = ceil_div(dim_K, 32);
    i32 t_2 = 0;
    // the pipeline fills
    for (; t_2 < 2; t_2++) {
      const i32 k_at = (t_2) * 32;
      const i32 k_at_2 = (t_2 - 2) * 32;
      // load_a: a
      if ((u32)(t_2) < (u32)count_2) {
        const float* a_from = a + (i64)(m_at + (lane / 8) + (warp_in_group) * 4) * a_stride0 + (i64)(k_at + (lane) % 8 * 4) * a_stride1;
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 4) * 32, column = (lane) % 8 * 4 + (i) % 4;
          copy_async_if<16>(smem_a + ring_1_4_0.slot * 8192 + row * 128 + ((column) * 4 ^ (row & 7) * 16), a_from + (i64)((i / 4) * 32) * a_stride0 + (i64)((i) % 4) * a_stride1, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) * 32) < (u32)dim_M && k_at + (lane) % 8 * 4 + (i) % 4 < dim_K);
        }
      }
      copy_commit();
      copy_wait<3>();  // dependence: load_b -> dot_acc (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      if ((u32)(t_2 - 2) < (u32)count_2) {
        {
          #pragma unroll 1
          for (int depth = 0; depth < 8; depth++) {
            float from_rows[2][4], from_columns[4][4];
            #pragma unroll
            for (int i = 0; i < 2; i++) {
              #pragma unroll
              for (int e = 0; e < 4; e += 4) {
                const u32 at_row = (lane / 8 + warp_in_group * 4 + 32 * i), at_column = depth * 4 + e;
                float piece[4];
                read_shared<16>(piece, smem_a + ring_1_4_2.slot * 8192 + at_row * 128 + ((at_column) * 4 ^ (at_row & 7) * 16));
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
                read_shared<4>(piece, smem_b + ring_1_4_2.slot * 4096 + at_row * 128 + ((at_column) * 4 ^ (at_row & 7) * 16));
                #pragma unroll
                for (int f = 0; f < 1; f++) from_columns[i][e + f] = (float)(piece[f]);
              }
            }
            #pragma unroll
            for (int i = 0; i < 8; i++) {
              #pragma unroll
              for (int e = 0; e < 4; e++) acc[i] += from_rows[i / 4][e] * from_columns[i % 4][e];
            }
          }
        }
      }
      // load_b: b
      if ((u32)(t_2) < (u32)count_2) {
        const float* b_from = b + (i64)(k_at + (lane / 8) + (warp_in_group) * 4) * b_stride0 + (i64)(n_at + (lane) % 8 * 4) * b_stride1;
        #pragma unroll
        for (int i = 0; i < 4; i += 4) {
          const u32 row = (lane / 8) + (warp_in_group) * 4, column = (lane) % 8 * 4 + (i);
          copy_async_if<16>(smem_b + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 4 ^ (row & 7) * 16), b_from + (i64)((i)) * b_stride1, (u32)(k_at + (lane / 8) + (warp_in_group) * 4) < (u32)dim_K && n_at + (lane) % 8 * 4 + (i) < dim_N && n_at + (lane) % 8 * 4 + (i) < min(dim_N, n_at + 16));
        }
      }
      copy_commit();
      if ((u32)(t_2) < (u32)count_2) ring_1_4_0.advance();
      if ((u32)(t_2 - 2) < (u32)count_2) ring_1_4_2.advance();
    }
    // steady state
    for (; t_2 < count_2; t_2++) {
      const i32 k_at = (t_2) * 32;
      const i32 k_at_2 = (t_2 - 2) * 32;
      // load_a: a
      const float* a_from = a + (i64)(m_at + (lane / 8) + (warp_in_group) * 4) * a_stride0 + (i64)(k_at + (lane) % 8 * 4) * a_stride1;
      #pragma unroll
      for (int i = 0; i < 8; i += 4) {
        const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 4) * 32, column = (lane) % 8 * 4 + (i) % 4;
        copy_async_if<16>(smem_a + ring_1_4_0.slot * 8192 + row * 128 + ((column) * 4 ^ (row & 7) * 16), a_from + (i64)((i / 4) * 32) * a_stride0 + (i64)((i) % 4) * a_stride1, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) * 32) < (u32)dim_M && k_at + (lane) % 8 * 4 + (i) % 4 < dim_K);
      }
      copy_commit();
      copy_wait<3>();  // dependence: load_b -> dot_acc (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      {
        #pragma unroll 1
        for (int depth = 0; depth < 8; depth++) {
          float from_rows[2][4], from_columns[4][4];
          #pragma unroll
          for (int i = 0; i < 2; i++) {
            #pragma unroll
            for (int e = 0; e < 4; e += 4) {
              const u32 at_row = (lane / 8 + warp_in_group * 4 + 32 * i), at_column = depth * 4 + e;
              float piece[4];
              read_shared<16>(piece, smem_a + ring_1_4_2.slot * 8192 + at_row * 128 + ((at_column) * 4 ^ (at_row & 7) * 16));
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
              read_shared<4>(piece, smem_b + ring_1_4_2.slot * 4096 + at_row * 128 + ((at_column) * 4 ^ (at_row & 7) * 16));
              #pragma unroll
              for (int f = 0; f < 1; f++) from_columns[i][e + f] = (float)(piece[f]);
            }
          }
          #pragma unroll
          for (int i = 0; i < 8; i++) {
            #pragma unroll
            for (int e = 0; e < 4; e++) acc[i] += from_rows[i / 4][e] * from_columns[i % 4][e];
          }
        }
      }
      // load_b: b
      const float* b_from = b + (i64)(k_at + (lane / 8) + (warp_in_group) * 4) * b_stride0 + (i64)(n_at + (lane) % 8 * 4) * b_stride1;
      #pragma unroll
      for (int i = 0; i < 4; i += 4) {
        const u32 row = (lane / 8) + (warp_in_group) * 4, column = (lane) % 8 * 4 + (i);
        copy_async_if<16>(smem_b + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 4 ^ (row & 7) * 16), b_from + (i64)((i)) * b_stride1, (u32)(k_at + (lane / 8) + (warp_in_group) * 4) < (u32)dim_K && n_at + (lane) % 8 * 4 + (i) < dim_N && n_at + (lane) % 8 * 4 + (i) < min(dim_N, n_at + 16));
      }
      copy_commit();
      ring_1_4_0.advance();
      ring_1_4_2.advance();
    }
    // the pipeline drains
    for (; t_2 < count_2 + 2; t_2++) {
      const i32 k_at = (t_2) * 32;
      const i32 k_at_2 = (t_2 - 2) * 32;
      // load_a: a
      if ((u32)(t_2) < (u32)count_2) {
        const float* a_from = a + (i64)(m_at + (lane / 8) + (warp_in_group) * 4) * a_stride0 + (i64)(k_at + (lane) % 8 * 4) * a_stride1;
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 4) * 32, column = (lane) % 8 * 4 + (i) % 4;
          copy_async_if<16>(smem_a + ring_1_4_0.slot * 8192 + row * 128 + ((column) * 4 ^ (row & 7) * 16), a_from + (i64)((i / 4) * 32) * a_stride0 + (i64)((i) % 4) * a_stride1, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) * 32) < (u32)dim_M && k_at + (lane) % 8 * 4 + (i) % 4 < dim_K);
        }
      }
      copy_commit();
      copy_wait<3>();  // dependence: load_b -> dot_acc (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      if ((u32)(t_2 - 2) < (u32)count_2) {
        {
          #pragma unroll 1
          for (int depth = 0; depth < 8; depth++) {
            float from_rows[2][4], from_columns[4][4];
            #pragma unroll
            for (int i = 0; i < 2; i++) {
              #pragma unroll
              for (int e = 0; e < 4; e += 4) {
                const u32 at_row = (lane / 8 + warp_in_group * 4 + 32 * i), at_column = depth * 4 + e;
                float piece[4];
                read_shared<16>(piece, smem_a + ring_1_4_2.slot * 8192 + at_row * 128 + ((at_column) * 4 ^ (at_row & 7) * 16));
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
                read_shared<4>(piece, smem_b + ring_1_4_2.slot * 4096 + at_row * 128 + ((at_column) * 4 ^ (at_row & 7) * 16));
                #pragma unroll
                for (int f = 0; f < 1; f++) from_columns[i][e + f] = (float)(piece[f]);
              }
            }
            #pragma unroll
            for (int i = 0; i < 8; i++) {
              #pragma unroll
              for (int e = 0; e < 4; e++) acc[i] += from_rows[i / 4][e] * from_columns[i % 4][e];
            }
          }
        }
      }
      // load_b: b
      if ((u32)(t_2) < (u32)count_2) {
        const float* b_from = b + (i64)(k_at + (lane / 8) + (warp_in_group) * 4) * b_stride0 + (i64)(n_at + (lane) % 8 * 4) * b_stride1;
        #pragma unroll
        for (int i = 0; i < 4; i += 4) {
          const u32 row = (lane / 8) + (warp_in_group) * 4, column = (lane) % 8 * 4 + (i);
          copy_async_if<16>(smem_b + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 4 ^ (row & 7) * 16), b_from + (i64)((i)) * b_stride1, (u32)(k_at + (lane / 8) + (warp_in_group) * 4) < (u32)dim_K && n_at + (lane) % 8 * 4 + (i) < dim_N && n_at + (lane) % 8 * 4 + (i) < min(dim_N, n_at + 16));
        }
      }
      copy_commit();
      if ((u32)(t_2) < (u32)count_2) ring_1_4_0.advance();
      if ((u32)(t_2 - 2) < (u32)count_2) ring_1_4_2.advance();
    }
    group_sync(1 + worker, 256);  // all have read what is overwritten now
    // load_bias: bias
    const float* bias_from = bias + (i64)(n_at + (lane) % 8 * 4) * bias_stride0;
    #pragma unroll
    for (int i = 0; i < 4; i += 4) {
      const u32 row = 0, column = (lane) % 8 * 4 + (i);
      if ((lane / 8) % 4 == 0 && warp_in_group % 8 == 0) copy_async_if<16>(smem_bias + row * 128 + (column) * 4, bias_from + (i64)((i)) * bias_stride0, n_at + (lane) % 8 * 4 + (i) < dim_N && n_at + (lane) % 8 * 4 + (i) < min(dim_N, n_at + 16));
    }
    copy_commit();
    copy_wait<0>();  // dependence: load_bias -> vector_t (bias)
    group_sync(1 + worker, 256);  // and so have the copies of the other threads
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
    for (int i = 0; i < 8; i++) {
      const float t_2_2 = acc[i] + bias_2[(i) % 4];
      t_3[i] = fmax_nan(t_2_2, c);
    }
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 8; i += 4) {
        float piece[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) piece[e] = t_3[i + e];
        store_vector<16>(&out[(i64)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) * 32) * out_stride0 + (i64)(n_at + (lane) % 8 * 4 + (i) % 4) * out_stride1], piece, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) * 32) < (u32)dim_M && (u32)(n_at + (lane) % 8 * 4 + (i) % 4) < (u32)dim_N && m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) * 32 < dim_M && n_at + (lane) % 8 * 4 + (i) % 4 < min(dim_N, n_at + 16));
      }
    }
    ring_0_1_0.advance();
  }
}
