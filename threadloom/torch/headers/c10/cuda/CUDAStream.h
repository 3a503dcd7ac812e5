/* PyTorch's stream API over our runtime: one device, streams are ours, pools are new streams. */
#pragma once
#include <cuda_runtime_api.h>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <functional>
#include <ostream>

namespace c10::cuda {

class CUDAStream {
 public:
  enum Unchecked { UNCHECKED };
  explicit CUDAStream(cudaStream_t stream = nullptr) : stream_(stream) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return 0; }
  Device device() const { return Device(DeviceType::CPU); }
  StreamId id() const { return reinterpret_cast<StreamId>(stream_); }
  int priority() const { return 0; }
  bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }
  void synchronize() const { cudaStreamSynchronize(stream_); }
  bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }
  bool operator!=(const CUDAStream& other) const { return stream_ != other.stream_; }

 private:
  cudaStream_t stream_;
};

namespace detail {
inline cudaStream_t& current() {
  static thread_local cudaStream_t stream = nullptr;
  return stream;
}
}  // namespace detail

inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return CUDAStream(detail::current()); }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return CUDAStream(); }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex = -1) { return CUDAStream(stream); }
inline void setCurrentCUDAStream(CUDAStream stream) { detail::current() = stream.stream(); }
inline CUDAStream getStreamFromPool(const bool = false, DeviceIndex = -1) {
  cudaStream_t stream = nullptr;
  TORCH_CHECK(cudaStreamCreate(&stream) == cudaSuccess, "no stream could be made");
  return CUDAStream(stream);
}
inline CUDAStream getStreamFromPool(const int, DeviceIndex device = -1) { return getStreamFromPool(false, device); }
inline std::ostream& operator<<(std::ostream& out, const CUDAStream& stream) { return out << "stream " << stream.id(); }

}  // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromExternal;
using c10::cuda::getStreamFromPool;
using c10::cuda::setCurrentCUDAStream;
}  // namespace at::cuda
