// transposed for h200, planned by joint:greedy
// tiles: m 64, n 16, k 128; 1 workers, 256 threads, 41088 bytes of shared memory
// loop 1: one iteration every 384 cycles, 2 stages (predicted)
#include "sm90.cuh"

LOOM_DEVICE void mma_m64n16k32_e4m3_k_k(float* d, u64 a, u64 b, i32 accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
    : "l"(a), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(256, 1)
transposed(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, u8* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_K, const i32 dim_M, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_a = smem + 0;  // 4 slots of 64 x 128 f8e4m3, swizzle-128
const u32 smem_b = smem + 32768;  // 4 slots of 16 x 128 f8e4m3, swizzle-128
const u32 full_a = smem + 40960;  // 4 barriers
const u32 empty_a = smem + 40992;  // 4 barriers
const u32 full_b = smem + 41024;  // 4 barriers
const u32 empty_b = smem + 41056;  // 4 barriers
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
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
      const i32 count_2 = ceil_div(dim_K, 128);
      for (i32 t_2 = 0; t_2 < count_2; t_2++) {
        const i32 k_at = (t_2) * 128;
        barrier_wait(empty_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 1);  // slot-free: dot_acc -> load_a (a)
        // load_a: a
        barrier_expect(full_a + 8 * ring_1_4_0.slot, 8192);
        bulk_load(smem_a + ring_1_4_0.slot * 8192, &map_a, full_a + 8 * ring_1_4_0.slot, k_at, m_at);
        barrier_wait(empty_b + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 3);  // slot-free: dot_acc -> load_b (b)
        // load_b: b
        barrier_expect(full_b + 8 * ring_1_4_0.slot, 2048);
        bulk_load(smem_b + ring_1_4_0.slot * 2048, &map_b, full_b + 8 * ring_1_4_0.slot, k_at, n_at);
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
  const u64 smem_b_desc = descriptor_k_major(smem_b);
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
    const i32 m_at = index_m * 64;
    const i32 n_at = index_n * 16;
    float acc[8];
    float t_2[8];
    // vector_acc: acc
    const float c = 0.0f;
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      acc[i] = c;
    }
    const i32 count_2 = ceil_div(dim_K, 128);
    for (i32 t_3 = 0; t_3 < count_2; t_3++) {
      const i32 k_at = (t_3) * 128;
      const i32 k_at_2 = (t_3 - 1) * 128;
      barrier_wait(full_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 0,  // dependence: load_a -> dot_acc (a)
                   full_b + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 2);  // dependence: load_b -> dot_acc (b)
      // dot_acc: acc.2
      mma_fence();
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        mma_m64n16k32_e4m3_k_k(acc, smem_a_desc + ring_1_4_0.slot * 512 + k * 2, smem_b_desc + ring_1_4_0.slot * 128 + k * 2, 1);
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
        const i32 k_at = (count_2 - 1) * 128;
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
      for (int i = 0; i < 8; i += 2) {
        u8 piece[2];
        #pragma unroll
        for (int e = 0; e < 2; e++) piece[e] = (u8)pack_e4m3(t_2[i + e], 0.f);
        store_vector<2>(&out[(i64)(m_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8) * out_stride0 + (i64)(n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8) * out_stride1], piece, (u32)(m_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8) < (u32)dim_M && (u32)(n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8) < (u32)dim_N && m_at + (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8 < dim_M && n_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 < dim_N);
      }
    }
  }
}
}
