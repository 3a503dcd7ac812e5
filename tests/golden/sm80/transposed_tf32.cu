// transposed_tf32 for a100, planned by joint:greedy
// tiles: m 64, n 16, k 64; 1 workers, 256 threads, 98304 bytes of shared memory
// loop 1: one iteration every 485 cycles, 3 stages (predicted)
#include "sm80.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
transposed_tf32(const float* __restrict__ a, const i64 a_stride0, const i64 a_stride1, const float* __restrict__ b, const i64 b_stride0, const i64 b_stride1, float* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_K, const i32 dim_M, const i32 dim_N) {
  extern __shared__ __align__(128) u8 raw[];
  const u32 smem = smem_address(raw);
  const u32 smem_a = smem + 0;  // 4 slots of 64 x 64 f32, row
  const u32 smem_b = smem + 65536;  // 4 slots of 16 x 64 f32, row
  const u32 smem_t_2 = smem + 81920;  // 4 slots of 16 x 64 tf32, swizzle-128
  constexpr i32 worker = 0;
  const i32 warp_in_group = warp_index(), lane = lane_index();
  const i32 tiles_m = ceil_div(dim_M, 64);
  const i32 tiles_n = ceil_div(dim_N, 16);
  const i32 tiles = tiles_m * tiles_n;
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
    float t_1[32];
    // vector_acc: acc
    const float c = 0.0f;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      acc[i] = c;
    }
    const i32 count_2 = ceil_div(dim_K, 64);
    i32 t_2 = 0;
    // the pipeline fills
    for (; t_2 < 2; t_2++) {
      const i32 k_at = (t_2) * 64;
      const i32 k_at_2 = (t_2 - 2) * 64;
      // load_a: a
      if ((u32)(t_2) < (u32)count_2) {
        const float* a_from = a + (i64)(m_at + (lane / 8) + (warp_in_group) * 4) * a_stride0 + (i64)(k_at + (lane) % 8 * 4) * a_stride1;
        #pragma unroll
        for (int i = 0; i < 16; i += 4) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 4) % 2 * 32, column = (lane) % 8 * 4 + (i) % 4 + (i / 8) * 32;
          copy_async_if<16>(smem_a + ring_1_4_0.slot * 16384 + column / 32 * 8192 + row * 128 + ((column % 32) * 4 ^ (row & 7) * 16), a_from + (i64)((i / 4) % 2 * 32) * a_stride0 + (i64)((i) % 4 + (i / 8) * 32) * a_stride1, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) % 2 * 32) < (u32)dim_M && k_at + (lane) % 8 * 4 + (i) % 4 + (i / 8) * 32 < dim_K);
        }
      }
      copy_commit();
      copy_wait<4>();  // dependence: load_a -> vector_t (a)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // vector_t: t.1
      if ((u32)(t_2 - 2) < (u32)count_2) {
        #pragma unroll
        for (int p = 0; p < 32; p += 2) {
          const u32 a_piece_row = (lane / 4) + (warp_in_group) % 4 * 16 + ((p) / 2) % 2 * 8, a_piece_column = (lane) % 4 * 2 + ((p)) % 2 + ((p) / 4) * 8;
          float a_piece[2];
          read_shared<8>(a_piece, smem_a + ring_1_4_2.slot * 16384 + a_piece_column / 32 * 8192 + a_piece_row * 128 + ((a_piece_column % 32) * 4 ^ (a_piece_row & 7) * 16));
          #pragma unroll
          for (int e = 0; e < 2; e++) {
            const int i = p + e;
            t_1[i] = round_tf32(a_piece[e]);
          }
        }
        if (k_at_2 + 64 > dim_K) {
          #pragma unroll
          for (int i = 0; i < 32; i++) {
            if (k_at_2 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= dim_K) t_1[i] = 0;
          }
        }
      }
      copy_wait<3>();  // dependence: load_b -> vector_t_2 (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // vector_t_2: t.2
      if ((u32)(t_2 - 2) < (u32)count_2) {
        float b_2[4];
        #pragma unroll
        for (int i = 0; i < 4; i += 4) {
          const u32 piece_row = (lane / 16) + (warp_in_group) * 2, piece_column = (lane) % 16 * 4 + (i);
          float piece[4];
          read_shared<16>(piece, smem_b + ring_1_4_2.slot * 4096 + piece_row * 256 + (piece_column) * 4);
          #pragma unroll
          for (int e = 0; e < 4; e++) b_2[i + e] = piece[e];
        }
        float t_2_2[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
          t_2_2[i] = round_tf32(b_2[i]);
        }
        if (k_at_2 + 64 > dim_K) {
          #pragma unroll
          for (int i = 0; i < 4; i++) {
            if (k_at_2 + (lane) % 16 * 4 + (i) >= dim_K) t_2_2[i] = 0;
          }
        }
        group_sync(1 + worker, 256);  // all have read what was there
        #pragma unroll
        for (int i = 0; i < 4; i += 4) {
          const u32 piece_row = (lane / 16) + (warp_in_group) * 2, piece_column = (lane) % 16 * 4 + (i);
          float piece[4];
          #pragma unroll
          for (int e = 0; e < 4; e++) piece[e] = round_tf32(t_2_2[i + e]);
          write_shared<16>(smem_t_2 + ring_1_4_2.slot * 4096 + piece_column / 32 * 2048 + piece_row * 128 + ((piece_column % 32) * 4 ^ (piece_row & 7) * 16), piece);
        }
        group_sync(1 + worker, 256);  // all of the tile is there
      }
      // dot_acc: acc.2
      if ((u32)(t_2 - 2) < (u32)count_2) {
        #pragma unroll
        for (int k = 0; k < 8; k++) {
          u32 x[1][4];
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            #pragma unroll
            for (int h = 0; h < 4; h++) x[i][h] = __float_as_uint(t_1[4 * (i * 8 + k) + 2 * (h % 2) + h / 2]);
          }
          #pragma unroll
          for (int j = 0; j < 1; j++) {
            u32 y[2];
            #pragma unroll
            for (int h = 0; h < 2; h++) {
              y[h] = element_b32(smem_t_2 + ring_1_4_2.slot * 4096 + (k * 8 + lane % 4 * 2 + h) / 32 * 2048 + (warp_in_group / 4 * 8 + j * 8 + lane / 4) * 128 + (((k * 8 + lane % 4 * 2 + h) % 32) * 4 ^ ((warp_in_group / 4 * 8 + j * 8 + lane / 4) & 7) * 16));
            }
            #pragma unroll
            for (int i = 0; i < 1; i++) {
              mma_tf32(acc + 4 * (i * 1 + j), x[i], y);
            }
          }
        }
      }
      // load_b: b
      if ((u32)(t_2) < (u32)count_2) {
        const float* b_from = b + (i64)(n_at + (lane / 16) + (warp_in_group) * 2) * b_stride0 + (i64)(k_at + (lane) % 16 * 4) * b_stride1;
        #pragma unroll
        for (int i = 0; i < 4; i += 4) {
          const u32 row = (lane / 16) + (warp_in_group) * 2, column = (lane) % 16 * 4 + (i);
          copy_async_if<16>(smem_b + ring_1_4_0.slot * 4096 + row * 256 + (column) * 4, b_from + (i64)((i)) * b_stride1, (u32)(n_at + (lane / 16) + (warp_in_group) * 2) < (u32)dim_N && k_at + (lane) % 16 * 4 + (i) < dim_K);
        }
      }
      copy_commit();
      if ((u32)(t_2) < (u32)count_2) ring_1_4_0.advance();
      if ((u32)(t_2 - 2) < (u32)count_2) ring_1_4_2.advance();
    }
    // steady state, tiles without masks
    for (; t_2 < count_2; t_2++) {
      const i32 k_at = (t_2) * 64;
      const i32 k_at_2 = (t_2 - 2) * 64;
      if (!(k_at_2 + 64 <= dim_K)) break;
      // load_a: a
      const float* a_from = a + (i64)(m_at + (lane / 8) + (warp_in_group) * 4) * a_stride0 + (i64)(k_at + (lane) % 8 * 4) * a_stride1;
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 4) % 2 * 32, column = (lane) % 8 * 4 + (i) % 4 + (i / 8) * 32;
        copy_async_if<16>(smem_a + ring_1_4_0.slot * 16384 + column / 32 * 8192 + row * 128 + ((column % 32) * 4 ^ (row & 7) * 16), a_from + (i64)((i / 4) % 2 * 32) * a_stride0 + (i64)((i) % 4 + (i / 8) * 32) * a_stride1, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) % 2 * 32) < (u32)dim_M && k_at + (lane) % 8 * 4 + (i) % 4 + (i / 8) * 32 < dim_K);
      }
      copy_commit();
      copy_wait<4>();  // dependence: load_a -> vector_t (a)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // vector_t: t.1
      #pragma unroll
      for (int p = 0; p < 32; p += 2) {
        const u32 a_piece_row = (lane / 4) + (warp_in_group) % 4 * 16 + ((p) / 2) % 2 * 8, a_piece_column = (lane) % 4 * 2 + ((p)) % 2 + ((p) / 4) * 8;
        float a_piece[2];
        read_shared<8>(a_piece, smem_a + ring_1_4_2.slot * 16384 + a_piece_column / 32 * 8192 + a_piece_row * 128 + ((a_piece_column % 32) * 4 ^ (a_piece_row & 7) * 16));
        #pragma unroll
        for (int e = 0; e < 2; e++) {
          const int i = p + e;
          t_1[i] = round_tf32(a_piece[e]);
        }
      }
      copy_wait<3>();  // dependence: load_b -> vector_t_2 (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // vector_t_2: t.2
      float b_2[4];
      #pragma unroll
      for (int i = 0; i < 4; i += 4) {
        const u32 piece_row = (lane / 16) + (warp_in_group) * 2, piece_column = (lane) % 16 * 4 + (i);
        float piece[4];
        read_shared<16>(piece, smem_b + ring_1_4_2.slot * 4096 + piece_row * 256 + (piece_column) * 4);
        #pragma unroll
        for (int e = 0; e < 4; e++) b_2[i + e] = piece[e];
      }
      float t_2_2[4];
      #pragma unroll
      for (int i = 0; i < 4; i++) {
        t_2_2[i] = round_tf32(b_2[i]);
      }
      group_sync(1 + worker, 256);  // all have read what was there
      #pragma unroll
      for (int i = 0; i < 4; i += 4) {
        const u32 piece_row = (lane / 16) + (warp_in_group) * 2, piece_column = (lane) % 16 * 4 + (i);
        float piece[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) piece[e] = round_tf32(t_2_2[i + e]);
        write_shared<16>(smem_t_2 + ring_1_4_2.slot * 4096 + piece_column / 32 * 2048 + piece_row * 128 + ((piece_column % 32) * 4 ^ (piece_row & 7) * 16), piece);
      }
      group_sync(1 + worker, 256);  // all of the tile is there
      // dot_acc: acc.2
      #pragma unroll
      for (int k = 0; k < 8; k++) {
        u32 x[1][4];
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          #pragma unroll
          for (int h = 0; h < 4; h++) x[i][h] = __float_as_uint(t_1[4 * (i * 8 + k) + 2 * (h % 2) + h / 2]);
        }
        #pragma unroll
        for (int j = 0; j < 1; j++) {
          u32 y[2];
          #pragma unroll
          for (int h = 0; h < 2; h++) {
            y[h] = element_b32(smem_t_2 + ring_1_4_2.slot * 4096 + (k * 8 + lane % 4 * 2 + h) / 32 * 2048 + (warp_in_group / 4 * 8 + j * 8 + lane / 4) * 128 + (((k * 8 + lane % 4 * 2 + h) % 32) * 4 ^ ((warp_in_group / 4 * 8 + j * 8 + lane / 4) & 7) * 16));
          }
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            mma_tf32(acc + 4 * (i * 1 + j), x[i], y);
          }
        }
      }
      // load_b: b
      const float* b_from = b + (i64)(n_at + (lane / 16) + (warp_in_group) * 2) * b_stride0 + (i64)(k_at + (lane) % 16 * 4) * b_stride1;
      #pragma unroll
      for (int i = 0; i < 4; i += 4) {
        const u32 row = (lane / 16) + (warp_in_group) * 2, column = (lane) % 16 * 4 + (i);
        copy_async_if<16>(smem_b + ring_1_4_0.slot * 4096 + row * 256 + (column) * 4, b_from + (i64)((i)) * b_stride1, (u32)(n_at + (lane / 16) + (warp_in_group) * 2) < (u32)dim_N && k_at + (lane) % 16 * 4 + (i) < dim_K);
      }
      copy_commit();
      ring_1_4_0.advance();
      ring_1_4_2.advance();
    }
    // steady state
    for (; t_2 < count_2; t_2++) {
      const i32 k_at = (t_2) * 64;
      const i32 k_at_2 = (t_2 - 2) * 64;
      // load_a: a
      const float* a_from = a + (i64)(m_at + (lane / 8) + (warp_in_group) * 4) * a_stride0 + (i64)(k_at + (lane) % 8 * 4) * a_stride1;
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 4) % 2 * 32, column = (lane) % 8 * 4 + (i) % 4 + (i / 8) * 32;
        copy_async_if<16>(smem_a + ring_1_4_0.slot * 16384 + column / 32 * 8192 + row * 128 + ((column % 32) * 4 ^ (row & 7) * 16), a_from + (i64)((i / 4) % 2 * 32) * a_stride0 + (i64)((i) % 4 + (i / 8) * 32) * a_stride1, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) % 2 * 32) < (u32)dim_M && k_at + (lane) % 8 * 4 + (i) % 4 + (i / 8) * 32 < dim_K);
      }
      copy_commit();
      copy_wait<4>();  // dependence: load_a -> vector_t (a)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // vector_t: t.1
      #pragma unroll
      for (int p = 0; p < 32; p += 2) {
        const u32 a_piece_row = (lane / 4) + (warp_in_group) % 4 * 16 + ((p) / 2) % 2 * 8, a_piece_column = (lane) % 4 * 2 + ((p)) % 2 + ((p) / 4) * 8;
        float a_piece[2];
        read_shared<8>(a_piece, smem_a + ring_1_4_2.slot * 16384 + a_piece_column / 32 * 8192 + a_piece_row * 128 + ((a_piece_column % 32) * 4 ^ (a_piece_row & 7) * 16));
        #pragma unroll
        for (int e = 0; e < 2; e++) {
          const int i = p + e;
          t_1[i] = round_tf32(a_piece[e]);
        }
      }
      if (k_at_2 + 64 > dim_K) {
        #pragma unroll
        for (int i = 0; i < 32; i++) {
          if (k_at_2 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= dim_K) t_1[i] = 0;
        }
      }
      copy_wait<3>();  // dependence: load_b -> vector_t_2 (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // vector_t_2: t.2
      float b_2[4];
      #pragma unroll
      for (int i = 0; i < 4; i += 4) {
        const u32 piece_row = (lane / 16) + (warp_in_group) * 2, piece_column = (lane) % 16 * 4 + (i);
        float piece[4];
        read_shared<16>(piece, smem_b + ring_1_4_2.slot * 4096 + piece_row * 256 + (piece_column) * 4);
        #pragma unroll
        for (int e = 0; e < 4; e++) b_2[i + e] = piece[e];
      }
      float t_2_2[4];
      #pragma unroll
      for (int i = 0; i < 4; i++) {
        t_2_2[i] = round_tf32(b_2[i]);
      }
      if (k_at_2 + 64 > dim_K) {
        #pragma unroll
        for (int i = 0; i < 4; i++) {
          if (k_at_2 + (lane) % 16 * 4 + (i) >= dim_K) t_2_2[i] = 0;
        }
      }
      group_sync(1 + worker, 256);  // all have read what was there
      #pragma unroll
      for (int i = 0; i < 4; i += 4) {
        const u32 piece_row = (lane / 16) + (warp_in_group) * 2, piece_column = (lane) % 16 * 4 + (i);
        float piece[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) piece[e] = round_tf32(t_2_2[i + e]);
        write_shared<16>(smem_t_2 + ring_1_4_2.slot * 4096 + piece_column / 32 * 2048 + piece_row * 128 + ((piece_column % 32) * 4 ^ (piece_row & 7) * 16), piece);
      }
      group_sync(1 + worker, 256);  // all of the tile is there
      // dot_acc: acc.2
      #pragma unroll
      for (int k = 0; k < 8; k++) {
        u32 x[1][4];
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          #pragma unroll
          for (int h = 0; h < 4; h++) x[i][h] = __float_as_uint(t_1[4 * (i * 8 + k) + 2 * (h % 2) + h / 2]);
        }
        #pragma unroll
        for (int j = 0; j < 1; j++) {
          u32 y[2];
          #pragma unroll
          for (int h = 0; h < 2; h++) {
            y[h] = element_b32(smem_t_2 + ring_1_4_2.slot * 4096 + (k * 8 + lane % 4 * 2 + h) / 32 * 2048 + (warp_in_group / 4 * 8 + j * 8 + lane / 4) * 128 + (((k * 8 + lane % 4 * 2 + h) % 32) * 4 ^ ((warp_in_group / 4 * 8 + j * 8 + lane / 4) & 7) * 16));
          }
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            mma_tf32(acc + 4 * (i * 1 + j), x[i], y);
          }
        }
      }
      // load_b: b
      const float* b_from = b + (i64)(n_at + (lane / 16) + (warp_in_group) * 2) * b_stride0 + (i64)(k_at + (lane) % 16 * 4) * b_stride1;
      #pragma unroll
      for (int i = 0; i < 4; i += 4) {
        const u32 row = (lane / 16) + (warp_in_group) * 2, column = (lane) % 16 * 4 + (i);
        copy_async_if<16>(smem_b + ring_1_4_0.slot * 4096 + row * 256 + (column) * 4, b_from + (i64)((i)) * b_stride1, (u32)(n_at + (lane / 16) + (warp_in_group) * 2) < (u32)dim_N && k_at + (lane) % 16 * 4 + (i) < dim_K);
      }
      copy_commit();
      ring_1_4_0.advance();
      ring_1_4_2.advance();
    }
    // the pipeline drains
    for (; t_2 < count_2 + 2; t_2++) {
      const i32 k_at = (t_2) * 64;
      const i32 k_at_2 = (t_2 - 2) * 64;
      // load_a: a
      if ((u32)(t_2) < (u32)count_2) {
        const float* a_from = a + (i64)(m_at + (lane / 8) + (warp_in_group) * 4) * a_stride0 + (i64)(k_at + (lane) % 8 * 4) * a_stride1;
        #pragma unroll
        for (int i = 0; i < 16; i += 4) {
          const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 4) % 2 * 32, column = (lane) % 8 * 4 + (i) % 4 + (i / 8) * 32;
          copy_async_if<16>(smem_a + ring_1_4_0.slot * 16384 + column / 32 * 8192 + row * 128 + ((column % 32) * 4 ^ (row & 7) * 16), a_from + (i64)((i / 4) % 2 * 32) * a_stride0 + (i64)((i) % 4 + (i / 8) * 32) * a_stride1, (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 4) % 2 * 32) < (u32)dim_M && k_at + (lane) % 8 * 4 + (i) % 4 + (i / 8) * 32 < dim_K);
        }
      }
      copy_commit();
      copy_wait<4>();  // dependence: load_a -> vector_t (a)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // vector_t: t.1
      if ((u32)(t_2 - 2) < (u32)count_2) {
        #pragma unroll
        for (int p = 0; p < 32; p += 2) {
          const u32 a_piece_row = (lane / 4) + (warp_in_group) % 4 * 16 + ((p) / 2) % 2 * 8, a_piece_column = (lane) % 4 * 2 + ((p)) % 2 + ((p) / 4) * 8;
          float a_piece[2];
          read_shared<8>(a_piece, smem_a + ring_1_4_2.slot * 16384 + a_piece_column / 32 * 8192 + a_piece_row * 128 + ((a_piece_column % 32) * 4 ^ (a_piece_row & 7) * 16));
          #pragma unroll
          for (int e = 0; e < 2; e++) {
            const int i = p + e;
            t_1[i] = round_tf32(a_piece[e]);
          }
        }
        if (k_at_2 + 64 > dim_K) {
          #pragma unroll
          for (int i = 0; i < 32; i++) {
            if (k_at_2 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= dim_K) t_1[i] = 0;
          }
        }
      }
      copy_wait<3>();  // dependence: load_b -> vector_t_2 (b)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // vector_t_2: t.2
      if ((u32)(t_2 - 2) < (u32)count_2) {
        float b_2[4];
        #pragma unroll
        for (int i = 0; i < 4; i += 4) {
          const u32 piece_row = (lane / 16) + (warp_in_group) * 2, piece_column = (lane) % 16 * 4 + (i);
          float piece[4];
          read_shared<16>(piece, smem_b + ring_1_4_2.slot * 4096 + piece_row * 256 + (piece_column) * 4);
          #pragma unroll
          for (int e = 0; e < 4; e++) b_2[i + e] = piece[e];
        }
        float t_2_2[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
          t_2_2[i] = round_tf32(b_2[i]);
        }
        if (k_at_2 + 64 > dim_K) {
          #pragma unroll
          for (int i = 0; i < 4; i++) {
            if (k_at_2 + (lane) % 16 * 4 + (i) >= dim_K) t_2_2[i] = 0;
          }
        }
        group_sync(1 + worker, 256);  // all have read what was there
        #pragma unroll
        for (int i = 0; i < 4; i += 4) {
          const u32 piece_row = (lane / 16) + (warp_in_group) * 2, piece_column = (lane) % 16 * 4 + (i);
          float piece[4];
          #pragma unroll
          for (int e = 0; e < 4; e++) piece[e] = round_tf32(t_2_2[i + e]);
          write_shared<16>(smem_t_2 + ring_1_4_2.slot * 4096 + piece_column / 32 * 2048 + piece_row * 128 + ((piece_column % 32) * 4 ^ (piece_row & 7) * 16), piece);
        }
        group_sync(1 + worker, 256);  // all of the tile is there
      }
      // dot_acc: acc.2
      if ((u32)(t_2 - 2) < (u32)count_2) {
        #pragma unroll
        for (int k = 0; k < 8; k++) {
          u32 x[1][4];
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            #pragma unroll
            for (int h = 0; h < 4; h++) x[i][h] = __float_as_uint(t_1[4 * (i * 8 + k) + 2 * (h % 2) + h / 2]);
          }
          #pragma unroll
          for (int j = 0; j < 1; j++) {
            u32 y[2];
            #pragma unroll
            for (int h = 0; h < 2; h++) {
              y[h] = element_b32(smem_t_2 + ring_1_4_2.slot * 4096 + (k * 8 + lane % 4 * 2 + h) / 32 * 2048 + (warp_in_group / 4 * 8 + j * 8 + lane / 4) * 128 + (((k * 8 + lane % 4 * 2 + h) % 32) * 4 ^ ((warp_in_group / 4 * 8 + j * 8 + lane / 4) & 7) * 16));
            }
            #pragma unroll
            for (int i = 0; i < 1; i++) {
              mma_tf32(acc + 4 * (i * 1 + j), x[i], y);
            }
          }
        }
      }
      // load_b: b
      if ((u32)(t_2) < (u32)count_2) {
        const float* b_from = b + (i64)(n_at + (lane / 16) + (warp_in_group) * 2) * b_stride0 + (i64)(k_at + (lane) % 16 * 4) * b_stride1;
        #pragma unroll
        for (int i = 0; i < 4; i += 4) {
          const u32 row = (lane / 16) + (warp_in_group) * 2, column = (lane) % 16 * 4 + (i);
          copy_async_if<16>(smem_b + ring_1_4_0.slot * 4096 + row * 256 + (column) * 4, b_from + (i64)((i)) * b_stride1, (u32)(n_at + (lane / 16) + (warp_in_group) * 2) < (u32)dim_N && k_at + (lane) % 16 * 4 + (i) < dim_K);
        }
      }
      copy_commit();
      if ((u32)(t_2) < (u32)count_2) ring_1_4_0.advance();
      if ((u32)(t_2 - 2) < (u32)count_2) ring_1_4_2.advance();
    }
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 4; i += 2) {
        float piece[2];
        #pragma unroll
        for (int e = 0; e < 2; e++) piece[e] = acc[i + e];
        store_vector<8>(&out[(i64)(m_at + (lane / 4) + (warp_in_group) % 4 * 16 + (i / 2) * 8) * out_stride0 + (i64)(n_at + (lane) % 4 * 2 + (warp_in_group / 4) * 8 + (i) % 2) * out_stride1], piece, (u32)(m_at + (lane / 4) + (warp_in_group) % 4 * 16 + (i / 2) * 8) < (u32)dim_M && (u32)(n_at + (lane) % 4 * 2 + (warp_in_group / 4) * 8 + (i) % 2) < (u32)dim_N && m_at + (lane / 4) + (warp_in_group) % 4 * 16 + (i / 2) * 8 < dim_M && n_at + (lane) % 4 * 2 + (warp_in_group / 4) * 8 + (i) % 2 < dim_N);
      }
    }
  }
}
