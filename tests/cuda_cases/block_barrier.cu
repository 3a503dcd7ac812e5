// slow; cuda::barrier of a block (split in arrive and wait, too), copies it waits for, a pipeline of one thread, and one
// that a block shares.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>

#include "check.h"

__global__ void rotate(const float4* in, float* out, int rounds) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ float4 tile[16];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  if (threadIdx.x < 16) cuda::memcpy_async(&tile[threadIdx.x], &in[blockIdx.x * 16 + threadIdx.x], sizeof(float4), barrier);
  auto token = barrier.arrive();
  barrier.wait(std::move(token));
  float* values = (float*)tile;
  for (int round = 0; round < rounds; ++round) {
    float next = values[(threadIdx.x + 1) % blockDim.x];
    barrier.arrive_and_wait();
    values[threadIdx.x] = next;
    barrier.arrive_and_wait();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = values[threadIdx.x];
}
__global__ void staged(const int* in, int* out, int tiles) {
  __shared__ int stage[2][32];
  cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
  const auto bytes = cuda::aligned_size_t<alignof(int)>(sizeof(int));
  int sum = 0;
  for (int fetched = 0, tile = 0; tile < tiles; ++tile) {
    for (; fetched < tiles && fetched < tile + 2; ++fetched) {
      pipe.producer_acquire();
      cuda::memcpy_async(&stage[fetched % 2][threadIdx.x], &in[fetched * 32 + threadIdx.x], bytes, pipe);
      pipe.producer_commit();
    }
    cuda::pipeline_consumer_wait_prior<1>(pipe);
    __syncthreads();
    sum += stage[tile % 2][31 - threadIdx.x];
    __syncthreads();
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}

__global__ void shared_stages(const int* in, int* out, int tiles) {
  __shared__ int stage[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cooperative_groups::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int sum = 0;
  for (int fetched = 0, tile = 0; tile < tiles; ++tile) {
    for (; fetched < tiles && fetched < tile + 2; ++fetched) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, stage[fetched % 2], in + fetched * 64, 64 * sizeof(int), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += stage[tile % 2][63 - threadIdx.x];
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}

int main() {
  std::vector<float> in(3 * 64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = i;
  float *device_in = to_device(in), *out;
  CUDA(cudaMalloc(&out, in.size() * 4));
  rotate<<<3, 64>>>((const float4*)device_in, out, 5);
  auto got = to_host(out, in.size());
  for (int b = 0; b < 3; ++b)
    for (int t = 0; t < 64; ++t) EXPECT(got[b * 64 + t] == b * 64 + (t + 5) % 64, "block %d thread %d: %g", b, t, got[b * 64 + t]);
  std::vector<int> tiles(7 * 32);
  for (size_t i = 0; i < tiles.size(); ++i) tiles[i] = i * i % 101;
  int *device_tiles = to_device(tiles), *sums;
  CUDA(cudaMalloc(&sums, 128));
  staged<<<1, 32>>>(device_tiles, sums, 7);
  auto total = to_host(sums, 32);
  for (int t = 0; t < 32; ++t) {
    int expected = 0;
    for (int tile = 0; tile < 7; ++tile) expected += tiles[tile * 32 + 31 - t];
    EXPECT(total[t] == expected, "sum %d: %d, not %d", t, total[t], expected);
  }
  std::vector<int> wide(7 * 64);
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = i * i % 103;
  CUDA(cudaMalloc(&sums, 256));
  shared_stages<<<1, 64>>>(to_device(wide), sums, 7);
  total = to_host(sums, 64);
  for (int t = 0; t < 64; ++t) {
    int expected = 0;
    for (int tile = 0; tile < 7; ++tile) expected += wide[tile * 64 + 63 - t];
    EXPECT(total[t] == expected, "shared sum %d: %d, not %d", t, total[t], expected);
  }
  return wrong != 0;
}
