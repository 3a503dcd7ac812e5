// The second file: it defines what the first declares, has a barrier in a device function, and static names of its own.
#include <cuda_runtime.h>

#include "shared.h"

__device__ int counter = 100;
__constant__ float table[4];
static __device__ int own = 7;

__device__ int helper(int x) { return 2 * x + 1; }

template <int factor> __device__ int scaled(int x) { return factor * x; }
template __device__ int scaled<2>(int);
template __device__ int scaled<3>(int);

__device__ void block_sum(int* tile, int n) {
  for (int step = n / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) tile[threadIdx.x] += tile[threadIdx.x + step];
  }
  __syncthreads();
}

void set_table() {
  float values[4] = {10, 20, 30, 40};
  cudaMemcpyToSymbol(table, values, sizeof values);
}

static __global__ void local(int* p) { p[0] = counter + own; }

int count_later() {
  int *p, value;
  cudaMalloc(&p, sizeof value);
  local<<<1, 1>>>(p);
  cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost);
  return value;
}
