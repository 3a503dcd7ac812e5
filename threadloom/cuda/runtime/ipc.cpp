// Memory and events that processes share: a handle says which file of which process they lie in (pages.h). And pools, whose
// memory other processes can get, too.
#include "runtime.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "pages.h"

using namespace loom;

struct CUmemPoolHandle_st {
  unsigned long long release_threshold = 0;
  int shareable_as = cudaMemHandleTypeNone;
};

namespace {
template <class Handle> void pack(Handle* handle, const SharedPlace& place) {
  static_assert(sizeof place <= sizeof *handle, "a handle has room for it");
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &place, sizeof place);
}
template <class Handle> SharedPlace unpack(const Handle& handle) {
  SharedPlace place;
  return memcpy(&place, &handle, sizeof place), place;
}
template <class Handle> cudaError_t export_to(Handle* handle, void* p) {
  SharedPlace place;
  if (!handle) return cudaErrorInvalidValue;
  if (cudaError_t error = export_memory(p, &place)) return error;
  return pack(handle, place), cudaSuccess;
}
}  // namespace

extern "C" {
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* p) { return result(export_to(handle, p)); }
cudaError_t cudaIpcOpenMemHandle(void** p, cudaIpcMemHandle_t handle, unsigned flags) {
  if (!p || flags > cudaIpcMemLazyEnablePeerAccess) return failed(cudaErrorInvalidValue);
  return result(import_memory(unpack(handle), p, false));
}
cudaError_t cudaIpcCloseMemHandle(void* p) {
  wait_for_streams();
  return result(close_imported(p, false));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  std::shared_ptr<SharedRecords> records = shared_records(event);
  if (!handle || !records) return failed(cudaErrorInvalidResourceHandle);
  return pack(handle, records->place), cudaSuccess;
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  if (!event) return failed(cudaErrorInvalidValue);
  auto records = std::make_shared<SharedRecords>(unpack(handle));
  if (!records->good()) return failed(cudaErrorInvalidResourceHandle);
  return *event = event_of(std::move(records)), cudaSuccess;
}

// ---- pools: allocation in stream order is allocation now, and whatever a pool is made for
cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t stream) {
  if (!is_stream(stream)) return failed(cudaErrorInvalidResourceHandle);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  if (status == cudaStreamCaptureStatusNone) return cudaMalloc(p, bytes);
  std::shared_ptr<void> memory = graph_memory(bytes);
  if (!(*p = memory.get())) return failed(cudaErrorMemoryAllocation);
  return result(enqueue(stream, [memory] {}, cudaGraphNodeTypeMemAlloc));
}
cudaError_t cudaMallocFromPoolAsync(void** p, size_t bytes, cudaMemPool_t, cudaStream_t stream) { return cudaMallocAsync(p, bytes, stream); }
cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  if (p && !device_allocation(p)) return failed(cudaErrorInvalidValue);
  return result(enqueue(stream, [=] { release_device_memory(p); }, cudaGraphNodeTypeMemFree));
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (!pool || !properties || (properties->handleTypes & ~cudaMemHandleTypePosixFileDescriptor)) return failed(cudaErrorInvalidValue);
  return *pool = new CUmemPoolHandle_st{0, properties->handleTypes}, cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return delete pool, cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (attribute == cudaMemPoolAttrReleaseThreshold) pool->release_threshold = *(unsigned long long*)value;
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (attribute > cudaMemPoolAttrReleaseThreshold) return failed(cudaErrorNotSupported);  // nobody counts
  if (attribute == cudaMemPoolAttrReleaseThreshold)
    *(unsigned long long*)value = pool->release_threshold;
  else
    *(int*)value = 1;
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) { return cudaSuccess; }
cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t, cudaMemLocation*) {
  return *flags = cudaMemAccessFlagsProtReadWrite, cudaSuccess;
}
static const cudaMemPool_t standard_pool = new CUmemPoolHandle_st;
static cudaMemPool_t current_pool = standard_pool;
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) { return *pool = standard_pool, cudaSuccess; }
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int) { return *pool = current_pool, cudaSuccess; }
cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t pool) { return current_pool = pool, cudaSuccess; }

// Each pointer says by itself where its memory is, so what stands for a pool is an empty file.
cudaError_t cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool, cudaMemAllocationHandleType type, unsigned flags) {
  if (!handle || !pool || flags || type != cudaMemHandleTypePosixFileDescriptor || pool->shareable_as != type) return failed(cudaErrorInvalidValue);
  int file = memfd_create("pool", MFD_CLOEXEC);
  return file < 0 ? failed(cudaErrorMemoryAllocation) : (*(int*)handle = file, cudaSuccess);
}
cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle, cudaMemAllocationHandleType type, unsigned flags) {
  struct stat facts;
  if (!pool || flags || type != cudaMemHandleTypePosixFileDescriptor || fstat((int)(size_t)handle, &facts)) return failed(cudaErrorInvalidValue);
  return *pool = new CUmemPoolHandle_st, cudaSuccess;
}
cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* p) { return result(export_to(data, p)); }
cudaError_t cudaMemPoolImportPointer(void** p, cudaMemPool_t pool, cudaMemPoolPtrExportData* data) {
  if (!p || !pool || !data) return failed(cudaErrorInvalidValue);
  return result(import_memory(unpack(*data), p, true));
}
}
