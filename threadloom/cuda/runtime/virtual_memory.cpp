// Addresses and memory apart (cuMemCreate, cuMemMap): memory is a file without a name, which may be mapped at several reserved
// places, and in another process that gets its descriptor.
#include <cuda.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime.h"

namespace {
constexpr size_t granularity = 2u << 20;

// A handle is the descriptor of the file plus one, so that no handle is zero.
int file_of(CUmemGenericAllocationHandle handle) { return (int)handle - 1; }
bool is_whole(size_t bytes) { return bytes && bytes % granularity == 0; }
}  // namespace

extern "C" {
CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  return *bytes = granularity, CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*, unsigned long long) {
  if (!is_whole(bytes)) return CUDA_ERROR_INVALID_VALUE;
  int file = memfd_create("memory", MFD_CLOEXEC);
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (ftruncate(file, (off_t)bytes)) return close(file), CUDA_ERROR_OUT_OF_MEMORY;
  return *handle = (CUmemGenericAllocationHandle)file + 1, CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) { return close(file_of(handle)) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }

// All memory is the same: on the device, for other processes if they get its descriptor, never compressed.
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  struct stat file;
  if (!properties || fstat(file_of(handle), &file)) return CUDA_ERROR_INVALID_VALUE;
  *properties = {CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* p, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long) {
  if (!is_whole(bytes) || (alignment & (alignment - 1))) return CUDA_ERROR_INVALID_VALUE;
  size_t aligned = alignment > granularity ? alignment : granularity, whole = bytes + aligned;
  char* place = (char*)mmap((void*)wanted, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  char* first = (char*)(((size_t)place + aligned - 1) & ~(aligned - 1));
  if (first > place) munmap(place, (size_t)(first - place));
  if (size_t rest = (size_t)(place + whole - (first + bytes))) munmap(first + bytes, rest);
  return *p = (CUdeviceptr)first, CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes) {
  loom::wait_for_streams();
  return munmap((void*)p, bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long) {
  struct stat file;
  if (fstat(file_of(handle), &file) || offset + bytes > (size_t)file.st_size) return CUDA_ERROR_INVALID_VALUE;
  void* place = mmap((void*)p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file_of(handle), (off_t)offset);
  return place == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr p, size_t bytes) {
  loom::wait_for_streams();
  void* place = mmap((void*)p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return place == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  if (!access || count == 0) return CUDA_ERROR_INVALID_VALUE;
  int allowed = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE : access->flags ? PROT_READ : PROT_NONE;
  return mprotect((void*)p, bytes, allowed) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  int file = dup(file_of(handle));
  return file < 0 ? CUDA_ERROR_INVALID_VALUE : (*(int*)shareable = file, CUDA_SUCCESS);
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable, CUmemAllocationHandleType type) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  int file = dup((int)(size_t)shareable);
  return file < 0 ? CUDA_ERROR_INVALID_VALUE : (*handle = (CUmemGenericAllocationHandle)file + 1, CUDA_SUCCESS);
}
}
