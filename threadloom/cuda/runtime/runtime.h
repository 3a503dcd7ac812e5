// What the parts of our CUDA runtime share. Plain C++17; built once per compiler into the user's cache.
#pragma once
#include <loom/prelude.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace loom {

// ---- errors: the last one per thread, and one of the device that stays until the process ends
cudaError_t failed(cudaError_t error);  // records `error` as this thread's last; returns it
inline cudaError_t result(cudaError_t error) { return error == cudaSuccess ? error : failed(error); }
void break_device(cudaError_t error);
cudaError_t device_error();

// ---- streams: work of a created stream runs in a thread of its own; that of the default stream at once, in the caller, when
// the streams that wait for it are idle; that of a captured stream is kept in a graph
// as a node of that type
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work, cudaGraphNodeType type = cudaGraphNodeTypeHost);
cudaError_t enqueue_and_wait(cudaStream_t stream, std::function<void()> work,  // for work on memory of the caller
                             cudaGraphNodeType type = cudaGraphNodeTypeHost);
std::function<void()> record_later(cudaEvent_t event);  // records it: the work that is returned is the moment it stands for
bool runs_at_once(cudaStream_t stream);
bool is_stream(cudaStream_t stream);
bool serial();  // whether kernels run one after another, since the checker keeps one history of all accesses
bool may_postpone(cudaStream_t stream);  // whether this is the default stream of a program that runs as usual
bool streams_idle();  // of those that the default stream waits for
void wait_for_streams();  // all of them, as cudaDeviceSynchronize does

// ---- kernels: what the compiler registers for each (threadloom/cuda/link_host.py writes these tables)
struct Kernel {
  const void* stub;  // the address the program knows
  void (*entry)(void** arguments, const struct Geometry* geometry);
  const char* name;
  const int* argument_bytes;
  const int* static_shared_bytes;
  int arguments;
  int max_threads;
  const struct Effect* effects;  // on the memory that pointers among the arguments lead to
  int effect_count;              // -1: what it does is not known that well, so it never waits in a batch
};
struct Effect {
  int argument, offset;  // where the pointer lies
  int reads, writes;
  int own_bytes, own_block;  // each thread's own elements only (threadloom/cuda/own_elements.py); 0: anywhere, any block
};
struct Geometry {
  unsigned grid[3], block[3], shared_bytes;
};
struct Variable {
  const char* name;
  void* address;
  size_t bytes;
};
const Kernel* find_kernel(const void* stub);
const Kernel* find_kernel_by_name(const char* name, const std::function<bool(const Kernel&)>& fits);
const Variable* find_variable(const void* address);
const Variable* find_variable_by_name(const char* name, const std::function<bool(const Variable&)>& fits);
bool overruns(const void* symbol, size_t offset, size_t bytes);  // the variable that `symbol` is, if it is one
// The geometry of a launch, or why the device cannot run it.
cudaError_t check_launch(const Kernel* kernel, const dim3& grid, const dim3& block, size_t shared_bytes, Geometry* geometry);
cudaError_t launch(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t stream);

// The arguments of a launch that runs later, copied.
struct SavedArguments {
  std::vector<char> bytes;
  std::vector<void*> pointers;
  void save(const Kernel& kernel, void** arguments);
};
void run_kernel(const Kernel& kernel, void** arguments, const Geometry& geometry);

// ---- batches (batch.cpp): launches that wait until something could see what they did
bool postpone(const Kernel& kernel, void** arguments, const Geometry& geometry);  // false: it must run now
void run_postponed();

// ---- devices
const cudaDeviceProp& properties();
extern int architecture;  // __CUDA_ARCH__ of the newest registered code: the device claims to be one of those
constexpr size_t max_shared_bytes = 232448;  // what the largest device offers after opting in

// ---- memory
void copy_3d(const cudaMemcpy3DParms& p);
// Memory that a graph allocates: its address is known when the node is made, and it stays until no graph names it; freeing it
// before means that its contents may go.
std::shared_ptr<void> graph_memory(size_t bytes);
size_t graph_memory_bytes();
const char* device_allocation(const void* p);  // the start of the cudaMalloc that `p` lies in, or null
void release_device_memory(void* p);

// ---- what processes share (ipc.cpp); `from_pool`: by a pointer of a pool
cudaError_t export_memory(const void* p, struct SharedPlace* place);
cudaError_t import_memory(const struct SharedPlace& place, void** p, bool from_pool);
cudaError_t close_imported(void* p, bool from_pool);
std::shared_ptr<class SharedRecords> shared_records(cudaEvent_t event);  // null where the event is not for other processes
cudaEvent_t event_of(std::shared_ptr<class SharedRecords> records);

}  // namespace loom
