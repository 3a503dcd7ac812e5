/* How every algorithm gets its forms: one body, which host and device share, and functions that run it where they should.
   An algorithm's arguments may be followed by optional ones (an order, an operation), so a body is a function with defaults,
   or several that differ in how many they take. */
#pragma once
namespace thrust {
/* A result that is written on the device, in memory that the host reads. */
template <class T> struct __loom_result {
  T* p;
  __loom_result() { cudaMallocManaged(&p, sizeof(T)); }
  T take() { T value = *p; cudaFree(p); return value; }
};

/* Iterators of std::vector, which host_vector's are, work in host code only: on the device they are the pointers in them. */
template <class It, class = void> struct __loom_unwrap { static It raw(It it) { return it; } };
template <class It> struct __loom_unwrap<It, std::enable_if_t<std::is_pointer_v<std::decay_t<decltype(std::declval<It>().base())>>>> {
  static auto raw(It it) { return it.base(); }
};

#define LOOM_BODY static __host__ __device__
/* Runs `Body::run` where the policy says, with all arguments by value. */
template <class Body, class Policy, class... A> auto __loom_apply(const Policy& where, A... arguments) {
  typedef decltype(Body::run(arguments...)) R;
  if constexpr (!std::is_base_of<device_tag, Policy>::value) {
    return Body::run(arguments...);
  } else if constexpr (std::is_void_v<R>) {
    __loom_run(where, [=] __device__() mutable { Body::run(arguments...); });
  } else {
    __loom_result<R> memory;
    R* result = memory.p;
    __loom_run(where, [=] __device__() mutable { new (result) R(Body::run(arguments...)); });
    return memory.take();
  }
}
/* In device code every policy means the thread that calls. */
#define LOOM_ALGORITHM(name)                                                                                                     \
  template <class P, class... A, std::enable_if_t<__loom_is_policy<P>, int> = 0> __host__ auto name(const P& where, A... arguments) { \
    return __loom_apply<__loom_body_##name>(where, arguments...);                                                                \
  }                                                                                                                              \
  template <class First, class... A, std::enable_if_t<!__loom_is_policy<First>, int> = 0> __host__ auto name(First first, A... arguments) { \
    return __loom_apply<__loom_body_##name>(__loom_where<First, A...>(), first, arguments...);                                   \
  }                                                                                                                              \
  template <class P, class... A, std::enable_if_t<__loom_is_policy<P>, int> = 0> __device__ auto name(const P&, A... arguments) {  \
    return __loom_body_##name::run(arguments...);                                                                                \
  }                                                                                                                              \
  template <class First, class... A, std::enable_if_t<!__loom_is_policy<First>, int> = 0> __device__ auto name(First first, A... arguments) { \
    return __loom_body_##name::run(first, arguments...);                                                                         \
  }
}  // namespace thrust
