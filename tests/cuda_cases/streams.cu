// waits; Created streams run beside each other and the host, each in order; the default stream waits for all but non-blocking ones.
#include <cuda_runtime.h>
#include <unistd.h>

#include "check.h"

__global__ void meet(volatile int* mine, volatile int* other) {
  *mine = 1;
  while (!*other) {
  }
}
__global__ void wait_for(volatile int* flag, int* done) {
  while (!*flag) {
  }
  *done = 1;
}
__global__ void append(int* list, int* length, int value) { list[(*length)++] = value; }
__global__ void copy(const int* from, int* to) { *to = *from; }

static int* pinned(int count) {
  int* p = nullptr;
  CUDA(cudaMallocHost(&p, count * sizeof(int)));
  for (int i = 0; i < count; ++i) p[i] = 0;
  return p;
}
static cudaStream_t stream(unsigned flags = 0) {
  cudaStream_t made;
  CUDA(cudaStreamCreateWithFlags(&made, flags));
  return made;
}

static void kernels_of_two_streams_run_at_once() {
  int* flags = pinned(2);
  cudaStream_t a = stream(), b = stream();
  meet<<<1, 1, 0, a>>>(flags, flags + 1);
  meet<<<1, 1, 0, b>>>(flags + 1, flags);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaStreamDestroy(a));
  CUDA(cudaStreamDestroy(b));
}

static void one_stream_is_in_order() {
  int* list = pinned(300);
  cudaStream_t a = stream();
  for (int i = 0; i < 100; ++i) append<<<1, 1, 0, a>>>(list + 1, list, i);
  CUDA(cudaStreamSynchronize(a));
  for (int i = 0; i < 100; ++i) EXPECT(list[1 + i] == i, "place %d has %d", i, list[1 + i]);
}

static void default_stream_waits_for_blocking_streams_only() {
  int* words = pinned(8);
  cudaStream_t blocking = stream(), free_running = stream(cudaStreamNonBlocking);
  wait_for<<<1, 1, 0, free_running>>>(words, words + 1);
  append<<<1, 1, 0, blocking>>>(words + 3, words + 2, 5);
  append<<<1, 1>>>(words + 3, words + 2, 6);  // behind the work of `blocking`, not behind the kernel that still waits
  CUDA(cudaStreamSynchronize(0));
  EXPECT(words[3] == 5 && words[4] == 6, "%d %d", words[3], words[4]);
  EXPECT(cudaStreamQuery(free_running) == cudaErrorNotReady && words[1] == 0, "the kernel is still there");
  EXPECT(cudaGetLastError() == cudaSuccess, "not ready is no error");
  words[0] = 1;
  CUDA(cudaStreamSynchronize(free_running));
  EXPECT(words[1] == 1 && cudaStreamQuery(free_running) == cudaSuccess, "it ends");
}

static void events_order_streams() {
  int* words = pinned(8);
  cudaStream_t a = stream(cudaStreamNonBlocking), b = stream(cudaStreamNonBlocking);
  cudaEvent_t start, end;
  CUDA(cudaEventCreate(&start));
  CUDA(cudaEventCreate(&end));
  CUDA(cudaEventRecord(start, a));
  wait_for<<<1, 1, 0, a>>>(words, words + 1);
  CUDA(cudaEventRecord(end, a));
  CUDA(cudaStreamWaitEvent(b, end, 0));
  copy<<<1, 1, 0, b>>>(words + 1, words + 2);
  float milliseconds = -1;
  EXPECT(cudaEventQuery(end) == cudaErrorNotReady, "event before its time");
  EXPECT(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorNotReady, "time before its time");
  EXPECT(words[2] == 0, "b waits for a");
  words[0] = 1;
  CUDA(cudaEventSynchronize(end));
  CUDA(cudaStreamSynchronize(b));
  EXPECT(words[2] == 1, "b sees what a wrote");
  CUDA(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT(milliseconds >= 0, "%g ms", milliseconds);
  CUDA(cudaEventDestroy(end));
}

static void an_event_that_is_recorded_again_stands_for_two_moments() {
  int* words = pinned(8);
  cudaStream_t slow = stream(), quick = stream(), b = stream();
  cudaEvent_t event;
  CUDA(cudaEventCreate(&event));
  wait_for<<<1, 1, 0, slow>>>(words, words + 1);
  CUDA(cudaEventRecord(event, slow));
  CUDA(cudaStreamWaitEvent(b, event, 0));
  copy<<<1, 1, 0, b>>>(words + 1, words + 2);
  CUDA(cudaEventRecord(event, quick));
  CUDA(cudaStreamSynchronize(quick));
  EXPECT(cudaEventQuery(event) == cudaSuccess, "what it stands for now has been reached");
  EXPECT(cudaStreamQuery(b) == cudaErrorNotReady, "b waits for the first record");
  words[0] = 1;
  CUDA(cudaStreamSynchronize(b));
  EXPECT(words[2] == 1, "b came after slow");
  CUDA(cudaEventDestroy(event));
}

static void an_event_of_a_graph_waits_for_the_launch() {
  int* words = pinned(2);
  int *flag = words, *done = words + 1;
  cudaStream_t a = stream();
  cudaEvent_t event;
  cudaGraph_t graph;
  cudaGraphNode_t waits, records;
  cudaGraphExec_t exec;
  CUDA(cudaEventCreate(&event));
  CUDA(cudaGraphCreate(&graph, 0));
  void* arguments[] = {&flag, &done};
  cudaKernelNodeParams call = {(void*)wait_for, dim3(1), dim3(1), 0, arguments, nullptr};
  CUDA(cudaGraphAddKernelNode(&waits, graph, nullptr, 0, &call));
  CUDA(cudaGraphAddEventRecordNode(&records, graph, &waits, 1, event));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphLaunch(exec, a));
  EXPECT(cudaEventQuery(event) == cudaErrorNotReady, "the kernel before it still waits");
  *(volatile int*)flag = 1;
  CUDA(cudaEventSynchronize(event));
  EXPECT(*done == 1, "reached before the kernel");
}

static void pageable_memory_may_be_reused_at_once() {
  int *flag = pinned(2), *device, value = 7, back = 0;
  cudaStream_t a = stream();
  CUDA(cudaMalloc(&device, sizeof(int)));
  flag[0] = 1;
  wait_for<<<1, 1, 0, a>>>(flag, flag + 1);
  CUDA(cudaMemcpyAsync(device, &value, sizeof value, cudaMemcpyHostToDevice, a));
  value = 8;
  CUDA(cudaMemcpyAsync(&back, device, sizeof back, cudaMemcpyDeviceToHost, a));
  EXPECT(back == 7, "copied %d", back);
  CUDA(cudaFree(device));
}

static void host_functions_and_arguments_keep_their_place() {
  int* list = pinned(40);
  cudaStream_t a = stream();
  for (int i = 0; i < 10; ++i) {
    int argument = 2 * i;  // gone, or changed, when the kernel runs
    append<<<1, 1, 0, a>>>(list + 1, list, argument);
    CUDA(cudaLaunchHostFunc(a, [](void* data) { ++*(int*)data; ((int*)data)[*(int*)data] = -1; }, list));
  }
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 10; ++i) EXPECT(list[1 + 2 * i] == 2 * i && list[2 + 2 * i] == -1, "pair %d", i);
}

static int* last_words;
static void check_at_exit() {
  if (*last_words != 9) _exit(3);
}

int main() {
  last_words = pinned(2);
  atexit(check_at_exit);  // registered first, so called last: work that nobody waited for is done by then
  kernels_of_two_streams_run_at_once();
  one_stream_is_in_order();
  default_stream_waits_for_blocking_streams_only();
  events_order_streams();
  an_event_that_is_recorded_again_stands_for_two_moments();
  an_event_of_a_graph_waits_for_the_launch();
  pageable_memory_may_be_reused_at_once();
  host_functions_and_arguments_keep_their_place();
  append<<<1, 1, 0, stream(cudaStreamNonBlocking)>>>(last_words, last_words + 1, 9);
  return wrong != 0;
}
