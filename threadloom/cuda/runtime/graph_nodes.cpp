// What the nodes of graphs are: kernels, copies, fills, calls of the host, memory, events, other graphs, conditions. Their
// parameters can be asked for and changed, also in an instance (graph.cpp).
#include "graph.h"

#include <cstring>

using namespace loom;
using Node = CUgraphNode_st;

namespace {
// Each reads its parameters now.
cudaError_t set_kernel(Node& node, const cudaKernelNodeParams& p) {
  const Kernel* kernel = find_kernel(p.func);
  Geometry geometry;
  if (cudaError_t error = check_launch(kernel, p.gridDim, p.blockDim, p.sharedMemBytes, &geometry)) return error;
  if (kernel->arguments && !p.kernelParams) return cudaErrorNotSupported;  // they stand in `extra`
  node.arguments = std::make_shared<SavedArguments>();
  node.arguments->save(*kernel, p.kernelParams);
  node.kernel = p;
  node.kernel.kernelParams = node.arguments->pointers.data();
  node.work = [kernel, geometry, saved = node.arguments] { run_kernel(*kernel, saved->pointers.data(), geometry); };
  return cudaSuccess;
}
void set_copy(Node& node, const cudaMemcpy3DParms& p) { node.copy = p, node.work = [p] { copy_3d(p); }; }
void set_copy(Node& node, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  node.copy = {};
  node.copy.dstPtr = {to, bytes, bytes, 1}, node.copy.srcPtr = {const_cast<void*>(from), bytes, bytes, 1};
  node.copy.extent = {bytes, 1, 1}, node.copy.kind = kind;
  node.work = [=] { memmove(to, from, bytes); };
}
void set_fill(Node& node, const cudaMemsetParams& p) {
  node.fill = p;
  node.work = [p] {
    for (size_t y = 0; y < p.height; ++y)
      for (size_t x = 0; x < p.width; ++x) memcpy((char*)p.dst + y * p.pitch + x * p.elementSize, &p.value, p.elementSize);
  };
}
void set_call(Node& node, const cudaHostNodeParams& p) { node.call = p, node.work = [p] { p.fn(p.userData); }; }

cudaError_t add(cudaGraphNode_t* node, cudaGraph_t graph, cudaGraphNodeType type, const cudaGraphNode_t* after, size_t count, const Work& work = [] {}) {
  if (!node || !graph || (count && !after)) return failed(cudaErrorInvalidValue);
  *node = graph->add(type, work, after, count);
  return cudaSuccess;
}
bool is(const Node* node, cudaGraphNodeType type) { return node && node->type == type; }
}  // namespace

extern "C" {
// ---- kernels
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, const cudaKernelNodeParams* p) {
  if (!p) return failed(cudaErrorInvalidValue);
  Node tried{cudaGraphNodeTypeKernel};
  if (cudaError_t error = set_kernel(tried, *p)) return failed(error);
  cudaError_t error = add(node, graph, cudaGraphNodeTypeKernel, after, count);
  if (error == cudaSuccess) set_kernel(**node, *p);
  return error;
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* p) {
  return is(node, cudaGraphNodeTypeKernel) && node->kernel.func ? (*p = node->kernel, cudaSuccess) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* p) {
  if (!is(node, cudaGraphNodeTypeKernel)) return failed(cudaErrorInvalidValue);
  return result(set_kernel(*node, *p));
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams* p) {
  return change_step(exec, node, cudaGraphNodeTypeKernel, [&](Node& made) { return set_kernel(made, *p); });
}

// ---- copies, fills, calls of the host
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, const cudaMemcpy3DParms* p) {
  cudaError_t error = add(node, graph, cudaGraphNodeTypeMemcpy, after, count);
  if (error == cudaSuccess) set_copy(**node, *p);
  return error;
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* to, const void* from, size_t bytes,
                                     cudaMemcpyKind kind) {
  cudaError_t error = add(node, graph, cudaGraphNodeTypeMemcpy, after, count);
  if (error == cudaSuccess) set_copy(**node, to, from, bytes, kind);
  return error;
}
cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, const void* symbol, const void* from,
                                           size_t bytes, size_t offset, cudaMemcpyKind kind) {
  const Variable* variable = find_variable(symbol);
  if (!variable) return failed(cudaErrorInvalidSymbol);
  if (overruns(symbol, offset, bytes)) return failed(cudaErrorInvalidValue);
  return cudaGraphAddMemcpyNode1D(node, graph, after, count, (char*)variable->address + offset, from, bytes, kind);
}
cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* to, const void* symbol,
                                             size_t bytes, size_t offset, cudaMemcpyKind kind) {
  const Variable* variable = find_variable(symbol);
  if (!variable) return failed(cudaErrorInvalidSymbol);
  if (overruns(symbol, offset, bytes)) return failed(cudaErrorInvalidValue);
  return cudaGraphAddMemcpyNode1D(node, graph, after, count, to, (char*)variable->address + offset, bytes, kind);
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* p) {
  if (!is(node, cudaGraphNodeTypeMemcpy)) return failed(cudaErrorInvalidValue);
  return node->copy.extent.depth ? (*p = node->copy, cudaSuccess) : failed(cudaErrorNotSupported);  // it was captured
}
cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* p) {
  return is(node, cudaGraphNodeTypeMemcpy) ? (set_copy(*node, *p), cudaSuccess) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return is(node, cudaGraphNodeTypeMemcpy) ? (set_copy(*node, to, from, bytes, kind), cudaSuccess) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms* p) {
  return change_step(exec, node, cudaGraphNodeTypeMemcpy, [&](Node& made) { return set_copy(made, *p), cudaSuccess; });
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return change_step(exec, node, cudaGraphNodeTypeMemcpy, [&](Node& made) { return set_copy(made, to, from, bytes, kind), cudaSuccess; });
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, const cudaMemsetParams* p) {
  cudaError_t error = add(node, graph, cudaGraphNodeTypeMemset, after, count);
  if (error == cudaSuccess) set_fill(**node, *p);
  return error;
}
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* p) {
  if (!is(node, cudaGraphNodeTypeMemset)) return failed(cudaErrorInvalidValue);
  return node->fill.dst ? (*p = node->fill, cudaSuccess) : failed(cudaErrorNotSupported);  // it was captured
}
cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* p) {
  return is(node, cudaGraphNodeTypeMemset) ? (set_fill(*node, *p), cudaSuccess) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemsetParams* p) {
  return change_step(exec, node, cudaGraphNodeTypeMemset, [&](Node& made) { return set_fill(made, *p), cudaSuccess; });
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, const cudaHostNodeParams* p) {
  cudaError_t error = add(node, graph, cudaGraphNodeTypeHost, after, count);
  if (error == cudaSuccess) set_call(**node, *p);
  return error;
}
cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* p) {
  return is(node, cudaGraphNodeTypeHost) ? (*p = node->call, cudaSuccess) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* p) {
  return is(node, cudaGraphNodeTypeHost) ? (set_call(*node, *p), cudaSuccess) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaHostNodeParams* p) {
  return change_step(exec, node, cudaGraphNodeTypeHost, [&](Node& made) { return set_call(made, *p), cudaSuccess; });
}

// ---- nodes of other kinds
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count) {
  return add(node, graph, cudaGraphNodeTypeEmpty, after, count);
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaGraph_t child) {
  if (!child) return failed(cudaErrorInvalidValue);
  cudaError_t error = add(node, graph, cudaGraphNodeTypeGraph, after, count);
  if (error == cudaSuccess) (*node)->bodies.push_back(child->clone());
  return error;
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* child) {
  return is(node, cudaGraphNodeTypeGraph) ? (*child = node->bodies[0], cudaSuccess) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaEvent_t event) {
  cudaError_t error = add(node, graph, cudaGraphNodeTypeEventRecord, after, count);
  if (error == cudaSuccess) (*node)->event = event;
  return error;
}
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaEvent_t event) {
  cudaError_t error = add(node, graph, cudaGraphNodeTypeWaitEvent, after, count, [event] { cudaEventSynchronize(event); });
  if (error == cudaSuccess) (*node)->event = event;
  return error;
}
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) { return *event = node->event, cudaSuccess; }
cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) { return *event = node->event, cudaSuccess; }
cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaMemAllocNodeParams* p) {
  std::shared_ptr<void> memory = graph_memory(p->bytesize);
  if (!(p->dptr = memory.get())) return failed(cudaErrorMemoryAllocation);
  cudaError_t error = add(node, graph, cudaGraphNodeTypeMemAlloc, after, count, [memory] {});
  if (error == cudaSuccess) (*node)->allocation = *p;
  return error;
}
cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* p) {
  return is(node, cudaGraphNodeTypeMemAlloc) ? (*p = node->allocation, cudaSuccess) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* p) {
  cudaError_t error = add(node, graph, cudaGraphNodeTypeMemFree, after, count);
  if (error == cudaSuccess) (*node)->freed = p;
  return error;
}
cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* p) {
  return is(node, cudaGraphNodeTypeMemFree) ? (*(void**)p = node->freed, cudaSuccess) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType, void* value) {
  return *(unsigned long long*)value = graph_memory_bytes(), cudaSuccess;
}
cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType, void*) { return cudaSuccess; }
cudaError_t cudaDeviceGraphMemTrim(int) { return cudaSuccess; }

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph, unsigned start, unsigned flags) {
  auto made = std::make_shared<Condition>(Condition{start, start, (flags & cudaGraphCondAssignDefault) != 0});
  graph->conditions.push_back(made);
  return *handle = (cudaGraphConditionalHandle)(size_t)made.get(), cudaSuccess;
}
static cudaError_t add_conditional(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaConditionalNodeParams* p) {
  unsigned most = p->type == cudaGraphCondTypeWhile ? 1 : p->type == cudaGraphCondTypeIf ? 2 : ~0u;
  if (!find_condition(*graph, p->handle) || p->size < 1 || p->size > most) return failed(cudaErrorInvalidValue);
  cudaError_t error = add(node, graph, cudaGraphNodeTypeConditional, after, count);
  if (error != cudaSuccess) return error;
  for (unsigned i = 0; i < p->size; ++i) (*node)->bodies.push_back(new CUgraph_st);
  p->phGraph_out = (*node)->bodies.data();
  return (*node)->condition = *p, cudaSuccess;
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, cudaGraphNodeParams* p) {
  switch (p->type) {
    case cudaGraphNodeTypeKernel: return cudaGraphAddKernelNode(node, graph, after, count, &p->kernel);
    case cudaGraphNodeTypeMemcpy: return cudaGraphAddMemcpyNode(node, graph, after, count, &p->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: return cudaGraphAddMemsetNode(node, graph, after, count, &p->memset);
    case cudaGraphNodeTypeHost: return cudaGraphAddHostNode(node, graph, after, count, &p->host);
    case cudaGraphNodeTypeGraph: return cudaGraphAddChildGraphNode(node, graph, after, count, p->graph.graph);
    case cudaGraphNodeTypeEmpty: return cudaGraphAddEmptyNode(node, graph, after, count);
    case cudaGraphNodeTypeEventRecord: return cudaGraphAddEventRecordNode(node, graph, after, count, p->eventRecord.event);
    case cudaGraphNodeTypeWaitEvent: return cudaGraphAddEventWaitNode(node, graph, after, count, p->eventWait.event);
    case cudaGraphNodeTypeMemAlloc: return cudaGraphAddMemAllocNode(node, graph, after, count, &p->alloc);
    case cudaGraphNodeTypeMemFree: return cudaGraphAddMemFreeNode(node, graph, after, count, p->free.dptr);
    case cudaGraphNodeTypeConditional: return add_conditional(node, graph, after, count, &p->conditional);
    default: return failed(cudaErrorNotSupported);
  }
}
}
