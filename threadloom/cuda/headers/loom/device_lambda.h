/* A device lambda with a number: the kernels that `loom translate` writes for it are found by that (host_source.py). */
#pragma once
namespace loom {
template <int number, class Lambda> struct Device : Lambda {
  __host__ __device__ Device(const Lambda& lambda) : Lambda(lambda) {}
};
template <int number, class Lambda> __host__ __device__ Device<number, Lambda> device(const Lambda& lambda) { return lambda; }
}  // namespace loom
