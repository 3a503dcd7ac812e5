/* Atomic functions. CUDA's are relaxed; scope suffixes (_block, _system) make no difference on one machine. */
#pragma once

#define LOOM_ATOMIC_SCOPES(T, name, parameters, arguments)                          \
  LOOM_DEVICE T name##_block parameters { return name arguments; }                  \
  LOOM_DEVICE T name##_system parameters { return name arguments; }

#define LOOM_ATOMIC_FETCH(T, name, builtin)                                         \
  LOOM_DEVICE T name(T* p, T v) { return builtin(p, v, __ATOMIC_RELAXED); }         \
  LOOM_ATOMIC_SCOPES(T, name, (T* p, T v), (p, v))

#define LOOM_ATOMIC_EXCHANGE(T)                                                     \
  LOOM_DEVICE T atomicExch(T* p, T v) { T old; __atomic_exchange(p, &v, &old, __ATOMIC_RELAXED); return old; } \
  LOOM_ATOMIC_SCOPES(T, atomicExch, (T* p, T v), (p, v))

#define LOOM_ATOMIC_CAS(T)                                                          \
  LOOM_DEVICE T atomicCAS(T* p, T expected, T desired) {                            \
    __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
    return expected;                                                                \
  }                                                                                 \
  LOOM_ATOMIC_SCOPES(T, atomicCAS, (T* p, T expected, T desired), (p, expected, desired))

#define LOOM_ATOMIC_INTEGER(T)                                                      \
  LOOM_ATOMIC_FETCH(T, atomicAdd, __atomic_fetch_add)                               \
  LOOM_ATOMIC_FETCH(T, atomicSub, __atomic_fetch_sub)                               \
  LOOM_ATOMIC_FETCH(T, atomicMin, __atomic_fetch_min)                               \
  LOOM_ATOMIC_FETCH(T, atomicMax, __atomic_fetch_max)                               \
  LOOM_ATOMIC_FETCH(T, atomicAnd, __atomic_fetch_and)                               \
  LOOM_ATOMIC_FETCH(T, atomicOr, __atomic_fetch_or)                                 \
  LOOM_ATOMIC_FETCH(T, atomicXor, __atomic_fetch_xor)                               \
  LOOM_ATOMIC_EXCHANGE(T)                                                           \
  LOOM_ATOMIC_CAS(T)

LOOM_ATOMIC_INTEGER(int)
LOOM_ATOMIC_INTEGER(unsigned int)
LOOM_ATOMIC_INTEGER(unsigned long long)

/* CUDA has little else of 64 bits, so programs, PyTorch's headers too, bring their own: templates give way to them. */
template <class T> struct LoomWord {};
template <> struct LoomWord<long> { using type = long; };
template <> struct LoomWord<unsigned long> { using type = unsigned long; };
template <> struct LoomWord<long long> { using type = long long; };
template <class T> using LoomOther = typename LoomWord<T>::type;

#define LOOM_ATOMIC_OTHER_SCOPE(scope, name, builtin)                               \
  template <class T> LOOM_DEVICE LoomOther<T> name##scope(T* p, LoomOther<T> v) { return builtin(p, v, __ATOMIC_RELAXED); }
#define LOOM_ATOMIC_OTHER(name, builtin)                                            \
  LOOM_ATOMIC_OTHER_SCOPE(, name, builtin)                                          \
  LOOM_ATOMIC_OTHER_SCOPE(_block, name, builtin)                                    \
  LOOM_ATOMIC_OTHER_SCOPE(_system, name, builtin)
#define LOOM_ATOMIC_OTHER_CAS(name)                                                 \
  template <class T> LOOM_DEVICE LoomOther<T> name(T* p, LoomOther<T> expected, LoomOther<T> desired) { \
    __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
    return expected;                                                                \
  }
LOOM_ATOMIC_OTHER(atomicAdd, __atomic_fetch_add)
LOOM_ATOMIC_OTHER(atomicSub, __atomic_fetch_sub)
LOOM_ATOMIC_OTHER(atomicMin, __atomic_fetch_min)
LOOM_ATOMIC_OTHER(atomicMax, __atomic_fetch_max)
LOOM_ATOMIC_OTHER(atomicAnd, __atomic_fetch_and)
LOOM_ATOMIC_OTHER(atomicOr, __atomic_fetch_or)
LOOM_ATOMIC_OTHER(atomicXor, __atomic_fetch_xor)
LOOM_ATOMIC_OTHER(atomicExch, __atomic_exchange_n)
LOOM_ATOMIC_OTHER_CAS(atomicCAS)
LOOM_ATOMIC_OTHER_CAS(atomicCAS_block)
LOOM_ATOMIC_OTHER_CAS(atomicCAS_system)
LOOM_ATOMIC_CAS(unsigned short)
LOOM_ATOMIC_FETCH(float, atomicAdd, __atomic_fetch_add)
LOOM_ATOMIC_EXCHANGE(float)
/* Before sm_60 programs bring their own atomicAdd(double*, double). */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600
LOOM_ATOMIC_FETCH(double, atomicAdd, __atomic_fetch_add)
#endif
LOOM_ATOMIC_EXCHANGE(double)

LOOM_DEVICE unsigned atomicInc(unsigned* p, unsigned limit) {
  unsigned old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(p, &old, old >= limit ? 0u : old + 1u, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return old;
}
LOOM_DEVICE unsigned atomicDec(unsigned* p, unsigned limit) {
  unsigned old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(p, &old, old == 0u || old > limit ? limit : old - 1u, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return old;
}
LOOM_ATOMIC_SCOPES(unsigned, atomicInc, (unsigned* p, unsigned v), (p, v))
LOOM_ATOMIC_SCOPES(unsigned, atomicDec, (unsigned* p, unsigned v), (p, v))

/* CUDA 12.8's functions with a memory order and a scope. */
#define __NV_ATOMIC_RELAXED __ATOMIC_RELAXED
#define __NV_ATOMIC_CONSUME __ATOMIC_CONSUME
#define __NV_ATOMIC_ACQUIRE __ATOMIC_ACQUIRE
#define __NV_ATOMIC_RELEASE __ATOMIC_RELEASE
#define __NV_ATOMIC_ACQ_REL __ATOMIC_ACQ_REL
#define __NV_ATOMIC_SEQ_CST __ATOMIC_SEQ_CST
#define __NV_THREAD_SCOPE_THREAD 0
#define __NV_THREAD_SCOPE_BLOCK 1
#define __NV_THREAD_SCOPE_CLUSTER 2
#define __NV_THREAD_SCOPE_DEVICE 3
#define __NV_THREAD_SCOPE_SYSTEM 4
#define __nv_atomic_load_n(p, order, ...) __atomic_load_n(p, order)
#define __nv_atomic_store_n(p, v, order, ...) __atomic_store_n(p, v, order)
#define __nv_atomic_exchange_n(p, v, order, ...) __atomic_exchange_n(p, v, order)
#define __nv_atomic_fetch_add(p, v, order, ...) __atomic_fetch_add(p, v, order)
#define __nv_atomic_fetch_sub(p, v, order, ...) __atomic_fetch_sub(p, v, order)
#define __nv_atomic_fetch_min(p, v, order, ...) __atomic_fetch_min(p, v, order)
#define __nv_atomic_fetch_max(p, v, order, ...) __atomic_fetch_max(p, v, order)
#define __nv_atomic_fetch_and(p, v, order, ...) __atomic_fetch_and(p, v, order)
#define __nv_atomic_fetch_or(p, v, order, ...) __atomic_fetch_or(p, v, order)
#define __nv_atomic_fetch_xor(p, v, order, ...) __atomic_fetch_xor(p, v, order)
#define __nv_atomic_add(p, v, order, ...) ((void)__atomic_fetch_add(p, v, order))
#define __nv_atomic_load(p, out, order, ...) __atomic_load(p, out, order)
#define __nv_atomic_store(p, in, order, ...) __atomic_store(p, in, order)
#define __nv_atomic_exchange(p, in, out, order, ...) __atomic_exchange(p, in, out, order)
#define __nv_atomic_compare_exchange(p, e, d, weak, ok, bad, ...) __atomic_compare_exchange(p, e, d, weak, ok, bad)
#define __nv_atomic_compare_exchange_n(p, e, d, weak, ok, bad, ...) __atomic_compare_exchange_n(p, e, d, weak, ok, bad)
#define __nv_atomic_thread_fence(order, scope) \
  ((scope) <= __NV_THREAD_SCOPE_CLUSTER ? __threadfence_block() : (order) == __ATOMIC_RELAXED ? (void)0 : __threadfence())

#undef LOOM_ATOMIC_SCOPES
#undef LOOM_ATOMIC_FETCH
#undef LOOM_ATOMIC_EXCHANGE
#undef LOOM_ATOMIC_CAS
#undef LOOM_ATOMIC_INTEGER
