// A cooperative launch that sums in two phases around grid.sync().
#include <cooperative_groups.h>

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

int main() {
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
