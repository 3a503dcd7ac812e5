// copy_tiles for h200, planned by joint
// tiles: m 8, n 256; 2 workers, 384 threads, 4112 bytes of shared memory
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(384, 1)
copy_tiles(const __grid_constant__ TensorMap map_x, u16* __restrict__ out, const i64 out_stride0, const i64 out_stride1, const i32 dim_M, const i32 dim_N) {
extern __shared__ __align__(1024) u8 raw[];
const u32 smem = smem_address(raw);
if (smem % 1024) __trap();  // swizzled tiles would be scrambled
const u32 smem_x = smem + 0;  // 1 slots of 8 x 256 f16, row
const u32 full_x = smem + 4096;  // 1 barriers
const u32 empty_x = smem + 4104;  // 1 barriers
const i32 warp = warp_index(), group = warp >> 2, warp_in_group = warp & 3, lane = threadIdx.x & 31;
if (threadIdx.x == 0) {
  barrier_init(full_x + 0, 1);
  barrier_init(empty_x + 0, 8);
  barrier_init_done();
}
__syncthreads();
const i32 tiles_m = ceil_div(dim_M, 8);
const i32 tiles_n = ceil_div(dim_N, 256);
const i32 tiles = tiles_m * tiles_n;
if (group == 0) {
  // producer
  shrink_registers<40>();
  if (warp_in_group == 0 && elect_lane()) {
    Ring<1> ring_0_1_0;
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
      const i32 m_at = index_m * 8;
      const i32 n_at = index_n * 256;
      barrier_wait(empty_x, ring_0_1_0.phase ^ 1, 1);  // slot-free: store_out -> load_x (x)
      // load_x: x
      barrier_expect(full_x, 4096);
      bulk_load(smem_x, &map_x, full_x, n_at, m_at);
      ring_0_1_0.advance();
    }
  }
}
else if (group == 1 || group == 2) {
  // worker0, worker1
  grow_registers<232>();
  const i32 worker = group - 1;
  Ring<1> ring_0_1_0;
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
    const i32 m_at = index_m * 8;
    const i32 m_mine = m_at + worker * 4;
    const i32 n_at = index_n * 256;
    barrier_wait(full_x, ring_0_1_0.phase, 0);  // dependence: load_x -> store_out (x)
    // store_out
    float x_2[8];
    #pragma unroll
    for (int i = 0; i < 8; i += 8) {
      const u32 piece_row = worker * 4 + (warp_in_group), piece_column = (lane) * 8 + (i);
      u16 piece[8];
      read_shared<16>(piece, smem_x + piece_row * 512 + (piece_column) * 2);
      #pragma unroll
      for (int e = 0; e < 8; e++) x_2[i + e] = from_f16(piece[e]);
    }
    {
      #pragma unroll
      for (int i = 0; i < 8; i += 8) {
        u32 words[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) words[e] = pack_f16(x_2[(i + 2 * e + 0)], x_2[(i + 2 * e + 1)]);
        store_words<16>(&out[(i64)(m_mine + (warp_in_group)) * out_stride0 + (i64)(n_at + (lane) * 8 + (i)) * out_stride1], words, (u32)(m_mine + (warp_in_group)) < (u32)dim_M && (u32)(n_at + (lane) * 8 + (i)) < (u32)dim_N && m_mine + (warp_in_group) < dim_M && n_at + (lane) * 8 + (i) < dim_N);
      }
    }
    fence_to_async();  // what was read has left shared memory before a copy comes there
    __syncwarp();
    if (lane == 0) barrier_arrive(empty_x);  // slot-free: store_out -> load_x (x)
    ring_0_1_0.advance();
  }
}
}
