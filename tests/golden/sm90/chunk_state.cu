// chunk_state for h200, planned by joint:greedy-aligned
// tiles: p 64, n 16, k 64; 1 workers, 256 threads, 69888 bytes of shared memory
// loop 1: one iteration every 452 cycles, 2 stages (predicted)
#include "sm90.cuh"

LOOM_DEVICE void mma_m64n16k16_f16_registers_mn(float* d, const u32* a, u64 b, i32 accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, p, 1, 1, 1;\n}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(256, 1)
chunk_state(const __grid_constant__ TensorMap map_b_in, const __grid_constant__ TensorMap map_decay, const __grid_constant__ TensorMap map_dt, const __grid_constant__ TensorMap map_store_out, const __grid_constant__ TensorMap map_x, const u16* __restrict__ decay, const i64 decay_stride0, const i64 decay_stride1, const i64 decay_stride2, const i64 decay_stride3, const i32 dim_B, const i32 dim_C, const i32 dim_C_x_L, const i32 dim_G, const i32 dim_H, const i32 dim_L, const i32 dim_N, const i32 dim_P) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_decay_1 = smem + 0;  // 4 slots of 64 f16, row
const u32 smem_dt = smem + 1024;  // 4 slots of 64 f16, row
const u32 smem_x = smem + 2048;  // 4 slots of 64 x 64 f16, row
const u32 smem_b_in = smem + 34816;  // 4 slots of 64 x 16 f16, swizzle-128
const u32 smem_t_21 = smem + 67584;  // staged results of 
const u32 full_decay_1 = smem + 69632;  // 4 barriers
const u32 empty_decay_1 = smem + 69664;  // 4 barriers
const u32 full_dt = smem + 69696;  // 4 barriers
const u32 empty_dt = smem + 69728;  // 4 barriers
const u32 full_x = smem + 69760;  // 4 barriers
const u32 empty_x = smem + 69792;  // 4 barriers
const u32 full_b_in = smem + 69824;  // 4 barriers
const u32 empty_b_in = smem + 69856;  // 4 barriers
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_decay_1 + 0, 1);
  barrier_init(full_decay_1 + 8, 1);
  barrier_init(full_decay_1 + 16, 1);
  barrier_init(full_decay_1 + 24, 1);
  barrier_init(empty_decay_1 + 0, 4);
  barrier_init(empty_decay_1 + 8, 4);
  barrier_init(empty_decay_1 + 16, 4);
  barrier_init(empty_decay_1 + 24, 4);
  barrier_init(full_dt + 0, 1);
  barrier_init(full_dt + 8, 1);
  barrier_init(full_dt + 16, 1);
  barrier_init(full_dt + 24, 1);
  barrier_init(empty_dt + 0, 4);
  barrier_init(empty_dt + 8, 4);
  barrier_init(empty_dt + 16, 4);
  barrier_init(empty_dt + 24, 4);
  barrier_init(full_x + 0, 1);
  barrier_init(full_x + 8, 1);
  barrier_init(full_x + 16, 1);
  barrier_init(full_x + 24, 1);
  barrier_init(empty_x + 0, 4);
  barrier_init(empty_x + 8, 4);
  barrier_init(empty_x + 16, 4);
  barrier_init(empty_x + 24, 4);
  barrier_init(full_b_in + 0, 1);
  barrier_init(full_b_in + 8, 1);
  barrier_init(full_b_in + 16, 1);
  barrier_init(full_b_in + 24, 1);
  barrier_init(empty_b_in + 0, 4);
  barrier_init(empty_b_in + 8, 4);
  barrier_init(empty_b_in + 16, 4);
  barrier_init(empty_b_in + 24, 4);
  barrier_init_done();
}
__syncthreads();
const i32 tiles_b = dim_B;
const i32 tiles_chunk = dim_C;
const i32 tiles_h = dim_H;
const i32 tiles_p = ceil_div(dim_P, 64);
const i32 tiles_n = ceil_div(dim_N, 16);
const i32 tiles = tiles_b * tiles_chunk * tiles_h * tiles_p * tiles_n;
if (group == 0) {
  // producer
  shrink_registers<40>();
  const u32 staged_t_21 = smem_t_21;
  if (warp_in_group == 0 && elect_lane()) {
    Ring<4> ring_1_4_0;
    for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      i32 rest = tile;
      i32 plane = tiles_p * tiles_n;
      i32 in_plane = rest % plane;
      rest /= plane;
      // 16 tiles of p are visited together: both operands stay in L2
      const i32 band = in_plane / (16 * tiles_n);
      const i32 height = min(16, tiles_p - band * 16);
      const i32 in_band = in_plane - band * 16 * tiles_n;
      const i32 index_p = band * 16 + in_band % height;
      const i32 index_n = in_band / height;
      const i32 index_h = rest % tiles_h;
      rest /= tiles_h;
      const i32 index_chunk = rest % tiles_chunk;
      rest /= tiles_chunk;
      const i32 index_b = rest;
      const i32 b_at = index_b;
      const i32 chunk_at_2 = index_chunk;
      const i32 h_at = index_h;
      const i32 p_at = index_p * 64;
      const i32 n_at = index_n * 16;
      const i64 t_2 = floor_div(dim_H, dim_G);
      const i64 t_3 = h_at;
      const i64 group_2 = floor_div(t_3, t_2);
      const i64 t_6 = chunk_at_2;
      const i64 first_2 = t_6 * dim_L;
      const i64 c = 1;
      const i64 t_9 = dim_L - c;
      const u16 decay_2 = (u32)(b_at) < (u32)dim_B && (u32)(h_at) < (u32)dim_H && (u32)(chunk_at_2) < (u32)dim_C && (u32)(t_9) < (u32)dim_L ? decay[(i64)(b_at) * decay_stride0 + (i64)(h_at) * decay_stride1 + (i64)(chunk_at_2) * decay_stride2 + (i64)(t_9) * decay_stride3] : u16(0);
      const float last = from_f16(decay_2);
      const i32 count_2 = ceil_div(dim_L, 64);
      for (i32 t_4 = 0; t_4 < count_2; t_4++) {
        const i32 k_at = (t_4) * 64;
        barrier_wait(empty_decay_1 + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 1);  // slot-free: vector_weighted -> load_decay (decay.1)
        // load_decay: decay.1
        barrier_expect(full_decay_1 + 8 * ring_1_4_0.slot, 128);
        bulk_load(smem_decay_1 + ring_1_4_0.slot * 128, &map_decay, full_decay_1 + 8 * ring_1_4_0.slot, k_at, chunk_at_2, h_at, b_at);
        barrier_wait(empty_dt + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 3);  // slot-free: vector_weighted -> load_dt (dt)
        // load_dt: dt
        barrier_expect(full_dt + 8 * ring_1_4_0.slot, 128);
        bulk_load(smem_dt + ring_1_4_0.slot * 128, &map_dt, full_dt + 8 * ring_1_4_0.slot, k_at, chunk_at_2, h_at, b_at);
        barrier_wait(empty_x + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 5);  // slot-free: vector_weighted -> load_x (x)
        // load_x: x
        barrier_expect(full_x + 8 * ring_1_4_0.slot, 8192);
        bulk_load(smem_x + ring_1_4_0.slot * 8192, &map_x, full_x + 8 * ring_1_4_0.slot, p_at, h_at, first_2 + k_at, b_at);
        barrier_wait(empty_b_in + 8 * ring_1_4_0.slot, ring_1_4_0.phase ^ 1, 7);  // slot-free: dot_acc -> load_b_in (b_in)
        // load_b_in: b_in
        barrier_expect(full_b_in + 8 * ring_1_4_0.slot, 8192);
        bulk_load(smem_b_in + ring_1_4_0.slot * 8192, &map_b_in, full_b_in + 8 * ring_1_4_0.slot, n_at, group_2, first_2 + k_at, b_at);
        ring_1_4_0.advance();
      }
    }
  }
}
else if (group == 1) {
  // worker0
  grow_registers<240>();
  constexpr i32 worker = 0;
  const u32 staged_t_21 = smem_t_21;
  const u64 smem_b_in_desc_across = descriptor_mn_major(smem_b_in, 8192);
  Ring<4> ring_1_4_0;
  Ring<4> ring_1_4_1;
  for (i32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    i32 rest = tile;
    i32 plane = tiles_p * tiles_n;
    i32 in_plane = rest % plane;
    rest /= plane;
    // 16 tiles of p are visited together: both operands stay in L2
    const i32 band = in_plane / (16 * tiles_n);
    const i32 height = min(16, tiles_p - band * 16);
    const i32 in_band = in_plane - band * 16 * tiles_n;
    const i32 index_p = band * 16 + in_band % height;
    const i32 index_n = in_band / height;
    const i32 index_h = rest % tiles_h;
    rest /= tiles_h;
    const i32 index_chunk = rest % tiles_chunk;
    rest /= tiles_chunk;
    const i32 index_b = rest;
    const i32 b_at = index_b;
    const i32 chunk_at_2 = index_chunk;
    const i32 h_at = index_h;
    const i32 p_at = index_p * 64;
    const i32 n_at = index_n * 16;
    float acc[8];
    float t_18[32];
    u32 weighted_packed[16];
    const i64 t_2 = floor_div(dim_H, dim_G);
    const i64 t_3 = h_at;
    const i64 group_2 = floor_div(t_3, t_2);
    const i64 t_6 = chunk_at_2;
    const i64 first_2 = t_6 * dim_L;
    const i64 c = 1;
    const i64 t_9 = dim_L - c;
    const u16 decay_2 = (u32)(b_at) < (u32)dim_B && (u32)(h_at) < (u32)dim_H && (u32)(chunk_at_2) < (u32)dim_C && (u32)(t_9) < (u32)dim_L ? decay[(i64)(b_at) * decay_stride0 + (i64)(h_at) * decay_stride1 + (i64)(chunk_at_2) * decay_stride2 + (i64)(t_9) * decay_stride3] : u16(0);
    const float last = from_f16(decay_2);
    // vector_acc: acc
    const float c_1 = 0.0f;
    #pragma unroll
    for (int i = 0; i < 8; i++) {
      acc[i] = c_1;
    }
    const i32 count_2 = ceil_div(dim_L, 64);
    for (i32 t_4 = 0; t_4 < count_2; t_4++) {
      const i32 k_at = (t_4) * 64;
      const i32 k_at_2 = (t_4 - 1) * 64;
      barrier_wait(full_decay_1 + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 0,  // dependence: load_decay -> vector_weighted (decay.1)
                   full_dt + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 2,  // dependence: load_dt -> vector_weighted (dt)
                   full_x + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 4);  // dependence: load_x -> vector_weighted (x)
      // vector_weighted: t.18
      float x_2[32];
      #pragma unroll
      for (int i = 0; i < 32; i += 1) {
        const u32 piece_row = (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8, piece_column = (lane / 4) + (warp_in_group) * 16 + (i / 2) % 2 * 8;
        u16 piece[1];
        read_shared<2>(piece, smem_x + ring_1_4_0.slot * 8192 + piece_row * 128 + ((piece_column) * 2 ^ (piece_row & 7) * 16));
        #pragma unroll
        for (int e = 0; e < 1; e++) x_2[i + e] = from_f16(piece[e]);
      }
      float weight[16];
      #pragma unroll
      for (int p = 0; p < 16; p += 2) {
        const u32 dt_piece_row = 0, dt_piece_column = (lane) % 4 * 2 + ((p)) % 2 + ((p) / 2) * 8;
        u16 dt_piece[2];
        read_shared<4>(dt_piece, smem_dt + ring_1_4_0.slot * 128 + dt_piece_row * 128 + (dt_piece_column) * 2);
        const u32 decay_1_piece_row = 0, decay_1_piece_column = (lane) % 4 * 2 + ((p)) % 2 + ((p) / 2) * 8;
        u16 decay_1_piece[2];
        read_shared<4>(decay_1_piece, smem_decay_1 + ring_1_4_0.slot * 128 + decay_1_piece_row * 128 + (decay_1_piece_column) * 2);
        #pragma unroll
        for (int e = 0; e < 2; e++) {
          const int i = p + e;
          const float t_15 = from_f16(dt_piece[e]);
          const float t_12 = from_f16(decay_1_piece[e]);
          const float t_13 = last - t_12;
          const float t_14 = exp2_fast(fmaf(t_12, -LOOM_LOG2E, last * LOOM_LOG2E));
          weight[i] = t_14 * t_15;
        }
      }
      #pragma unroll
      for (int i = 0; i < 32; i++) {
        const float t_17 = x_2[i];
        t_18[i] = t_17 * weight[(i) % 2 + (i / 4) * 2];
      }
      fence_to_async();  // what was read has left shared memory before a copy comes there
      __syncwarp();
      if (lane == 0) barrier_arrive(empty_decay_1 + 8 * ring_1_4_0.slot);  // slot-free: vector_weighted -> load_decay (decay.1)
      __syncwarp();
      if (lane == 0) barrier_arrive(empty_dt + 8 * ring_1_4_0.slot);  // slot-free: vector_weighted -> load_dt (dt)
      __syncwarp();
      if (lane == 0) barrier_arrive(empty_x + 8 * ring_1_4_0.slot);  // slot-free: vector_weighted -> load_x (x)
      mma_wait<0>();  // slot-free: dot_acc -> vector_weighted_out (weighted, 1 iterations earlier)
      pin(weighted_packed);
      // vector_weighted_out: weighted
      if (k_at + 64 > dim_L) {
        #pragma unroll
        for (int i = 0; i < 32; i++) {
          if (k_at + (lane) % 4 * 2 + (i) % 2 + (i / 4) * 8 >= dim_L) t_18[i] = 0;
        }
      }
      #pragma unroll
      for (int i = 0; i < 16; i++) weighted_packed[i] = pack_f16(t_18[2 * i], t_18[2 * i + 1]);
      if (t_4 >= 1) {
        if (lane == 0) barrier_arrive(empty_b_in + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_b_in (b_in)
      }
      barrier_wait(full_b_in + 8 * ring_1_4_0.slot, ring_1_4_0.phase, 6);  // dependence: load_b_in -> dot_acc (b_in)
      // dot_acc: acc.2
      if (k_at + 64 > dim_L) {
        const i32 valid = max(dim_L - (k_at), 0);  // positions of the tile that count
        const u16 nothing[8] = {};
        for (i32 i = threadIdx.x % 128; i < 512; i += 128) {
          const i32 row = i / 8, column = i % 8 * 8;
          if (row >= valid) write_shared<16>(smem_b_in + ring_1_4_0.slot * 8192 + row * 128 + ((column) * 2 ^ (row & 7) * 16), nothing);
        }
        fence_to_async();
        group_sync(1 + worker, 128);
      }
      mma_fence();
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        mma_m64n16k16_f16_registers_mn(acc, weighted_packed + 4 * k, smem_b_in_desc_across + ring_1_4_0.slot * 512 + k * 128, 1);
      }
      mma_commit();
      ring_1_4_0.advance();
      if (t_4 >= 1) ring_1_4_1.advance();
    }
    if (count_2 > 0) {
      // epilogue 0
      {
        const i32 k_at = (count_2 - 1) * 64;
        mma_wait<0>();  // slot-free: dot_acc -> load_b_in (b_in)
        if (lane == 0) barrier_arrive(empty_b_in + 8 * ring_1_4_1.slot);  // slot-free: dot_acc -> load_b_in (b_in)
        ring_1_4_1.advance();
      }
    }
    mma_wait<0>();  // dependence: dot_acc -> vector_t (acc)
    pin(acc);
    if (lane == 0) store_wait_read<0>();  // slot-free: store_out -> vector_t (t.21, 1 iterations earlier)
    __syncwarp();
    // vector_t: t.21
    u32 t_21_packed[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) t_21_packed[i] = pack_f16(acc[2 * i], acc[2 * i + 1]);
    stage_box<16>(staged_t_21 + warp_in_group * 512, t_21_packed);
    fence_to_async();  // dependence: vector_t -> store_out (t.21)
    // store_out
    __syncwarp();
    if (lane == 0) {
      bulk_store(&map_store_out, staged_t_21 + warp_in_group * 512, n_at, p_at + 0 + warp_in_group * 16, h_at, chunk_at_2, b_at);
      store_commit();
    }
  }
  if (lane == 0) store_wait_read<0>();  // the sources must outlive the stores' reads
}
}
