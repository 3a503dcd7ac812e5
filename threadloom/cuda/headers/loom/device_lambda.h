/* A device lambda with a number: the kernels that `loom translate` writes for it are found by that (host_source.py), and
   where it stands in a template, by the instance, for which it has a type of its own each. */
#pragma once
namespace loom {
template <class... Arguments> struct Of {};  /* the arguments of the templates around a lambda */
template <auto value> struct Value {};
template <int number, class Instance, class Lambda> struct Device : Lambda {
  __host__ __device__ Device(const Lambda& lambda) : Lambda(lambda) {}
};
template <int number, class Lambda> __host__ __device__ Device<number, Of<>, Lambda> device(const Lambda& lambda) { return lambda; }
template <int number, class Instance, class Lambda>
__host__ __device__ Device<number, Instance, Lambda> device(const Lambda& lambda) { return lambda; }
}  // namespace loom
