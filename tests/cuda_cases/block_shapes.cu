// slow; races; Blocks of one or two axes, in any of them: values that live across a barrier are each thread's own.
#include "check.h"

__global__ void rotate(int* x, int n) {
  int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  int* own = x + blockIdx.x * n;
  int value = own[t];
  __syncthreads();
  own[(t + 1) % n] = value + 100;
}

// A lock in the first word of a node that all lanes write: no lane's write may come after the release. Lanes run in step
// here, as on old GPUs; by CUDA's memory model lane 31 races with lane 1, and `loom check` says so.
__global__ void increment(unsigned* node, int rounds) {
  for (int r = 0; r < rounds; ++r) {
    unsigned taken = 1;
    while (taken) {
      if (threadIdx.x == 1) taken = atomicOr(node, 0x80000000u) & 0x80000000u;
      taken = __shfl_sync(~0u, taken, 1);
    }
    __threadfence();
    unsigned old = node[31 - threadIdx.x];
    __syncwarp();
    node[31 - threadIdx.x] = old + (threadIdx.x != 31);
    __threadfence();
    if (threadIdx.x == 1) atomicAnd(node, 0x7fffffffu);
  }
}

static void check(dim3 block) {
  int n = block.x * block.y * block.z, blocks = 3;
  std::vector<int> x(n * blocks);
  for (int i = 0; i < n * blocks; ++i) x[i] = i;
  int* device = to_device(x);
  rotate<<<blocks, block>>>(device, n);
  auto found = to_host(device, n * blocks);
  for (int b = 0; b < blocks; ++b)
    for (int t = 0; t < n; ++t)
      EXPECT(found[b * n + (t + 1) % n] == b * n + t + 100, "(%d, %d, %d): %d", block.x, block.y, block.z, found[b * n + (t + 1) % n]);
}

int main() {
  check(dim3(1, 4));
  check(dim3(1, 1, 5));
  check(dim3(1, 3, 2));
  check(dim3(2, 1, 3));
  check(dim3(4, 2));
  unsigned* lock;
  CUDA(cudaMallocManaged(&lock, 32 * sizeof(unsigned)));
  CUDA(cudaMemset(lock, 0, 32 * sizeof(unsigned)));
  increment<<<4, 32>>>(lock, 10);
  CUDA(cudaDeviceSynchronize());
  for (int i = 1; i < 32; ++i) EXPECT(lock[i] == 40, "lane %d: %u", i, lock[i]);
  EXPECT(lock[0] == 0, "the lock: %x", lock[0]);
  return wrong != 0;
}
