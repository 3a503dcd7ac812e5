// flash_attention for a100, planned by joint:greedy
// tiles: m 128, n 32; 1 workers, 256 threads, 49152 bytes of shared memory
// loop 1: one iteration every 1450 cycles, 5 stages (predicted)
#include "sm80.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
flash_attention(const u16* __restrict__ q, const i64 q_stride0, const i64 q_stride1, const i64 q_stride2, const i64 q_stride3, const u16* __restrict__ k, const i64 k_stride0, const i64 k_stride1, const i64 k_stride2, const i64 k_stride3, const u16* __restrict__ v, const i64 v_stride0, const i64 v_stride1, const i64 v_stride2, const i64 v_stride3, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i64 out_stride2, const i64 out_stride3, const i32 dim_B, const i32 dim_D, const i32 dim_H, const i32 dim_HKV, const i32 dim_SK, const i32 dim_SQ, const float scale) {
  extern __shared__ __align__(128) u8 raw[];
  const u32 smem = smem_address(raw);
  const u32 smem_k = smem + 0;  // 4 slots of 32 x 64 f16, swizzle-128
  const u32 smem_v = smem + 16384;  // 4 slots of 32 x 64 f16, swizzle-128
  const u32 smem_q = smem + 32768;  // 1 slots of 128 x 64 f16, swizzle-128
  constexpr i32 worker = 0;
  const i32 warp_in_group = warp_index(), lane = lane_index();
  const i32 tiles_b = dim_B;
  const i32 tiles_h = dim_H;
  const i32 tiles_m = ceil_div(dim_SQ, 128);
  const i32 tiles = tiles_b * tiles_h * tiles_m;
  Ring<1> ring_0_1_0;
  Ring<4> ring_1_4_0;
  Ring<4> ring_1_4_3;
  Ring<4> ring_1_4_4;
  for (i32 round = 0, tile = blockIdx.x; tile < tiles; round++, tile = back_and_forth(round)) {
    i32 rest = tile;
    const i32 index_h = rest % tiles_h;
    rest /= tiles_h;
    const i32 index_b = rest % tiles_b;
    rest /= tiles_b;
    const i32 index_m = tiles_m - 1 - (rest);
    const i32 b_at = index_b;
    const i32 h_at = index_h;
    const i32 m_at = index_m * 128;
    float acc[32];
    float row_max[2];
    float row_sum[2];
    float t_36[32];
    float s[16];
    float old[2];
    u32 t_31_packed[8];
    const i64 t_2 = floor_div(dim_H, dim_HKV);
    const i64 t_3 = h_at;
    const i64 group_2 = floor_div(t_3, t_2);
    const i64 shift = dim_SK - dim_SQ;
    const i64 t_8 = min(m_at + 128, dim_SQ);
    const i64 last = t_8 + shift;
    const float c = 1.4426950408889634f;
    const float c_1 = scale * c;
    // vector_acc: acc
    const float c_2 = 0.0f;
    #pragma unroll
    for (int i = 0; i < 32; i++) {
      acc[i] = c_2;
    }
    // vector_row_max: row_max
    const float c_3 = -LOOM_INF;
    #pragma unroll
    for (int i = 0; i < 2; i++) {
      row_max[i] = c_3;
    }
    // vector_row_sum: row_sum
    #pragma unroll
    for (int i = 0; i < 2; i++) {
      row_sum[i] = c_2;
    }
    group_sync(1 + worker, 256);  // all have read what is overwritten now
    // load_q: q
    const u16* q_from = q + (i64)(b_at) * q_stride0 + (i64)(h_at) * q_stride1 + (i64)(m_at + (lane / 8) + (warp_in_group) * 4) * q_stride2 + (i64)((lane) % 8 * 8) * q_stride3;
    #pragma unroll
    for (int i = 0; i < 32; i += 8) {
      const u32 row = (lane / 8) + (warp_in_group) * 4 + (i / 8) * 32, column = (lane) % 8 * 8 + (i) % 8;
      copy_async_if<16>(smem_q + row * 128 + ((column) * 2 ^ (row & 7) * 16), q_from + (i64)((i / 8) * 32) * q_stride2 + (i64)((i) % 8) * q_stride3, (u32)(b_at) < (u32)dim_B && (u32)(h_at) < (u32)dim_H && (u32)(m_at + (lane / 8) + (warp_in_group) * 4 + (i / 8) * 32) < (u32)dim_SQ && (lane) % 8 * 8 + (i) % 8 < dim_D);
    }
    copy_commit();
    copy_wait<0>();  // dependence: load_q -> dot_s (q)
    group_sync(1 + worker, 256);  // and so have the copies of the other threads
    const i32 n_stop = min((i32)(last), dim_SK);
    const i32 count_2 = ceil_div(max(n_stop, 0), 32);
    i32 t_4 = 0;
    // the pipeline fills
    for (; t_4 < 4; t_4++) {
      const i32 n_at = (t_4) * 32;
      const i32 n_at_2 = (t_4 - 3) * 32;
      const i32 n_at_3 = (t_4 - 4) * 32;
      group_sync(1 + worker, 256);  // all have read what is overwritten now
      // load_k: k
      if ((u32)(t_4) < (u32)count_2) {
        const u16* k_from = k + (i64)(b_at) * k_stride0 + (i64)(group_2) * k_stride1 + (i64)(n_at + (lane / 8) + (warp_in_group) * 4) * k_stride2 + (i64)((lane) % 8 * 8) * k_stride3;
        #pragma unroll
        for (int i = 0; i < 8; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4, column = (lane) % 8 * 8 + (i);
          copy_async_if<16>(smem_k + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 2 ^ (row & 7) * 16), k_from + (i64)((i)) * k_stride3, (u32)(b_at) < (u32)dim_B && (u32)(group_2) < (u32)dim_HKV && (u32)(n_at + (lane / 8) + (warp_in_group) * 4) < (u32)dim_SK && n_at + (lane / 8) + (warp_in_group) * 4 < n_stop && (lane) % 8 * 8 + (i) < dim_D);
        }
      }
      copy_commit();
      // vector_new_max: new_max, old, row_sum.2, p
      if ((u32)(t_4 - 4) < (u32)count_2) {
        if (!((n_at_3 + 31) <= (m_at + shift))) {
          #pragma unroll
          for (int i = 0; i < 16; i++) {
            if (!((0 + ((i) % 2 + (i / 4) * 8) - ((i / 2) % 2 * 8)) <= (i32)min(max((i64)0 - (n_at_3) - ((lane) % 4 * 2) + (m_at) + ((lane / 4) + (warp_in_group) * 16) + (i64)(shift), (i64)-2147483648), (i64)2147483647))) s[i] = c_3;
          }
        }
        if (n_at_3 + 32 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 16; i++) {
            if (n_at_3 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = -LOOM_INF;
          }
        }
        float max_2[2];
        float max_2_parts[4];  // 2 chains a row: additions overlap
        #pragma unroll
        for (int i = 0; i < 16; i++) {
          max_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 4 == 0 ? s[i] : fmax_nan(max_2_parts[((i / 2) % 2) * 2 + i % 2], s[i]);
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) {
          max_2[r] = fmax_nan(max_2_parts[2 * r], max_2_parts[2 * r + 1]);
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 1));
        #pragma unroll
        for (int r = 0; r < 2; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 2));
        float new_max[2];
        float safe_max[2];
        #pragma unroll
        for (int i = 0; i < 2; i++) {
          const float t_19 = max_2[i] * c_1;
          new_max[i] = fmax_nan(row_max[i], t_19);
          const bool t_21 = new_max[i] == c_3;
          safe_max[i] = t_21 ? c_2 : new_max[i];
        }
        #pragma unroll
        for (int i = 0; i < 16; i++) {
          const float t_23 = s[i] * c_1;
          const float t_24 = t_23 - safe_max[(i / 2) % 2];
          s[i] = exp2_fast(t_24);
        }
        if (n_at_3 + 32 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 16; i++) {
            if (n_at_3 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = 0;
          }
        }
        float sum_2[2];
        float sum_2_parts[4];  // 2 chains a row: additions overlap
        #pragma unroll
        for (int i = 0; i < 16; i++) {
          sum_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 4 == 0 ? s[i] : sum_2_parts[((i / 2) % 2) * 2 + i % 2] + s[i];
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) {
          sum_2[r] = sum_2_parts[2 * r] + sum_2_parts[2 * r + 1];
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 1);
        #pragma unroll
        for (int r = 0; r < 2; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 2);
        float row_sum_2[2];
        #pragma unroll
        for (int i = 0; i < 2; i++) {
          const float t_26 = row_max[i] - safe_max[i];
          old[i] = exp2_fast(t_26);
          const float t_28 = row_sum[i] * old[i];
          row_sum_2[i] = t_28 + sum_2[i];
        }
        #pragma unroll
        for (int i = 0; i < 2; i++) row_max[i] = new_max[i];
        #pragma unroll
        for (int i = 0; i < 2; i++) row_sum[i] = row_sum_2[i];
      }
      // vector_new_max_out: t.31
      if ((u32)(t_4 - 4) < (u32)count_2) {
        if (n_at_3 + 32 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 16; i++) {
            if (n_at_3 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = 0;
          }
        }
        #pragma unroll
        for (int i = 0; i < 8; i++) t_31_packed[i] = pack_f16(s[2 * i], s[2 * i + 1]);
      }
      // vector_new_max_late: t.30
      if ((u32)(t_4 - 4) < (u32)count_2) {
        #pragma unroll
        for (int i = 0; i < 32; i++) {
          acc[i] = acc[i] * old[(i / 2) % 2];
        }
      }
      copy_wait<7>();  // dependence: load_v -> dot_acc (v)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      if ((u32)(t_4 - 4) < (u32)count_2) {
        #pragma unroll
        for (int k = 0; k < 2; k++) {
          u32 x[1][4];
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            #pragma unroll
            for (int h = 0; h < 4; h++) x[i][h] = t_31_packed[4 * (i * 2 + k) + h];
          }
          #pragma unroll
          for (int j = 0; j < 8; j += 2) {
            u32 y[4];
            load_matrices_turned(y, chunk_at(smem_v + ring_1_4_4.slot * 4096 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, (j * 8) / 8 + lane / 16, lane));
            #pragma unroll
            for (int i = 0; i < 1; i++) {
              mma_f16(acc + 4 * (i * 8 + j), x[i], y);
              mma_f16(acc + 4 * (i * 8 + j + 1), x[i], y + 2);
            }
          }
        }
      }
      group_sync(1 + worker, 256);  // all have read what is overwritten now
      // load_v: v
      if ((u32)(t_4) < (u32)count_2) {
        const u16* v_from = v + (i64)(b_at) * v_stride0 + (i64)(group_2) * v_stride1 + (i64)(n_at + (lane / 8) + (warp_in_group) * 4) * v_stride2 + (i64)((lane) % 8 * 8) * v_stride3;
        #pragma unroll
        for (int i = 0; i < 8; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4, column = (lane) % 8 * 8 + (i);
          copy_async_if<16>(smem_v + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 2 ^ (row & 7) * 16), v_from + (i64)((i)) * v_stride3, (u32)(b_at) < (u32)dim_B && (u32)(group_2) < (u32)dim_HKV && (u32)(n_at + (lane / 8) + (warp_in_group) * 4) < (u32)dim_SK && n_at + (lane / 8) + (warp_in_group) * 4 < n_stop && (lane) % 8 * 8 + (i) < dim_D);
        }
      }
      copy_commit();
      copy_wait<7>();  // dependence: load_k -> dot_s (k)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_s: s
      if ((u32)(t_4 - 3) < (u32)count_2) {
        #pragma unroll
        for (int i = 0; i < 16; i++) s[i] = 0;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
          u32 x[1][4];
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            load_matrices(x[i], chunk_at(smem_q + (warp_in_group % 8 * 16 + i * 128 + lane % 16) * 128, k * 2 + lane / 16, lane));
          }
          #pragma unroll
          for (int j = 0; j < 4; j += 2) {
            u32 y[4];
            load_matrices(y, chunk_at(smem_k + ring_1_4_3.slot * 4096 + (j * 8 + lane / 16 * 8 + lane % 8) * 128, k * 2 + lane / 8 % 2, lane));
            #pragma unroll
            for (int i = 0; i < 1; i++) {
              mma_f16(s + 4 * (i * 4 + j), x[i], y);
              mma_f16(s + 4 * (i * 4 + j + 1), x[i], y + 2);
            }
          }
        }
      }
      if ((u32)(t_4) < (u32)count_2) ring_1_4_0.advance();
      if ((u32)(t_4 - 3) < (u32)count_2) ring_1_4_3.advance();
      if ((u32)(t_4 - 4) < (u32)count_2) ring_1_4_4.advance();
    }
    // steady state, tiles without masks
    for (; t_4 < count_2; t_4++) {
      const i32 n_at = (t_4) * 32;
      const i32 n_at_2 = (t_4 - 3) * 32;
      const i32 n_at_3 = (t_4 - 4) * 32;
      if (!((n_at_3 + 31) <= (m_at + shift) && n_at_3 + 32 <= n_stop)) break;
      group_sync(1 + worker, 256);  // all have read what is overwritten now
      // load_k: k
      const u16* k_from = k + (i64)(b_at) * k_stride0 + (i64)(group_2) * k_stride1 + (i64)(n_at + (lane / 8) + (warp_in_group) * 4) * k_stride2 + (i64)((lane) % 8 * 8) * k_stride3;
      #pragma unroll
      for (int i = 0; i < 8; i += 8) {
        const u32 row = (lane / 8) + (warp_in_group) * 4, column = (lane) % 8 * 8 + (i);
        copy_async_if<16>(smem_k + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 2 ^ (row & 7) * 16), k_from + (i64)((i)) * k_stride3, (u32)(b_at) < (u32)dim_B && (u32)(group_2) < (u32)dim_HKV && (u32)(n_at + (lane / 8) + (warp_in_group) * 4) < (u32)dim_SK && n_at + (lane / 8) + (warp_in_group) * 4 < n_stop && (lane) % 8 * 8 + (i) < dim_D);
      }
      copy_commit();
      // vector_new_max: new_max, old, row_sum.2, p
      float max_2[2];
      float max_2_parts[4];  // 2 chains a row: additions overlap
      #pragma unroll
      for (int i = 0; i < 16; i++) {
        max_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 4 == 0 ? s[i] : fmax_nan(max_2_parts[((i / 2) % 2) * 2 + i % 2], s[i]);
      }
      #pragma unroll
      for (int r = 0; r < 2; r++) {
        max_2[r] = fmax_nan(max_2_parts[2 * r], max_2_parts[2 * r + 1]);
      }
      #pragma unroll
      for (int r = 0; r < 2; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 1));
      #pragma unroll
      for (int r = 0; r < 2; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 2));
      float new_max[2];
      float safe_max[2];
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        const float t_19 = max_2[i] * c_1;
        new_max[i] = fmax_nan(row_max[i], t_19);
        const bool t_21 = new_max[i] == c_3;
        safe_max[i] = t_21 ? c_2 : new_max[i];
      }
      #pragma unroll
      for (int i = 0; i < 16; i++) {
        const float t_23 = s[i] * c_1;
        const float t_24 = t_23 - safe_max[(i / 2) % 2];
        s[i] = exp2_fast(t_24);
      }
      float sum_2[2];
      float sum_2_parts[4];  // 2 chains a row: additions overlap
      #pragma unroll
      for (int i = 0; i < 16; i++) {
        sum_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 4 == 0 ? s[i] : sum_2_parts[((i / 2) % 2) * 2 + i % 2] + s[i];
      }
      #pragma unroll
      for (int r = 0; r < 2; r++) {
        sum_2[r] = sum_2_parts[2 * r] + sum_2_parts[2 * r + 1];
      }
      #pragma unroll
      for (int r = 0; r < 2; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 1);
      #pragma unroll
      for (int r = 0; r < 2; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 2);
      float row_sum_2[2];
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        const float t_26 = row_max[i] - safe_max[i];
        old[i] = exp2_fast(t_26);
        const float t_28 = row_sum[i] * old[i];
        row_sum_2[i] = t_28 + sum_2[i];
      }
      #pragma unroll
      for (int i = 0; i < 2; i++) row_max[i] = new_max[i];
      #pragma unroll
      for (int i = 0; i < 2; i++) row_sum[i] = row_sum_2[i];
      // vector_new_max_out: t.31
      #pragma unroll
      for (int i = 0; i < 8; i++) t_31_packed[i] = pack_f16(s[2 * i], s[2 * i + 1]);
      // vector_new_max_late: t.30
      #pragma unroll
      for (int i = 0; i < 32; i++) {
        acc[i] = acc[i] * old[(i / 2) % 2];
      }
      copy_wait<7>();  // dependence: load_v -> dot_acc (v)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      #pragma unroll
      for (int k = 0; k < 2; k++) {
        u32 x[1][4];
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          #pragma unroll
          for (int h = 0; h < 4; h++) x[i][h] = t_31_packed[4 * (i * 2 + k) + h];
        }
        #pragma unroll
        for (int j = 0; j < 8; j += 2) {
          u32 y[4];
          load_matrices_turned(y, chunk_at(smem_v + ring_1_4_4.slot * 4096 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, (j * 8) / 8 + lane / 16, lane));
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            mma_f16(acc + 4 * (i * 8 + j), x[i], y);
            mma_f16(acc + 4 * (i * 8 + j + 1), x[i], y + 2);
          }
        }
      }
      group_sync(1 + worker, 256);  // all have read what is overwritten now
      // load_v: v
      const u16* v_from = v + (i64)(b_at) * v_stride0 + (i64)(group_2) * v_stride1 + (i64)(n_at + (lane / 8) + (warp_in_group) * 4) * v_stride2 + (i64)((lane) % 8 * 8) * v_stride3;
      #pragma unroll
      for (int i = 0; i < 8; i += 8) {
        const u32 row = (lane / 8) + (warp_in_group) * 4, column = (lane) % 8 * 8 + (i);
        copy_async_if<16>(smem_v + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 2 ^ (row & 7) * 16), v_from + (i64)((i)) * v_stride3, (u32)(b_at) < (u32)dim_B && (u32)(group_2) < (u32)dim_HKV && (u32)(n_at + (lane / 8) + (warp_in_group) * 4) < (u32)dim_SK && n_at + (lane / 8) + (warp_in_group) * 4 < n_stop && (lane) % 8 * 8 + (i) < dim_D);
      }
      copy_commit();
      copy_wait<7>();  // dependence: load_k -> dot_s (k)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_s: s
      #pragma unroll
      for (int i = 0; i < 16; i++) s[i] = 0;
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        u32 x[1][4];
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          load_matrices(x[i], chunk_at(smem_q + (warp_in_group % 8 * 16 + i * 128 + lane % 16) * 128, k * 2 + lane / 16, lane));
        }
        #pragma unroll
        for (int j = 0; j < 4; j += 2) {
          u32 y[4];
          load_matrices(y, chunk_at(smem_k + ring_1_4_3.slot * 4096 + (j * 8 + lane / 16 * 8 + lane % 8) * 128, k * 2 + lane / 8 % 2, lane));
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            mma_f16(s + 4 * (i * 4 + j), x[i], y);
            mma_f16(s + 4 * (i * 4 + j + 1), x[i], y + 2);
          }
        }
      }
      ring_1_4_0.advance();
      ring_1_4_3.advance();
      ring_1_4_4.advance();
    }
    // steady state
    for (; t_4 < count_2; t_4++) {
      const i32 n_at = (t_4) * 32;
      const i32 n_at_2 = (t_4 - 3) * 32;
      const i32 n_at_3 = (t_4 - 4) * 32;
      group_sync(1 + worker, 256);  // all have read what is overwritten now
      // load_k: k
      const u16* k_from = k + (i64)(b_at) * k_stride0 + (i64)(group_2) * k_stride1 + (i64)(n_at + (lane / 8) + (warp_in_group) * 4) * k_stride2 + (i64)((lane) % 8 * 8) * k_stride3;
      #pragma unroll
      for (int i = 0; i < 8; i += 8) {
        const u32 row = (lane / 8) + (warp_in_group) * 4, column = (lane) % 8 * 8 + (i);
        copy_async_if<16>(smem_k + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 2 ^ (row & 7) * 16), k_from + (i64)((i)) * k_stride3, (u32)(b_at) < (u32)dim_B && (u32)(group_2) < (u32)dim_HKV && (u32)(n_at + (lane / 8) + (warp_in_group) * 4) < (u32)dim_SK && n_at + (lane / 8) + (warp_in_group) * 4 < n_stop && (lane) % 8 * 8 + (i) < dim_D);
      }
      copy_commit();
      // vector_new_max: new_max, old, row_sum.2, p
      if (!((n_at_3 + 31) <= (m_at + shift))) {
        #pragma unroll
        for (int i = 0; i < 16; i++) {
          if (!((0 + ((i) % 2 + (i / 4) * 8) - ((i / 2) % 2 * 8)) <= (i32)min(max((i64)0 - (n_at_3) - ((lane) % 4 * 2) + (m_at) + ((lane / 4) + (warp_in_group) * 16) + (i64)(shift), (i64)-2147483648), (i64)2147483647))) s[i] = c_3;
        }
      }
      if (n_at_3 + 32 > n_stop) {
        #pragma unroll
        for (int i = 0; i < 16; i++) {
          if (n_at_3 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = -LOOM_INF;
        }
      }
      float max_2[2];
      float max_2_parts[4];  // 2 chains a row: additions overlap
      #pragma unroll
      for (int i = 0; i < 16; i++) {
        max_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 4 == 0 ? s[i] : fmax_nan(max_2_parts[((i / 2) % 2) * 2 + i % 2], s[i]);
      }
      #pragma unroll
      for (int r = 0; r < 2; r++) {
        max_2[r] = fmax_nan(max_2_parts[2 * r], max_2_parts[2 * r + 1]);
      }
      #pragma unroll
      for (int r = 0; r < 2; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 1));
      #pragma unroll
      for (int r = 0; r < 2; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 2));
      float new_max[2];
      float safe_max[2];
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        const float t_19 = max_2[i] * c_1;
        new_max[i] = fmax_nan(row_max[i], t_19);
        const bool t_21 = new_max[i] == c_3;
        safe_max[i] = t_21 ? c_2 : new_max[i];
      }
      #pragma unroll
      for (int i = 0; i < 16; i++) {
        const float t_23 = s[i] * c_1;
        const float t_24 = t_23 - safe_max[(i / 2) % 2];
        s[i] = exp2_fast(t_24);
      }
      if (n_at_3 + 32 > n_stop) {
        #pragma unroll
        for (int i = 0; i < 16; i++) {
          if (n_at_3 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = 0;
        }
      }
      float sum_2[2];
      float sum_2_parts[4];  // 2 chains a row: additions overlap
      #pragma unroll
      for (int i = 0; i < 16; i++) {
        sum_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 4 == 0 ? s[i] : sum_2_parts[((i / 2) % 2) * 2 + i % 2] + s[i];
      }
      #pragma unroll
      for (int r = 0; r < 2; r++) {
        sum_2[r] = sum_2_parts[2 * r] + sum_2_parts[2 * r + 1];
      }
      #pragma unroll
      for (int r = 0; r < 2; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 1);
      #pragma unroll
      for (int r = 0; r < 2; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 2);
      float row_sum_2[2];
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        const float t_26 = row_max[i] - safe_max[i];
        old[i] = exp2_fast(t_26);
        const float t_28 = row_sum[i] * old[i];
        row_sum_2[i] = t_28 + sum_2[i];
      }
      #pragma unroll
      for (int i = 0; i < 2; i++) row_max[i] = new_max[i];
      #pragma unroll
      for (int i = 0; i < 2; i++) row_sum[i] = row_sum_2[i];
      // vector_new_max_out: t.31
      if (n_at_3 + 32 > n_stop) {
        #pragma unroll
        for (int i = 0; i < 16; i++) {
          if (n_at_3 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = 0;
        }
      }
      #pragma unroll
      for (int i = 0; i < 8; i++) t_31_packed[i] = pack_f16(s[2 * i], s[2 * i + 1]);
      // vector_new_max_late: t.30
      #pragma unroll
      for (int i = 0; i < 32; i++) {
        acc[i] = acc[i] * old[(i / 2) % 2];
      }
      copy_wait<7>();  // dependence: load_v -> dot_acc (v)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      #pragma unroll
      for (int k = 0; k < 2; k++) {
        u32 x[1][4];
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          #pragma unroll
          for (int h = 0; h < 4; h++) x[i][h] = t_31_packed[4 * (i * 2 + k) + h];
        }
        #pragma unroll
        for (int j = 0; j < 8; j += 2) {
          u32 y[4];
          load_matrices_turned(y, chunk_at(smem_v + ring_1_4_4.slot * 4096 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, (j * 8) / 8 + lane / 16, lane));
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            mma_f16(acc + 4 * (i * 8 + j), x[i], y);
            mma_f16(acc + 4 * (i * 8 + j + 1), x[i], y + 2);
          }
        }
      }
      group_sync(1 + worker, 256);  // all have read what is overwritten now
      // load_v: v
      const u16* v_from = v + (i64)(b_at) * v_stride0 + (i64)(group_2) * v_stride1 + (i64)(n_at + (lane / 8) + (warp_in_group) * 4) * v_stride2 + (i64)((lane) % 8 * 8) * v_stride3;
      #pragma unroll
      for (int i = 0; i < 8; i += 8) {
        const u32 row = (lane / 8) + (warp_in_group) * 4, column = (lane) % 8 * 8 + (i);
        copy_async_if<16>(smem_v + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 2 ^ (row & 7) * 16), v_from + (i64)((i)) * v_stride3, (u32)(b_at) < (u32)dim_B && (u32)(group_2) < (u32)dim_HKV && (u32)(n_at + (lane / 8) + (warp_in_group) * 4) < (u32)dim_SK && n_at + (lane / 8) + (warp_in_group) * 4 < n_stop && (lane) % 8 * 8 + (i) < dim_D);
      }
      copy_commit();
      copy_wait<7>();  // dependence: load_k -> dot_s (k)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_s: s
      #pragma unroll
      for (int i = 0; i < 16; i++) s[i] = 0;
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        u32 x[1][4];
        #pragma unroll
        for (int i = 0; i < 1; i++) {
          load_matrices(x[i], chunk_at(smem_q + (warp_in_group % 8 * 16 + i * 128 + lane % 16) * 128, k * 2 + lane / 16, lane));
        }
        #pragma unroll
        for (int j = 0; j < 4; j += 2) {
          u32 y[4];
          load_matrices(y, chunk_at(smem_k + ring_1_4_3.slot * 4096 + (j * 8 + lane / 16 * 8 + lane % 8) * 128, k * 2 + lane / 8 % 2, lane));
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            mma_f16(s + 4 * (i * 4 + j), x[i], y);
            mma_f16(s + 4 * (i * 4 + j + 1), x[i], y + 2);
          }
        }
      }
      ring_1_4_0.advance();
      ring_1_4_3.advance();
      ring_1_4_4.advance();
    }
    // the pipeline drains
    for (; t_4 < count_2 + 4; t_4++) {
      const i32 n_at = (t_4) * 32;
      const i32 n_at_2 = (t_4 - 3) * 32;
      const i32 n_at_3 = (t_4 - 4) * 32;
      group_sync(1 + worker, 256);  // all have read what is overwritten now
      // load_k: k
      if ((u32)(t_4) < (u32)count_2) {
        const u16* k_from = k + (i64)(b_at) * k_stride0 + (i64)(group_2) * k_stride1 + (i64)(n_at + (lane / 8) + (warp_in_group) * 4) * k_stride2 + (i64)((lane) % 8 * 8) * k_stride3;
        #pragma unroll
        for (int i = 0; i < 8; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4, column = (lane) % 8 * 8 + (i);
          copy_async_if<16>(smem_k + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 2 ^ (row & 7) * 16), k_from + (i64)((i)) * k_stride3, (u32)(b_at) < (u32)dim_B && (u32)(group_2) < (u32)dim_HKV && (u32)(n_at + (lane / 8) + (warp_in_group) * 4) < (u32)dim_SK && n_at + (lane / 8) + (warp_in_group) * 4 < n_stop && (lane) % 8 * 8 + (i) < dim_D);
        }
      }
      copy_commit();
      // vector_new_max: new_max, old, row_sum.2, p
      if ((u32)(t_4 - 4) < (u32)count_2) {
        if (!((n_at_3 + 31) <= (m_at + shift))) {
          #pragma unroll
          for (int i = 0; i < 16; i++) {
            if (!((0 + ((i) % 2 + (i / 4) * 8) - ((i / 2) % 2 * 8)) <= (i32)min(max((i64)0 - (n_at_3) - ((lane) % 4 * 2) + (m_at) + ((lane / 4) + (warp_in_group) * 16) + (i64)(shift), (i64)-2147483648), (i64)2147483647))) s[i] = c_3;
          }
        }
        if (n_at_3 + 32 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 16; i++) {
            if (n_at_3 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = -LOOM_INF;
          }
        }
        float max_2[2];
        float max_2_parts[4];  // 2 chains a row: additions overlap
        #pragma unroll
        for (int i = 0; i < 16; i++) {
          max_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 4 == 0 ? s[i] : fmax_nan(max_2_parts[((i / 2) % 2) * 2 + i % 2], s[i]);
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) {
          max_2[r] = fmax_nan(max_2_parts[2 * r], max_2_parts[2 * r + 1]);
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 1));
        #pragma unroll
        for (int r = 0; r < 2; r++) max_2[r] = fmax_nan(max_2[r], __shfl_xor_sync(0xffffffffu, max_2[r], 2));
        float new_max[2];
        float safe_max[2];
        #pragma unroll
        for (int i = 0; i < 2; i++) {
          const float t_19 = max_2[i] * c_1;
          new_max[i] = fmax_nan(row_max[i], t_19);
          const bool t_21 = new_max[i] == c_3;
          safe_max[i] = t_21 ? c_2 : new_max[i];
        }
        #pragma unroll
        for (int i = 0; i < 16; i++) {
          const float t_23 = s[i] * c_1;
          const float t_24 = t_23 - safe_max[(i / 2) % 2];
          s[i] = exp2_fast(t_24);
        }
        if (n_at_3 + 32 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 16; i++) {
            if (n_at_3 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = 0;
          }
        }
        float sum_2[2];
        float sum_2_parts[4];  // 2 chains a row: additions overlap
        #pragma unroll
        for (int i = 0; i < 16; i++) {
          sum_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 4 == 0 ? s[i] : sum_2_parts[((i / 2) % 2) * 2 + i % 2] + s[i];
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) {
          sum_2[r] = sum_2_parts[2 * r] + sum_2_parts[2 * r + 1];
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 1);
        #pragma unroll
        for (int r = 0; r < 2; r++) sum_2[r] = sum_2[r] + __shfl_xor_sync(0xffffffffu, sum_2[r], 2);
        float row_sum_2[2];
        #pragma unroll
        for (int i = 0; i < 2; i++) {
          const float t_26 = row_max[i] - safe_max[i];
          old[i] = exp2_fast(t_26);
          const float t_28 = row_sum[i] * old[i];
          row_sum_2[i] = t_28 + sum_2[i];
        }
        #pragma unroll
        for (int i = 0; i < 2; i++) row_max[i] = new_max[i];
        #pragma unroll
        for (int i = 0; i < 2; i++) row_sum[i] = row_sum_2[i];
      }
      // vector_new_max_out: t.31
      if ((u32)(t_4 - 4) < (u32)count_2) {
        if (n_at_3 + 32 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 16; i++) {
            if (n_at_3 + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = 0;
          }
        }
        #pragma unroll
        for (int i = 0; i < 8; i++) t_31_packed[i] = pack_f16(s[2 * i], s[2 * i + 1]);
      }
      // vector_new_max_late: t.30
      if ((u32)(t_4 - 4) < (u32)count_2) {
        #pragma unroll
        for (int i = 0; i < 32; i++) {
          acc[i] = acc[i] * old[(i / 2) % 2];
        }
      }
      copy_wait<7>();  // dependence: load_v -> dot_acc (v)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_acc: acc.2
      if ((u32)(t_4 - 4) < (u32)count_2) {
        #pragma unroll
        for (int k = 0; k < 2; k++) {
          u32 x[1][4];
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            #pragma unroll
            for (int h = 0; h < 4; h++) x[i][h] = t_31_packed[4 * (i * 2 + k) + h];
          }
          #pragma unroll
          for (int j = 0; j < 8; j += 2) {
            u32 y[4];
            load_matrices_turned(y, chunk_at(smem_v + ring_1_4_4.slot * 4096 + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * 128, (j * 8) / 8 + lane / 16, lane));
            #pragma unroll
            for (int i = 0; i < 1; i++) {
              mma_f16(acc + 4 * (i * 8 + j), x[i], y);
              mma_f16(acc + 4 * (i * 8 + j + 1), x[i], y + 2);
            }
          }
        }
      }
      group_sync(1 + worker, 256);  // all have read what is overwritten now
      // load_v: v
      if ((u32)(t_4) < (u32)count_2) {
        const u16* v_from = v + (i64)(b_at) * v_stride0 + (i64)(group_2) * v_stride1 + (i64)(n_at + (lane / 8) + (warp_in_group) * 4) * v_stride2 + (i64)((lane) % 8 * 8) * v_stride3;
        #pragma unroll
        for (int i = 0; i < 8; i += 8) {
          const u32 row = (lane / 8) + (warp_in_group) * 4, column = (lane) % 8 * 8 + (i);
          copy_async_if<16>(smem_v + ring_1_4_0.slot * 4096 + row * 128 + ((column) * 2 ^ (row & 7) * 16), v_from + (i64)((i)) * v_stride3, (u32)(b_at) < (u32)dim_B && (u32)(group_2) < (u32)dim_HKV && (u32)(n_at + (lane / 8) + (warp_in_group) * 4) < (u32)dim_SK && n_at + (lane / 8) + (warp_in_group) * 4 < n_stop && (lane) % 8 * 8 + (i) < dim_D);
        }
      }
      copy_commit();
      copy_wait<7>();  // dependence: load_k -> dot_s (k)
      group_sync(1 + worker, 256);  // and so have the copies of the other threads
      // dot_s: s
      if ((u32)(t_4 - 3) < (u32)count_2) {
        #pragma unroll
        for (int i = 0; i < 16; i++) s[i] = 0;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
          u32 x[1][4];
          #pragma unroll
          for (int i = 0; i < 1; i++) {
            load_matrices(x[i], chunk_at(smem_q + (warp_in_group % 8 * 16 + i * 128 + lane % 16) * 128, k * 2 + lane / 16, lane));
          }
          #pragma unroll
          for (int j = 0; j < 4; j += 2) {
            u32 y[4];
            load_matrices(y, chunk_at(smem_k + ring_1_4_3.slot * 4096 + (j * 8 + lane / 16 * 8 + lane % 8) * 128, k * 2 + lane / 8 % 2, lane));
            #pragma unroll
            for (int i = 0; i < 1; i++) {
              mma_f16(s + 4 * (i * 4 + j), x[i], y);
              mma_f16(s + 4 * (i * 4 + j + 1), x[i], y + 2);
            }
          }
        }
      }
      if ((u32)(t_4) < (u32)count_2) ring_1_4_0.advance();
      if ((u32)(t_4 - 3) < (u32)count_2) ring_1_4_3.advance();
      if ((u32)(t_4 - 4) < (u32)count_2) ring_1_4_4.advance();
    }
    // vector_t: t.36
    bool t_33[2];
    #pragma unroll
    for (int i = 0; i < 2; i++) {
      t_33[i] = row_sum[i] == c_2;
    }
    #pragma unroll
    for (int i = 0; i < 32; i++) {
      const float t_34 = divide(acc[i], row_sum[(i / 2) % 2]);
      const float t_35 = t_33[(i / 2) % 2] ? c_2 : t_34;
      t_36[i] = from_f16(to_f16(t_35));
    }
    // store_out
    {
      #pragma unroll
      for (int i = 0; i < 32; i += 2) {
        u32 words[1];
        #pragma unroll
        for (int e = 0; e < 1; e++) words[e] = pack_f16(t_36[(i + 2 * e + 0)], t_36[(i + 2 * e + 1)]);
        store_words<4>(&out[(i64)(b_at) * out_stride0 + (i64)(h_at) * out_stride1 + (i64)(m_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8) * out_stride2 + (i64)((lane) % 4 * 2 + (i) % 2 + (i / 4) * 8) * out_stride3], words, (u32)(b_at) < (u32)dim_B && (u32)(h_at) < (u32)dim_H && (u32)(m_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8) < (u32)dim_SQ && (u32)((lane) % 4 * 2 + (i) % 2 + (i / 4) * 8) < (u32)dim_D && m_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8 < dim_SQ);
      }
    }
    ring_0_1_0.advance();
  }
}
