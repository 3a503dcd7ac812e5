// Atomic functions of 64 bits that CUDA has not: a program's own ones are taken, and ours where it has none.
#include <stdint.h>

#include "check.h"

inline __device__ void atomicAdd(int64_t* p, int64_t v) { atomicAdd((unsigned long long*)p, (unsigned long long)v); }
__device__ long long atomicAdd(long long* p, long long v) {
  return (long long)atomicAdd((unsigned long long*)p, (unsigned long long)v) + 1000;  // tells that it is this one
}
__device__ unsigned long atomicMax(unsigned long* p, unsigned long v) {
  return atomicMax((unsigned long long*)p, (unsigned long long)v);
}

__global__ void all(int64_t* sum, long long* seen, size_t* most, long* least, unsigned long* bits, long long* top) {
  const int t = threadIdx.x;
  atomicAdd(sum, (int64_t)-t);
  seen[1 + t] = atomicAdd(seen, 1LL);
  atomicMax(most, (size_t)t);
  atomicMin(least, (long)-t);
  atomicOr_block(bits, 1ul << t);
  atomicMax(top, (long long)t - 100);
  if (t == 0) atomicExch_system(top + 1, 7LL);
  if (t == 1) atomicCAS((unsigned long*)(top + 2), 0ul, 5ul);
}

int main() {
  const int threads = 40;
  int64_t* sum;
  long long* seen;
  cudaMallocManaged(&sum, 8 * 10);
  cudaMallocManaged(&seen, 8 * (threads + 1));
  for (int i = 0; i < 10; ++i) sum[i] = 0;
  seen[0] = 0;
  sum[7] = -1000;
  all<<<1, threads>>>(sum, seen, (size_t*)sum + 1, (long*)sum + 2, (unsigned long*)sum + 3, (long long*)sum + 7);
  cudaDeviceSynchronize();
  long long order = 0;
  for (int t = 0; t < threads; ++t) order += seen[1 + t] - 1000;
  EXPECT(sum[0] == -threads * (threads - 1) / 2, "%lld", (long long)sum[0]);
  EXPECT(seen[0] == threads && order == threads * (threads - 1) / 2, "%lld", (long long)sum[0]);
  EXPECT(sum[1] == threads - 1 && sum[2] == 1 - threads, "%lld", (long long)sum[0]);
  EXPECT((unsigned long)sum[3] == (1ul << threads) - 1, "%lld", (long long)sum[0]);
  EXPECT(sum[7] == threads - 101 && sum[8] == 7 && sum[9] == 5, "%lld", (long long)sum[0]);
  return wrong != 0;
}
