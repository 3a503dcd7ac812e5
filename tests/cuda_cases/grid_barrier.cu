// slow; A cooperative launch that sums in two phases around grid.sync(); tiles of two warps.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "check.h"
namespace cg = cooperative_groups;

__global__ void two_phases(const int* in, int* partial, int* total, int n) {
  cg::grid_group grid = cg::this_grid();
  __shared__ int tile[64];
  int t = threadIdx.x, sum = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += in[i];
  tile[t] = sum;
  __syncthreads();
  for (int step = 32; step > 0; step /= 2) {
    if (t < step) tile[t] += tile[t + step];
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = tile[0];
  grid.sync();
  if (grid.thread_rank() == 0) {
    int all = 0;
    for (int b = 0; b < gridDim.x; ++b) all += partial[b];
    *total = all;
  }
  grid.sync();
  if (t == 0) partial[blockIdx.x] = *total;
}

__global__ void wide_tiles(int* out) {
  __shared__ cg::block_tile_memory<192> scratch;
  cg::thread_block block = cg::this_thread_block(scratch);
  auto tile = cg::tiled_partition<64>(block);
  int t = threadIdx.x, sum = cg::reduce(tile, t, cg::plus<int>()), last = tile.shfl(t, 63);
  int any = tile.any(t == 70), all = tile.all(t >= 64);
  out[t] = sum + 100000 * last + 100000000 * (2 * any + all) + (tile.meta_group_rank() == t / 64 && tile.thread_rank() == t % 64);
}

int main() {
  int* tiles;
  CUDA(cudaMalloc(&tiles, 192 * sizeof(int)));
  wide_tiles<<<1, 192>>>(tiles);
  std::vector<int> got = to_host(tiles, 192);
  for (int t = 0; t < 192; ++t) {
    int first = t / 64 * 64, wanted = 64 * first + 63 * 32 + 100000 * (first + 63) + 100000000 * (2 * (first == 64) + (first >= 64)) + 1;
    EXPECT(got[t] == wanted, "thread %d of a wide tile: %d, not %d", t, got[t], wanted);
  }
  int n = 10000, blocks = 6;
  std::vector<int> in(n);
  int expected = 0;
  for (int i = 0; i < n; ++i) expected += in[i] = i % 13 - 5;
  int *device_in = to_device(in), *partial, *total;
  CUDA(cudaMalloc(&partial, blocks * sizeof(int)));
  CUDA(cudaMalloc(&total, sizeof(int)));
  void* arguments[] = {&device_in, &partial, &total, &n};
  CUDA(cudaLaunchCooperativeKernel(two_phases, blocks, 64, arguments));
  EXPECT(to_host(total, 1)[0] == expected, "%d, not %d", to_host(total, 1)[0], expected);
  for (int value : to_host(partial, blocks)) EXPECT(value == expected, "a block saw %d", value);
  return wrong != 0;
}
