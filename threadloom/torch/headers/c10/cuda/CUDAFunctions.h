/* Devices: there is one, the CPU. */
#pragma once
#include <cuda_runtime_api.h>

#include <c10/core/Device.h>
#include <c10/cuda/CUDAException.h>

namespace c10::cuda {
inline DeviceIndex device_count() noexcept { return 1; }
inline DeviceIndex device_count_ensure_non_zero() { return 1; }
inline DeviceIndex current_device() { return 0; }
inline void set_device(DeviceIndex, bool = false) {}
inline DeviceIndex ExchangeDevice(DeviceIndex) { return 0; }
inline void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
inline void warn_or_error_on_sync() {}
}  // namespace c10::cuda
