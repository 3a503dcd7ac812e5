/* What programs ask about the device. */
#pragma once
#include <cuda_runtime_api.h>

#include <c10/cuda/CUDAFunctions.h>

namespace at::cuda {
inline bool is_available() { return true; }
inline int64_t getNumGPUs() { return 1; }
inline c10::DeviceIndex current_device() { return 0; }
inline void set_device(c10::DeviceIndex) {}
inline int warp_size() { return 32; }
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex) {
  static cudaDeviceProp properties = [] {
    cudaDeviceProp found{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&found, 0));
    return found;
  }();
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
inline bool canDeviceAccessPeer(c10::DeviceIndex, c10::DeviceIndex) { return true; }
}  // namespace at::cuda
