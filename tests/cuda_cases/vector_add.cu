// The smallest whole: copies in, one kernel with a guard, copies out; sizes that do not divide.
#include <cuda_runtime.h>

#include "check.h"

__global__ void add(const float* a, const float* b, float* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

int main() {
#ifdef __x86_64__  // a host may time itself so
  unsigned low = 0, high = 0;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  EXPECT(low | high, "the clock stands still");
#endif
  const int n = 1000;
  float a[n], b[n], sum[n], *device_a, *device_b, *device_sum;
  for (int i = 0; i < n; ++i) a[i] = i, b[i] = 2 * i;
  cudaMalloc(&device_a, sizeof a);
  cudaMalloc(&device_b, sizeof b);
  cudaMalloc(&device_sum, sizeof sum);
  cudaMemcpy(device_a, a, sizeof a, cudaMemcpyHostToDevice);
  cudaMemcpy(device_b, b, sizeof b, cudaMemcpyHostToDevice);
  add<<<(n + 255) / 256, 256>>>(device_a, device_b, device_sum, n);
  CUDA(cudaGetLastError());
  cudaMemcpy(sum, device_sum, sizeof sum, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i)
    EXPECT(sum[i] == 3.0f * i, "element %d is %f", i, sum[i]);
  return wrong != 0;
}
