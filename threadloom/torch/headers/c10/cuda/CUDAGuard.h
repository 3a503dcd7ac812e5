/* Guards: there is one device, so a device guard only remembers; a stream guard sets the current stream. */
#pragma once
#include <c10/core/Device.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>

namespace c10::cuda {

class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex) {}
  explicit CUDAGuard(Device) {}
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  void set_device(Device) {}
  void reset_device(Device) {}
  void set_index(DeviceIndex) {}
  Device original_device() const { return Device(DeviceType::CPU); }
  Device current_device() const { return Device(DeviceType::CPU); }
};

class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) : set_(device.has_value()) {}
  explicit OptionalCUDAGuard(std::optional<DeviceIndex> index) : set_(index.has_value()) {}
  void set_device(Device) { set_ = true; }
  void reset_device(Device) { set_ = true; }
  void set_index(DeviceIndex) { set_ = true; }
  std::optional<Device> original_device() const { return current_device(); }
  std::optional<Device> current_device() const {
    return set_ ? std::optional<Device>(Device(DeviceType::CPU)) : std::nullopt;
  }
  void reset() { set_ = false; }

 private:
  bool set_ = false;
};

class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(CUDAStream stream) : original_(getCurrentCUDAStream()) { setCurrentCUDAStream(stream); }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
  ~CUDAStreamGuard() { setCurrentCUDAStream(original_); }
  void reset_stream(CUDAStream stream) { setCurrentCUDAStream(stream); }
  CUDAStream original_stream() const { return original_; }
  CUDAStream current_stream() const { return getCurrentCUDAStream(); }
  Device current_device() const { return Device(DeviceType::CPU); }
  Device original_device() const { return Device(DeviceType::CPU); }

 private:
  CUDAStream original_;
};

class OptionalCUDAStreamGuard {
 public:
  OptionalCUDAStreamGuard() = default;
  explicit OptionalCUDAStreamGuard(CUDAStream stream) { guard_.emplace(stream); }
  explicit OptionalCUDAStreamGuard(std::optional<CUDAStream> stream) {
    if (stream) guard_.emplace(*stream);
  }
  void reset_stream(CUDAStream stream) { guard_ ? guard_->reset_stream(stream) : (void)guard_.emplace(stream); }
  void reset() { guard_.reset(); }

 private:
  std::optional<CUDAStreamGuard> guard_;
};

}  // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStreamGuard;
using c10::cuda::OptionalCUDAGuard;
using c10::cuda::OptionalCUDAStreamGuard;
}  // namespace at::cuda
