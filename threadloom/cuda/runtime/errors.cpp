// Error codes, names and texts.
#include "runtime.h"

#include <atomic>

namespace loom {
static thread_local cudaError_t last_error = cudaSuccess;
static std::atomic<int> sticky_error{cudaSuccess};

cudaError_t failed(cudaError_t error) { return last_error = error; }
void break_device(cudaError_t error) { sticky_error = error; }
cudaError_t device_error() { return (cudaError_t)sticky_error.load(); }
}  // namespace loom

extern "C" {
cudaError_t cudaGetLastError() {
  cudaError_t error = loom::device_error() != cudaSuccess ? loom::device_error() : loom::last_error;
  loom::last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return loom::device_error() != cudaSuccess ? loom::device_error() : loom::last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch ((int)error) {
#define LOOM_ERROR(name, value, text) \
  case value: return #name;
#include <loom/errors.def>
#undef LOOM_ERROR
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch ((int)error) {
#define LOOM_ERROR(name, value, text) \
  case value: return text;
#include <loom/errors.def>
#undef LOOM_ERROR
  }
  return "unrecognized error code";
}
}
