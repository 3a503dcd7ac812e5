// Graphs: nodes run one after another in an order that keeps every dependence. A conditional node asks its handle's value
// before each turn of its body.
#include "graph.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

using namespace loom;
using Node = CUgraphNode_st;

namespace {
// A node as it was when the graph was instantiated; `body`: the steps of a child graph or of a condition's bodies.
struct Step {
  Work work;
  const Node* of;  // a name, never followed
  cudaGraphNodeType type;
  cudaEvent_t event;  // that it records
  bool enabled = true;
  std::vector<std::vector<Step>> bodies;
  std::shared_ptr<Condition> condition;
  cudaGraphConditionalNodeType loop = cudaGraphCondTypeIf;
};
}  // namespace

struct CUgraphExec_st {
  std::vector<Step> steps;
  std::vector<std::shared_ptr<Condition>> conditions;
  unsigned long long flags = 0;
};

Node* CUgraph_st::add(cudaGraphNodeType type, Work work, const Node* const* after, size_t count) {
  Node* node = new Node{type, std::move(work)};
  node->graph = this;
  for (size_t i = 0; i < count; ++i) node->after.push_back(const_cast<Node*>(after[i]));
  nodes.push_back(node);
  return node;
}

Node* CUgraph_st::add_captured(cudaGraphNodeType type, Work work) {
  Node* node = add(type, std::move(work), captured.data(), captured.size());
  captured = {node};
  return node;
}

CUgraph_st* CUgraph_st::clone() const {
  CUgraph_st* made = new CUgraph_st;
  made->conditions = conditions;
  std::map<const Node*, Node*> copies;
  for (const Node* node : nodes) {
    Node* copy = copies[node] = new Node(*node);
    copy->graph = made;
    copy->origin = node;
    for (CUgraph_st*& body : copy->bodies) body = body->clone();
    made->nodes.push_back(copy);
  }
  for (Node* copy : made->nodes)
    for (Node*& before : copy->after) before = copies[before];
  return made;
}

CUgraph_st::~CUgraph_st() {
  for (Node* node : nodes) {
    for (CUgraph_st* body : node->bodies) delete body;
    delete node;
  }
}

namespace {
// Nodes in the order in which they run: as added, but none before those it comes after. Empty: they wait for each other.
std::vector<Node*> ordered(const CUgraph_st& graph) {
  std::vector<Node*> order;
  std::set<const Node*> done;
  while (order.size() < graph.nodes.size()) {
    size_t before = order.size();
    for (Node* node : graph.nodes) {
      bool ready = !done.count(node) && std::all_of(node->after.begin(), node->after.end(), [&](Node* one) { return done.count(one) > 0; });
      if (ready) order.push_back(node), done.insert(node);
    }
    if (order.size() == before) return {};
  }
  return order;
}

bool make_steps(const CUgraph_st& graph, std::vector<Step>& steps, std::vector<std::shared_ptr<Condition>>& conditions) {
  std::vector<Node*> order = ordered(graph);
  if (order.size() != graph.nodes.size()) return false;
  conditions.insert(conditions.end(), graph.conditions.begin(), graph.conditions.end());
  for (const Node* node : order) {
    Step step{node->work, node, node->type, node->event};
    for (const CUgraph_st* body : node->bodies) {
      step.bodies.emplace_back();
      if (!make_steps(*body, step.bodies.back(), conditions)) return false;
    }
    if (node->type == cudaGraphNodeTypeConditional) {
      step.loop = node->condition.type;
      for (const auto& one : conditions)
        if ((cudaGraphConditionalHandle)(size_t)one.get() == node->condition.handle) step.condition = one;
      if (!step.condition) return false;
    }
    steps.push_back(std::move(step));
  }
  return true;
}

void run(const std::vector<Step>& steps);

void run_conditional(const Step& step) {
  const volatile unsigned& value = step.condition->value;
  switch (step.loop) {
    case cudaGraphCondTypeIf:
      if (value)
        run(step.bodies[0]);
      else if (step.bodies.size() > 1)
        run(step.bodies[1]);
      return;
    case cudaGraphCondTypeWhile:
      while (value && device_error() == cudaSuccess) run(step.bodies[0]);
      return;
    case cudaGraphCondTypeSwitch:
      if (value < step.bodies.size()) run(step.bodies[value]);
      return;
  }
}

void run(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    if (!step.enabled) continue;
    if (step.type == cudaGraphNodeTypeConditional)
      run_conditional(step);
    else if (step.type == cudaGraphNodeTypeGraph)
      run(step.bodies[0]);
    else
      step.work();
  }
}

// A launch records the events of its graph: who waits for one from now on waits for this launch.
void record_events(std::vector<Step>& steps) {
  for (Step& step : steps) {
    if (step.type == cudaGraphNodeTypeEventRecord) step.work = record_later(step.event);
    for (auto& body : step.bodies) record_events(body);
  }
}

Step* find_step(std::vector<Step>& steps, const Node* node) {
  for (Step& step : steps) {
    if (step.of == node) return &step;
    for (auto& body : step.bodies)
      if (Step* found = find_step(body, node)) return found;
  }
  return nullptr;
}

// Whether both have the same nodes, and then with `to`'s steps as `from` has them.
bool take(std::vector<Step>& to, std::vector<Step>&& from) {
  bool same = to.size() == from.size();
  for (size_t i = 0; same && i < to.size(); ++i) same = to[i].type == from[i].type && to[i].bodies.size() == from[i].bodies.size();
  if (!same) return false;
  for (size_t i = 0; i < to.size(); ++i) {
    for (size_t j = 0; j < to[i].bodies.size(); ++j)
      if (!take(to[i].bodies[j], std::move(from[i].bodies[j]))) return false;
    to[i].work = std::move(from[i].work);
  }
  return true;
}
}  // namespace

namespace loom {
std::shared_ptr<Condition> find_condition(const CUgraph_st& graph, cudaGraphConditionalHandle handle) {
  for (const auto& one : graph.conditions)
    if ((cudaGraphConditionalHandle)(size_t)one.get() == handle) return one;
  return nullptr;
}
cudaError_t change_step(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeType type, const std::function<cudaError_t(Node&)>& set) {
  Step* step = exec ? find_step(exec->steps, node) : nullptr;
  if (!step || step->type != type) return failed(cudaErrorInvalidValue);
  Node changed{type};
  if (cudaError_t error = set(changed)) return failed(error);
  step->work = changed.work;
  return cudaSuccess;
}
}  // namespace loom

extern "C" {
cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) { return *graph = new CUgraph_st, cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) { return *clone = graph->clone(), cudaSuccess; }
cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* found, cudaGraphNode_t node, cudaGraph_t clone) {
  for (Node* one : clone->nodes)
    if (one->origin == node) return *found = one, cudaSuccess;
  return failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes)
    for (size_t i = 0; i < *count && i < graph->nodes.size(); ++i) nodes[i] = graph->nodes[i];
  return *count = graph->nodes.size(), cudaSuccess;
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  size_t roots = 0;
  for (Node* node : graph->nodes)
    if (node->after.empty() && (!nodes || roots < *count)) (void)(nodes ? nodes[roots] = node : node), ++roots;
  return *count = roots, cudaSuccess;
}
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* count) {
  size_t edges = 0;
  for (Node* node : graph->nodes)
    for (Node* before : node->after) {
      if (from && edges < *count) from[edges] = before, to[edges] = node;
      ++edges;
    }
  return *count = from ? std::min(*count, edges) : edges, cudaSuccess;
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  for (size_t i = 0; nodes && i < *count && i < node->after.size(); ++i) nodes[i] = node->after[i];
  return *count = node->after.size(), cudaSuccess;
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  size_t found = 0;
  for (Node* one : node->graph->nodes)
    if (std::count(one->after.begin(), one->after.end(), node)) {
      if (nodes && found < *count) nodes[found] = one;
      ++found;
    }
  return *count = found, cudaSuccess;
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (from[i]->graph != graph || to[i]->graph != graph) return failed(cudaErrorInvalidValue);
    to[i]->after.push_back(from[i]);
  }
  return cudaSuccess;
}
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    auto& after = to[i]->after;
    after.erase(std::remove(after.begin(), after.end(), from[i]), after.end());
  }
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) { return *type = node->type, cudaSuccess; }
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  auto& nodes = node->graph->nodes;
  auto& captured = node->graph->captured;
  captured.erase(std::remove(captured.begin(), captured.end(), node), captured.end());
  nodes.erase(std::find(nodes.begin(), nodes.end(), node));
  for (Node* one : nodes) one->after.erase(std::remove(one->after.begin(), one->after.end(), node), one->after.end());
  for (CUgraph_st* body : node->bodies) delete body;
  return delete node, cudaSuccess;
}
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  static const char* const names[] = {"kernel", "memcpy", "memset", "host", "graph", "empty", "wait event", "record event", "signal", "wait", "allocate", "free", "", "conditional"};
  FILE* file = fopen(path, "w");
  if (!file) return failed(cudaErrorOperatingSystem);
  fprintf(file, "digraph graph_1 {\n");
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    fprintf(file, "  n%zu [label=\"%s\"];\n", i, names[graph->nodes[i]->type]);
    for (Node* before : graph->nodes[i]->after)
      fprintf(file, "  n%zu -> n%zu;\n", (size_t)(std::find(graph->nodes.begin(), graph->nodes.end(), before) - graph->nodes.begin()), i);
  }
  fprintf(file, "}\n");
  return fclose(file), cudaSuccess;
}

// ---- instances
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  if (!exec || !graph) return failed(cudaErrorInvalidValue);
  auto made = std::make_unique<CUgraphExec_st>();
  made->flags = flags;
  if (!make_steps(*graph, made->steps, made->conditions)) return failed(cudaErrorInvalidValue);
  return *exec = made.release(), cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphInstantiateParams* p) {
  cudaError_t error = cudaGraphInstantiateWithFlags(exec, graph, p->flags);
  p->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateInvalidStructure;
  return p->errNode_out = nullptr, error;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return delete exec, cudaSuccess; }
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) { return *flags = exec->flags, cudaSuccess; }
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  std::vector<Step> steps = exec->steps;
  record_events(steps);
  return result(enqueue(stream, [steps = std::move(steps), conditions = exec->conditions] {
    for (const auto& one : conditions)
      if (one->set_at_launch) one->value = one->start;
    run(steps);
  }));
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
  std::vector<Step> steps;
  std::vector<std::shared_ptr<Condition>> conditions;
  bool same = make_steps(*graph, steps, conditions) && take(exec->steps, std::move(steps));
  if (info) *info = {same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged, nullptr, nullptr};
  return same ? cudaSuccess : failed(cudaErrorGraphExecUpdateFailure);
}
cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child) {
  Step* step = find_step(exec->steps, node);
  std::vector<Step> steps;
  std::vector<std::shared_ptr<Condition>> conditions;
  bool same = step && step->type == cudaGraphNodeTypeGraph && make_steps(*child, steps, conditions) && take(step->bodies[0], std::move(steps));
  return same ? cudaSuccess : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled) {
  Step* step = find_step(exec->steps, node);
  return step ? (step->enabled = enabled != 0, cudaSuccess) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled) {
  Step* step = find_step(exec->steps, node);
  return step ? (*enabled = step->enabled, cudaSuccess) : failed(cudaErrorInvalidValue);
}
}
