// The driver API's basics, over the runtime. There is one context, and modules are the program itself: kernels are found
// by their (mangled) names among those that are linked in; PTX and cubin images cannot be loaded.
#include <cuda.h>

#include <algorithm>
#include <cstdio>

#include "runtime.h"

static CUresult code(cudaError_t error) { return (CUresult)error; }
static CUcontext const the_context = (CUcontext)0x1;

namespace {
CUresult copy(void* to, const void* from, size_t bytes, CUstream stream) {
  return code(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}
template <class T> CUresult fill(CUdeviceptr p, T value, size_t count, CUstream stream) {
  return code(loom::result(loom::enqueue(stream, [=] { std::fill_n((T*)p, count, value); })));
}
}  // namespace

extern "C" {
CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return code(cudaDriverGetVersion(version)); }
CUresult cuGetErrorString(CUresult error, const char** text) { return *text = cudaGetErrorString((cudaError_t)error), CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult error, const char** text) {
  static thread_local std::string name;
  std::string runtime = cudaGetErrorName((cudaError_t)error);  // cudaErrorInvalidValue -> CUDA_ERROR_INVALID_VALUE
  name = "CUDA";
  for (char c : runtime.substr(4)) name += c >= 'A' && c <= 'Z' ? std::string("_") + c : std::string(1, (char)toupper(c));
  return *text = name.c_str(), CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int ordinal) { return ordinal ? CUDA_ERROR_INVALID_DEVICE : (*device = 0, CUDA_SUCCESS); }
CUresult cuDeviceGetName(char* name, int bytes, CUdevice) {
  snprintf(name, (size_t)bytes, "%s", loom::properties().name);
  return CUDA_SUCCESS;
}
CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice) {
  *major = loom::properties().major, *minor = loom::properties().minor;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) { return code(cudaDeviceGetAttribute(value, attribute, device)); }
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) { return *bytes = loom::properties().totalGlobalMem, CUDA_SUCCESS; }
CUresult cuCtxCreate(CUcontext* context, unsigned, CUdevice) { return *context = the_context, CUDA_SUCCESS; }
CUresult cuCtxDestroy(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* context) { return *context = the_context, CUDA_SUCCESS; }
CUresult cuCtxPushCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent(CUcontext* context) { return cuCtxGetCurrent(context); }
CUresult cuCtxGetDevice(CUdevice* device) { return *device = 0, CUDA_SUCCESS; }
CUresult cuCtxSynchronize() { return code(cudaDeviceSynchronize()); }
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) { return *context = the_context, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) { return code(cudaMemGetInfo(free_bytes, total_bytes)); }
CUresult cuMemAlloc(CUdeviceptr* p, size_t bytes) { return code(cudaMalloc((void**)p, bytes)); }
CUresult cuMemFree(CUdeviceptr p) { return code(cudaFree((void*)p)); }
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) { return code(cudaMemcpy((void*)to, from, bytes, cudaMemcpyDefault)); }
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) { return code(cudaMemcpy(to, (void*)from, bytes, cudaMemcpyDefault)); }
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return code(cudaMemcpy((void*)to, (void*)from, bytes, cudaMemcpyDefault)); }
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return cuMemcpyDtoD(to, from, bytes); }
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) { return copy((void*)to, from, bytes, stream); }
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) { return copy(to, (void*)from, bytes, stream); }
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) { return copy((void*)to, (void*)from, bytes, stream); }
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) { return copy((void*)to, (void*)from, bytes, stream); }
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t count, CUstream stream) { return fill(p, value, count, stream); }
CUresult cuMemsetD16Async(CUdeviceptr p, unsigned short value, size_t count, CUstream stream) { return fill(p, value, count, stream); }
CUresult cuMemsetD32Async(CUdeviceptr p, unsigned value, size_t count, CUstream stream) { return fill(p, value, count, stream); }
CUresult cuMemsetD8(CUdeviceptr p, unsigned char value, size_t count) { return fill(p, value, count, nullptr); }
CUresult cuMemsetD16(CUdeviceptr p, unsigned short value, size_t count) { return fill(p, value, count, nullptr); }
CUresult cuMemsetD32(CUdeviceptr p, unsigned value, size_t count) { return fill(p, value, count, nullptr); }
CUresult cuMemAllocManaged(CUdeviceptr* p, size_t bytes, unsigned flags) { return code(cudaMallocManaged((void**)p, bytes, flags)); }
CUresult cuMemAllocHost(void** p, size_t bytes) { return code(cudaMallocHost(p, bytes)); }
CUresult cuMemHostAlloc(void** p, size_t bytes, unsigned flags) { return code(cudaHostAlloc(p, bytes, flags)); }
CUresult cuMemFreeHost(void* p) { return code(cudaFreeHost(p)); }
CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return code(cudaStreamCreateWithFlags(stream, flags)); }
CUresult cuStreamDestroy(CUstream stream) { return code(cudaStreamDestroy(stream)); }
CUresult cuStreamSynchronize(CUstream stream) { return code(cudaStreamSynchronize(stream)); }
CUresult cuStreamQuery(CUstream stream) { return code(cudaStreamQuery(stream)); }
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) { return code(cudaStreamWaitEvent(stream, event, flags)); }
CUresult cuEventCreate(CUevent* event, unsigned flags) { return code(cudaEventCreateWithFlags(event, flags)); }
CUresult cuEventRecord(CUevent event, CUstream stream) { return code(cudaEventRecord(event, stream)); }
CUresult cuEventQuery(CUevent event) { return code(cudaEventQuery(event)); }
CUresult cuEventSynchronize(CUevent event) { return code(cudaEventSynchronize(event)); }
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) { return code(cudaEventElapsedTime(milliseconds, start, end)); }
CUresult cuEventDestroy(CUevent event) { return code(cudaEventDestroy(event)); }
CUresult cuModuleLoad(CUmodule*, const char*) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuModuleLoadData(CUmodule*, const void*) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  const loom::Kernel* kernel = loom::find_kernel_by_name(name);
  return kernel ? (*function = (CUfunction)kernel->stub, CUDA_SUCCESS) : CUDA_ERROR_NOT_FOUND;
}
CUresult cuModuleGetGlobal(CUdeviceptr* p, size_t* bytes, CUmodule, const char* name) {
  void* address = nullptr;
  if (__loom_symbol_by_name(name, &address) != cudaSuccess) return CUDA_ERROR_NOT_FOUND;
  if (p) *p = (CUdeviceptr)address;
  if (bytes) *bytes = loom::find_variable(address)->bytes;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared_bytes, CUstream stream, void** arguments, void** extra) {
  if (extra) return CUDA_ERROR_NOT_SUPPORTED;
  return code(cudaLaunchKernel((const void*)function, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), arguments, shared_bytes, stream));
}
}
