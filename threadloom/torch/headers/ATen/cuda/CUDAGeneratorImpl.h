/* Random numbers of kernels come from the CPU's generators, the default one or the caller's torch.Generator: each launch
 * takes a fresh Philox seed from it, so torch.manual_seed makes kernels repeat themselves. */
#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/PhiloxCudaState.h>

namespace at {
struct CUDAGeneratorImpl : public CPUGeneratorImpl {  // adds functions only: every CPU generator can be taken for one
  using CPUGeneratorImpl::CPUGeneratorImpl;
  PhiloxCudaState philox_cuda_state(uint64_t) { return PhiloxCudaState(random64(), 0); }
  std::pair<uint64_t, uint64_t> philox_engine_inputs(uint64_t) { return {random64(), 0}; }
};

namespace cuda::detail {
inline const Generator& getDefaultCUDAGenerator(DeviceIndex = -1) { return at::detail::getDefaultCPUGenerator(); }
inline Generator createCUDAGenerator(DeviceIndex = -1) { return at::detail::createCPUGenerator(); }
}  // namespace cuda::detail
}  // namespace at
