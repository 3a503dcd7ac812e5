// matmul for h200, planned by joint:greedy
// tiles: m 128, n 256, k 64; 2 workers, 384 threads, 231584 bytes of shared memory
// loop 1: one iteration every 1024 cycles, 2 stages (predicted)
#include "sm90.cuh"

LOOM_DEVICE void mma_m64n256k16_bf16_k_mn(float* d, u64 a, u64 b, i32 accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, %128, %129, p, 1, 1, 0, 1;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
    : "l"(a), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(384, 1)
matmul(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_bias, const __grid_constant__ TensorMap map_store_out, const i32 dim_K, const i32 dim_M, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_a = smem + 0;  // 4 slots of 128 x 64 bf16, swizzle-128
const u32 smem_b = smem + 65536;  // 4 slots of 64 x 256 bf16, swizzle-128
const u32 smem_bias = smem + 196608;  // 2 slots of 256 f32, row
const u32 smem_t_4_worker0 = smem + 198656;  // staged results of worker0
const u32 smem_t_4_worker1 = smem + 215040;  // staged results of worker1
const u32 full_bias = smem + 231424;  // 2 barriers
const u32 empty_bias = smem + 231440;  // 2 barriers
const u32 full_a = smem + 231456;  // 4 barriers
const u32 empty_a = smem + 231488;  // 4 barriers
const u32 full_b = smem + 231520;  // 4 barriers
const u32 empty_b = smem + 231552;  // 4 barriers
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_bias + 0, 1);
  barrier_init(full_bias + 8, 1);
  barrier_init(empty_bias + 0, 8);
  barrier_init(empty_bias + 8, 8);
  barrier_init(full_a + 0, 1);
  barrier_init(full_a + 8, 1);
  barrier_init(full_a + 16, 1);
  barrier_init(full_a + 24, 1);
  barrier_init(empty_a + 0, 8);
  barrier_init(empty_a + 8, 8);
  barrier_init(empty_a + 16, 8);
  barrier_init(empty_a + 24, 8);
  barrier_init(full_b + 0, 1);
  barrier_init(full_b + 8, 1);
  barrier_init(full_b + 16, 1);
  barrier_init(full_b + 24, 1);
  barrier_init(empty_b + 0, 8);
  barrier_init(empty_b + 8, 8);
  barrier_init(empty_b + 16, 8);
  barrier_init(empty_b + 24, 8);
  barrier_init_done();
}
__syncthreads();
const i32 tiles_m = ceil_div(dim_M, 128);
const i32 tiles_n = ceil_div(dim_N, 256);
const i32 tiles = tiles_m * tiles_n;
if (group == 0) {
  // producer
  shrink_registers<40>();
  if (warp_in_group == 0 && elect_lane()) {
    Ring<2> ring_0_2_0;
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
      const i32 m_at = index_m * 128;
      const i32 n_at = index_n * 256;
      const i32 count_2 = ceil_div(dim_K, 64);
      for (i32 t_2 = 0; t_2 < count_2; t_2++) {
        const i32 k_at = (t_2) * 64;
        barrier_wait(empty_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 3);  // slot-free: dot_acc -> load_a (a)
        // load_a: a
        barrier_expect(full_a + 8 * ring_1_4_0.slot, 16384);
        bulk_load(smem_a + ring_1_4_0.slot * 16384, &map_a, full_a + 8 * ring_1_4_0.slot, k_at, m_at);
        barrier_wait(empty_b + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 5);  // slot-free: dot_acc -> load_b (b)
        // load_b: b
        barrier_expect(full_b + 8 * ring_1_4_0.slot, 32768);
        bulk_load(smem_b + ring_1_4_0.slot * 32768, &map_b, full_b + 8 * ring_1_4_0.slot, n_at, k_at);
        bulk_load(smem_b + ring_1_4_0.slot * 32768 + 8192, &map_b, full_b + 8 * ring_1_4_0.slot, n_at + 64, k_at);
        bulk_load(smem_b + ring_1_4_0.slot * 32768 + 16384, &map_b, full_b + 8 * ring_1_4_0.slot, n_at + 128, k_at);
        bulk_load(smem_b + ring_1_4_0.slot * 32768 + 24576, &map_b, full_b + 8 * ring_1_4_0.slot, n_at + 192, k_at);
        ring_1_4_0.advance();
      }
      barrier_wait(empty_bias + 8 * ring_0_2_0.slot, ring_0_2_0.phase ^ 1, 1);  // slot-free: vector_t -> load_bias (bias)
      // load_bias: bias
      barrier_expect(full_bias + 8 * ring_0_2_0.slot, 1024);
      bulk_load(smem_bias + ring_0_2_0.slot * 1024, &map_bias, full_bias + 8 * ring_0_2_0.slot, n_at);
      ring_0_2_0.advance();
    }
  }
}
else if (group == 1 || group == 2) {
  // worker0, worker1
  grow_registers<232>();
  const i32 worker = group - 1;
  const u32 staged_t_4 = worker == 0 ? smem_t_4_worker0 : smem_t_4_worker1;
  const u64 smem_a_desc = descriptor_k_major(smem_a + (worker * 64) * 128);
  const u64 smem_b_desc_across = descriptor_mn_major(smem_b, 8192);
  Ring<2> ring_0_2_0;
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
    const i32 m_mine = m_at + worker * 64;
    const i32 n_at = index_n * 256;
    float acc[128];
    // vector_acc: acc
    const float c = 0.0f;
    #pragma unroll
    for (int i = 0; i < 128; i++) {
      acc[i] = c;
    }
    const i32 count_2 = ceil_div(dim_K, 64);
    for (i32 t_2 = 0; t_2 < count_2; t_2++) {
      const i32 k_at = (t_2) * 64;
      const i32 k_at_2 = (t_2 - 1) * 64;
      barrier_wait(full_a + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 2,  // dependence: load_a -> dot_acc (a)
                   full_b + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 4);  // dependence: load_b -> dot_acc (b)
      // dot_acc: acc.2
      mma_fence();
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        mma_m64n256k16_bf16_k_mn(acc, smem_a_desc + ring_1_4_0.slot * 1024 + k * 2, smem_b_desc_across + ring_1_4_0.slot * 2048 + k * 128, 1);
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
        const i32 k_at = (count_2 - 1) * 64;
        mma_wait<0>();  // slot-free: dot_acc -> load_a (a)
        if (lane == 0) barrier_arrive(empty_a + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_a (a)
        if (lane == 0) barrier_arrive(empty_b + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_b (b)
        ring_1_4_1.advance();
      }
    }
    mma_wait<0>();  // dependence: dot_acc -> vector_t (acc)
    pin(acc);
    barrier_wait(full_bias + 8 * ring_0_2_0.slot, ring_0_2_0.phase, 0);  // dependence: load_bias -> vector_t (bias)
    if (lane == 0) store_wait_read<0>();  // slot-free: store_out -> vector_t (t.4, 1 iterations earlier)
    __syncwarp();
    // vector_t: t.4
    float t_3[128];
    #pragma unroll
    for (int p = 0; p < 128; p += 2) {
      const u32 bias_piece_row = 0, bias_piece_column = (lane) % 4 * 2 + (((p) % 2 + (p / 4) * 2)) % 2 + (((p) % 2 + (p / 4) * 2) / 2) * 8;
      float bias_piece[2];
      read_shared<8>(bias_piece, smem_bias + ring_0_2_0.slot * 1024 + bias_piece_row * 1024 + (bias_piece_column) * 4);
      #pragma unroll
      for (int e = 0; e < 2; e++) {
        const int i = p + e;
        const float t_2_2 = acc[i] + bias_piece[e];
        t_3[i] = fmax_nan(t_2_2, c);
      }
    }
    u32 t_4_packed[64];
    #pragma unroll
    for (int i = 0; i < 64; i++) t_4_packed[i] = pack_bf16(t_3[2 * i], t_3[2 * i + 1]);
    fence_to_async();  // what was read has left shared memory before a copy comes there
    __syncwarp();
    if (lane == 0) barrier_arrive(empty_bias + 8 * ring_0_2_0.slot);  // slot-free: vector_t -> load_bias (bias)
    // store_out
    stage_box<64>(staged_t_4 + warp_in_group * 2048, t_4_packed);
    fence_to_async();
    __syncwarp();
    if (lane == 0) {
      bulk_store(&map_store_out, staged_t_4 + warp_in_group * 2048, n_at, m_mine + 0 + warp_in_group * 16);
      store_commit();
    }
    stage_box<64>(staged_t_4 + 8192 + warp_in_group * 2048, t_4_packed + 16);
    fence_to_async();
    __syncwarp();
    if (lane == 0) {
      bulk_store(&map_store_out, staged_t_4 + 8192 + warp_in_group * 2048, n_at + 64, m_mine + 0 + warp_in_group * 16);
      store_commit();
    }
    if (lane == 0) store_wait_read<1>();  // the box's last content has left
    __syncwarp();
    stage_box<64>(staged_t_4 + warp_in_group * 2048, t_4_packed + 32);
    fence_to_async();
    __syncwarp();
    if (lane == 0) {
      bulk_store(&map_store_out, staged_t_4 + warp_in_group * 2048, n_at + 128, m_mine + 0 + warp_in_group * 16);
      store_commit();
    }
    if (lane == 0) store_wait_read<1>();  // the box's last content has left
    __syncwarp();
    stage_box<64>(staged_t_4 + 8192 + warp_in_group * 2048, t_4_packed + 48);
    fence_to_async();
    __syncwarp();
    if (lane == 0) {
      bulk_store(&map_store_out, staged_t_4 + 8192 + warp_in_group * 2048, n_at + 192, m_mine + 0 + warp_in_group * 16);
      store_commit();
    }
    ring_0_2_0.advance();
  }
  if (lane == 0) store_wait_read<0>();  // the sources must outlive the stores' reads
}
}
