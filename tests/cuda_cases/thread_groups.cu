// slow; A tile of 16 that is passed on as `thread_group`, in a part of the block: its barrier is the tile's, not the block's.
// Tiles of tiles count within the larger tile, and parts of a coalesced group consist of its threads.
#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>

#include "check.h"

namespace cg = cooperative_groups;

__device__ void turn(int* values, cg::thread_group tile) {
  int next = values[(threadIdx.x + 1) % 16];
  cg::sync(tile);
  values[threadIdx.x] = next + tile.size() + tile.thread_rank();
  cg::sync(tile);
}

__global__ void turn_three_times(int* out) {
  cg::thread_block block = cg::this_thread_block();
  __shared__ int values[16];
  cg::thread_group tile = cg::tiled_partition(block, 16);
  if (threadIdx.x < 16) {
    values[threadIdx.x] = threadIdx.x;
    cg::sync(tile);
    for (int i = 0; i < 3; ++i) turn(values, tile);
  }
  cg::thread_group all = block;
  all.sync();
  out[threadIdx.x] = values[threadIdx.x % 16] + all.size() * 100 + all.thread_rank();
}

/* Tiles of 4 in a tile of 16, and the odd threads of a warp in fours. */
__global__ void parts(int* out) {
  auto large = cg::tiled_partition<16>(cg::this_thread_block());
  auto small = cg::tiled_partition<4>(large);
  int rank = small.meta_group_rank() + 10 * small.meta_group_size() + 100 * large.meta_group_rank() + 1000 * large.meta_group_size();
  if (threadIdx.x % 2) {
    cg::thread_group odd = cg::coalesced_threads();
    cg::thread_group four = cg::tiled_partition(odd, 4);
    rank += 10000 * (four.size() * 10 + four.thread_rank());
  }
  out[threadIdx.x] = rank;
}
/* Scans over tiles of two warps. */
__global__ void scans(int* out) {
  auto tile = cg::tiled_partition<64>(cg::this_thread_block());
  int rank = (int)tile.thread_rank();
  out[threadIdx.x] = cg::inclusive_scan(tile, rank) * 10000 + cg::exclusive_scan(tile, rank, cg::plus<int>());
}
static void check_scans() {
  int* out = to_device(std::vector<int>(128));
  scans<<<1, 128>>>(out);
  auto got = to_host(out, 128);
  for (int i = 0; i < 128; ++i) {
    int rank = i % 64, before = rank * (rank - 1) / 2;
    EXPECT(got[i] == (before + rank) * 10000 + before, "scan %d: %d", i, got[i]);
  }
}
static void check_parts(int threads) {
  int* out = to_device(std::vector<int>(threads));
  parts<<<1, threads>>>(out);
  auto got = to_host(out, threads);
  for (int i = 0; i < threads; ++i) {
    int wanted = i / 4 % 4 + 10 * 4 + 100 * (i / 16) + 1000 * (threads / 16) + (i % 2 ? 10000 * (40 + i / 2 % 4) : 0);
    EXPECT(got[i] == wanted, "part %d: %d for %d", i, got[i], wanted);
  }
}

int main() {
  check_parts(64);
  check_scans();
  const int threads = 64;
  int* out = to_device(std::vector<int>(threads));
  turn_three_times<<<1, threads>>>(out);
  int values[16], turned[16];
  for (int i = 0; i < 16; ++i) values[i] = i;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 16; ++i) turned[i] = values[(i + 1) % 16] + 16 + i;
    for (int i = 0; i < 16; ++i) values[i] = turned[i];
  }
  auto got = to_host(out, threads);
  for (int i = 0; i < threads; ++i) {
    int wanted = values[i % 16] + threads * 100 + i;
    EXPECT(got[i] == wanted, "thread %d: %d for %d", i, got[i], wanted);
  }
  return wrong != 0;
}
