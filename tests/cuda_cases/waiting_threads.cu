// waits; Threads, warps and blocks that wait for later ones of their own block, by flags, locks and shared memory.
#include "check.h"

// Twice in a loop: for the next thread, then for the one before.
__global__ void neighbours(volatile int* ready, volatile int* out, int rounds) {
  int t = threadIdx.x, last = blockDim.x - 1;
  for (int round = 1; round <= rounds; ++round) {
    if (t < last)
      while (ready[t + 1] < round) {
      }
    out[t] = t == last ? round : out[t + 1] + 1;
    __threadfence();
    ready[t] = round;
    if (t)
      while (ready[t - 1] < round) {
      }
  }
}
__global__ void locked(int* lock, volatile int* sum) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  ++*sum;
  __threadfence();
  atomicExch(lock, 0);
}
__global__ void warps(volatile int* ready, int* out) {
  int warp = threadIdx.x / 32, last = blockDim.x / 32 - 1, lane = threadIdx.x % 32;
  do {
  } while (__any_sync(~0u, lane == 0 && warp < last && ready[warp + 1] == 0));
  int sum = __reduce_add_sync(~0u, lane);
  if (lane == 0) {
    out[warp] = sum + (warp < last ? out[warp + 1] : 0);
    __threadfence();
    ready[warp] = 1;
  }
}
__global__ void of_all_blocks(volatile int* ready) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  if (i < n - 1)
    while (!ready[i + 1]) {
    }
  ready[i] = ready[i + 1] + 1;
}
__global__ void in_shared(int* out) {
  __shared__ volatile int turn;
  turn = blockDim.x - 1;
  __syncthreads();
  while (turn != threadIdx.x) {
  }
  out[threadIdx.x] = turn;
  __threadfence_block();
  turn = (int)threadIdx.x - 1;
  __syncthreads();
  out[blockDim.x] = turn;
}
__device__ __noinline__ int wait_for(volatile int* ready, int i, int depth) {
  if (depth) return wait_for(ready, i, depth - 1) + 1;
  while (!ready[i]) {
  }
  return ready[i];
}
__global__ void in_a_function(volatile int* ready, int n) {
  int i = threadIdx.x;
  ready[i] = i < n - 1 ? wait_for(ready, i + 1, 3) - 2 : 1;
}

int main() {
  int *ready = to_device(std::vector<int>(10000)), *out = to_device(std::vector<int>(10000));
  auto clear = [&] { CUDA(cudaMemset(ready, 0, 10000 * sizeof(int))); };
  neighbours<<<1, 200>>>(ready, out, 5);
  std::vector<int> found = to_host(out, 200);
  for (int i = 0; i < 200; ++i) EXPECT(found[i] == 5 + 199 - i, "thread %d: %d", i, found[i]);
  clear();
  locked<<<8, 64>>>(ready, ready + 1);
  EXPECT(to_host(ready, 2)[1] == 8 * 64, "%d", to_host(ready, 2)[1]);
  clear();
  warps<<<1, 512>>>(ready, out);
  EXPECT(to_host(out, 1)[0] == 16 * 31 * 16, "%d", to_host(out, 1)[0]);
  clear();
  of_all_blocks<<<20, 64>>>(ready);
  EXPECT(to_host(ready, 1)[0] == 20 * 64, "%d", to_host(ready, 1)[0]);
  in_shared<<<1, 64>>>(out);
  found = to_host(out, 65);
  for (int i = 0; i < 64; ++i) EXPECT(found[i] == i, "turn %d: %d", i, found[i]);
  EXPECT(found[64] == -1, "%d", found[64]);
  clear();
  in_a_function<<<1, 50>>>(ready, 50);
  EXPECT(to_host(ready, 1)[0] == 50, "%d", to_host(ready, 1)[0]);
  return wrong != 0;
}
