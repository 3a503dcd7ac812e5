// slow; Kernel arguments of classes that C++ copies by constructor: the stub gets the address of a temporary.
#include <cuda_runtime.h>

#include "check.h"

struct Counter {
  int* out;
  long padding[4];
  explicit Counter(int* p) : out(p) {
    for (long& word : padding) word = 7;
  }
  Counter(const Counter& other) : out(other.out) {
    for (int i = 0; i < 4; ++i) padding[i] = other.padding[i] + 1;
  }
  __host__ __device__ ~Counter() {}
};
__global__ void store(float offset, Counter counter, int n) {
  if (threadIdx.x < n) counter.out[threadIdx.x] = counter.padding[3] + threadIdx.x + (int)offset;
}
template <class C> __global__ void increment(C counter) { counter.out[threadIdx.x]++; }

int main() {
  int* values;
  CUDA(cudaMallocManaged(&values, 64 * sizeof(int)));
  Counter counter(values);
  store<<<1, 64>>>(2.5f, counter, 64);  // one copy on the way to the stub
  increment<<<1, 64>>>(counter);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  increment<<<1, 64, 0, stream>>>(counter);  // the graph keeps the argument's bytes after the temporary is gone
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; ++i) CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 64; ++i) EXPECT(values[i] == 8 + i + 2 + 3, "value %d is %d", i, values[i]);
  return wrong != 0;
}
