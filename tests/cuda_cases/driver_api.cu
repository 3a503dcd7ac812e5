// slow: the driver API's basics: kernels and variables of the program itself by name, copies, fills and events in stream order.
#include <cuda.h>

#include <string>

#include "check.h"

#define DRIVER(call) EXPECT((call) == CUDA_SUCCESS, "%s", #call)

__device__ int offset = 3;
extern "C" __global__ void shift(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += offset;
}

// Memory and addresses apart; asked to be compressed, memory says that it is not.
void check_memory_without_an_address() {
  CUmemAllocationProp wanted = {}, made = {};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
  size_t unit = 0;
  int can_compress = 1;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr x;
  DRIVER(cuDeviceGetAttribute(&can_compress, CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, 0));
  DRIVER(cuMemGetAllocationGranularity(&unit, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  DRIVER(cuMemCreate(&handle, unit, &wanted, 0));
  DRIVER(cuMemGetAllocationPropertiesFromHandle(&made, handle));
  EXPECT(!can_compress && made.allocFlags.compressionType == CU_MEM_ALLOCATION_COMP_NONE, "compressed");
  EXPECT(made.type == wanted.type && made.location.type == wanted.location.type, "%d on %d", made.type, made.location.type);
  DRIVER(cuMemAddressReserve(&x, unit, 0, 0, 0));
  DRIVER(cuMemMap(x, unit, 0, handle, 0));
  DRIVER(cuMemRelease(handle));
  CUmemAccessDesc access = {made.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  DRIVER(cuMemSetAccess(x, unit, &access, 1));
  const int n = 100;
  int host[n];
  DRIVER(cuMemsetD32(x, 4, n));
  shift<<<1, 128>>>((int*)x, n);
  DRIVER(cuMemcpyDtoH(host, x, sizeof host));
  EXPECT(host[n - 1] == 7, "%d", host[n - 1]);
  DRIVER(cuMemUnmap(x, unit));
  DRIVER(cuMemAddressFree(x, unit));
}

int main() {
  CUdevice device;
  CUcontext context;
  DRIVER(cuInit(0));
  DRIVER(cuDeviceGet(&device, 0));
  DRIVER(cuCtxCreate(&context, 0, device));
  check_memory_without_an_address();
  EXPECT(cuDeviceGet(&device, 7) == CUDA_ERROR_INVALID_DEVICE, "there is one device");
  CUmodule module = nullptr;
  EXPECT(cuModuleLoad(&module, "none.ptx") == CUDA_ERROR_FILE_NOT_FOUND, "there is no such file");
  EXPECT(cuModuleLoadData(&module, ".version 7.0\n.target sm_70\n") == CUDA_ERROR_INVALID_PTX, "code for a GPU cannot be loaded");
  CUfunction function;
  DRIVER(cuModuleGetFunction(&function, module, "shift"));
  int most = 0;
  DRIVER(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
  EXPECT(most == 1024, "%d", most);
  EXPECT(cuFuncGetAttribute(&most, (CUfunction_attribute)99, function) == CUDA_ERROR_INVALID_VALUE, "no such attribute");
  CUdeviceptr rows;
  size_t pitch = 0;
  DRIVER(cuMemAllocPitch(&rows, &pitch, 100, 4, 4));
  EXPECT(pitch >= 100 && pitch % 32 == 0, "%zu", pitch);
  DRIVER(cuMemFree(rows));
  EXPECT(cuModuleGetFunction(&function, module, "none") == CUDA_ERROR_NOT_FOUND, "no such kernel");
  DRIVER(cuModuleGetFunction(&function, module, "shift"));
  CUdeviceptr x, variable;
  size_t bytes = 0;
  DRIVER(cuModuleGetGlobal(&variable, &bytes, module, "offset"));
  EXPECT(bytes == sizeof(int), "%zu bytes", bytes);
  const int n = 1000;
  int size = n, host[n];
  void* arguments[] = {&x, &size};
  CUstream stream;
  CUevent start, end;
  DRIVER(cuMemAlloc(&x, n * sizeof(int)));
  DRIVER(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  DRIVER(cuEventCreate(&start, CU_EVENT_DEFAULT));
  DRIVER(cuEventCreate(&end, CU_EVENT_DEFAULT));
  DRIVER(cuEventRecord(start, stream));
  DRIVER(cuMemsetD32Async(x, 5, n, stream));
  DRIVER(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr));
  DRIVER(cuEventRecord(end, stream));
  DRIVER(cuEventSynchronize(end));
  float milliseconds = -1;
  DRIVER(cuEventElapsedTime(&milliseconds, start, end));
  EXPECT(milliseconds >= 0, "%f ms", milliseconds);
  DRIVER(cuMemcpyDtoH(host, x, sizeof host));
  EXPECT(host[0] == 8 && host[n - 1] == 8, "%d and %d, not 8", host[0], host[n - 1]);
  // In the default stream a fill comes before the launch behind it, and after the one in front.
  DRIVER(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
  DRIVER(cuMemsetD32(x, 1, n));
  DRIVER(cuMemsetD32(variable, 10, 1));
  DRIVER(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
  DRIVER(cuMemcpyDtoH(host, x, sizeof host));
  EXPECT(host[0] == 11 && host[n - 1] == 11, "%d and %d, not 11", host[0], host[n - 1]);
  const char* text;
  for (auto [error, name] : {std::pair{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"}, {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
                             {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY"}, {CUDA_SUCCESS, "CUDA_SUCCESS"}}) {
    DRIVER(cuGetErrorName(error, &text));
    EXPECT(text == std::string(name), "%s", text);
  }
  EXPECT(cuGetErrorName((CUresult)12345, &text) == CUDA_ERROR_INVALID_VALUE && !text, "no such error");
  DRIVER(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
  EXPECT(std::string(text) == "CUDA_ERROR_INVALID_VALUE", "%s", text);
  DRIVER(cuEventDestroy(start));
  DRIVER(cuEventDestroy(end));
  DRIVER(cuStreamDestroy(stream));
  DRIVER(cuMemFree(x));
  DRIVER(cuCtxDestroy(context));
  return wrong != 0;
}
