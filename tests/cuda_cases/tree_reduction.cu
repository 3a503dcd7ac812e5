// slow; races; A tree reduction in dynamic shared memory: 1024 threads, several blocks, sizes that do not divide the block.
// Code that relies on warps in lock-step: a permutation in place, and a prefix sum with a fence after each step.
#include "check.h"

__global__ void partial_sums(const int* in, int* sums, int n) {
  extern __shared__ int scratch[];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  scratch[t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int step = blockDim.x / 2; step > 0; step >>= 1) {
    if (t < step) scratch[t] += scratch[t + step];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = scratch[0];
}

__global__ void lock_step(const int* to, int* out) {
  __shared__ float3 moved[32];
  __shared__ int sums[48];
  int t = threadIdx.x;
  moved[t] = make_float3(t, 2 * t, 3 * t);
  sums[t] = 0;
  sums[t + 16] = 0;
  __syncthreads();
  moved[to[t]] = moved[t];
  sums[t + 16] = t + 1;
  __threadfence_block();
  for (int step = 1; step < 32; step *= 2) {
    if (step <= 16) sums[t + 16] += t >= step ? sums[t + 16 - step] : 0;
    __threadfence_block();
  }
  out[to[t]] = sums[t + 16] * 1000 + (int)(moved[to[t]].z) / 3;
}

int main() {
  std::vector<int> to(32);
  for (int t = 0; t < 32; ++t) to[t] = t * 11 % 32;
  int* moved;
  CUDA(cudaMalloc(&moved, 32 * sizeof(int)));
  lock_step<<<1, 32>>>(to_device(to), moved);
  std::vector<int> places = to_host(moved, 32);
  for (int t = 0; t < 32; ++t) EXPECT(places[to[t]] == (t + 1) * (t + 2) / 2 * 1000 + t, "lane %d has %d", t, places[to[t]]);
  for (int n : {1, 1000, 1024, 1025, 5000}) {
    std::vector<int> in(n);
    long long expected = 0, got = 0;
    for (int i = 0; i < n; ++i) expected += in[i] = i * 7 % 101 - 50;
    int blocks = (n + 1023) / 1024, *device_in = to_device(in), *sums;
    CUDA(cudaMalloc(&sums, blocks * sizeof(int)));
    partial_sums<<<blocks, 1024, 1024 * sizeof(int)>>>(device_in, sums, n);
    for (int sum : to_host(sums, blocks)) got += sum;
    EXPECT(got == expected, "n %d: %lld, not %lld", n, got, expected);
  }
  return wrong != 0;
}
