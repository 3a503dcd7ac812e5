// The device, which is this machine's CPU: properties, limits, and calls that have nothing to do here.
#include "runtime.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

namespace loom {
int architecture = 750;

namespace {
std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "CPU";
}

cudaDeviceProp make_properties() {
  cudaDeviceProp p;
  memset(&p, 0, sizeof p);
  snprintf(p.name, sizeof p.name, "%s (threadloom)", processor_name().c_str());
  memcpy(p.uuid.bytes, "threadloom-cpu-0", 16);
  p.totalGlobalMem = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerBlockOptin = p.sharedMemPerMultiprocessor = max_shared_bytes;
  p.reservedSharedMemPerBlock = 1024;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.memPitch = 0x7fffffff;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.clockRate = 2000000;
  p.totalConstMem = 65536;
  p.major = architecture / 100;
  p.minor = architecture / 10 % 10;
  p.textureAlignment = 512;
  p.texturePitchAlignment = 32;
  p.deviceOverlap = 1;
  p.multiProcessorCount = (int)std::max(1u, std::thread::hardware_concurrency());
  p.integrated = 1;
  p.canMapHostMemory = 1;
  p.maxTexture1D = p.maxTexture2D[0] = p.maxTexture2D[1] = 131072;
  p.maxTexture1DLinear = 1 << 28;
  p.maxTexture2DLinear[0] = p.maxTexture2DLinear[1] = 131072;
  p.maxTexture3D[0] = p.maxTexture3D[1] = p.maxTexture3D[2] = 16384;
  p.surfaceAlignment = 512;
  p.concurrentKernels = 1;
  p.asyncEngineCount = 1;
  p.unifiedAddressing = 1;
  p.memoryClockRate = 1600000;
  p.memoryBusWidth = 128;
  long l2 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  p.l2CacheSize = l2 > 0 ? (int)l2 : 4 << 20;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.streamPrioritiesSupported = p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.managedMemory = p.concurrentManagedAccess = p.pageableMemoryAccess = 1;
  p.hostNativeAtomicSupported = p.canUseHostPointerForRegisteredMem = p.hostRegisterSupported = 1;
  p.pageableMemoryAccessUsesHostPageTables = p.directManagedMemAccessFromHost = 1;
  p.singleToDoublePrecisionPerfRatio = 2;
  p.cooperativeLaunch = p.memoryPoolsSupported = 1;
  return p;
}
}  // namespace

const cudaDeviceProp& properties() {
  static const cudaDeviceProp all = make_properties();  // at the first question: kernels are registered by then
  return all;
}

static cudaError_t check_device(int device) { return device == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice); }
static unsigned device_flags = 0;
static size_t limits[7] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};
}  // namespace loom

using namespace loom;

extern "C" {
cudaError_t cudaGetDeviceCount(int* count) { return count ? (*count = 1, cudaSuccess) : failed(cudaErrorInvalidValue); }
cudaError_t cudaGetDevice(int* device) { return device ? (*device = 0, cudaSuccess) : failed(cudaErrorInvalidValue); }
cudaError_t cudaSetDevice(int device) { return check_device(device); }
cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return check_device(device); }
cudaError_t cudaSetValidDevices(int*, int) { return cudaSuccess; }
cudaError_t cudaSetDeviceFlags(unsigned flags) { return device_flags = flags, cudaSuccess; }
cudaError_t cudaGetDeviceFlags(unsigned* flags) { return *flags = device_flags, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (!p) return failed(cudaErrorInvalidValue);
  if (cudaError_t error = check_device(device)) return error;
  *p = properties();
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!value) return failed(cudaErrorInvalidValue);
  if (cudaError_t error = check_device(device)) return error;
  const cudaDeviceProp& p = properties();
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)p.sharedMemPerBlock; break;
    case cudaDevAttrTotalConstantMemory: *value = (int)p.totalConstMem; break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMaxPitch: *value = (int)p.memPitch; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
    case cudaDevAttrClockRate: *value = p.clockRate; break;
    case cudaDevAttrTextureAlignment: *value = (int)p.textureAlignment; break;
    case cudaDevAttrGpuOverlap: *value = p.deviceOverlap; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrIntegrated: *value = p.integrated; break;
    case cudaDevAttrCanMapHostMemory: *value = p.canMapHostMemory; break;
    case cudaDevAttrConcurrentKernels: *value = p.concurrentKernels; break;
    case cudaDevAttrMemoryClockRate: *value = p.memoryClockRate; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrAsyncEngineCount: *value = p.asyncEngineCount; break;
    case cudaDevAttrUnifiedAddressing: *value = p.unifiedAddressing; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrStreamPrioritiesSupported: *value = p.streamPrioritiesSupported; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = (int)p.sharedMemPerMultiprocessor; break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
    case cudaDevAttrManagedMemory: *value = p.managedMemory; break;
    case cudaDevAttrHostNativeAtomicSupported: *value = p.hostNativeAtomicSupported; break;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio: *value = p.singleToDoublePrecisionPerfRatio; break;
    case cudaDevAttrPageableMemoryAccess: *value = p.pageableMemoryAccess; break;
    case cudaDevAttrConcurrentManagedAccess: *value = p.concurrentManagedAccess; break;
    case cudaDevAttrCanUseHostPointerForRegisteredMem: *value = p.canUseHostPointerForRegisteredMem; break;
    case cudaDevAttrCooperativeLaunch: *value = p.cooperativeLaunch; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p.sharedMemPerBlockOptin; break;
    case cudaDevAttrHostRegisterSupported: *value = p.hostRegisterSupported; break;
    case cudaDevAttrPageableMemoryAccessUsesHostPageTables: *value = p.pageableMemoryAccessUsesHostPageTables; break;
    case cudaDevAttrDirectManagedMemAccessFromHost: *value = p.directManagedMemAccessFromHost; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *value = (int)p.reservedSharedMemPerBlock; break;
    case cudaDevAttrMemoryPoolsSupported: *value = p.memoryPoolsSupported; break;
    case cudaDevAttrMemoryPoolSupportedHandleTypes: *value = cudaMemHandleTypePosixFileDescriptor; break;
    case cudaDevAttrMaxTexture1DWidth: *value = p.maxTexture1D; break;
    case cudaDevAttrMaxTexture2DWidth: *value = p.maxTexture2D[0]; break;
    case cudaDevAttrMaxTexture2DHeight: *value = p.maxTexture2D[1]; break;
    case cudaDevAttrMaxTexture3DWidth: *value = p.maxTexture3D[0]; break;
    case cudaDevAttrMaxTexture3DHeight: *value = p.maxTexture3D[1]; break;
    case cudaDevAttrMaxTexture3DDepth: *value = p.maxTexture3D[2]; break;
    case cudaDevAttrMaxTexture1DLayeredWidth: *value = p.maxTexture1DLayered[0]; break;
    case cudaDevAttrMaxTexture1DLayeredLayers: *value = p.maxTexture1DLayered[1]; break;
    case cudaDevAttrMaxTexture2DLayeredWidth: *value = p.maxTexture2DLayered[0]; break;
    case cudaDevAttrMaxTexture2DLayeredHeight: *value = p.maxTexture2DLayered[1]; break;
    case cudaDevAttrMaxTexture2DLayeredLayers: *value = p.maxTexture2DLayered[2]; break;
    case cudaDevAttrSurfaceAlignment: *value = (int)p.surfaceAlignment; break;
    case cudaDevAttrLoomVirtualAddressManagementSupported: *value = 1; break;
    case cudaDevAttrLoomHandleTypePosixFileDescriptorSupported: *value = 1; break;
    default: *value = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) { return *device = 0, cudaSuccess; }
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  if (cudaError_t error = check_device(device)) return error;
  snprintf(text, (size_t)bytes, "0000:00:00.0");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char*) { return *device = 0, cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  wait_for_streams();
  return result(device_error());
}
cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
cudaError_t cudaDeviceReset() {
  wait_for_streams();
  break_device(cudaSuccess);
  return cudaSuccess;
}
cudaError_t cudaThreadExit() { return cudaDeviceReset(); }
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return (unsigned)limit < 7 ? (*value = limits[limit], cudaSuccess) : failed(cudaErrorUnsupportedLimit);
}
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return (unsigned)limit < 7 ? (limits[limit] = value, cudaSuccess) : failed(cudaErrorUnsupportedLimit);
}
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) { return *config = cudaFuncCachePreferNone, cudaSuccess; }
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaThreadSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) { return *config = cudaSharedMemBankSizeFourByte, cudaSuccess; }
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return failed(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceDisablePeerAccess(int) { return failed(cudaErrorPeerAccessNotEnabled); }
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) { return *value = 0, cudaSuccess; }
cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = LOOM_CUDA_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = LOOM_CUDA_VERSION, cudaSuccess; }
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }
}
