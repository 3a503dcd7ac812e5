// Graphs: nodes of every kind, an order that dependences give, changed parameters, capture of two streams, conditions.
#include "check.h"

__global__ void add(int* x, int value) { x[threadIdx.x] += value; }
__device__ int factor;
__global__ void scale(int* x) { x[threadIdx.x] *= factor; }
__global__ void count_to(int* x, int end, cudaGraphConditionalHandle handle) { cudaGraphSetConditional(handle, ++*x < end); }
__global__ void choose(cudaGraphConditionalHandle handle, const int* which) { cudaGraphSetConditional(handle, *which); }
static void CUDART_CB called(void* count) { ++*(int*)count; }

const int n = 32;
const size_t bytes = n * sizeof(int);

static cudaKernelNodeParams call_of(void* kernel, void** arguments) { return {kernel, dim3(1), dim3(n), 0, arguments, nullptr}; }

void check_nodes() {
  int *x, *y, hosted = 0, by = 3, back[n] = {}, other[n] = {};
  CUDA(cudaMalloc(&x, bytes));
  CUDA(cudaMalloc(&y, bytes));
  CUDA(cudaMemset(y, 0, bytes));
  void *on_x[] = {&x, &by}, *on_y[] = {&y, &by};
  cudaGraph_t graph, child;
  cudaGraphNode_t fill, launch, copy, call, inner, nested, empty;
  CUDA(cudaGraphCreate(&graph, 0));
  // The launch is added first and runs after the fill: an order that only cudaGraphAddDependencies says.
  cudaKernelNodeParams of_x = call_of((void*)add, on_x), of_y = call_of((void*)add, on_y);
  cudaKernelNodeParams too_large = of_x;
  too_large.blockDim = dim3(2048);
  EXPECT(cudaGraphAddKernelNode(&launch, graph, nullptr, 0, &too_large) == cudaErrorInvalidConfiguration, "2048 threads");
  cudaGetLastError();
  CUDA(cudaGraphAddKernelNode(&launch, graph, nullptr, 0, &of_x));
  cudaMemsetParams fives = {x, 0, 5, 4, (size_t)n, 1};
  CUDA(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &fives));
  CUDA(cudaGraphAddDependencies(graph, &fill, &launch, 1));
  CUDA(cudaGraphAddMemcpyNode1D(&copy, graph, &launch, 1, back, x, bytes, cudaMemcpyDeviceToHost));
  cudaHostNodeParams counts = {called, &hosted};
  CUDA(cudaGraphAddHostNode(&call, graph, &copy, 1, &counts));
  CUDA(cudaGraphCreate(&child, 0));
  CUDA(cudaGraphAddKernelNode(&inner, child, nullptr, 0, &of_y));
  CUDA(cudaGraphAddChildGraphNode(&nested, graph, nullptr, 0, child));
  CUDA(cudaGraphDestroy(child));  // the node has a copy
  CUDA(cudaGraphAddEmptyNode(&empty, graph, &nested, 1));
  size_t nodes = 0, edges = 0, roots = 0;
  CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  CUDA(cudaGraphGetEdges(graph, nullptr, nullptr, &edges));
  CUDA(cudaGraphGetRootNodes(graph, nullptr, &roots));
  EXPECT(nodes == 6 && edges == 4 && roots == 2, "%zu nodes, %zu edges, %zu roots", nodes, edges, roots);
  cudaGraphNodeType type;
  CUDA(cudaGraphNodeGetType(nested, &type));
  EXPECT(type == cudaGraphNodeTypeGraph, "type %d", type);
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (int i = 0; i < 3; ++i) CUDA(cudaGraphLaunch(exec, 0));
  CUDA(cudaMemcpy(other, y, bytes, cudaMemcpyDeviceToHost));
  EXPECT(back[n - 1] == 8 && hosted == 3 && other[n - 1] == 9, "%d, %d, %d", back[n - 1], hosted, other[n - 1]);

  fives.value = 1, by = 10;
  CUDA(cudaGraphExecMemsetNodeSetParams(exec, fill, &fives));
  CUDA(cudaGraphExecKernelNodeSetParams(exec, launch, &of_x));
  CUDA(cudaGraphExecMemcpyNodeSetParams1D(exec, copy, other, x, bytes, cudaMemcpyDeviceToHost));
  CUDA(cudaGraphNodeSetEnabled(exec, call, 0));
  CUDA(cudaGraphLaunch(exec, 0));
  CUDA(cudaDeviceSynchronize());
  EXPECT(other[0] == 11 && back[0] == 8 && hosted == 3, "%d, %d, %d", other[0], back[0], hosted);

  cudaGraph_t copied;
  cudaGraphNode_t same;
  CUDA(cudaGraphClone(&copied, graph));
  CUDA(cudaGraphNodeFindInClone(&same, launch, copied));
  EXPECT(cudaGraphNodeFindInClone(&same, same, copied) == cudaErrorInvalidValue, "a node of the clone itself");
  CUDA(cudaGraphDestroyNode(empty));
  CUDA(cudaGraphAddDependencies(graph, &call, &fill, 1));
  EXPECT(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0) == cudaErrorInvalidValue, "a circle");
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaGraphInstantiate(&exec, copied, nullptr, nullptr, 0));
  CUDA(cudaGraphLaunch(exec, 0));
  CUDA(cudaDeviceSynchronize());
  EXPECT(back[0] == 8, "%d", back[0]);
}

void check_symbols_events_and_parameters() {
  int *x, seven = 7, back[n];
  CUDA(cudaMalloc(&x, bytes));
  cudaGraph_t graph;
  cudaGraphNode_t made, first, second, third, last, freed;
  CUDA(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams wanted = {}, got;
  wanted.bytesize = bytes;
  CUDA(cudaGraphAddMemAllocNode(&made, graph, nullptr, 0, &wanted));
  CUDA(cudaGraphMemAllocNodeGetParams(made, &got));
  EXPECT(got.dptr == wanted.dptr && got.bytesize == bytes, "%zu", got.bytesize);
  cudaMemsetParams twos = {wanted.dptr, 0, 2, 4, (size_t)n, 1};
  CUDA(cudaGraphAddMemsetNode(&first, graph, &made, 1, &twos));
  CUDA(cudaGraphAddMemcpyNodeToSymbol(&second, graph, &first, 1, factor, &seven, sizeof seven, 0, cudaMemcpyHostToDevice));
  void* arguments[] = {&wanted.dptr};
  cudaGraphNodeParams scaled = {cudaGraphNodeTypeKernel};
  scaled.kernel = call_of((void*)scale, arguments);
  CUDA(cudaGraphAddNode(&third, graph, &second, nullptr, 1, &scaled));
  cudaEvent_t event;
  CUDA(cudaEventCreate(&event));
  CUDA(cudaGraphAddEventRecordNode(&last, graph, &third, 1, event));
  CUDA(cudaGraphAddMemcpyNode1D(&last, graph, &last, 1, back, wanted.dptr, bytes, cudaMemcpyDeviceToHost));
  CUDA(cudaGraphAddMemFreeNode(&freed, graph, &last, 1, wanted.dptr));
  cudaKernelNodeParams read;
  CUDA(cudaGraphKernelNodeGetParams(third, &read));
  EXPECT(read.func == (void*)scale && *(void**)read.kernelParams[0] == wanted.dptr, "%p", read.func);
  cudaGraphExec_t exec;
  cudaGraphInstantiateParams how = {};
  CUDA(cudaGraphInstantiateWithParams(&exec, graph, &how));
  CUDA(cudaGraphLaunch(exec, 0));
  CUDA(cudaEventSynchronize(event));
  CUDA(cudaDeviceSynchronize());
  EXPECT(back[n - 1] == 14, "%d", back[n - 1]);
}

void check_capture() {
  int *x, back[n];
  CUDA(cudaMalloc(&x, bytes));
  cudaStream_t stream, other;
  cudaEvent_t forked, joined;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaStreamCreate(&other));
  CUDA(cudaEventCreate(&forked));
  CUDA(cudaEventCreate(&joined));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA(cudaMemsetAsync(x, 0, bytes, stream));
  CUDA(cudaEventRecord(forked, stream));
  CUDA(cudaStreamWaitEvent(other, forked, 0));
  add<<<1, n, 0, other>>>(x, 4);
  CUDA(cudaEventRecord(joined, other));
  CUDA(cudaStreamWaitEvent(stream, joined, 0));
  add<<<1, n, 0, stream>>>(x, 2);
  CUDA(cudaMemcpyAsync(back, x, bytes, cudaMemcpyDeviceToHost, stream));
  cudaGraph_t graph, seen;
  cudaStreamCaptureStatus status;
  CUDA(cudaStreamGetCaptureInfo(stream, &status, nullptr, &seen));
  CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT(status == cudaStreamCaptureStatusActive && seen == graph, "status %d", status);
  cudaGraphNode_t nodes[8];
  size_t count = 8;
  CUDA(cudaGraphGetNodes(graph, nodes, &count));
  const cudaGraphNodeType types[] = {cudaGraphNodeTypeMemset, cudaGraphNodeTypeKernel, cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemcpy};
  EXPECT(count == 4, "%zu nodes", count);
  for (size_t i = 0; i < 4 && i < count; ++i) {
    cudaGraphNodeType type;
    CUDA(cudaGraphNodeGetType(nodes[i], &type));
    EXPECT(type == types[i], "node %zu: %d", i, type);
  }
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; ++i) CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaStreamSynchronize(stream));
  EXPECT(back[n - 1] == 6, "%d", back[n - 1]);
}

// A node that the program adds itself in a capture, and what comes after it.
void check_capture_dependencies() {
  int *x, sum = 0;
  CUDA(cudaMallocManaged(&x, sizeof(int)));
  *x = 0;
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  cudaGraphNode_t added, nodes[8];
  const cudaGraphNode_t* after;
  size_t count = 8;
  cudaStreamCaptureStatus status;
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT(cudaStreamUpdateCaptureDependencies(0, nullptr, 0, 0) == cudaErrorIllegalState, "a stream that captures nothing");
  add<<<1, 1, 0, stream>>>(x, 4);
  CUDA(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &after, &count));
  EXPECT(count == 1, "%zu nodes", count);
  cudaHostNodeParams doubled = {[](void* x) { *(int*)x *= 2; }, x};
  CUDA(cudaGraphAddHostNode(&added, graph, after, count, &doubled));
  CUDA(cudaStreamUpdateCaptureDependencies(stream, &added, nullptr, 1, cudaStreamSetCaptureDependencies));
  CUDA(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &after, &count));
  EXPECT(count == 1 && after[0] == added, "%zu nodes", count);
  cudaGraphNode_t empty;
  CUDA(cudaGraphAddEmptyNode(&empty, graph, nullptr, 0));
  CUDA(cudaStreamUpdateCaptureDependencies(stream, &empty, 1, cudaStreamAddCaptureDependencies));
  add<<<1, 1, 0, stream>>>(x, 3);
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphGetNodes(graph, nodes, &(count = 8)));
  EXPECT(count == 4, "%zu nodes", count);
  CUDA(cudaGraphNodeGetDependencies(nodes[3], nodes + 4, &(count = 4)));
  EXPECT(count == 2 && nodes[4] == added && nodes[5] == empty, "%zu nodes", count);
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaStreamSynchronize(stream));
  sum = *x;
  EXPECT(sum == 11, "%d", sum);
}

static cudaGraph_t* add_condition(cudaGraph_t graph, cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type, unsigned size,
                                  const cudaGraphNode_t* after) {
  cudaGraphNodeParams p = {cudaGraphNodeTypeConditional};
  p.conditional.handle = handle;
  p.conditional.type = type;
  p.conditional.size = size;
  cudaGraphNode_t node;
  CUDA(cudaGraphAddNode(&node, graph, after, after ? 1 : 0, &p));
  return p.conditional.phGraph_out;
}

void check_parameters_of_what_was_captured() {
  int *x, by = 3, more = 10, hosted = 0, back[n] = {};
  CUDA(cudaMalloc(&x, bytes));
  CUDA(cudaMemset(x, 0, bytes));
  cudaStream_t stream;
  cudaGraph_t graph;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add<<<1, n, 0, stream>>>(x, by);
  CUDA(cudaLaunchHostFunc(stream, called, &hosted));
  CUDA(cudaMemcpyAsync(back, x, bytes, cudaMemcpyDeviceToHost, stream));
  CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t nodes[3];
  size_t count = 3;
  CUDA(cudaGraphGetNodes(graph, nodes, &count));
  cudaKernelNodeParams launch;
  cudaHostNodeParams call;
  cudaMemcpy3DParms copy;
  CUDA(cudaGraphKernelNodeGetParams(nodes[0], &launch));
  EXPECT(launch.func == (void*)add && launch.blockDim.x == n && *(int*)launch.kernelParams[1] == 3, "%u", launch.blockDim.x);
  CUDA(cudaGraphHostNodeGetParams(nodes[1], &call));
  EXPECT(call.fn == called && call.userData == &hosted, "%p", call.userData);
  EXPECT(cudaGraphMemcpyNodeGetParams(nodes[2], &copy) == cudaErrorNotSupported, "nobody noted them");
  cudaGetLastError();
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  void* arguments[] = {&x, &more};
  launch.kernelParams = arguments;
  CUDA(cudaGraphExecKernelNodeSetParams(exec, nodes[0], &launch));
  CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaStreamSynchronize(stream));
  EXPECT(back[n - 1] == 10 && hosted == 1, "%d", back[n - 1]);
}

void check_conditions() {
  int *x, *which;
  CUDA(cudaMallocManaged(&x, 2 * sizeof(int)));
  CUDA(cudaMallocManaged(&which, sizeof(int)));
  x[0] = x[1] = 0;
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphConditionalHandle more, chosen;
  CUDA(cudaGraphCreate(&graph, 0));
  CUDA(cudaGraphConditionalHandleCreate(&more, graph, 1, cudaGraphCondAssignDefault));
  cudaGraph_t body = add_condition(graph, more, cudaGraphCondTypeWhile, 1, nullptr)[0];
  CUDA(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
  count_to<<<1, 1, 0, stream>>>(x, 10, more);
  CUDA(cudaStreamEndCapture(stream, nullptr));
  CUDA(cudaGraphConditionalHandleCreate(&chosen, graph));
  cudaGraphNode_t choice;
  void* arguments[] = {&chosen, &which};
  cudaKernelNodeParams call = {(void*)choose, dim3(1), dim3(1), 0, arguments, nullptr};
  CUDA(cudaGraphAddKernelNode(&choice, graph, nullptr, 0, &call));
  cudaGraph_t* cases = add_condition(graph, chosen, cudaGraphCondTypeSwitch, 2, &choice);
  for (int i = 0; i < 2; ++i) {
    int* at = x + 1;
    int by = i ? 100 : 1;
    void* of_case[] = {&at, &by};
    cudaKernelNodeParams adds = {(void*)add, dim3(1), dim3(1), 0, of_case, nullptr};
    cudaGraphNode_t node;
    CUDA(cudaGraphAddKernelNode(&node, cases[i], nullptr, 0, &adds));
  }
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int value : {1, 0, 2}) {  // there is no case 2
    *which = value;
    CUDA(cudaGraphLaunch(exec, stream));
    CUDA(cudaStreamSynchronize(stream));
  }
  EXPECT(x[0] == 12 && x[1] == 101, "%d and %d", x[0], x[1]);  // 10 turns, then one each
}

int main() {
  check_nodes();
  check_symbols_events_and_parameters();
  check_capture();
  check_capture_dependencies();
  check_parameters_of_what_was_captured();
  check_conditions();
  return wrong != 0;
}
