// slow; A tile of 16 that is passed on as `thread_group`, in a part of the block: its barrier is the tile's, not the block's.
#include <cooperative_groups.h>

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

int main() {
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
