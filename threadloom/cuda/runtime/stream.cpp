// Streams and events, and the capture of streams into graphs. A stream that the program creates is a queue with a thread
// (queue.h). The default stream has none: its work runs in the calling thread, after the work of all streams but the
// non-blocking ones.
#include "graph.h"
#include "pages.h"
#include "queue.h"

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <vector>

using Clock = std::chrono::steady_clock;

struct CUstream_st {
  unsigned flags = 0;
  int priority = 0;
  CUgraph_st* capture = nullptr;
  bool owns_capture = false;
  loom::Queue queue;
};
// One record of an event. Work in queues refers to it, so it outlives its event, and is not confused with a later record
// that another stream reaches before.
struct Record {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  Clock::time_point time;
  std::shared_ptr<loom::SharedRecords> shared;  // of an event that other processes know; then `number` says which it is
  uint64_t number = 0;

  void reach() {
    if (shared) return shared->reach(number);
    std::lock_guard<std::mutex> guard(mutex);
    reached = true;
    time = Clock::now();
    changed.notify_all();
  }
  bool is_reached() {
    if (shared) return shared->is_reached(number);
    std::lock_guard<std::mutex> guard(mutex);
    return reached;
  }
  void wait() {
    if (shared) return shared->wait(number);
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return reached; });
  }
};
struct CUevent_st {
  unsigned flags = 0;
  std::shared_ptr<Record> last;   // null: never recorded
  CUgraph_st* capture = nullptr;  // where the event was recorded while capturing
  std::shared_ptr<loom::SharedRecords> shared;
};

extern "C" int __loom_max_threads();  // parallel.cpp

namespace loom {
namespace {
struct Live {
  std::mutex mutex;
  std::map<CUstream_st*, std::shared_ptr<CUstream_st>> streams;  // shared with who waits for all: another thread may destroy one
  std::set<CUevent_st*> events;
  CUstream_st standard;
};
Live& live() {
  static Live* all = new Live;
  return *all;
}

CUstream_st* resolve(cudaStream_t stream) {
  if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return &live().standard;
  std::lock_guard<std::mutex> guard(live().mutex);
  return live().streams.count(stream) ? stream : nullptr;
}

bool is_event(cudaEvent_t event) {
  std::lock_guard<std::mutex> guard(live().mutex);
  return live().events.count(event) > 0;
}

// Null where there is no such event, or it was never recorded.
std::shared_ptr<Record> last_record(cudaEvent_t event) {
  std::lock_guard<std::mutex> guard(live().mutex);
  if (!live().events.count(event)) return nullptr;
  if (!event->shared || !event->shared->last()) return event->last;
  auto record = std::make_shared<Record>();
  record->shared = event->shared, record->number = event->shared->last();
  return record;
}
}  // namespace

std::shared_ptr<SharedRecords> shared_records(cudaEvent_t event) {
  std::lock_guard<std::mutex> guard(live().mutex);
  return live().events.count(event) ? event->shared : nullptr;
}

cudaEvent_t event_of(std::shared_ptr<SharedRecords> records) {
  auto* event = new CUevent_st{cudaEventDisableTiming | cudaEventInterprocess};
  event->shared = std::move(records);
  std::lock_guard<std::mutex> guard(live().mutex);
  live().events.insert(event);
  return event;
}

bool is_stream(cudaStream_t stream) { return resolve(stream) != nullptr; }

bool serial() {
  static const bool yes = getenv("LOOM_CHECK_FILE") != nullptr;
  return yes;
}

namespace {
// Streams that have been used, without those that do not wait for the default stream where `blocking` says so.
void wait_for(bool blocking) {
  if (Queue::inside()) return;
  run_postponed();
  std::vector<std::shared_ptr<CUstream_st>> streams;
  {
    std::lock_guard<std::mutex> guard(live().mutex);
    for (auto& [name, stream] : live().streams)
      if (!blocking || !(stream->flags & cudaStreamNonBlocking)) streams.push_back(stream);
  }
  for (auto& stream : streams) stream->queue.wait();
}
}  // namespace

void wait_for_streams() { wait_for(false); }

bool streams_idle() {
  std::lock_guard<std::mutex> guard(live().mutex);
  for (auto& [name, stream] : live().streams)
    if (!(stream->flags & cudaStreamNonBlocking) && !stream->queue.idle()) return false;
  return true;
}

bool may_postpone(cudaStream_t stream) { return resolve(stream) == &live().standard && !Queue::inside() && !serial(); }

bool runs_at_once(cudaStream_t stream) {
  CUstream_st* known = resolve(stream);
  return !known || (!known->capture && (known == &live().standard || Queue::inside() || serial()));
}

cudaError_t enqueue(cudaStream_t stream, Work work, cudaGraphNodeType type) {
  CUstream_st* known = resolve(stream);
  if (!known) return cudaErrorInvalidResourceHandle;
  if (!Queue::inside()) run_postponed();
  if (known->capture) {
    known->capture->add_captured(type, std::move(work));
  } else if (runs_at_once(stream)) {
    if (known == &live().standard && stream != cudaStreamPerThread) wait_for(true);
    work();
  } else {
    // What has been issued is done before the program ends, and before the OpenMP runtime is: it starts here, so ends later.
    static const int drained = (__loom_max_threads(), atexit(wait_for_streams));
    (void)drained;
    known->queue.add(std::move(work));
  }
  return device_error();
}

CUgraphNode_st* captured_node(cudaStream_t stream) {
  CUstream_st* known = resolve(stream);
  return known && known->capture && !known->capture->captured.empty() ? known->capture->captured.back() : nullptr;
}

Work record_later(cudaEvent_t event) {
  auto record = std::make_shared<Record>();
  std::lock_guard<std::mutex> guard(live().mutex);
  if (!live().events.count(event)) return [] {};
  event->last = record;
  if (event->shared) record->shared = event->shared, record->number = event->shared->issue();
  return [record] { record->reach(); };
}

cudaError_t enqueue_and_wait(cudaStream_t stream, Work work, cudaGraphNodeType type) {
  cudaError_t error = enqueue(stream, std::move(work), type);
  CUstream_st* known = resolve(stream);
  if (known && !known->capture && !Queue::inside()) known->queue.wait();
  return error == cudaSuccess ? device_error() : error;
}
}  // namespace loom

using namespace loom;

extern "C" {
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (!stream || flags > cudaStreamNonBlocking) return failed(cudaErrorInvalidValue);
  auto made = std::make_shared<CUstream_st>();
  made->flags = flags;
  made->priority = priority;
  *stream = made.get();
  std::lock_guard<std::mutex> guard(live().mutex);
  live().streams[made.get()] = made;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::shared_ptr<CUstream_st> last;  // goes when its work is done
  std::lock_guard<std::mutex> guard(live().mutex);
  auto found = live().streams.find(stream);
  if (found == live().streams.end()) return failed(cudaErrorInvalidResourceHandle);
  last = std::move(found->second);
  live().streams.erase(found);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CUstream_st* known = resolve(stream);
  if (!known) return failed(cudaErrorInvalidResourceHandle);
  if (known->capture) return failed(cudaErrorStreamCaptureUnsupported);
  if (known == &live().standard)
    wait_for(true);
  else if (!Queue::inside())
    known->queue.wait();
  return result(device_error());
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  CUstream_st* known = resolve(stream);
  if (!known) return failed(cudaErrorInvalidResourceHandle);
  if (device_error() != cudaSuccess) return result(device_error());
  if (known != &live().standard) return known->queue.idle() ? cudaSuccess : cudaErrorNotReady;
  run_postponed();
  return streams_idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  CUstream_st* known = resolve(stream);
  return known ? (*priority = known->priority, cudaSuccess) : failed(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  CUstream_st* known = resolve(stream);
  return known && id ? (*id = (uintptr_t)known, cudaSuccess) : failed(known ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  CUstream_st* known = resolve(stream);
  return known ? (*flags = known->flags, cudaSuccess) : failed(cudaErrorInvalidResourceHandle);
}
// Waiting for an event of a captured stream makes this stream part of the same capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  CUstream_st* known = resolve(stream);
  if (!known || !is_event(event)) return failed(cudaErrorInvalidResourceHandle);
  if (event->capture && !known->capture) known->capture = event->capture;
  if (known->capture) return cudaSuccess;
  std::shared_ptr<Record> record = last_record(event);
  if (!record || record->is_reached()) return cudaSuccess;
  return result(enqueue(stream, [record] { record->wait(); }));
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned) {
  return result(enqueue(stream, [=] { callback(stream, cudaSuccess, data); }, cudaGraphNodeTypeHost));
}
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void*, size_t, unsigned) {
  return result(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID, const cudaStreamAttrValue*) {
  return result(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue* value) {
  memset(value, 0, sizeof *value);
  if (attribute == cudaLaunchAttributePriority) return cudaStreamGetPriority(stream, &value->priority);
  return result(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  cudaError_t error = enqueue(stream, [=] { function(data); });
  if (CUgraphNode_st* node = captured_node(stream)) node->call = {function, data};
  return result(error);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (!event || (flags & (cudaEventInterprocess | cudaEventDisableTiming)) == cudaEventInterprocess) return failed(cudaErrorInvalidValue);
  if (flags & cudaEventInterprocess) {
    auto records = std::make_shared<SharedRecords>();
    if (!records->good()) return failed(cudaErrorMemoryAllocation);
    return *event = event_of(std::move(records)), cudaSuccess;
  }
  *event = new CUevent_st;
  (*event)->flags = flags;
  std::lock_guard<std::mutex> guard(live().mutex);
  live().events.insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::lock_guard<std::mutex> guard(live().mutex);
  if (!live().events.erase(event)) return failed(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}
// In a capture an event only tells what comes after what, unless it is said to be for others.
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  CUstream_st* known = resolve(stream);
  if (!known || !is_event(event)) return failed(cudaErrorInvalidResourceHandle);
  event->capture = known->capture;
  if (!known->capture) return result(enqueue(stream, record_later(event)));
  if (flags == cudaEventRecordExternal) known->capture->add_captured(cudaGraphNodeTypeEventRecord, [] {})->event = event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecordWithFlags(event, stream, 0); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!is_event(event)) return failed(cudaErrorInvalidResourceHandle);
  if (std::shared_ptr<Record> record = last_record(event)) record->wait();
  return result(device_error());
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!is_event(event)) return failed(cudaErrorInvalidResourceHandle);
  std::shared_ptr<Record> record = last_record(event);
  return record && !record->is_reached() ? cudaErrorNotReady : result(device_error());
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  std::shared_ptr<Record> from = last_record(start), to = last_record(end);
  if (!from || !to || (start->flags | end->flags) & cudaEventDisableTiming) return failed(cudaErrorInvalidResourceHandle);
  if (!from->is_reached() || !to->is_reached()) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return cudaSuccess;
}

// ---- capture
static bool are_of(const CUgraph_st* graph, const cudaGraphNode_t* nodes, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!nodes[i] || nodes[i]->graph != graph) return false;
  return true;
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* after, const cudaGraphEdgeData*, size_t count,
                                          cudaStreamCaptureMode) {
  CUstream_st* known = resolve(stream);
  if (!known || known == &live().standard) return failed(cudaErrorStreamCaptureUnsupported);
  if (known->capture) return failed(cudaErrorIllegalState);
  if (!graph || (count && !after) || !are_of(graph, after, count)) return failed(cudaErrorInvalidValue);
  known->capture = graph;
  graph->captured.assign(after, after + count);
  known->owns_capture = true;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  auto graph = std::make_unique<CUgraph_st>();
  cudaError_t error = cudaStreamBeginCaptureToGraph(stream, graph.get(), nullptr, nullptr, 0, mode);
  if (error == cudaSuccess) graph.release();
  return error;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  CUstream_st* known = resolve(stream);
  if (!known || !known->capture) return failed(cudaErrorIllegalState);
  if (!known->owns_capture) return failed(cudaErrorStreamCaptureUnmatched);
  CUgraph_st* captured = known->capture;
  std::lock_guard<std::mutex> guard(live().mutex);
  for (auto& [name, other] : live().streams)
    if (other->capture == captured) other->capture = nullptr;
  for (CUevent_st* event : live().events)
    if (event->capture == captured) event->capture = nullptr;
  known->owns_capture = false;
  if (graph) *graph = captured;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  CUstream_st* known = resolve(stream);
  if (!known) return failed(cudaErrorInvalidResourceHandle);
  *status = known->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** after,
                                     size_t* count) {
  cudaError_t error = cudaStreamIsCapturing(stream, status);
  if (error != cudaSuccess || *status == cudaStreamCaptureStatusNone) return error;
  CUgraph_st* captured = resolve(stream)->capture;
  if (id) *id = (unsigned long long)(size_t)captured;
  if (graph) *graph = captured;
  if (after) *after = captured->captured.data();
  if (count) *count = captured->captured.size();
  return cudaSuccess;
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* after, size_t count, unsigned flags) {
  CUstream_st* known = resolve(stream);
  if (!known) return failed(cudaErrorInvalidResourceHandle);
  if (!known->capture) return failed(cudaErrorIllegalState);
  if (flags > cudaStreamSetCaptureDependencies || (count && !after) || !are_of(known->capture, after, count)) return failed(cudaErrorInvalidValue);
  auto& captured = known->capture->captured;
  if (flags == cudaStreamSetCaptureDependencies) captured.clear();
  captured.insert(captured.end(), after, after + count);
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
}
