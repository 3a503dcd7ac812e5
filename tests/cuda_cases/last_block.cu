// slow; The last block to finish, known by a counter behind __threadfence(), adds the partial sums.
#include "check.h"

#ifndef PARTIAL  // the checker's tests try others
#define PARTIAL volatile float
#define FENCE __threadfence()
#endif

__device__ unsigned finished = 0;

__global__ void sum(const float* in, PARTIAL* partial, float* total, int n) {
  __shared__ float tile[128];
  __shared__ bool last;
  int t = threadIdx.x;
  float own = 0;
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) own += in[i];
  tile[t] = own;
  __syncthreads();
  for (int step = 64; step > 0; step >>= 1) {
    if (t < step) tile[t] += tile[t + step];
    __syncthreads();
  }
  if (t == 0) {
    partial[blockIdx.x] = tile[0];
    FENCE;
    last = atomicInc(&finished, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) {
    float all = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) all += partial[b];
    *total = all;
    finished = 0;
  }
}

int main() {
  const int n = 5000, blocks = 7;
  std::vector<float> in(n);
  float expected = 0;
  for (int i = 0; i < n; ++i) expected += in[i] = i % 9 - 4;
  float *device_in = to_device(in), *partial, *total;
  CUDA(cudaMalloc(&partial, blocks * sizeof(float)));
  CUDA(cudaMalloc(&total, sizeof(float)));
  for (int round = 0; round < 3; ++round) {
    CUDA(cudaMemset(total, 0, sizeof(float)));
    sum<<<blocks, 128>>>(device_in, partial, total, n);
    EXPECT(to_host(total, 1)[0] == expected, "round %d: %f, not %f", round, to_host(total, 1)[0], expected);
  }
  return wrong != 0;
}
