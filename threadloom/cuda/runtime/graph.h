// What a graph is made of: shared by graph.cpp, graph_nodes.cpp and the capture of streams (stream.cpp).
#pragma once
#include "runtime.h"

using Work = std::function<void()>;

struct CUgraphNode_st {
  cudaGraphNodeType type;
  Work work;
  std::vector<CUgraphNode_st*> after;  // nodes of the same graph that come before this one
  CUgraph_st* graph = nullptr;
  const CUgraphNode_st* origin = nullptr;  // of a clone: the node it was made from
  std::shared_ptr<loom::SavedArguments> arguments;  // of a kernel, to which `kernel.kernelParams` leads
  cudaKernelNodeParams kernel = {};
  cudaMemcpy3DParms copy = {};
  cudaMemsetParams fill = {};
  cudaHostNodeParams call = {};
  cudaMemAllocNodeParams allocation = {};
  void* freed = nullptr;
  cudaEvent_t event = nullptr;
  std::vector<CUgraph_st*> bodies;  // the graph of a child node; those of a conditional one
  cudaConditionalNodeParams condition = {};
};

struct Condition {
  unsigned value;  // first: device code writes it through the handle (loom/execution.h)
  unsigned start;
  bool set_at_launch;
};

struct CUgraph_st {
  std::vector<CUgraphNode_st*> nodes;  // in the order in which they were added
  std::vector<std::shared_ptr<Condition>> conditions;
  std::vector<CUgraphNode_st*> captured;  // what comes next in its capture comes after these
  CUgraphNode_st* add(cudaGraphNodeType type, Work work, const CUgraphNode_st* const* after, size_t count);
  CUgraphNode_st* add_captured(cudaGraphNodeType type, Work work);  // after all that was captured before, by any stream
  CUgraph_st* clone() const;
  ~CUgraph_st();
};

namespace loom {
CUgraphNode_st* captured_node(cudaStream_t stream);  // what the stream has just captured, or null (stream.cpp)
std::shared_ptr<Condition> find_condition(const CUgraph_st& graph, cudaGraphConditionalHandle handle);
// The step of `exec` that `node` became gets what `set` makes of a copy of the node.
cudaError_t change_step(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeType type, const std::function<cudaError_t(CUgraphNode_st&)>& set);
}  // namespace loom
