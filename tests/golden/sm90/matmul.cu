// matmul for h200, planned by joint:greedy
// tiles: m 64, n 32, k 128; 1 workers, 256 threads, 136336 bytes of shared memory
// loop 1: one iteration every 478 cycles, 2 stages (predicted)
#include "sm90.cuh"

LOOM_DEVICE void mma_m64n32k16_f16_k_mn(float* d, u64 a, u64 b, i32 accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 1;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
    : "l"(a), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(256, 1)
matmul(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_bias, const __grid_constant__ TensorMap map_store_out, const i32 dim_K, const i32 dim_M, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_a = smem + 0;  // 4 slots of 64 x 128 f16, swizzle-128
const u32 smem_b = smem + 65536;  // 4 slots of 128 x 32 f16, swizzle-128
const u32 smem_bias = smem + 131072;  // 1 slots of 32 f32, row
const u32 smem_t_4 = smem + 132096;  // staged results of 
const u32 full_bias = smem + 136192;  // 1 barriers
const u32 empty_bias = smem + 136200;  // 1 barriers
const u32 full_a = smem + 136208;  // 4 barriers
const u32 empty_a = smem + 136240;  // 4 barriers
const u32 full_b = smem + 136272;  // 4 barriers
const u32 empty_b = smem + 136304;  // 4 barriers
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_bias + 0, 1);
  barrier_init(empty_bias + 0, 4);
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
const i32 tiles_n = ceil_div(dim_N, 32);
const i32 tiles = tiles_m * tiles_n;
if (group == 0) {
  // producer
  shrink_registers<40>();
  const u32 staged_t_4 = smem_t_4;
  if (warp_in_group == 0 && elect_lane()) {
    Ring<1> ring_0_1_0;
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
      const i32 n_at = index_n * 32;
      const i32 count_2 = ceil_div(dim_K, 128);
      for (i32 t_2 = 0; t_2 < count_2; t_2++) {
        const i32 k_at = (t_2) * 128;
        barrier_wait(empty_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 3);  // slot-free: dot_acc -> load_a (a)
        // load_a: a
        barrier_expect(full_a + 8 * ring_1_4_0.slot, 16384);
        bulk_load(smem_a + ring_1_4_0.slot * 16384, &map_a, full_a + 8 * ring_1_4_0.slot, k_at, m_at);
        bulk_load(smem_a + ring_1_4_0.slot * 16384 + 8192, &map_a, full_a + 8 * ring_1_4_0.slot, k_at + 64, m_at);
        barrier_wait(empty_b + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 5);  // slot-free: dot_acc -> load_b (b)
        // load_b: b
        barrier_expect(full_b + 8 * ring_1_4_0.slot, 16384);
        bulk_load(smem_b + ring_1_4_0.slot * 16384, &map_b, full_b + 8 * ring_1_4_0.slot, n_at, k_at);
        ring_1_4_0.advance();
      }
      barrier_wait(empty_bias, ring_0_1_0.phase ^ 1, 1);  // slot-free: vector_t -> load_bias (bias)
      // load_bias: bias
      barrier_expect(full_bias, 128);
      bulk_load(smem_bias, &map_bias, full_bias, n_at);
      ring_0_1_0.advance();
    }
  }
}
else if (group == 1) {
  // worker0
  grow_registers<240>();
  constexpr i32 worker = 0;
  const u32 staged_t_4 = smem_t_4;
  const u64 smem_a_desc = descriptor_k_major(smem_a);
  const u64 smem_b_desc_across = descriptor_mn_major(smem_b, 16384);
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
    const i32 m_at = index_m * 64;
    const i32 n_at = index_n * 32;
    float acc[16];
    // vector_acc: acc
    const float c = 0.0f;
    #pragma unroll
    for (int i = 0; i < 16; i++) {
      acc[i] = c;
    }
    const i32 count_2 = ceil_div(dim_K, 128);
    for (i32 t_2 = 0; t_2 < count_2; t_2++) {
      const i32 k_at = (t_2) * 128;
      const i32 k_at_2 = (t_2 - 1) * 128;
      barrier_wait(full_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 2,  // dependence: load_a -> dot_acc (a)
                   full_b + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 4);  // dependence: load_b -> dot_acc (b)
      // dot_acc: acc.2
      mma_fence();
      #pragma unroll
      for (int k = 0; k < 8; k++) {
        mma_m64n32k16_f16_k_mn(acc, smem_a_desc + ring_1_4_0.slot * 1024 + k / 4 * 512 + k % 4 * 2, smem_b_desc_across + ring_1_4_0.slot * 1024 + k * 128, 1);
      }
      mma_commit();
      mma_wait<1>();  // slot-free: dot_acc -> load_a (a)
      if (t_2 >= 1) {
        if (lane == 0) barrier_arrive(empty_a + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_a (a)
      }
      if (t_2 >= 1) {
        if (lane == 0) barrier_arrive(empty_b + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_b (b)
      }
      ring_1_4_0.advance();
      if (t_2 >= 1) ring_1_4_1.advance();
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
    barrier_wait(full_bias, ring_0_1_0.phase, 0);  // dependence: load_bias -> vector_t (bias)
    if (lane == 0) store_wait_read<0>();  // slot-free: store_out -> vector_t (t.4, 1 iterations earlier)
    __syncwarp();
    // vector_t: t.4
    float bias_2[8];
    #pragma unroll
    for (int i = 0; i < 8; i += 2) {
      const u32 piece_row = 0, piece_column = (lane) % 4 * 2 + (i) % 2 + (i / 2) * 8;
      float piece[2];
      read_shared<8>(piece, smem_bias + piece_row * 128 + (piece_column) * 4);
      #pragma unroll
      for (int e = 0; e < 2; e++) bias_2[i + e] = piece[e];
    }
    float t_3[16];
    #pragma unroll
    for (int i = 0; i < 16; i++) {
      const float t_2_2 = acc[i] + bias_2[(i) % 2 + (i / 4) * 2];
      t_3[i] = fmax_nan(t_2_2, c);
    }
    u32 t_4_packed[8];
    #pragma unroll
    for (int i = 0; i < 8; i++) t_4_packed[i] = pack_f16(t_3[2 * i], t_3[2 * i + 1]);
    stage_box<32>(staged_t_4 + warp_in_group * 1024, t_4_packed);
    fence_to_async();  // what was read has left shared memory before a copy comes there
    __syncwarp();
    if (lane == 0) barrier_arrive(empty_bias);  // slot-free: vector_t -> load_bias (bias)
    // store_out
    __syncwarp();
    if (lane == 0) {
      bulk_store(&map_store_out, staged_t_4 + warp_in_group * 1024, n_at, m_at + 0 + warp_in_group * 16);
      store_commit();
    }
    ring_0_1_0.advance();
  }
  if (lane == 0) store_wait_read<0>();  // the sources must outlive the stores' reads
}
}
