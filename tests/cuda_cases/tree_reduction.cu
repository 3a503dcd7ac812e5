// A tree reduction in dynamic shared memory: 1024 threads, several blocks, sizes that do not divide the block.
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

int main() {
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
