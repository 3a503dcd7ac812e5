// flash_attention for h200, planned by joint:greedy-aligned
// tiles: m 64, n 128; 1 workers, 256 threads, 147600 bytes of shared memory
// loop 1: one iteration every 1511 cycles, 2 stages (predicted)
#include "sm90.cuh"

LOOM_DEVICE void mma_m64n128k16_f16_k_k(float* d, u64 a, u64 b, i32 accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, 0, 0;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
    : "l"(a), "l"(b), "r"(accumulate));
}

LOOM_DEVICE void mma_m64n64k16_f16_registers_mn(float* d, const u32* a, u64 b, i32 accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(256, 1)
flash_attention(const __grid_constant__ TensorMap map_k, const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_store_out, const __grid_constant__ TensorMap map_v, const i32 dim_B, const i32 dim_D, const i32 dim_H, const i32 dim_HKV, const i32 dim_SK, const i32 dim_SQ, const float scale) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_k = smem + 0;  // 4 slots of 128 x 64 f16, swizzle-128
const u32 smem_v = smem + 65536;  // 4 slots of 128 x 64 f16, swizzle-128
const u32 smem_q = smem + 131072;  // 1 slots of 64 x 64 f16, swizzle-128
const u32 smem_t_36 = smem + 139264;  // staged results of 
const u32 full_k = smem + 147456;  // 4 barriers
const u32 empty_k = smem + 147488;  // 4 barriers
const u32 full_q = smem + 147520;  // 1 barriers
const u32 empty_q = smem + 147528;  // 1 barriers
const u32 full_v = smem + 147536;  // 4 barriers
const u32 empty_v = smem + 147568;  // 4 barriers
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_k + 0, 1);
  barrier_init(full_k + 8, 1);
  barrier_init(full_k + 16, 1);
  barrier_init(full_k + 24, 1);
  barrier_init(empty_k + 0, 4);
  barrier_init(empty_k + 8, 4);
  barrier_init(empty_k + 16, 4);
  barrier_init(empty_k + 24, 4);
  barrier_init(full_q + 0, 1);
  barrier_init(empty_q + 0, 4);
  barrier_init(full_v + 0, 1);
  barrier_init(full_v + 8, 1);
  barrier_init(full_v + 16, 1);
  barrier_init(full_v + 24, 1);
  barrier_init(empty_v + 0, 4);
  barrier_init(empty_v + 8, 4);
  barrier_init(empty_v + 16, 4);
  barrier_init(empty_v + 24, 4);
  barrier_init_done();
}
__syncthreads();
const i32 tiles_b = dim_B;
const i32 tiles_h = dim_H;
const i32 tiles_m = ceil_div(dim_SQ, 64);
const i32 tiles = tiles_b * tiles_h * tiles_m;
if (group == 0) {
  // producer
  shrink_registers<40>();
  const u32 staged_t_36 = smem_t_36;
  if (warp_in_group == 0 && elect_lane()) {
    Ring<1> ring_0_1_0;
    Ring<4> ring_1_4_0;
    Ring<4> ring_1_4_1;
    for (i32 round = 0, tile = blockIdx.x; tile < tiles; round++, tile = back_and_forth(round)) {
      i32 rest = tile;
      const i32 index_h = rest % tiles_h;
      rest /= tiles_h;
      const i32 index_b = rest % tiles_b;
      rest /= tiles_b;
      const i32 index_m = tiles_m - 1 - (rest);
      const i32 b_at = index_b;
      const i32 h_at = index_h;
      const i32 m_at = index_m * 64;
      const i64 t_2 = floor_div(dim_H, dim_HKV);
      const i64 t_3 = h_at;
      const i64 group_2 = floor_div(t_3, t_2);
      const i64 shift = dim_SK - dim_SQ;
      const i64 t_8 = min(m_at + 64, dim_SQ);
      const i64 last = t_8 + shift;
      const float c = 1.4426950408889634f;
      const float c_1 = scale * c;
      barrier_wait(empty_q, ring_0_1_0.phase ^ 1, 3);  // slot-free: dot_s -> load_q (q)
      // load_q: q
      barrier_expect(full_q, 8192);
      bulk_load(smem_q, &map_q, full_q, 0, m_at, h_at, b_at);
      const i32 n_stop = min((i32)(last), dim_SK);
      const i32 count_2 = ceil_div(max(n_stop, 0), 128);
      if (count_2 > 0) {
        // prologue 0
        {
          const i32 n_at = (0) * 128;
          barrier_wait(empty_k + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 1);  // slot-free: dot_s -> load_k (k)
          // load_k: k
          barrier_expect(full_k + 8 * ring_1_4_0.slot, 16384);
          bulk_load(smem_k + ring_1_4_0.slot * 16384, &map_k, full_k + 8 * ring_1_4_0.slot, 0, n_at, group_2, b_at);
          ring_1_4_0.advance();
        }
        i32 t_4 = 1;
        // steady state
        for (; t_4 < count_2; t_4++) {
          const i32 n_at = (t_4) * 128;
          const i32 n_at_2 = (t_4 - 1) * 128;
          barrier_wait(empty_k + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 1);  // slot-free: dot_s -> load_k (k)
          // load_k: k
          barrier_expect(full_k + 8 * ring_1_4_0.slot, 16384);
          bulk_load(smem_k + ring_1_4_0.slot * 16384, &map_k, full_k + 8 * ring_1_4_0.slot, 0, n_at, group_2, b_at);
          barrier_wait(empty_v + 8 * ring_1_4_1.slot, ring_1_4_1.phase ^ 1, 5);  // slot-free: dot_acc -> load_v (v)
          // load_v: v
          barrier_expect(full_v + 8 * ring_1_4_1.slot, 16384);
          bulk_load(smem_v + ring_1_4_1.slot * 16384, &map_v, full_v + 8 * ring_1_4_1.slot, 0, n_at_2, group_2, b_at);
          ring_1_4_0.advance();
          ring_1_4_1.advance();
        }
        // epilogue 0
        {
          const i32 n_at = (count_2 - 1) * 128;
          barrier_wait(empty_v + 8 * ring_1_4_1.slot, ring_1_4_1.phase ^ 1, 5);  // slot-free: dot_acc -> load_v (v)
          // load_v: v
          barrier_expect(full_v + 8 * ring_1_4_1.slot, 16384);
          bulk_load(smem_v + ring_1_4_1.slot * 16384, &map_v, full_v + 8 * ring_1_4_1.slot, 0, n_at, group_2, b_at);
          ring_1_4_1.advance();
        }
      }
      ring_0_1_0.advance();
    }
  }
}
else if (group == 1) {
  // worker0
  grow_registers<240>();
  constexpr i32 worker = 0;
  const u32 staged_t_36 = smem_t_36;
  const u64 smem_q_desc = descriptor_k_major(smem_q);
  const u64 smem_k_desc = descriptor_k_major(smem_k);
  const u64 smem_v_desc_across = descriptor_mn_major(smem_v, 16384);
  Ring<1> ring_0_1_0;
  Ring<4> ring_1_4_0;
  Ring<4> ring_1_4_1;
  for (i32 round = 0, tile = blockIdx.x; tile < tiles; round++, tile = back_and_forth(round)) {
    i32 rest = tile;
    const i32 index_h = rest % tiles_h;
    rest /= tiles_h;
    const i32 index_b = rest % tiles_b;
    rest /= tiles_b;
    const i32 index_m = tiles_m - 1 - (rest);
    const i32 b_at = index_b;
    const i32 h_at = index_h;
    const i32 m_at = index_m * 64;
    float acc[32];
    float row_max[2];
    float row_sum[2];
    float s[64];
    float old[2];
    u32 t_31_packed[32];
    const i64 t_2 = floor_div(dim_H, dim_HKV);
    const i64 t_3 = h_at;
    const i64 group_2 = floor_div(t_3, t_2);
    const i64 shift = dim_SK - dim_SQ;
    const i64 t_8 = min(m_at + 64, dim_SQ);
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
    barrier_wait(full_q, ring_0_1_0.phase, 2);  // dependence: load_q -> dot_s (q)
    const i32 n_stop = min((i32)(last), dim_SK);
    const i32 count_2 = ceil_div(max(n_stop, 0), 128);
    if (count_2 > 0) {
      // prologue 0
      {
        const i32 n_at = (0) * 128;
        barrier_wait(full_k + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 0);  // dependence: load_k -> dot_s (k)
        // dot_s: s
        mma_fence();
        #pragma unroll
        for (int k = 0; k < 4; k++) {
          mma_m64n128k16_f16_k_k(s, smem_q_desc + k * 2, smem_k_desc + ring_1_4_0.slot * 1024 + k * 2, k > 0);
        }
        mma_commit();
        mma_commit();  // an empty group keeps the count
        mma_wait<1>();  // dependence: dot_s -> vector_new_max (s)
        pin(s);
        if (lane == 0) barrier_arrive(empty_k + 8 * ring_1_4_0.slot);  // slot-free: dot_s -> load_k (k)
        // vector_new_max: new_max, old, row_sum.2, p
        if (!((n_at + 127) <= (m_at + shift))) {
          #pragma unroll
          for (int i = 0; i < 64; i++) {
            if (!((0 + ((i) % 2 + (i / 4) * 8) - ((i / 2) % 2 * 8)) <= (i32)min(max((i64)0 - (n_at) - ((lane) % 4 * 2) + (m_at) + ((lane / 4) + (warp_in_group) * 16) + (i64)(shift), (i64)-2147483648), (i64)2147483647))) s[i] = c_3;
          }
        }
        if (n_at + 128 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 64; i++) {
            if (n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = -LOOM_INF;
          }
        }
        float max_2[2];
        float max_2_parts[4];  // 2 chains a row: additions overlap
        #pragma unroll
        for (int i = 0; i < 64; i++) {
          max_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 16 == 0 ? s[i] : fmax_nan(max_2_parts[((i / 2) % 2) * 2 + i % 2], s[i]);
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
        for (int i = 0; i < 64; i++) {
          const float t_23 = s[i] * c_1;
          const float t_24 = t_23 - safe_max[(i / 2) % 2];
          s[i] = exp2_fast(t_24);
        }
        if (n_at + 128 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 64; i++) {
            if (n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = 0;
          }
        }
        float sum_2[2];
        float sum_2_parts[4];  // 2 chains a row: additions overlap
        #pragma unroll
        for (int i = 0; i < 64; i++) {
          sum_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 16 == 0 ? s[i] : sum_2_parts[((i / 2) % 2) * 2 + i % 2] + s[i];
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) {
          sum_2[r] = sum_2_parts[2 * r] + sum_2_parts[2 * r + 1];
        }
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
        mma_wait<0>();  // slot-free: dot_acc -> vector_new_max_out (t.31, 1 iterations earlier)
        pin(t_31_packed);
        // vector_new_max_out: t.31
        if (n_at + 128 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 64; i++) {
            if (n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = 0;
          }
        }
        #pragma unroll
        for (int i = 0; i < 32; i++) t_31_packed[i] = pack_f16(s[2 * i], s[2 * i + 1]);
        pin(acc);
        // vector_new_max_late: t.30
        #pragma unroll
        for (int i = 0; i < 32; i++) {
          acc[i] = acc[i] * old[(i / 2) % 2];
        }
        ring_1_4_0.advance();
      }
      i32 t_4 = 1;
      // steady state, tiles without masks
      const i32 clear = first_without(t_4, count_2, [&](i32 t_4) {
        const i32 n_at = (t_4) * 128;
        const i32 n_at_2 = (t_4 - 1) * 128;
        return n_at_2 + 128 <= n_stop && (n_at + 127) <= (m_at + shift) && n_at + 128 <= n_stop;
      });
      for (; t_4 < clear; t_4++) {
        const i32 n_at = (t_4) * 128;
        const i32 n_at_2 = (t_4 - 1) * 128;
        barrier_wait(full_k + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 0);  // dependence: load_k -> dot_s (k)
        // dot_s: s
        mma_fence();
        #pragma unroll
        for (int k = 0; k < 4; k++) {
          mma_m64n128k16_f16_k_k(s, smem_q_desc + k * 2, smem_k_desc + ring_1_4_0.slot * 1024 + k * 2, k > 0);
        }
        mma_commit();
        barrier_wait(full_v + 8 * ring_1_4_1.slot, ring_1_4_1.phase, 4);  // dependence: load_v -> dot_acc (v)
        // dot_acc: acc.2
        mma_fence();
        #pragma unroll
        for (int k = 0; k < 8; k++) {
          mma_m64n64k16_f16_registers_mn(acc, t_31_packed + 4 * k, smem_v_desc_across + ring_1_4_1.slot * 1024 + k * 128, 1);
        }
        mma_commit();
        mma_wait<1>();  // dependence: dot_s -> vector_new_max (s)
        pin(s);
        if (lane == 0) barrier_arrive(empty_k + 8 * ring_1_4_0.slot);  // slot-free: dot_s -> load_k (k)
        // vector_new_max: new_max, old, row_sum.2, p
        float max_2[2];
        float max_2_parts[4];  // 2 chains a row: additions overlap
        #pragma unroll
        for (int i = 0; i < 64; i++) {
          max_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 16 == 0 ? s[i] : fmax_nan(max_2_parts[((i / 2) % 2) * 2 + i % 2], s[i]);
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
        for (int i = 0; i < 64; i++) {
          const float t_23 = s[i] * c_1;
          const float t_24 = t_23 - safe_max[(i / 2) % 2];
          s[i] = exp2_fast(t_24);
        }
        float sum_2[2];
        float sum_2_parts[4];  // 2 chains a row: additions overlap
        #pragma unroll
        for (int i = 0; i < 64; i++) {
          sum_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 16 == 0 ? s[i] : sum_2_parts[((i / 2) % 2) * 2 + i % 2] + s[i];
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) {
          sum_2[r] = sum_2_parts[2 * r] + sum_2_parts[2 * r + 1];
        }
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
        mma_wait<0>();  // slot-free: dot_acc -> load_v (v)
        if (lane == 0) barrier_arrive(empty_v + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_v (v)
        pin(t_31_packed);
        // vector_new_max_out: t.31
        #pragma unroll
        for (int i = 0; i < 32; i++) t_31_packed[i] = pack_f16(s[2 * i], s[2 * i + 1]);
        pin(acc);
        // vector_new_max_late: t.30
        #pragma unroll
        for (int i = 0; i < 32; i++) {
          acc[i] = acc[i] * old[(i / 2) % 2];
        }
        ring_1_4_0.advance();
        ring_1_4_1.advance();
      }
      // steady state
      for (; t_4 < count_2; t_4++) {
        const i32 n_at = (t_4) * 128;
        const i32 n_at_2 = (t_4 - 1) * 128;
        barrier_wait(full_k + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 0);  // dependence: load_k -> dot_s (k)
        // dot_s: s
        mma_fence();
        #pragma unroll
        for (int k = 0; k < 4; k++) {
          mma_m64n128k16_f16_k_k(s, smem_q_desc + k * 2, smem_k_desc + ring_1_4_0.slot * 1024 + k * 2, k > 0);
        }
        mma_commit();
        barrier_wait(full_v + 8 * ring_1_4_1.slot, ring_1_4_1.phase, 4);  // dependence: load_v -> dot_acc (v)
        // dot_acc: acc.2
        if (n_at_2 + 128 > n_stop) {
          const i32 valid = max(n_stop - (n_at_2), 0);  // positions of the tile that count
          const u16 nothing[8] = {};
          for (i32 i = threadIdx.x % 128; i < 1024; i += 128) {
            const i32 row = i / 8, column = i % 8 * 8;
            if (row >= valid) write_shared<16>(smem_v + ring_1_4_1.slot * 16384 + row * 128 + ((column) * 2 ^ (row & 7) * 16), nothing);
          }
          fence_to_async();
          group_sync(1 + worker, 128);
        }
        mma_fence();
        #pragma unroll
        for (int k = 0; k < 8; k++) {
          mma_m64n64k16_f16_registers_mn(acc, t_31_packed + 4 * k, smem_v_desc_across + ring_1_4_1.slot * 1024 + k * 128, 1);
        }
        mma_commit();
        mma_wait<1>();  // dependence: dot_s -> vector_new_max (s)
        pin(s);
        if (lane == 0) barrier_arrive(empty_k + 8 * ring_1_4_0.slot);  // slot-free: dot_s -> load_k (k)
        // vector_new_max: new_max, old, row_sum.2, p
        if (!((n_at + 127) <= (m_at + shift))) {
          #pragma unroll
          for (int i = 0; i < 64; i++) {
            if (!((0 + ((i) % 2 + (i / 4) * 8) - ((i / 2) % 2 * 8)) <= (i32)min(max((i64)0 - (n_at) - ((lane) % 4 * 2) + (m_at) + ((lane / 4) + (warp_in_group) * 16) + (i64)(shift), (i64)-2147483648), (i64)2147483647))) s[i] = c_3;
          }
        }
        if (n_at + 128 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 64; i++) {
            if (n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = -LOOM_INF;
          }
        }
        float max_2[2];
        float max_2_parts[4];  // 2 chains a row: additions overlap
        #pragma unroll
        for (int i = 0; i < 64; i++) {
          max_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 16 == 0 ? s[i] : fmax_nan(max_2_parts[((i / 2) % 2) * 2 + i % 2], s[i]);
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
        for (int i = 0; i < 64; i++) {
          const float t_23 = s[i] * c_1;
          const float t_24 = t_23 - safe_max[(i / 2) % 2];
          s[i] = exp2_fast(t_24);
        }
        if (n_at + 128 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 64; i++) {
            if (n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = 0;
          }
        }
        float sum_2[2];
        float sum_2_parts[4];  // 2 chains a row: additions overlap
        #pragma unroll
        for (int i = 0; i < 64; i++) {
          sum_2_parts[((i / 2) % 2) * 2 + i % 2] = i / 4 % 16 == 0 ? s[i] : sum_2_parts[((i / 2) % 2) * 2 + i % 2] + s[i];
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) {
          sum_2[r] = sum_2_parts[2 * r] + sum_2_parts[2 * r + 1];
        }
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
        mma_wait<0>();  // slot-free: dot_acc -> load_v (v)
        if (lane == 0) barrier_arrive(empty_v + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_v (v)
        pin(t_31_packed);
        // vector_new_max_out: t.31
        if (n_at + 128 > n_stop) {
          #pragma unroll
          for (int i = 0; i < 64; i++) {
            if (n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= n_stop) s[i] = 0;
          }
        }
        #pragma unroll
        for (int i = 0; i < 32; i++) t_31_packed[i] = pack_f16(s[2 * i], s[2 * i + 1]);
        pin(acc);
        // vector_new_max_late: t.30
        #pragma unroll
        for (int i = 0; i < 32; i++) {
          acc[i] = acc[i] * old[(i / 2) % 2];
        }
        ring_1_4_0.advance();
        ring_1_4_1.advance();
      }
      // epilogue 0
      {
        const i32 n_at = (count_2 - 1) * 128;
        barrier_wait(full_v + 8 * ring_1_4_1.slot, ring_1_4_1.phase, 4);  // dependence: load_v -> dot_acc (v)
        // dot_acc: acc.2
        if (n_at + 128 > n_stop) {
          const i32 valid = max(n_stop - (n_at), 0);  // positions of the tile that count
          const u16 nothing[8] = {};
          for (i32 i = threadIdx.x % 128; i < 1024; i += 128) {
            const i32 row = i / 8, column = i % 8 * 8;
            if (row >= valid) write_shared<16>(smem_v + ring_1_4_1.slot * 16384 + row * 128 + ((column) * 2 ^ (row & 7) * 16), nothing);
          }
          fence_to_async();
          group_sync(1 + worker, 128);
        }
        mma_fence();
        #pragma unroll
        for (int k = 0; k < 8; k++) {
          mma_m64n64k16_f16_registers_mn(acc, t_31_packed + 4 * k, smem_v_desc_across + ring_1_4_1.slot * 1024 + k * 128, 1);
        }
        mma_commit();
        mma_wait<0>();  // slot-free: dot_acc -> load_v (v)
        if (lane == 0) barrier_arrive(empty_v + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_v (v)
        ring_1_4_1.advance();
      }
    }
    mma_wait<0>();  // slot-free: dot_s -> load_q (q)
    if (lane == 0) barrier_arrive(empty_q);  // slot-free: dot_s -> load_q (q)
    pin(acc);
    if (lane == 0) store_wait_read<0>();  // slot-free: store_out -> vector_t (t.36, 1 iterations earlier)
    __syncwarp();
    #pragma unroll
    for (int r = 0; r < 2; r++) row_sum[r] = row_sum[r] + __shfl_xor_sync(0xffffffffu, row_sum[r], 1);
    #pragma unroll
    for (int r = 0; r < 2; r++) row_sum[r] = row_sum[r] + __shfl_xor_sync(0xffffffffu, row_sum[r], 2);
    // vector_t: t.36
    bool t_33[2];
    #pragma unroll
    for (int i = 0; i < 2; i++) {
      t_33[i] = row_sum[i] == c_2;
    }
    float t_35[32];
    #pragma unroll
    for (int i = 0; i < 32; i++) {
      const float t_34 = divide(acc[i], row_sum[(i / 2) % 2]);
      t_35[i] = t_33[(i / 2) % 2] ? c_2 : t_34;
    }
    u32 t_36_packed[16];
    #pragma unroll
    for (int i = 0; i < 16; i++) t_36_packed[i] = pack_f16(t_35[2 * i], t_35[2 * i + 1]);
    stage_box<64>(staged_t_36 + warp_in_group * 2048, t_36_packed);
    fence_to_async();  // dependence: vector_t -> store_out (t.36)
    // store_out
    __syncwarp();
    if (lane == 0) {
      bulk_store(&map_store_out, staged_t_36 + warp_in_group * 2048, 0, m_at + 0 + warp_in_group * 16, h_at, b_at);
      store_commit();
    }
    ring_0_1_0.advance();
  }
  if (lane == 0) store_wait_read<0>();  // the sources must outlive the stores' reads
}
}
