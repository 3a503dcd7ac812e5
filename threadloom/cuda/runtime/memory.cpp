// Memory of every kind: one address space, so "device" memory is aligned host memory.
#include "freed.h"
#include "pages.h"
#include "profile.h"
#include "runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <memory>

namespace loom {
namespace {
constexpr size_t alignment = 256;  // CUDA promises at least this
constexpr size_t pitch_alignment = 512;

// Memory of another process.
struct Imported {
  SharedPlace place;
  std::shared_ptr<char> file;
  bool from_pool;
  int opened = 1;
};
struct Allocation {
  size_t bytes;
  cudaMemoryType type;
  unsigned flags;
  bool ours;  // else registered host memory, or another process's
  Room room = {};
  std::shared_ptr<Imported> imported = nullptr;
};

struct Heap {
  std::mutex mutex;
  std::map<const char*, Allocation> allocations;
  std::set<const void*> of_graphs;
};
Heap& heap() {
  static Heap* all = new Heap;
  return *all;
}

// Past the end of device memory a GPU has the rest of a large page, or another allocation: programs whose last block runs over
// the end do not notice. So there is some room here that belongs to nobody (`loom check` still reports such accesses).
size_t with_room(size_t bytes, cudaMemoryType type) {
  size_t room = type == cudaMemoryTypeHost ? 0 : std::min(std::max(bytes / 2, (size_t)512), (size_t)64 << 10);
  return (bytes + room + alignment - 1) / alignment * alignment;
}

cudaError_t allocate(void** p, size_t bytes, cudaMemoryType type, unsigned flags = 0) {
  if (!p) return failed(cudaErrorInvalidValue);
  *p = nullptr;
  if (device_error() != cudaSuccess) return result(device_error());
  if (bytes == 0) return cudaSuccess;
  if (bytes > total_bytes()) return failed(cudaErrorMemoryAllocation);
  size_t whole = with_room(bytes, type);
  Room made;
  if (type == cudaMemoryTypeDevice)
    made = device_room(bytes, whole);
  else
    made.memory = (char*)aligned_alloc(alignment, whole);
  if (!made.memory) return failed(cudaErrorMemoryAllocation);
  std::lock_guard<std::mutex> guard(heap().mutex);
  *p = made.memory;
  heap().allocations[made.memory] = {bytes, type, flags, true, std::move(made)};
  return cudaSuccess;
}

const std::pair<const char* const, Allocation>* containing(const void* p) {
  auto& all = heap().allocations;
  auto after = all.upper_bound((const char*)p);
  if (after == all.begin()) return nullptr;
  auto& found = *std::prev(after);
  return (const char*)p < found.first + found.second.bytes ? &found : nullptr;
}

cudaError_t release(void* p, bool host) {
  if (!p) return cudaSuccess;
  if (!host && close_imported(p, true) == cudaSuccess) return cudaSuccess;
  std::lock_guard<std::mutex> guard(heap().mutex);
  auto found = heap().allocations.find((char*)p);
  bool known = found != heap().allocations.end() && found->second.ours;
  if (known && heap().of_graphs.count(p)) return cudaSuccess;  // the graph's next launch uses it again
  if (!known || host != (found->second.type == cudaMemoryTypeHost)) {
    told_about_free(host ? "cudaFreeHost" : "cudaFree", p);
    return failed(cudaErrorInvalidValue);
  }
  if (serial()) {
    auto room = std::make_shared<Room>(std::move(found->second.room));
    keep_freed(p, found->second.bytes, [room] { give_back(std::move(*room)); });
  } else {
    give_back(std::move(found->second.room));
  }
  heap().allocations.erase(found);
  return cudaSuccess;
}

// Whether `bytes` from `p` on leave the device memory that `p` lies in and the room behind it. What is no device memory is
// the program's own affair.
bool overruns_memory(const void* p, size_t bytes) {
  if (is_freed(p)) {
    told_about_free("a copy or fill", p);
    return true;
  }
  std::lock_guard<std::mutex> guard(heap().mutex);
  auto* found = containing(p);
  if (!found || !found->second.ours || found->second.type == cudaMemoryTypeHost) return false;
  return bytes > with_room(found->second.bytes, found->second.type) - (size_t)((const char*)p - found->first);
}
size_t span(size_t pitch, size_t width, size_t height) { return height && width ? (height - 1) * pitch + width : 0; }

// Whether the copy touches host memory that CUDA would have to stage, so that the caller may change it afterwards.
bool staged(const void* to, const void* from) {
  std::lock_guard<std::mutex> guard(heap().mutex);
  for (const void* p : {to, from})
    if (!containing(p) && !find_variable(p)) return true;
  return false;
}
cudaError_t copy_in_order(cudaStream_t stream, const void* to, const void* from, std::function<void()> copy) {
  auto work = [copy = std::move(copy)] { timed_copy(copy); };
  return result(!runs_at_once(stream) && staged(to, from) ? enqueue_and_wait(stream, work, cudaGraphNodeTypeMemcpy) : enqueue(stream, work, cudaGraphNodeTypeMemcpy));
}

// Zeros in a very large range of ours: pages that are given back to the system are zero, and cost nothing before they are
// touched. Programs clear pools of gigabytes of which they use little.
void fill(char* p, int value, size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), head = (page - (uintptr_t)p % page) % page;
  bool sparse = (value & 0xff) == 0 && bytes >= sparse_bytes;
  if (sparse) {
    std::lock_guard<std::mutex> guard(heap().mutex);
    auto* found = containing(p);
    sparse = found && found->second.ours && found->second.room.pages && found->second.room.pages->file < 0 && (size_t)(p - found->first) + bytes <= found->second.bytes;
  }
  size_t middle = (bytes - head) / page * page;
  if (sparse && madvise(p + head, middle, MADV_DONTNEED) == 0) {
    memset(p, 0, head);
    memset(p + head + middle, 0, bytes - head - middle);
  } else {
    memset(p, value, bytes);
  }
}

bool valid(cudaMemcpyKind kind) { return (unsigned)kind <= cudaMemcpyDefault; }

// Rows of `width` bytes.
void copy_rows(char* to, size_t to_pitch, const char* from, size_t from_pitch, size_t width, size_t height) {
  for (size_t y = 0; y < height; ++y) memmove(to + y * to_pitch, from + y * from_pitch, width);
}
void fill_rows(char* p, size_t pitch, int value, size_t width, size_t height) {
  for (size_t y = 0; y < height; ++y) memset(p + y * pitch, value, width);
}

size_t row_bytes(const cudaArray& array) { return array.width * array.element_bytes; }
size_t rows(const cudaArray& array) { return array.height ? array.height : 1; }
}  // namespace

const char* device_allocation(const void* p) {
  std::lock_guard<std::mutex> guard(heap().mutex);
  auto* found = containing(p);
  return found && found->second.type == cudaMemoryTypeDevice ? found->first : nullptr;
}

void release_device_memory(void* p) { release(p, false); }

cudaError_t export_memory(const void* p, SharedPlace* place) {
  wait_for_streams();
  std::lock_guard<std::mutex> guard(heap().mutex);
  auto* found = containing(p);
  if (!found || !found->second.room.pages) return cudaErrorInvalidValue;
  Pages& pages = *found->second.room.pages;
  if (!pages.share()) return cudaErrorMapBufferObjectFailed;
  *place = shared_place(pages.file, pages.bytes, (size_t)(found->first - pages.begin), found->second.bytes);
  return cudaSuccess;
}
cudaError_t import_memory(const SharedPlace& place, void** p, bool from_pool) {
  if (place.process <= 0 || !place.bytes || place.bytes > place.file_bytes || place.offset > place.file_bytes - place.bytes) return cudaErrorInvalidValue;
  if (place.process == (int)getpid()) return cudaErrorDeviceUninitialized;  // as CUDA says it
  std::lock_guard<std::mutex> guard(heap().mutex);
  for (auto& [memory, one] : heap().allocations)
    if (one.imported && !memcmp(&one.imported->place, &place, sizeof place)) return ++one.imported->opened, *p = (void*)memory, cudaSuccess;
  std::shared_ptr<char> file = map_shared(place);
  if (!file) return cudaErrorMapBufferObjectFailed;
  char* memory = file.get() + place.offset;
  auto imported = std::make_shared<Imported>(Imported{place, std::move(file), from_pool});
  heap().allocations[memory] = {place.bytes, cudaMemoryTypeDevice, 0, false, {}, std::move(imported)};
  return *p = memory, cudaSuccess;
}
cudaError_t close_imported(void* p, bool from_pool) {
  std::lock_guard<std::mutex> guard(heap().mutex);
  auto found = heap().allocations.find((char*)p);
  if (found == heap().allocations.end() || !found->second.imported || found->second.imported->from_pool != from_pool) return cudaErrorInvalidValue;
  if (--found->second.imported->opened == 0) heap().allocations.erase(found);
  return cudaSuccess;
}

std::shared_ptr<void> graph_memory(size_t bytes) {
  void* p = nullptr;
  if (allocate(&p, bytes, cudaMemoryTypeDevice)) return nullptr;
  std::lock_guard<std::mutex> guard(heap().mutex);
  heap().of_graphs.insert(p);
  return {p, [](void* p) {
            {
              std::lock_guard<std::mutex> guard(heap().mutex);
              heap().of_graphs.erase(p);
            }
            release(p, false);
          }};
}
size_t graph_memory_bytes() {
  std::lock_guard<std::mutex> guard(heap().mutex);
  size_t total = 0;
  for (const void* p : heap().of_graphs) total += heap().allocations[(const char*)p].bytes;
  return total;
}

void copy_3d(const cudaMemcpy3DParms& p) {
  size_t unit = p.srcArray ? p.srcArray->element_bytes : p.dstArray ? p.dstArray->element_bytes : 1;
  cudaPitchedPtr from = p.srcPtr, to = p.dstPtr;
  size_t from_unit = 1, to_unit = 1;
  if (p.srcArray) from = {p.srcArray->data, row_bytes(*p.srcArray), 0, rows(*p.srcArray)}, from_unit = unit;
  if (p.dstArray) to = {p.dstArray->data, row_bytes(*p.dstArray), 0, rows(*p.dstArray)}, to_unit = unit;
  size_t width = p.extent.width * unit;
  for (size_t z = 0; z < p.extent.depth; ++z) {
    const char* source = (const char*)from.ptr + p.srcPos.x * from_unit + (p.srcPos.y + (p.srcPos.z + z) * from.ysize) * from.pitch;
    char* target = (char*)to.ptr + p.dstPos.x * to_unit + (p.dstPos.y + (p.dstPos.z + z) * to.ysize) * to.pitch;
    copy_rows(target, to.pitch, source, from.pitch, width, p.extent.height);
  }
}
}  // namespace loom

using namespace loom;

extern "C" {
cudaError_t cudaMalloc(void** p, size_t bytes) { return allocate(p, bytes, cudaMemoryTypeDevice); }
cudaError_t cudaMallocHost(void** p, size_t bytes) { return allocate(p, bytes, cudaMemoryTypeHost); }
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned flags) { return allocate(p, bytes, cudaMemoryTypeHost, flags); }
cudaError_t cudaMallocManaged(void** p, size_t bytes, unsigned flags) {
  if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)) return failed(cudaErrorInvalidValue);
  return allocate(p, bytes, cudaMemoryTypeManaged);
}
cudaError_t cudaMallocPitch(void** p, size_t* pitch, size_t width, size_t height) {
  size_t bytes;
  *pitch = (width + pitch_alignment - 1) / pitch_alignment * pitch_alignment;
  return __builtin_mul_overflow(*pitch, height, &bytes) ? failed(cudaErrorMemoryAllocation) : cudaMalloc(p, bytes);
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* p, cudaExtent extent) {
  *p = {nullptr, 0, extent.width, extent.height};
  return cudaMallocPitch(&p->ptr, &p->pitch, extent.width, extent.height * extent.depth);
}
cudaError_t cudaFree(void* p) {
  wait_for_streams();
  return release(p, false);
}
cudaError_t cudaFreeHost(void* p) {
  wait_for_streams();
  return release(p, true);
}

cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned flags) {
  if (!p || !bytes) return failed(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> guard(heap().mutex);
  if (containing(p)) return failed(cudaErrorHostMemoryAlreadyRegistered);
  heap().allocations[(char*)p] = {bytes, cudaMemoryTypeHost, flags, false};
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* p) {
  wait_for_streams();
  std::lock_guard<std::mutex> guard(heap().mutex);
  auto found = heap().allocations.find((char*)p);
  if (found == heap().allocations.end() || found->second.ours) return failed(cudaErrorHostMemoryNotRegistered);
  heap().allocations.erase(found);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return host ? (*device = host, cudaSuccess) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  std::lock_guard<std::mutex> guard(heap().mutex);
  auto* found = containing(host);
  if (!found || found->second.type != cudaMemoryTypeHost) return failed(cudaErrorInvalidValue);
  *flags = found->second.flags;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* all_bytes) {
  *all_bytes = total_bytes();
  *free_bytes = (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  if (!attributes) return failed(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> guard(heap().mutex);
  auto* found = containing(p);
  bool known = found || find_variable(p);
  cudaMemoryType type = found ? found->second.type : known ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  *attributes = {type, known ? 0 : -2, known ? (void*)p : nullptr, nullptr};
  if (known && type != cudaMemoryTypeDevice) attributes->hostPointer = (void*)p;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!valid(kind)) return failed(cudaErrorInvalidMemcpyDirection);
  if (bytes && (!to || !from || overruns_memory(to, bytes) || overruns_memory(from, bytes))) return failed(cudaErrorInvalidValue);
  return copy_in_order(stream, to, from, [=] {
    if (bytes) memmove(to, from, bytes);
    if (profiling() && kind == cudaMemcpyDeviceToHost) profile_result(to, bytes);
  });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) { return cudaMemcpyAsync(to, from, bytes, kind, nullptr); }
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) { return cudaMemcpy(to, from, bytes, cudaMemcpyDefault); }
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  if (!valid(kind)) return failed(cudaErrorInvalidMemcpyDirection);
  if (width > to_pitch || width > from_pitch) return failed(cudaErrorInvalidPitchValue);
  if (overruns_memory(to, span(to_pitch, width, height)) || overruns_memory(from, span(from_pitch, width, height))) return failed(cudaErrorInvalidValue);
  return copy_in_order(stream, to, from, [=] { copy_rows((char*)to, to_pitch, (const char*)from, from_pitch, width, height); });
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  if (!p || !valid(p->kind)) return failed(cudaErrorInvalidValue);
  const void* host_to = p->dstArray ? p->dstArray->data : p->dstPtr.ptr;
  const void* host_from = p->srcArray ? p->srcArray->data : p->srcPtr.ptr;
  return copy_in_order(stream, host_to, host_from, [copy = *p] { copy_3d(copy); });
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) { return cudaMemcpy3DAsync(p, nullptr); }

cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  if (bytes && (!p || overruns_memory(p, bytes))) return failed(cudaErrorInvalidValue);
  return result(enqueue(stream, [=] {
    if (bytes) fill((char*)p, value, bytes);
  }, cudaGraphNodeTypeMemset));
}
cudaError_t cudaMemset(void* p, int value, size_t bytes) { return cudaMemsetAsync(p, value, bytes, nullptr); }
cudaError_t cudaMemset2DAsync(void* p, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  if (overruns_memory(p, span(pitch, width, height))) return failed(cudaErrorInvalidValue);
  return result(enqueue(stream, [=] { fill_rows((char*)p, pitch, value, width, height); }, cudaGraphNodeTypeMemset));
}
cudaError_t cudaMemset2D(void* p, size_t pitch, int value, size_t width, size_t height) { return cudaMemset2DAsync(p, pitch, value, width, height, nullptr); }
cudaError_t cudaMemset3DAsync(cudaPitchedPtr p, int value, cudaExtent extent, cudaStream_t stream) {
  return result(enqueue(stream, [=] {
    for (size_t z = 0; z < extent.depth; ++z) fill_rows((char*)p.ptr + z * p.ysize * p.pitch, p.pitch, value, extent.width, extent.height);
  }, cudaGraphNodeTypeMemset));
}
cudaError_t cudaMemset3D(cudaPitchedPtr p, int value, cudaExtent extent) { return cudaMemset3DAsync(p, value, extent, nullptr); }

// ---- symbols
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!symbol) return failed(cudaErrorInvalidSymbol);
  return overruns(symbol, offset, bytes) ? failed(cudaErrorInvalidValue) : cudaMemcpyAsync((char*)symbol + offset, from, bytes, kind, stream);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!symbol) return failed(cudaErrorInvalidSymbol);
  return overruns(symbol, offset, bytes) ? failed(cudaErrorInvalidValue) : cudaMemcpyAsync(to, (const char*)symbol + offset, bytes, kind, stream);
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, nullptr);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, nullptr);
}

// ---- arrays
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) { return {x, y, z, w, kind}; }
cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format, cudaExtent extent, unsigned flags) {
  if (!array || !format || !extent.width) return failed(cudaErrorInvalidValue);
  size_t unit = (size_t)(format->x + format->y + format->z + format->w) / 8;
  size_t height = extent.height ? extent.height : 1, depth = extent.depth ? extent.depth : 1;
  void* memory = calloc(extent.width * height * depth, unit);
  if (!memory) return failed(cudaErrorMemoryAllocation);
  *array = new cudaArray{memory, extent.width, extent.height, extent.depth, unit, *format, flags};
  return cudaSuccess;
}
cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* format, size_t width, size_t height, unsigned flags) {
  return cudaMalloc3DArray(array, format, {width, height, 0}, flags);
}
cudaError_t cudaFreeArray(cudaArray_t array) {
  wait_for_streams();
  if (array) free(array->data);
  delete array;
  return cudaSuccess;
}
cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent, unsigned* flags, cudaArray_t array) {
  if (format) *format = array->format;
  if (extent) *extent = {array->width, array->height, array->depth};
  if (flags) *flags = array->flags;
  return cudaSuccess;
}
cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* format, cudaArray_const_t array) { return *format = array->format, cudaSuccess; }
cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x_bytes, size_t y, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpy((char*)to->data + y * row_bytes(*to) + x_bytes, from, bytes, kind);
}
cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x_bytes, size_t y, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpy(to, (const char*)from->data + y * row_bytes(*from) + x_bytes, bytes, kind);
}
cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x_bytes, size_t y, const void* from, size_t pitch, size_t width, size_t height, cudaMemcpyKind kind) {
  return cudaMemcpy2D((char*)to->data + y * row_bytes(*to) + x_bytes, row_bytes(*to), from, pitch, width, height, kind);
}
cudaError_t cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x_bytes, size_t y, size_t width, size_t height, cudaMemcpyKind kind) {
  return cudaMemcpy2D(to, pitch, (const char*)from->data + y * row_bytes(*from) + x_bytes, row_bytes(*from), width, height, kind);
}
}

// ---- what kernels ask at their start (threadloom/cuda/optimize/specialize.py)

// 1 if each of the first `written` pointers lies in an allocation of its own, apart from all `count` of them. A pointer
// that the table does not know could be anywhere; null is never used.
extern "C" int __loom_distinct(const void* const* pointers, int written, int count) {
  std::lock_guard<std::mutex> guard(heap().mutex);
  const void* owner[64];
  if (count > 64) return 0;
  for (int i = 0; i < count; i++) {
    owner[i] = pointers[i];
    if (!pointers[i]) continue;
    auto found = containing(pointers[i]);
    if (!found) return 0;
    owner[i] = found->first;
  }
  for (int i = 0; i < written; i++)
    for (int j = 0; j < count; j++)
      if (i != j && owner[i] && owner[i] == owner[j]) return 0;
  return 1;
}

// For the checker: the allocation or variable that `p` points into.
namespace loom {
bool owner_of(const void* p, const char** base, size_t* bytes) {
  std::lock_guard<std::mutex> guard(heap().mutex);
  if (auto found = containing(p)) {
    *base = found->first, *bytes = found->second.bytes;
    return true;
  }
  const Variable* variable = find_variable(p);
  if (!variable) return false;
  *base = (const char*)variable->address, *bytes = variable->bytes;
  return true;
}
}  // namespace loom
