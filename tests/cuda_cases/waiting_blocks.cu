// waits; Blocks that wait for what later blocks write, and a lock; with an argument, a thread that waits for what never comes: the loop
// is named, and the program ends.
#include "check.h"

extern "C" double __loom_waiting_seconds[2];  // until the warning, until the end (runtime/device_functions.cpp)

__global__ void from_the_last(volatile int* ready, volatile int* out) {
  int block = blockIdx.x, last = gridDim.x - 1, at = block * blockDim.x + threadIdx.x;
  if (block < last)
    while (!ready[block + 1]) {
    }
  out[at] = block == last ? 1 : out[at + blockDim.x] + 1;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) ready[block] = 1;
}
__global__ void locked(int* lock, volatile int* sum) {
  for (bool done = false; !done;)
    if (atomicCAS(lock, 0, 1) == 0) {
      ++*sum;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
}
__global__ void forever(volatile int* ready) {
  while (!*ready) {  // never
  }
}

int main(int argc, char**) {
  int *ready = to_device(std::vector<int>(100)), *out = to_device(std::vector<int>(100 * 64));
  if (argc > 1) {
    __loom_waiting_seconds[0] = 0.05, __loom_waiting_seconds[1] = 0.2;
    forever<<<1, 1>>>(ready);
    return cudaDeviceSynchronize();
  }
  from_the_last<<<100, 64>>>(ready, out);
  std::vector<int> found = to_host(out, 100 * 64);
  for (int i = 0; i < 100 * 64; ++i) EXPECT(found[i] == 100 - i / 64, "element %d: %d", i, found[i]);
  CUDA(cudaMemset(ready, 0, 2 * sizeof(int)));
  locked<<<16, 64>>>(ready, ready + 1);
  EXPECT(to_host(ready, 2)[1] == 16 * 64, "%d", to_host(ready, 2)[1]);
  return wrong != 0;
}
