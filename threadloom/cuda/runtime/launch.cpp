// Kernel and variable tables, launch configuration, launches, occupancy.
#include "graph.h"
#include "profile.h"
#include "runtime.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

namespace loom {
namespace {

struct Tables {
  std::mutex mutex;
  std::unordered_map<const void*, const Kernel*> kernels;
  std::unordered_multimap<std::string, const Kernel*> kernels_by_name;  // modules may share names
  std::vector<const Variable*> variables;
};

// Never destroyed: static destructors of the program may still launch.
Tables& tables() {
  static Tables* all = new Tables;
  return *all;
}

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> pushed;

}  // namespace

cudaError_t check_launch(const Kernel* kernel, const dim3& grid, const dim3& block, size_t shared_bytes, Geometry* geometry) {
  if (device_error() != cudaSuccess) return device_error();
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  const cudaDeviceProp& limits = properties();
  unsigned long long threads = (unsigned long long)block.x * block.y * block.z;
  if (threads == 0 || grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaErrorInvalidConfiguration;
  if (threads > (unsigned)limits.maxThreadsPerBlock || threads > (unsigned)kernel->max_threads) return cudaErrorInvalidConfiguration;
  if (block.x > (unsigned)limits.maxThreadsDim[0] || block.y > (unsigned)limits.maxThreadsDim[1] ||
      block.z > (unsigned)limits.maxThreadsDim[2])
    return cudaErrorInvalidConfiguration;
  if (grid.x > (unsigned)limits.maxGridSize[0] || grid.y > (unsigned)limits.maxGridSize[1] || grid.z > (unsigned)limits.maxGridSize[2])
    return cudaErrorInvalidConfiguration;
  if (shared_bytes > max_shared_bytes || shared_bytes + (size_t)*kernel->static_shared_bytes > max_shared_bytes) return cudaErrorInvalidValue;
  *geometry = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, (unsigned)shared_bytes};
  return cudaSuccess;
}

void SavedArguments::save(const Kernel& kernel, void** arguments) {
  size_t total = 0;
  for (int i = 0; i < kernel.arguments; ++i) total += ((size_t)kernel.argument_bytes[i] + 15) & ~(size_t)15;
  bytes.resize(total + 1);
  pointers.clear();
  char* place = bytes.data();
  for (int i = 0; i < kernel.arguments; ++i) {
    memcpy(place, arguments[i], (size_t)kernel.argument_bytes[i]);
    pointers.push_back(place);
    place += ((size_t)kernel.argument_bytes[i] + 15) & ~(size_t)15;
  }
}

void run_kernel(const Kernel& kernel, void** arguments, const Geometry& geometry) {
  static std::mutex one;  // threads of the host launch, too
  std::unique_lock<std::mutex> alone(one, std::defer_lock);
  if (serial()) alone.lock();
  if (!profiling()) return kernel.entry(arguments, &geometry);
  Clock::time_point start = Clock::now();
  kernel.entry(arguments, &geometry);
  profile_kernel(kernel, arguments, geometry, start);
}

// What gives the entry of a kernel that was not compiled with the program, and the bytes of its static shared memory.
using Compiler = void* (*)(const char* name, int* static_shared_bytes);
std::atomic<Compiler> compiler{nullptr};

// `kernel` with an entry, or null. No lock is held: the compiler may wait for one that another launching thread has.
static const Kernel* compiled(const Kernel* kernel) {
  if (!kernel || __atomic_load_n(&kernel->entry, __ATOMIC_ACQUIRE)) return kernel;
  Compiler ask = compiler;
  int bytes = 0;
  void* entry = ask ? ask(kernel->name, &bytes) : nullptr;
  if (!entry) return nullptr;
  *const_cast<int*>(kernel->static_shared_bytes) = bytes;
  __atomic_store_n(&const_cast<Kernel*>(kernel)->entry, (decltype(kernel->entry))entry, __ATOMIC_RELEASE);
  return kernel;
}

static const Kernel* known_kernel(const void* stub) {
  Tables& all = tables();
  std::lock_guard<std::mutex> guard(all.mutex);
  auto found = all.kernels.find(stub);
  return found == all.kernels.end() ? nullptr : found->second;
}

const Kernel* find_kernel(const void* stub) { return compiled(known_kernel(stub)); }

const Kernel* find_kernel_by_name(const char* name, const std::function<bool(const Kernel&)>& fits) {
  Tables& all = tables();
  std::lock_guard<std::mutex> guard(all.mutex);
  auto range = all.kernels_by_name.equal_range(name);
  for (auto found = range.first; found != range.second; ++found)
    if (fits(*found->second)) return found->second;
  return nullptr;
}

const Variable* find_variable_by_name(const char* name, const std::function<bool(const Variable&)>& fits) {
  Tables& all = tables();
  std::lock_guard<std::mutex> guard(all.mutex);
  for (const Variable* variable : all.variables)
    if (!strcmp(variable->name, name) && fits(*variable)) return variable;
  return nullptr;
}

const Variable* find_variable(const void* address) {
  Tables& all = tables();
  std::lock_guard<std::mutex> guard(all.mutex);
  for (const Variable* variable : all.variables)
    if (address >= variable->address && address < (const char*)variable->address + variable->bytes) return variable;
  return nullptr;
}

bool overruns(const void* symbol, size_t offset, size_t bytes) {
  const Variable* variable = find_variable(symbol);
  return variable && (offset > variable->bytes || bytes > variable->bytes - offset);
}

cudaError_t launch(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t stream) {
  const Kernel* kernel = find_kernel(stub);
  Geometry geometry;
  if (cudaError_t error = check_launch(kernel, grid, block, shared_bytes, &geometry)) return failed(error);
  if (may_postpone(stream) && postpone(*kernel, arguments, geometry)) return cudaSuccess;
  if (runs_at_once(stream)) return result(enqueue(stream, [&] { run_kernel(*kernel, arguments, geometry); }));
  auto saved = std::make_shared<SavedArguments>();
  saved->save(*kernel, arguments);
  cudaError_t error = enqueue(stream, [=] { run_kernel(*kernel, saved->pointers.data(), geometry); }, cudaGraphNodeTypeKernel);
  if (CUgraphNode_st* node = captured_node(stream)) {
    node->arguments = saved;
    node->kernel = {const_cast<void*>(stub), grid, block, (unsigned)shared_bytes, saved->pointers.data(), nullptr};
  }
  return result(error);
}

}  // namespace loom

using namespace loom;

extern "C" {
void __loom_register(const Kernel* kernels, int kernel_count, const Variable* variables, int variable_count, int arch) {
  Tables& all = tables();
  std::lock_guard<std::mutex> guard(all.mutex);
  architecture = std::max(architecture, arch);
  for (int i = 0; i < kernel_count; ++i) {
    all.kernels[kernels[i].stub] = &kernels[i];
    all.kernels_by_name.emplace(kernels[i].name, &kernels[i]);
  }
  for (int i = 0; i < variable_count; ++i) all.variables.push_back(&variables[i]);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  pushed.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  if (pushed.empty()) return failed(cudaErrorMissingConfiguration);
  *grid = pushed.back().grid;
  *block = pushed.back().block;
  *shared_bytes = pushed.back().shared_bytes;
  *(cudaStream_t*)stream = pushed.back().stream;
  pushed.pop_back();
  return cudaSuccess;
}

cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  __cudaPushCallConfiguration(grid, block, shared_bytes, stream);
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
      auto size = config->attrs[i].val.clusterDim;
      if (size.x * size.y * size.z > 1) return failed(cudaErrorNotSupported);
    }
  return launch(kernel, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  const Kernel* found = find_kernel(kernel);
  if (!found) return failed(cudaErrorInvalidDeviceFunction);
  memset(attributes, 0, sizeof *attributes);
  attributes->sharedSizeBytes = *found->static_shared_bytes;
  attributes->maxThreadsPerBlock = found->max_threads;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = properties().major * 10 + properties().minor;
  attributes->maxDynamicSharedSizeBytes = (int)properties().sharedMemPerBlock - *found->static_shared_bytes;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (!find_kernel(kernel)) return failed(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && (value < 0 || (size_t)value > max_shared_bytes)) return failed(cudaErrorInvalidValue);
  return cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaFuncSetSharedMemConfig(const void*, cudaSharedMemConfig) { return cudaSuccess; }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int block_size, size_t shared_bytes) {
  const Kernel* found = find_kernel(kernel);
  if (!found) return failed(cudaErrorInvalidDeviceFunction);
  if (block_size <= 0) return failed(cudaErrorInvalidValue);
  const cudaDeviceProp& limits = properties();
  *blocks = 0;
  if (block_size > found->max_threads) return cudaSuccess;
  int warps = (block_size + limits.warpSize - 1) / limits.warpSize;
  int by_threads = limits.maxThreadsPerMultiProcessor / (warps * limits.warpSize);
  size_t used = shared_bytes + *found->static_shared_bytes;
  int by_shared = used ? (int)(limits.sharedMemPerMultiprocessor / used) : limits.maxBlocksPerMultiProcessor;
  *blocks = std::min({by_threads, by_shared, limits.maxBlocksPerMultiProcessor});
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* kernel, int block_size, size_t shared_bytes, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, block_size, shared_bytes);
}
}

// CUDA before 5 named symbols by string.
cudaError_t __loom_symbol_by_name(const char* name, void** p) {
  Tables& all = tables();
  std::lock_guard<std::mutex> guard(all.mutex);
  for (const Variable* variable : all.variables)
    if (!strcmp(variable->name, name)) {
      *p = variable->address;
      return cudaSuccess;
    }
  return failed(cudaErrorInvalidSymbol);
}

extern "C" void __loom_compile_with(loom::Compiler ask) { loom::compiler = ask; }

extern "C" {
cudaError_t cudaGetSymbolAddress(void** p, const void* symbol) { return *p = (void*)symbol, cudaSuccess; }
cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  const Variable* variable = find_variable(symbol);
  if (!variable) return failed(cudaErrorInvalidSymbol);
  *bytes = variable->bytes;
  return cudaSuccess;
}
}
