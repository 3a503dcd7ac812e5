/* What programs made by `loom translate` call: launches, memory of a block, and the device operations that C++ lacks. */
#pragma once
#include "prelude.h"
#include "device_lambda.h"

/* Advice about registers. Empty, since the C++ library's headers say __attribute__((__noinline__)). */
#define __noinline__

#include <atomic>
#include <functional>
#include <type_traits>
#include <utility>

extern "C" {
long long __loom_clock();
void __loom_trap();
void __loom_assert_fail(const char* expression, const char* file, unsigned line, const char* function);
void __loom_divergent_barrier(const char* file, int line);

/* Mathematics that libm lacks, or has less exactly (runtime/mathematics.cpp). */
#define LOOM_SPECIAL(name) double name(double); float name##f(float);
LOOM_SPECIAL(erfcx) LOOM_SPECIAL(erfinv) LOOM_SPECIAL(erfcinv) LOOM_SPECIAL(normcdf) LOOM_SPECIAL(normcdfinv)
LOOM_SPECIAL(cyl_bessel_i0) LOOM_SPECIAL(cyl_bessel_i1)
LOOM_SPECIAL(__loom_j0) LOOM_SPECIAL(__loom_j1) LOOM_SPECIAL(__loom_y0) LOOM_SPECIAL(__loom_y1)
#undef LOOM_SPECIAL
double __loom_jn(int, double);
double __loom_yn(int, double);
float __loom_jnf(int, float);
float __loom_ynf(int, float);
}

namespace cooperative_groups {}

/* CUDA's min and max take two types; std's, where it fits, is preferred. */
template <class A, class B, class C = typename std::common_type<A, B>::type> static inline typename std::enable_if<std::is_arithmetic<C>::value, C>::type min(A a, B b) { return (C)b < (C)a ? (C)b : (C)a; }
template <class A, class B, class C = typename std::common_type<A, B>::type> static inline typename std::enable_if<std::is_arithmetic<C>::value, C>::type max(A a, B b) { return (C)a < (C)b ? (C)b : (C)a; }

namespace loom {
/* The CUDA runtime's own (libcudart): the last error, and work that a stream runs now or keeps for its graph. */
cudaError_t failed(cudaError_t error);
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work, cudaGraphNodeType type);

/* What stood between <<< and >>>. */
struct Launch {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
  mutable bool now = false;

  Launch(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = 0)
      : grid(grid), block(block), shared_bytes(shared_bytes), stream(stream) {}

  /* True where the kernel shall run; else the launch is wrong, or a captured stream keeps `again` for later. */
  template <class F> bool begins(F again, unsigned most_threads = 1024) const {
    if (now) return true;
    unsigned long threads = (unsigned long)block.x * block.y * block.z;
    if (threads == 0 || threads > most_threads || grid.x == 0 || grid.y == 0 || grid.z == 0) return failed(cudaErrorInvalidConfiguration), false;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &status);
    if (status == cudaStreamCaptureStatusNone) return true;
    Launch later = *this;
    later.now = true;
    enqueue(stream, [=] { again(later); }, cudaGraphNodeTypeKernel);
    return false;
  }
};

/* `launch(grid, block), kernel(x, n)` is `kernel<<<grid, block>>>(x, n)`: the kernel asks `launched` how. */
inline thread_local Launch next_launch(dim3(0, 0, 0), dim3(0, 0, 0));
static inline void launch(const Launch& how) { next_launch = how; }
static inline void launch(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = 0) { next_launch = Launch(grid, block, shared_bytes, stream); }
static inline Launch launched() {
  Launch how = next_launch;
  next_launch.block = dim3(0, 0, 0);
  return how;
}

/* The calling thread's indices and shared memory, for device functions that stay functions. */
inline thread_local char* context = nullptr;

/* An instance of a kernel that clang has not made, since its launch stands where nothing ever comes. */
[[noreturn]] static inline void not_there(const char* kernel) { fprintf(stderr, "error: the kernel %s was not translated\n", kernel), abort(); }

/* Memory of one block or launch: its size is known only now. Not initialised. */
template <class T> struct Array {
  T* at;
  explicit Array(size_t count) : at((T*)aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64 + 64)) {}
  Array(const Array&) = delete;
  ~Array() { free(at); }
  operator T*() const { return at; }
  template <class U> explicit operator U*() const { return (U*)at; }
};

template <class T, int N> struct VectorOf { typedef T type __attribute__((vector_size(N * sizeof(T)))); };
template <class T, int N> using Vector = typename VectorOf<T, N>::type;

/* Memory at any alignment, and the bits of a value as another type. */
template <class T> static inline T load(const void* p) { T value; return memcpy(&value, p, sizeof value), value; }
template <class T, int bytes> static inline T load_part(const void* p) { T value = 0; return memcpy(&value, p, bytes), value; }
template <class T> static inline void store(void* p, T value) { memcpy(p, &value, sizeof value); }
template <class T, class U> static inline T bits(U value) { static_assert(sizeof(T) == sizeof(U), ""); return load<T>(&value); }

/* Shifts by any amount, division by anything, and conversions that saturate, as the device has them. */
template <class T, class B> static inline T shift_left(T a, B by) { return by < 0 || (unsigned long)by >= 8 * sizeof a ? 0 : a << by; }
template <class T, class B> static inline T shift_right(T a, B by) {
  if (by < 0 || (unsigned long)by >= 8 * sizeof a) return a < T(0) ? -1 : 0;
  return a >> by;
}
template <class T> static inline T divide(T a, T b) { return b == 0 ? T(-1) : b == T(-1) && T(-1) < T(0) ? T(0) - a : a / b; }
template <class T> static inline T modulo(T a, T b) { return b == 0 ? a : b == T(-1) && T(-1) < T(0) ? T(0) : a % b; }
template <class T, class F> static inline T saturate(F x) {
  if (x != x) return 0;
  const T least = T(-1) < T(0) ? T(T(1) << (8 * sizeof(T) - 1)) : T(0), most = T(~least);
  return x <= (F)least ? least : x >= (F)most ? most : (T)x;
}
template <class T> static inline T bitreverse(T x) {
  T result = 0;
  for (unsigned i = 0; i < 8 * sizeof x; ++i) result = result << 1 | (x >> i & 1);
  return result;
}
template <class T> static inline T fshl(T high, T low, T by) {
  by %= 8 * sizeof by;
  return by == 0 ? high : high << by | low >> (8 * sizeof by - by);
}
template <class T> static inline T fshr(T high, T low, T by) {
  by %= 8 * sizeof by;
  return by == 0 ? low : low >> by | high << (8 * sizeof by - by);
}
/* A warp's values: one lane per thread. */
template <class V> constexpr int lanes_in = sizeof(V) / sizeof(std::declval<V>()[0]);
template <class V, class T> static inline V splat(T value) {
  V all;
  for (int i = 0; i < lanes_in<V>; ++i) all[i] = value;
  return all;
}
template <class V> static inline unsigned long mask_of(V lanes) {
  unsigned long mask = 0;
  for (int i = 0; i < lanes_in<V>; ++i) mask |= (unsigned long)(lanes[i] != 0) << i;
  return mask;
}
template <class V> static inline V lanes_of(unsigned mask) {
  V all;
  for (int i = 0; i < lanes_in<V>; ++i) all[i] = mask >> i & 1 ? -1 : 0;
  return all;
}
#define LOOM_REDUCE(name, expression)                             \
  template <class T, class V> static inline T reduce_##name(V lanes) { \
    T a = (T)lanes[0];                                            \
    for (int i = 1; i < lanes_in<V>; ++i) {                       \
      T b = (T)lanes[i];                                          \
      a = expression;                                             \
    }                                                             \
    return a;                                                     \
  }
LOOM_REDUCE(add, a + b)
LOOM_REDUCE(and, a & b)
LOOM_REDUCE(or, a | b)
LOOM_REDUCE(xor, a ^ b)
LOOM_REDUCE(min, b < a ? b : a)
LOOM_REDUCE(max, a < b ? b : a)
#undef LOOM_REDUCE
template <class V, class T> static inline V inserted(V all, T value, long lane) { return all[lane] = value, all; }
template <class T> static inline T least(T a, T b) { return b < a ? b : a; }
template <class T> static inline T most(T a, T b) { return a < b ? b : a; }

/* Atomics: each gives the old value. */
template <class T> struct Exchanged { T old; bool done; };
template <class T> static inline Exchanged<T> compare_exchange(volatile T* p, T expected, T wanted) {
  bool done = __atomic_compare_exchange(p, &expected, &wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return {expected, done};
}
template <class T, class F> static inline T update(T* p, F next) {
  T old, wanted;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do wanted = next(old);
  while (!__atomic_compare_exchange(p, &old, &wanted, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return old;
}
template <class T> static inline T atomic_add(T* p, T by) { return update(p, [=](T x) { return T(x + by); }); }
template <class T> static inline T atomic_sub(T* p, T by) { return update(p, [=](T x) { return T(x - by); }); }
template <class T> static inline T atomic_min(T* p, T by) { return update(p, [=](T x) { return by < x ? by : x; }); }
template <class T> static inline T atomic_max(T* p, T by) { return update(p, [=](T x) { return x < by ? by : x; }); }
template <class T> static inline T atomic_and(T* p, T by) { return update(p, [=](T x) { return T(x & by); }); }
template <class T> static inline T atomic_or(T* p, T by) { return update(p, [=](T x) { return T(x | by); }); }
template <class T> static inline T atomic_xor(T* p, T by) { return update(p, [=](T x) { return T(x ^ by); }); }
template <class T> static inline T atomic_exchange(T* p, T by) { return update(p, [=](T) { return by; }); }
template <class T> static inline T atomic_inc(T* p, T most) { return update(p, [=](T x) { return x >= most ? T(0) : T(x + 1); }); }
template <class T> static inline T atomic_dec(T* p, T most) { return update(p, [=](T x) { return x == 0 || x > most ? most : T(x - 1); }); }

/* Kernels are known to the runtime by address (cudaLaunchKernel, occupancy, attributes). */
struct KernelRecord {
  const void* stub;
  void (*entry)(void** arguments, const unsigned* geometry);
  const char* name;
  const int* argument_bytes;
  const int* static_shared_bytes;
  int arguments, max_threads;
  const void* effects;
  int effect_count;
};
struct VariableRecord {
  const char* name;
  const void* address;
  size_t bytes;
};
extern "C" void __loom_register(const KernelRecord* kernels, int kernel_count, const void* variables, int variable_count, int arch);

template <class... A> struct Kernel {
  template <void (*kernel)(A...)> static KernelRecord record(const char* name, int shared_bytes, int most_threads) {
    static const int bytes[] = {(int)sizeof(A)..., 0};
    static const int shared = shared_bytes;
    return {(const void*)kernel, entry<kernel>, name, bytes, &shared, (int)sizeof...(A), most_threads, nullptr, -1};
  }
  template <void (*kernel)(A...)> static void entry(void** arguments, const unsigned* g) {
    Launch how(dim3(g[0], g[1], g[2]), dim3(g[3], g[4], g[5]), g[6]);
    how.now = true;
    launch(how);
    call<kernel>(arguments, std::index_sequence_for<A...>());
  }
  template <void (*kernel)(A...), size_t... I> static void call(void** arguments, std::index_sequence<I...>) {
    kernel(*(typename std::remove_reference<A>::type*)arguments[I]...);
  }
};
struct Registration {
  template <int N> explicit Registration(const KernelRecord (&kernels)[N]) { __loom_register(kernels, N, nullptr, 0, 750); }
  template <int N> explicit Registration(const VariableRecord (&variables)[N]) { __loom_register(nullptr, 0, variables, N, 750); }
};
}  // namespace loom
/* All that have been made fit better. */
template <class Kernel, class... A> void run_on_cpu(Kernel, A&...) { loom::not_there(__PRETTY_FUNCTION__); }
