// frees; Memory and events of another process, by handles of both kinds; the first process starts this program again as the others.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "check.h"

constexpr int n = 1 << 20, few = 100, children = 3;

struct Handles {  // in a file without a name that the processes inherit
  cudaIpcMemHandle_t large, small;
  cudaIpcEventHandle_t event;
  cudaMemPoolPtrExportData in_pool;
  int pool;
};

__global__ void add(int* x, int count, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] += by;
}
static void add_to(int* x, int count, int by, cudaStream_t stream = 0) { add<<<(count + 255) / 256, 256, 0, stream>>>(x, count, by); }

Handles* handles_in(int file) { return (Handles*)mmap(nullptr, sizeof(Handles), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0); }

int other_process(int file, int number) {
  Handles& handles = *handles_in(file);
  int *large, *again, *small, *in_pool;
  cudaEvent_t event;
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaIpcOpenMemHandle((void**)&large, handles.large, cudaIpcMemLazyEnablePeerAccess));
  CUDA(cudaIpcOpenMemHandle((void**)&again, handles.large, cudaIpcMemLazyEnablePeerAccess));
  CUDA(cudaIpcOpenMemHandle((void**)&small, handles.small, cudaIpcMemLazyEnablePeerAccess));
  CUDA(cudaIpcOpenEventHandle(&event, handles.event));
  EXPECT(again == large, "%p and %p", again, large);
  CUDA(cudaStreamWaitEvent(stream, event, 0));
  add_to(large, n, number, stream);
  add_to(small, few, number, stream);
  CUDA(cudaEventRecord(event, stream));
  CUDA(cudaStreamSynchronize(stream));
  EXPECT(to_host(large, n)[n - 1] == 10 + number * (number + 1) / 2, "%d", to_host(large, n)[n - 1]);

  cudaMemPool_t pool;
  CUDA(cudaMemPoolImportFromShareableHandle(&pool, (void*)(size_t)handles.pool, cudaMemHandleTypePosixFileDescriptor, 0));
  CUDA(cudaMemPoolImportPointer((void**)&in_pool, pool, &handles.in_pool));
  cudaMemPoolPtrExportData nothing = {};
  void* none;
  EXPECT(cudaMemPoolImportPointer(&none, pool, &nothing) != cudaSuccess, "an empty handle");
  cudaGetLastError();
  add_to(in_pool, few, number, stream);
  CUDA(cudaFreeAsync(in_pool, stream));
  CUDA(cudaStreamSynchronize(stream));

  EXPECT(cudaFree(large) == cudaErrorInvalidValue, "it belongs to the first process");
  cudaGetLastError();
  for (int* one : {large, again, small}) CUDA(cudaIpcCloseMemHandle(one));
  EXPECT(cudaIpcCloseMemHandle(small) == cudaErrorInvalidValue, "closed twice");
  CUDA(cudaEventDestroy(event));
  return wrong != 0;
}

bool ends_well(char* program, int file, int number) {
  pid_t child = fork();
  if (child == 0) {
    std::string words[] = {std::to_string(file), std::to_string(number)};
    execl(program, program, words[0].c_str(), words[1].c_str(), nullptr);
    _exit(127);
  }
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int count, char** words) {
  if (count > 2) return other_process(atoi(words[1]), atoi(words[2]));
  int file = memfd_create("handles", 0);
  CUDA(ftruncate(file, sizeof(Handles)) ? cudaErrorUnknown : cudaSuccess);
  Handles& handles = *handles_in(file);
  int* large = to_device(std::vector<int>(n, 7));
  int* small = to_device(std::vector<int>(few, 5));
  int* beside = to_device(std::vector<int>(few, 1));
  cudaEvent_t event, timed;
  EXPECT(cudaEventCreateWithFlags(&timed, cudaEventInterprocess) == cudaErrorInvalidValue, "such events take no time");
  CUDA(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  CUDA(cudaIpcGetMemHandle(&handles.large, large));
  CUDA(cudaIpcGetMemHandle(&handles.small, small));
  CUDA(cudaIpcGetEventHandle(&handles.event, event));
  EXPECT(to_host(large, n)[n - 1] == 7 && to_host(small, few)[few - 1] == 5, "contents stay");
  void* own;
  EXPECT(cudaIpcOpenMemHandle(&own, handles.large, cudaIpcMemLazyEnablePeerAccess) == cudaErrorDeviceUninitialized, "its own handle");
  std::vector<int> host(few);
  EXPECT(cudaIpcGetMemHandle(&handles.large, host.data()) == cudaErrorInvalidValue, "no device memory");

  cudaMemPool_t pool;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location.type = cudaMemLocationTypeDevice;
  int* in_pool;
  CUDA(cudaMemPoolCreate(&pool, &properties));
  CUDA(cudaMallocAsync(&in_pool, few * sizeof(int), pool, 0));
  CUDA(cudaMemset(in_pool, 0, few * sizeof(int)));
  CUDA(cudaMemPoolExportToShareableHandle(&handles.pool, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  handles.pool = dup(handles.pool);  // which the others inherit
  CUDA(cudaMemPoolExportPointer(&handles.in_pool, in_pool));

  add_to(large, n, 3);
  CUDA(cudaEventRecord(event));
  for (int number = 1; number <= children; ++number) EXPECT(ends_well(words[0], file, number), "process %d", number);
  CUDA(cudaEventSynchronize(event));
  EXPECT(to_host(large, n)[0] == 16 && to_host(large, n)[n - 1] == 16, "%d", to_host(large, n)[0]);
  EXPECT(to_host(small, few)[few - 1] == 11, "%d", to_host(small, few)[few - 1]);
  EXPECT(to_host(in_pool, few)[few - 1] == 6, "%d", to_host(in_pool, few)[few - 1]);
  EXPECT(to_host(beside, few)[0] == 1 && to_host(beside, few)[few - 1] == 1, "memory beside it");
  CUDA(cudaMemset(large, 0, n * sizeof(int)));  // shared memory is not made zero by dropping its pages
  EXPECT(to_host(large, n)[5] == 0, "%d", to_host(large, n)[5]);
  for (int* one : {large, small, beside, in_pool}) CUDA(cudaFree(one));
  int* fresh = to_device(std::vector<int>(n, 9));
  EXPECT(!ends_well(words[0], file, 1), "the memory is gone");
  EXPECT(to_host(fresh, n)[n - 1] == 9, "%d", to_host(fresh, n)[n - 1]);
  return wrong != 0;
}
