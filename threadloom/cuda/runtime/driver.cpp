// The driver API, over the runtime; there is one context. Modules are in modules.cpp, mapped memory in virtual_memory.cpp.
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
cudaChannelFormatDesc channels(CUarray_format format, unsigned count) {
  int bits = format == CU_AD_FORMAT_UNSIGNED_INT8 || format == CU_AD_FORMAT_SIGNED_INT8 ? 8
             : format == CU_AD_FORMAT_UNSIGNED_INT32 || format == CU_AD_FORMAT_SIGNED_INT32 || format == CU_AD_FORMAT_FLOAT ? 32 : 16;
  cudaChannelFormatKind kind = format >= CU_AD_FORMAT_HALF ? cudaChannelFormatKindFloat
                               : format >= CU_AD_FORMAT_SIGNED_INT8 ? cudaChannelFormatKindSigned : cudaChannelFormatKindUnsigned;
  return cudaCreateChannelDesc(bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0, kind);
}
// The arguments of a launch that stand in one buffer. Each is aligned to the largest power of two that divides its size,
// at most 16: right for numbers, pointers and vectors, and for structures whose largest member is as large.
std::vector<void*> unpacked(const loom::Kernel& kernel, void** extra) {
  char* buffer = nullptr;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = (char*)extra[1];
  std::vector<void*> arguments;
  size_t place = 0;
  for (int i = 0; i < kernel.arguments; ++i) {
    size_t bytes = (size_t)kernel.argument_bytes[i], alignment = bytes & (~bytes + 1);
    alignment = alignment > 16 ? 16 : alignment ? alignment : 1;
    place = (place + alignment - 1) / alignment * alignment;
    arguments.push_back(buffer + place);
    place += bytes;
  }
  return arguments;
}
}  // namespace

extern "C" {
CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return code(cudaDriverGetVersion(version)); }
CUresult cuGetErrorString(CUresult error, const char** text) { return *text = cudaGetErrorString((cudaError_t)error), CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult error, const char** text) {
  switch (error) {  // whose names in the runtime's interface are others
    case CUDA_ERROR_OUT_OF_MEMORY: return *text = "CUDA_ERROR_OUT_OF_MEMORY", CUDA_SUCCESS;
    case CUDA_ERROR_NOT_INITIALIZED: return *text = "CUDA_ERROR_NOT_INITIALIZED", CUDA_SUCCESS;
    case CUDA_ERROR_DEINITIALIZED: return *text = "CUDA_ERROR_DEINITIALIZED", CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_IMAGE: return *text = "CUDA_ERROR_INVALID_IMAGE", CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_CONTEXT: return *text = "CUDA_ERROR_INVALID_CONTEXT", CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_HANDLE: return *text = "CUDA_ERROR_INVALID_HANDLE", CUDA_SUCCESS;
    case CUDA_ERROR_NOT_FOUND: return *text = "CUDA_ERROR_NOT_FOUND", CUDA_SUCCESS;
    case CUDA_ERROR_LAUNCH_FAILED: return *text = "CUDA_ERROR_LAUNCH_FAILED", CUDA_SUCCESS;
    default: break;
  }
  static thread_local std::string name;
  std::string runtime = cudaGetErrorName((cudaError_t)error);  // cudaErrorInvalidValue -> CUDA_ERROR_INVALID_VALUE
  if (error && runtime.rfind("cudaError", 0) != 0) return *text = nullptr, CUDA_ERROR_INVALID_VALUE;
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
CUresult cuCtxPopCurrent(CUcontext* context) { return context ? cuCtxGetCurrent(context) : CUDA_SUCCESS; }
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
CUresult cuMemAllocPitch(CUdeviceptr* p, size_t* pitch, size_t width_bytes, size_t height, unsigned) {
  return code(cudaMallocPitch((void**)p, pitch, width_bytes, height));
}
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
CUresult cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) { return *can = 0, CUDA_SUCCESS; }
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  cudaFuncAttributes all;
  if (CUresult error = code(cudaFuncGetAttributes(&all, (const void*)function))) return error;
  const int values[] = {all.maxThreadsPerBlock, (int)all.sharedSizeBytes, (int)all.constSizeBytes, (int)all.localSizeBytes, all.numRegs,
                        all.ptxVersion, all.binaryVersion, 0, all.maxDynamicSharedSizeBytes};
  if (!value || (unsigned)attribute >= sizeof values / sizeof *values) return CUDA_ERROR_INVALID_VALUE;
  return *value = values[attribute], CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return code(cudaFuncSetAttribute((const void*)function, (cudaFuncAttribute)attribute, value));
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t shared_bytes) {
  return code(cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void*)function, threads, shared_bytes));
}
CUresult cuOccupancyMaxPotentialBlockSize(int* least_grid, int* threads, CUfunction function, CUoccupancyB2DSize shared_bytes_of, size_t shared_bytes, int limit) {
  auto bytes_of = [=](int block) { return shared_bytes_of ? shared_bytes_of(block) : shared_bytes; };
  return code(cudaOccupancyMaxPotentialBlockSizeVariableSMem(least_grid, threads, (const void*)function, bytes_of, limit));
}
CUresult cuArrayCreate(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* description) {
  cudaChannelFormatDesc format = channels(description->Format, description->NumChannels);
  return code(cudaMallocArray(array, &format, description->Width, description->Height));
}
CUresult cuArrayDestroy(CUarray array) { return code(cudaFreeArray(array)); }
CUresult cuMemcpy2D(const CUDA_MEMCPY2D* c) {
  const void* from = c->srcMemoryType == CU_MEMORYTYPE_HOST ? c->srcHost : (const void*)c->srcDevice;
  void* to = c->dstMemoryType == CU_MEMORYTYPE_HOST ? c->dstHost : (void*)c->dstDevice;
  size_t width = c->WidthInBytes, height = c->Height, from_pitch = c->srcPitch ? c->srcPitch : width, to_pitch = c->dstPitch ? c->dstPitch : width;
  from = (const char*)from + c->srcY * from_pitch + c->srcXInBytes;
  to = (char*)to + c->dstY * to_pitch + c->dstXInBytes;
  bool from_array = c->srcMemoryType == CU_MEMORYTYPE_ARRAY, to_array = c->dstMemoryType == CU_MEMORYTYPE_ARRAY;
  if (from_array && to_array) return CUDA_ERROR_NOT_SUPPORTED;
  if (to_array) return code(cudaMemcpy2DToArray(c->dstArray, c->dstXInBytes, c->dstY, from, from_pitch, width, height, cudaMemcpyDefault));
  if (from_array) return code(cudaMemcpy2DFromArray(to, to_pitch, c->srcArray, c->srcXInBytes, c->srcY, width, height, cudaMemcpyDefault));
  return code(cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, cudaMemcpyDefault));
}
CUresult cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* how, const CUDA_RESOURCE_VIEW_DESC* view) {
  if (view && view->format) return CUDA_ERROR_NOT_SUPPORTED;
  cudaResourceDesc what = {};
  what.resType = (cudaResourceType)resource->resType;
  cudaChannelFormatDesc format;
  if (resource->resType == CU_RESOURCE_TYPE_ARRAY) {
    what.res.array.array = resource->res.array.hArray;
    if (cudaError_t error = cudaArrayGetInfo(&format, nullptr, nullptr, what.res.array.array)) return code(error);
  } else if (resource->resType == CU_RESOURCE_TYPE_LINEAR) {
    const auto& linear = resource->res.linear;
    format = what.res.linear.desc = channels(linear.format, linear.numChannels);
    what.res.linear.devPtr = (void*)linear.devPtr, what.res.linear.sizeInBytes = linear.sizeInBytes;
  } else {
    const auto& pitched = resource->res.pitch2D;
    format = what.res.pitch2D.desc = channels(pitched.format, pitched.numChannels);
    what.res.pitch2D.devPtr = (void*)pitched.devPtr, what.res.pitch2D.pitchInBytes = pitched.pitchInBytes;
    what.res.pitch2D.width = pitched.width, what.res.pitch2D.height = pitched.height;
  }
  cudaTextureDesc texture = {};
  for (int i = 0; i < 3; ++i) texture.addressMode[i] = (cudaTextureAddressMode)how->addressMode[i];
  for (int i = 0; i < 4; ++i) texture.borderColor[i] = how->borderColor[i];
  texture.filterMode = (cudaTextureFilterMode)how->filterMode;
  bool narrow = format.x <= 16 && format.f != cudaChannelFormatKindFloat;  // those are read as fractions of their range
  texture.readMode = narrow && !(how->flags & CU_TRSF_READ_AS_INTEGER) ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
  texture.normalizedCoords = (how->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  return code(cudaCreateTextureObject(object, &what, &texture, nullptr));
}
CUresult cuTexObjectDestroy(CUtexObject object) { return code(cudaDestroyTextureObject(object)); }
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared_bytes, CUstream stream, void** arguments, void** extra) {
  std::vector<void*> packed;
  if (extra) {
    if (arguments) return CUDA_ERROR_INVALID_VALUE;
    const loom::Kernel* kernel = loom::find_kernel((const void*)function);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    packed = unpacked(*kernel, extra);
    arguments = packed.data();
  }
  return code(cudaLaunchKernel((const void*)function, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), arguments, shared_bytes, stream));
}
}
