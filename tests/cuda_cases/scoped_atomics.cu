// cuda::atomic and cuda::atomic_ref: every operation's old value, numbers of a float and of a pair of words, flags between blocks.
#include <cuda/atomic>
#include <cuda/std/atomic>

#include "check.h"

__device__ cuda::atomic<int, cuda::thread_scope_device> counter(5);
__device__ cuda::std::atomic<unsigned> everywhere;

struct Pair { int first; float second; };

__global__ void count(int* seen, float* total, Pair* pair, int* most) {
  __shared__ cuda::atomic<int, cuda::thread_scope_block> inside;
  if (threadIdx.x == 0) inside.store(0, cuda::std::memory_order_relaxed);
  __syncthreads();
  inside.fetch_add(2, cuda::memory_order_relaxed);
  seen[counter.fetch_add(1, cuda::std::memory_order_relaxed) - 5] += 1;
  cuda::atomic_ref<float, cuda::thread_scope_device>(*total).fetch_add(0.5f);
  cuda::atomic_ref<int> top(*most);
  top.fetch_max((int)threadIdx.x * 3);
  cuda::atomic_ref<Pair, cuda::thread_scope_device> both(*pair);
  Pair old = both.load(cuda::memory_order_relaxed);
  while (!both.compare_exchange_weak(old, Pair{old.first + 1, old.second + 0.25f}, cuda::memory_order_relaxed)) {}
  ++everywhere;
  everywhere |= 0x80000000u;
  __syncthreads();
  if (threadIdx.x == 0) seen[blockDim.x * gridDim.x + blockIdx.x] = inside;
}

/* Every block adds to what the one before it has published. */
__device__ cuda::atomic<int, cuda::thread_scope_device> turn;
__global__ void in_order(int* values) {
  if (threadIdx.x != 0) return;
  while (turn.load(cuda::memory_order_acquire) != (int)blockIdx.x) {}
  values[blockIdx.x] = blockIdx.x == 0 ? 1 : 2 * values[blockIdx.x - 1];
  turn.store(blockIdx.x + 1, cuda::memory_order_release);
}

int main() {
  const int threads = 64, blocks = 3, all = threads * blocks;
  int *seen = to_device(std::vector<int>(all + blocks)), *most = to_device(std::vector<int>(1));
  float* total = to_device(std::vector<float>(1));
  Pair* pair = to_device(std::vector<Pair>(1, Pair{7, 1.0f}));
  count<<<blocks, threads>>>(seen, total, pair, most);
  auto once = to_host(seen, all + blocks);
  for (int i = 0; i < all; ++i) EXPECT(once[i] == 1, "number %d was given %d times", i, once[i]);
  for (int b = 0; b < blocks; ++b) EXPECT(once[all + b] == 2 * threads, "in block %d: %d", b, once[all + b]);
  unsigned counted = 0;
  CUDA(cudaMemcpyFromSymbol(&counted, everywhere, sizeof counted));
  Pair p = to_host(pair, 1)[0];
  EXPECT(counted == (0x80000000u | all) && to_host(total, 1)[0] == all * 0.5f, "%x", counted);
  EXPECT(p.first == 7 + all && p.second == 1 + all * 0.25f && to_host(most, 1)[0] == 189, "%d %f", p.first, p.second);
  int* values = to_device(std::vector<int>(12));
  in_order<<<12, 32>>>(values);
  EXPECT(to_host(values, 12)[11] == 2048, "%d", to_host(values, 12)[11]);
  return wrong != 0;
}
