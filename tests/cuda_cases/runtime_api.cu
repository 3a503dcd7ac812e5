// overruns; The runtime library: memory of every kind, copies in 2D and 3D, streams, events, errors, symbols, launch forms,
// occupancy, graphs, device assert and printf.
#include <cassert>
#include <cstring>

#include "check.h"

__constant__ int scale_by = 2;
__device__ int launches;

__global__ void scale(int* p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= scale_by;
  if (i == 0) atomicAdd(&launches, 1);
}
template <int most> __global__ void __launch_bounds__(most, 2) bounded(int* p) { p[threadIdx.x] = most; }
__global__ void failing(int n) { assert(n < 0); }

static void check_memory() {
  size_t pitch;
  char *pitched, *plain;
  CUDA(cudaMallocPitch(&pitched, &pitch, 100, 7));
  EXPECT(pitch >= 100 && pitch % 32 == 0, "pitch %zu", pitch);
  std::vector<char> rows(7 * 100), back(7 * 100);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = (char)i;
  CUDA(cudaMemcpy2D(pitched, pitch, rows.data(), 100, 100, 7, cudaMemcpyHostToDevice));
  CUDA(cudaMemset2D(pitched + 10, pitch, 9, 5, 7));
  CUDA(cudaMemcpy2D(back.data(), 100, pitched, pitch, 100, 7, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT(back[i] == (i % 100 >= 10 && i % 100 < 15 ? 9 : rows[i]), "byte %zu: %d", i, back[i]);
  EXPECT(cudaMemcpy2D(pitched, 50, rows.data(), 100, 100, 7, cudaMemcpyDefault) == cudaErrorInvalidPitchValue, "pitch below width");

  cudaPitchedPtr box;
  CUDA(cudaMalloc3D(&box, make_cudaExtent(16, 4, 3)));
  CUDA(cudaMemset3D(box, 7, make_cudaExtent(16, 4, 3)));
  cudaMemcpy3DParms copy = {};
  std::vector<char> volume(16 * 4 * 3);
  copy.srcPtr = box;
  copy.dstPtr = make_cudaPitchedPtr(volume.data(), 16, 16, 4);
  copy.extent = make_cudaExtent(16, 4, 3);
  copy.kind = cudaMemcpyDeviceToHost;
  CUDA(cudaMemcpy3D(&copy));
  for (char c : volume) EXPECT(c == 7, "%d", c);

  // A range so large that clearing it gives pages back: what lies beside it stays, and everything in it is zero.
  size_t large = (size_t)300 << 20;
  char* pool;
  CUDA(cudaMalloc(&pool, large));
  for (size_t i : {(size_t)0, (size_t)76, (size_t)77, (size_t)4096, large / 2, large - 78, large - 77, large - 1}) pool[i] = 5;
  CUDA(cudaMemset(pool + 77, 0, large - 154));
  for (size_t i : {(size_t)0, (size_t)76, large - 77, large - 1}) EXPECT(pool[i] == 5, "beside the range: %zu", i);
  for (size_t i : {(size_t)77, (size_t)4096, large / 2, large - 78}) EXPECT(pool[i] == 0, "in the range: %zu", i);
  CUDA(cudaFree(pool));

  int *managed, *pinned, *mapped;
  CUDA(cudaMallocManaged(&managed, 64));
  CUDA(cudaMallocHost(&pinned, 64));
  CUDA(cudaHostAlloc(&mapped, 64, cudaHostAllocMapped));
  int* device_view;
  CUDA(cudaHostGetDevicePointer(&device_view, mapped, 0));
  mapped[0] = 21;
  scale<<<1, 1>>>(device_view, 1);
  EXPECT(mapped[0] == 42, "%d", mapped[0]);
  cudaPointerAttributes attributes;
  CUDA(cudaPointerGetAttributes(&attributes, managed));
  EXPECT(attributes.type == cudaMemoryTypeManaged, "%d", attributes.type);
  CUDA(cudaPointerGetAttributes(&attributes, pinned + 3));
  EXPECT(attributes.type == cudaMemoryTypeHost, "%d", attributes.type);
  CUDA(cudaMallocAsync(&plain, 100, 0));
  CUDA(cudaFreeAsync(plain, 0));
  CUDA(cudaFree(managed));
  CUDA(cudaFreeHost(pinned));
  CUDA(cudaFreeHost(mapped));
  CUDA(cudaFree(nullptr));
  int local;
  EXPECT(cudaFree(&local) == cudaErrorInvalidValue, "freed a stack variable");
  size_t free_bytes, all_bytes;
  CUDA(cudaMemGetInfo(&free_bytes, &all_bytes));
  EXPECT(free_bytes > 0 && free_bytes <= all_bytes, "%zu of %zu", free_bytes, all_bytes);
  EXPECT(cudaMalloc(&plain, (size_t)1 << 60) == cudaErrorMemoryAllocation, "an exabyte");
  cudaGetLastError();
}

/* Threads of the last block that run over the end write where a GPU has the rest of a page. */
__global__ void overrun(char* p, size_t bytes) { p[bytes + 64 * threadIdx.x] = 1; }
static void check_room() {
  for (size_t bytes : {(size_t)64 << 20, (size_t)1 << 18}) {
    char* p;
    CUDA(cudaMalloc(&p, bytes));
    overrun<<<1, 512>>>(p, bytes);
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaFree(p));
  }
}

static void check_errors() {
  int* p;
  CUDA(cudaMalloc(&p, 4));
  scale<<<1, 2048>>>(p, 1);
  EXPECT(cudaPeekAtLastError() == cudaErrorInvalidConfiguration, "%s", cudaGetErrorName(cudaPeekAtLastError()));
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration, "still there");
  EXPECT(cudaGetLastError() == cudaSuccess, "forgotten");
  int grid, block;
  CUDA(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded<96>));
  EXPECT(block == 96, "a block of %d", block);
  bounded<96><<<1, 128>>>(p);
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration, "more threads than the launch bounds");
  scale<<<0, 32>>>(p, 1);
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration, "an empty grid");
  EXPECT(!strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory"), "text");
  EXPECT(!strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue"), "name");
  EXPECT(cudaSetDevice(3) == cudaErrorInvalidDevice, "device 3");
  EXPECT(cudaStreamSynchronize((cudaStream_t)0x1234) == cudaErrorInvalidResourceHandle, "no stream");
  cudaGetLastError();
}

/* What would run over the end of what the runtime knows does nothing but say so. */
static void check_sizes() {
  static char large[1 << 20];
  char* p;
  size_t pitch, bytes = sizeof large;
  CUDA(cudaMalloc(&p, 100));
  EXPECT(cudaMemcpy(p, large, bytes, cudaMemcpyHostToDevice) == cudaErrorInvalidValue, "copied to too little");
  EXPECT(cudaMemcpy(large, p + 50, bytes, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue, "copied from too little");
  EXPECT(cudaMemcpy2D(p, 1000, large, 1000, 10, 500, cudaMemcpyHostToDevice) == cudaErrorInvalidValue, "rows to too little");
  EXPECT(cudaMemset(p, 0, bytes) == cudaErrorInvalidValue, "filled more than there is");
  EXPECT(cudaMemset2D(p, 1000, 0, 10, 500) == cudaErrorInvalidValue, "filled more rows than there are");
  EXPECT(cudaMemcpyToSymbol(scale_by, large, 8) == cudaErrorInvalidValue, "copied to too small a variable");
  EXPECT(cudaMemcpyFromSymbol(large, scale_by, 4, 2) == cudaErrorInvalidValue, "copied from behind a variable");
  EXPECT(cudaFreeAsync(large, 0) == cudaErrorInvalidValue, "freed memory of the host");
  CUDA(cudaFree(p));
  EXPECT(cudaMallocPitch(&p, &pitch, (size_t)1 << 40, (size_t)1 << 30) == cudaErrorMemoryAllocation, "2^70 bytes");
  cudaGetLastError();
  cudaPointerAttributes attributes;
  void* address;
  CUDA(cudaGetSymbolAddress(&address, launches));
  CUDA(cudaPointerGetAttributes(&attributes, address));
  EXPECT(attributes.type == cudaMemoryTypeDevice, "a variable: %d", attributes.type);
}

static void check_symbols_and_launches() {
  const int n = 100;
  std::vector<int> values(n, 3);
  int* p = to_device(values);
  int three = 3, zero = 0, count = 0;
  CUDA(cudaMemcpyToSymbol(scale_by, &three, sizeof three));
  CUDA(cudaMemcpyToSymbol(launches, &zero, sizeof zero));
  void* address;
  size_t bytes;
  CUDA(cudaGetSymbolAddress(&address, launches));
  CUDA(cudaGetSymbolSize(&bytes, scale_by));
  EXPECT(bytes == sizeof(int), "%zu", bytes);

  int size = n;
  scale<<<4, 32>>>(p, size);  // 9
  void* arguments[] = {&p, &size};
  CUDA(cudaLaunchKernel(scale, dim3(4), dim3(32), arguments, 0, 0));  // 27
  void (*pointer)(int*, int) = scale;
  pointer<<<dim3(4, 1, 1), dim3(32, 1)>>>(p, size);  // 81
  cudaLaunchConfig_t config = {};
  config.gridDim = 4;
  config.blockDim = 32;
  CUDA(cudaLaunchKernelEx(&config, scale, p, size));  // 243
  for (int value : to_host(p, n)) EXPECT(value == 243, "%d", value);
  CUDA(cudaMemcpyFromSymbol(&count, launches, sizeof count));
  EXPECT(count == 4 && *(int*)address == 4, "%d launches", count);

  int blocks, grid, block;
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 256, 0));
  EXPECT(blocks > 0, "%d", blocks);
  CUDA(cudaOccupancyMaxPotentialBlockSize(&grid, &block, scale));
  EXPECT(grid > 0 && block > 0 && block <= 1024, "%d %d", grid, block);
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, 0));
  EXPECT(properties.warpSize == 32 && properties.maxThreadsPerBlock == 1024 && properties.multiProcessorCount > 0, "properties");
}

static void host_function(void* data) { *(int*)data += 1; }

static void check_streams_and_graphs() {
  const int n = 64;
  std::vector<int> values(n, 1), back(n);
  int* p = to_device(values);
  int two = 2, called = 0;
  CUDA(cudaMemcpyToSymbol(scale_by, &two, sizeof two));
  cudaStream_t stream, other;
  cudaEvent_t start, stop;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CUDA(cudaEventCreate(&start));
  CUDA(cudaEventCreate(&stop));
  CUDA(cudaEventRecord(start, stream));
  scale<<<2, 32, 0, stream>>>(p, n);
  CUDA(cudaMemcpyAsync(back.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CUDA(cudaEventRecord(stop, stream));
  CUDA(cudaStreamWaitEvent(other, stop, 0));
  CUDA(cudaLaunchHostFunc(other, host_function, &called));
  CUDA(cudaEventSynchronize(stop));
  CUDA(cudaStreamSynchronize(other));
  float milliseconds = -1;
  CUDA(cudaEventElapsedTime(&milliseconds, start, stop));
  EXPECT(milliseconds >= 0, "%f ms", milliseconds);
  EXPECT(called == 1, "host function");
  for (int value : back) EXPECT(value == 2, "%d", value);

  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  scale<<<2, 32, 0, stream>>>(p, n);
  CUDA(cudaMemcpyAsync(back.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CUDA(cudaStreamEndCapture(stream, &graph));
  for (int value : back) EXPECT(value == 2, "captured work has run: %d", value);
  CUDA(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (int i = 0; i < 3; ++i) CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaStreamSynchronize(stream));
  for (int value : back) EXPECT(value == 16, "%d", value);
  // Memory of a graph keeps its address over launches, freed in between or not; nodes and whole graphs are exchanged.
  cudaGraph_t own, changed;
  cudaGraphExec_t steps;
  cudaGraphNode_t made, first, second, gone;
  cudaMemAllocNodeParams wanted = {};
  wanted.bytesize = n * sizeof(int);
  CUDA(cudaGraphCreate(&own, 0));
  CUDA(cudaGraphAddMemAllocNode(&made, own, nullptr, 0, &wanted));
  int* inside = (int*)wanted.dptr;
  int count = n;
  cudaMemsetParams ones = {inside, 0, 1, 4, (size_t)n, 1};
  CUDA(cudaGraphAddMemsetNode(&first, own, &made, 1, &ones));
  void* arguments[] = {&inside, &count};
  cudaKernelNodeParams call = {(void*)scale, dim3(2), dim3(32), 0, arguments, nullptr};
  CUDA(cudaGraphAddKernelNode(&second, own, &first, 1, &call));
  CUDA(cudaGraphAddMemcpyNode1D(&gone, own, &second, 1, back.data(), inside, n * sizeof(int), cudaMemcpyDeviceToHost));
  CUDA(cudaGraphAddMemFreeNode(&gone, own, &gone, 1, inside));
  CUDA(cudaGraphInstantiate(&steps, own, nullptr, nullptr, 0));
  for (int launched = 0; launched < 3; ++launched) {
    if (launched == 1) {
      count = 1;
      CUDA(cudaGraphExecKernelNodeSetParams(steps, second, &call));
    }
    if (launched == 2) {
      CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      CUDA(cudaStreamEndCapture(stream, &changed));
      cudaGraphExecUpdateResultInfo info;
      EXPECT(cudaGraphExecUpdate(steps, changed, &info) == cudaErrorGraphExecUpdateFailure, "another shape");
      cudaGetLastError();
      CUDA(cudaGraphExecUpdate(steps, own, &info));  // the launch over all elements again
      CUDA(cudaFree(inside));
    }
    CUDA(cudaGraphLaunch(steps, stream));
    CUDA(cudaStreamSynchronize(stream));
    EXPECT(back[0] == 2 && back[n - 1] == (launched == 1 ? 1 : 2), "launch %d: %d and %d", launched, back[0], back[n - 1]);
  }
  CUDA(cudaGraphExecDestroy(steps));
  CUDA(cudaGraphDestroy(own));
  int* scratch;
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA(cudaMallocAsync(&scratch, n * sizeof(int), stream));
  CUDA(cudaMemcpyAsync(scratch, p, n * sizeof(int), cudaMemcpyDeviceToDevice, stream));
  scale<<<2, 32, 0, stream>>>(scratch, n);
  CUDA(cudaMemcpyAsync(back.data(), scratch, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CUDA(cudaFreeAsync(scratch, stream));
  CUDA(cudaStreamEndCapture(stream, &changed));
  CUDA(cudaGraphExecDestroy(exec));
  CUDA(cudaGraphInstantiate(&exec, changed, nullptr, nullptr, 0));
  for (int i = 0; i < 2; ++i) CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaStreamSynchronize(stream));
  for (int value : back) EXPECT(value == 32, "%d", value);
  CUDA(cudaGraphExecDestroy(exec));
  CUDA(cudaGraphDestroy(changed));
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaStreamDestroy(stream));
  CUDA(cudaStreamDestroy(other));
  CUDA(cudaEventDestroy(start));
}

void check_facts_of_streams_and_pools() {
  cudaStream_t one, other;
  int least, greatest;
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CUDA(cudaStreamCreateWithPriority(&one, cudaStreamNonBlocking, greatest));
  CUDA(cudaStreamCreate(&other));
  cudaStreamAttrValue value;
  CUDA(cudaStreamGetAttribute(one, cudaLaunchAttributePriority, &value));  // CUDA 12's name, then CUDA 11's
  EXPECT(value.priority == greatest, "%d", value.priority);
  CUDA(cudaStreamGetAttribute(one, cudaStreamAttributePriority, &value));
  unsigned long long ids[2];
  CUDA(cudaStreamGetId(one, &ids[0]));
  CUDA(cudaStreamGetId(other, &ids[1]));
  EXPECT(ids[0] != ids[1], "%llu", ids[0]);
  cudaMemPool_t standard, current;
  CUDA(cudaDeviceGetDefaultMemPool(&standard, 0));
  CUDA(cudaDeviceGetMemPool(&current, 0));
  EXPECT(standard == current, "until another one is set");
  CUDA(cudaStreamDestroy(one));
  CUDA(cudaStreamDestroy(other));
}

int main() {
  check_memory();
  check_room();
  check_errors();
  check_sizes();
  check_symbols_and_launches();
  check_streams_and_graphs();
  check_facts_of_streams_and_pools();
  failing<<<1, 1>>>(1);
  EXPECT(cudaDeviceSynchronize() == cudaErrorAssert, "a failed assert");
  void* p;
  EXPECT(cudaMalloc(&p, 16) == cudaErrorAssert, "the device is broken from then on");
  return wrong != 0;
}
