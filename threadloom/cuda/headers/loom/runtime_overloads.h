/* CUDA's C++ conveniences over the C functions of runtime_api.h. */
#pragma once
#define LOOM_API template <class T> static inline cudaError_t
LOOM_API cudaMalloc(T** p, size_t bytes) { return cudaMalloc((void**)p, bytes); }
LOOM_API cudaMallocHost(T** p, size_t bytes, unsigned = 0) { return cudaMallocHost((void**)p, bytes); }
LOOM_API cudaHostAlloc(T** p, size_t bytes, unsigned flags) { return cudaHostAlloc((void**)p, bytes, flags); }
LOOM_API cudaMallocManaged(T** p, size_t bytes, unsigned flags = cudaMemAttachGlobal) { return cudaMallocManaged((void**)p, bytes, flags); }
LOOM_API cudaMallocPitch(T** p, size_t* pitch, size_t width, size_t height) { return cudaMallocPitch((void**)p, pitch, width, height); }
LOOM_API cudaMallocAsync(T** p, size_t bytes, cudaStream_t stream) { return cudaMallocAsync((void**)p, bytes, stream); }
LOOM_API cudaMallocAsync(T** p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) { return cudaMallocFromPoolAsync((void**)p, bytes, pool, stream); }
LOOM_API cudaMallocFromPoolAsync(T** p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) { return cudaMallocFromPoolAsync((void**)p, bytes, pool, stream); }
LOOM_API cudaHostGetDevicePointer(T** device, void* host, unsigned flags) { return cudaHostGetDevicePointer((void**)device, host, flags); }
static inline cudaError_t cudaMallocHost(void** p, size_t bytes, unsigned flags) { return cudaHostAlloc(p, bytes, flags); }
static inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned flags) { return cudaEventCreateWithFlags(event, flags); }

#if defined(__CUDA__) /* what CUDA's device runtime offers without launches */
static __device__ inline cudaError_t cudaGetLastError(void) { return cudaSuccess; }
static __device__ inline cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }
static __device__ inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define LOOM_ERROR(name, value, text) case value: return text;
#include "errors.def"
#undef LOOM_ERROR
  }
  return "unrecognized error code";
}
static __device__ inline cudaError_t cudaMalloc(void** p, size_t bytes) {
  *p = malloc(bytes);
  return *p || !bytes ? cudaSuccess : cudaErrorMemoryAllocation;
}
static __device__ inline cudaError_t cudaFree(void* p) {
  free(p);
  return cudaSuccess;
}
#endif

/* Memory is one: prefetching and advice have nothing to do. Both the CUDA 12 and the CUDA 13 signatures are valid. */
static inline cudaError_t cudaMemPrefetchAsync(const void* p, size_t, int, cudaStream_t = 0) { return p ? cudaSuccess : cudaErrorInvalidValue; }
static inline cudaError_t cudaMemPrefetchAsync(const void* p, size_t, cudaMemLocation, unsigned, cudaStream_t = 0) { return p ? cudaSuccess : cudaErrorInvalidValue; }
static inline cudaError_t cudaMemAdvise(const void* p, size_t, cudaMemoryAdvise, int) { return p ? cudaSuccess : cudaErrorInvalidValue; }
static inline cudaError_t cudaMemAdvise(const void* p, size_t, cudaMemoryAdvise, cudaMemLocation) { return p ? cudaSuccess : cudaErrorInvalidValue; }

/* ---- symbols by reference */
template <class T> static inline cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return cudaMemcpyToSymbol((const void*)&symbol, from, bytes, offset, kind);
}
template <class T> static inline cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return cudaMemcpyFromSymbol(to, (const void*)&symbol, bytes, offset, kind);
}
template <class T> static inline cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = 0) {
  return cudaMemcpyToSymbolAsync((const void*)&symbol, from, bytes, offset, kind, stream);
}
template <class T> static inline cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t stream = 0) {
  return cudaMemcpyFromSymbolAsync(to, (const void*)&symbol, bytes, offset, kind, stream);
}
/* CUDA 13's signatures: edges may carry data, which means nothing here. */
static inline cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, const cudaGraphEdgeData*, size_t count,
                                           cudaGraphNodeParams* p) {
  return cudaGraphAddNode(node, graph, after, count, p);
}
static inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                                                   const cudaGraphNode_t** after, const cudaGraphEdgeData** edges, size_t* count) {
  if (edges) *edges = nullptr;
  return cudaStreamGetCaptureInfo(stream, status, id, graph, after, count);
}
static inline cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* after, const cudaGraphEdgeData*, size_t count, unsigned flags) {
  return cudaStreamUpdateCaptureDependencies(stream, after, count, flags);
}
template <class T> static inline cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                                                            const T& symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return cudaGraphAddMemcpyNodeToSymbol(node, graph, after, count, (const void*)&symbol, from, bytes, offset, kind);
}
template <class T> static inline cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                                                              void* to, const T& symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return cudaGraphAddMemcpyNodeFromSymbol(node, graph, after, count, to, (const void*)&symbol, bytes, offset, kind);
}
template <class T> static inline cudaError_t cudaGetSymbolAddress(void** p, const T& symbol) { return cudaGetSymbolAddress(p, (const void*)&symbol); }
template <class T, class P> static inline cudaError_t cudaGetSymbolAddress(P** p, const T& symbol) { return cudaGetSymbolAddress((void**)p, (const void*)&symbol); }
template <class T> static inline cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) { return *bytes = sizeof(T), cudaSuccess; }
/* CUDA before 5 named symbols by string. */
cudaError_t __loom_symbol_by_name(const char* name, void** p);
#define LOOM_NAMED_SYMBOL(name) void* symbol; if (cudaError_t error = __loom_symbol_by_name(name, &symbol)) return error
static inline cudaError_t cudaMemcpyToSymbol(const char* name, const void* from, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  LOOM_NAMED_SYMBOL(name);
  return cudaMemcpyToSymbol((const void*)symbol, from, bytes, offset, kind);
}
static inline cudaError_t cudaMemcpyFromSymbol(void* to, const char* name, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  LOOM_NAMED_SYMBOL(name);
  return cudaMemcpyFromSymbol(to, (const void*)symbol, bytes, offset, kind);
}
static inline cudaError_t cudaGetSymbolAddress(void** p, const char* name) { return __loom_symbol_by_name(name, p); }

/* ---- kernels by type */
LOOM_API cudaLaunchKernel(T* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes = 0, cudaStream_t stream = 0) {
  return cudaLaunchKernel((const void*)kernel, grid, block, arguments, shared_bytes, stream);
}
LOOM_API cudaLaunchCooperativeKernel(T* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes = 0, cudaStream_t stream = 0) {
  return cudaLaunchCooperativeKernel((const void*)kernel, grid, block, arguments, shared_bytes, stream);
}
template <class... Params, class... Args> static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  return [&](Params... values) {
    void* pointers[] = {(void*)&values..., nullptr};
    return cudaLaunchKernelExC(config, (const void*)kernel, pointers);
  }(static_cast<Args&&>(args)...);
}
LOOM_API cudaFuncGetAttributes(cudaFuncAttributes* attributes, T* kernel) { return cudaFuncGetAttributes(attributes, (const void*)kernel); }
LOOM_API cudaFuncSetAttribute(T* kernel, cudaFuncAttribute attribute, int value) { return cudaFuncSetAttribute((const void*)kernel, attribute, value); }
LOOM_API cudaFuncSetCacheConfig(T* kernel, cudaFuncCache config) { return cudaFuncSetCacheConfig((const void*)kernel, config); }
LOOM_API cudaFuncSetSharedMemConfig(T* kernel, cudaSharedMemConfig config) { return cudaFuncSetSharedMemConfig((const void*)kernel, config); }
LOOM_API cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T kernel, int block_size, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void*)kernel, block_size, shared_bytes);
}
LOOM_API cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, T kernel, int block_size, size_t shared_bytes, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void*)kernel, block_size, shared_bytes);
}
static inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t* node, cudaGraphExecUpdateResult* result) {
  cudaGraphExecUpdateResultInfo info;
  cudaError_t error = cudaGraphExecUpdate(exec, graph, &info);
  if (node) *node = info.errorNode;
  return *result = info.result, error;
}
template <class T, class F> static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* grid, int* block, T kernel, F bytes_of, int limit = 0) {
  cudaFuncAttributes attributes;
  if (cudaError_t error = cudaFuncGetAttributes(&attributes, (const void*)kernel)) return error;
  *block = limit > 0 && limit < attributes.maxThreadsPerBlock ? limit : attributes.maxThreadsPerBlock;
  int per_processor = 0, processors = 0;
  if (cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, (const void*)kernel, *block, bytes_of(*block))) return error;
  if (cudaError_t error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0)) return error;
  *grid = per_processor * processors;
  return cudaSuccess;
}
LOOM_API cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, T kernel, int blocks, int) {
  cudaFuncAttributes attributes;
  if (cudaError_t error = cudaFuncGetAttributes(&attributes, (const void*)kernel)) return error;
  int total = 0;
  if (cudaError_t error = cudaDeviceGetAttribute(&total, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0)) return error;
  size_t each = (size_t)total / (blocks > 0 ? blocks : 1);
  return *bytes = each > attributes.sharedSizeBytes ? each - attributes.sharedSizeBytes : 0, cudaSuccess;
}
LOOM_API cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, T kernel, size_t shared_bytes = 0, int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMem(grid, block, kernel, [=](int) { return shared_bytes; }, limit);
}
static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t*, char*, size_t) { return cudaGraphInstantiateWithFlags(exec, graph, 0); }
static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags = 0) { return cudaGraphInstantiateWithFlags(exec, graph, flags); }
#undef LOOM_API
#undef LOOM_NAMED_SYMBOL

#if defined(__CUDA__)
/* Of a kernel in a graph: whether or how often a conditional node's body runs. */
static __host__ __device__ inline void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value) { *(volatile unsigned*)(size_t)handle = value; }
#endif

/* ---- small constructors */
static inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) { return cudaExtent{width, height, depth}; }
static inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return cudaPos{x, y, z}; }
static inline cudaPitchedPtr make_cudaPitchedPtr(void* p, size_t pitch, size_t width, size_t height) { return cudaPitchedPtr{p, pitch, width, height}; }

/* ---- channel formats by type */
template <class T> struct __loom_channel;
#define LOOM_CHANNEL(T, bits, kind) template <> struct __loom_channel<T> { enum { width = bits }; static constexpr cudaChannelFormatKind format = kind; };
LOOM_CHANNEL(char, 8, cudaChannelFormatKindSigned)
LOOM_CHANNEL(signed char, 8, cudaChannelFormatKindSigned)
LOOM_CHANNEL(unsigned char, 8, cudaChannelFormatKindUnsigned)
LOOM_CHANNEL(short, 16, cudaChannelFormatKindSigned)
LOOM_CHANNEL(unsigned short, 16, cudaChannelFormatKindUnsigned)
LOOM_CHANNEL(int, 32, cudaChannelFormatKindSigned)
LOOM_CHANNEL(unsigned int, 32, cudaChannelFormatKindUnsigned)
LOOM_CHANNEL(long, 64, cudaChannelFormatKindSigned)
LOOM_CHANNEL(unsigned long, 64, cudaChannelFormatKindUnsigned)
LOOM_CHANNEL(float, 32, cudaChannelFormatKindFloat)
#undef LOOM_CHANNEL
template <class T> static inline cudaChannelFormatDesc __loom_channel_of(T*) { return cudaChannelFormatDesc{__loom_channel<T>::width, 0, 0, 0, __loom_channel<T>::format}; }
#define LOOM_CHANNEL_VECTORS(name)                                                                                              \
  static inline cudaChannelFormatDesc __loom_channel_of(name##1* p) { return __loom_channel_of(&p->x); }                        \
  static inline cudaChannelFormatDesc __loom_channel_of(name##2* p) { cudaChannelFormatDesc d = __loom_channel_of(&p->x); d.y = d.x; return d; } \
  static inline cudaChannelFormatDesc __loom_channel_of(name##4* p) { cudaChannelFormatDesc d = __loom_channel_of(&p->x); d.y = d.z = d.w = d.x; return d; }
LOOM_CHANNEL_VECTORS(char)
LOOM_CHANNEL_VECTORS(uchar)
LOOM_CHANNEL_VECTORS(short)
LOOM_CHANNEL_VECTORS(ushort)
LOOM_CHANNEL_VECTORS(int)
LOOM_CHANNEL_VECTORS(uint)
LOOM_CHANNEL_VECTORS(float)
#undef LOOM_CHANNEL_VECTORS
template <class T> static inline cudaChannelFormatDesc cudaCreateChannelDesc() { return __loom_channel_of((T*)nullptr); }
