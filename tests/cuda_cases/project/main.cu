// The first of two files whose device code calls each other's functions and shares variables.
#include <cstdio>
#include <cuda_runtime.h>

#include "shared.h"

extern __device__ int counter;
extern __constant__ float table[4];
__device__ int helper(int x);
template <int factor> __device__ int scaled(int x);
__device__ void block_sum(int* tile, int n);
static __device__ int own = 5;

static __global__ void local(int* p) { p[1] = scaled<3>(own) - scaled<2>(own); }

__global__ void kernel(int* p) {
  __shared__ int tile[64];
  tile[threadIdx.x] = helper(threadIdx.x);
  block_sum(tile, 64);
  if (threadIdx.x == 0) {
    p[0] = tile[0] + (int)table[2];
    atomicAdd(&counter, 3);
  }
}

int main() {
  int *p, values[2];
  cudaMalloc(&p, sizeof values);
  set_table();
  kernel<<<1, 64>>>(p);
  local<<<1, 1>>>(p);
  cudaMemcpy(values, p, sizeof values, cudaMemcpyDeviceToHost);
  int later = count_later();
  printf("%d %d %d %d\n", values[0], values[1], later, host_only(20));
  return !(values[0] == 64 * 63 + 64 + 30 && values[1] == 5 && later == 103 + 7 && host_only(20) == 42);
}
