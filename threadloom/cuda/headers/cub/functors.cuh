/* Operators of CUB, and small types. */
#pragma once
#include <algorithm> /* CUB includes these, and its users rely on that */
#include <chrono>
#include <loom/prelude.h>
#define CUB_NS_QUALIFIER ::cub
#define CUB_MIN(a, b) ((b) < (a) ? (b) : (a))
#define CUB_MAX(a, b) ((a) < (b) ? (b) : (a))
namespace cub {
struct Sum { template <class A, class B> __host__ __device__ auto operator()(const A& a, const B& b) const { return a + b; } };
struct Difference { template <class A, class B> __host__ __device__ auto operator()(const A& a, const B& b) const { return a - b; } };
struct Max { template <class T> __host__ __device__ T operator()(const T& a, const T& b) const { return a < b ? b : a; } };
struct Min { template <class T> __host__ __device__ T operator()(const T& a, const T& b) const { return b < a ? b : a; } };
struct Equality { template <class A, class B> __host__ __device__ bool operator()(const A& a, const B& b) const { return a == b; } };
struct Inequality { template <class A, class B> __host__ __device__ bool operator()(const A& a, const B& b) const { return a != b; } };
template <class K = int, class V = int> struct KeyValuePair {
  typedef K Key;
  typedef V Value;
  K key;
  V value;
  KeyValuePair() = default;
  __host__ __device__ KeyValuePair(const K& at, const V& what) : key(at), value(what) {}
  __host__ __device__ bool operator!=(const KeyValuePair& other) const { return key != other.key || value != other.value; }
};
struct ArgMax { template <class P> __host__ __device__ P operator()(const P& a, const P& b) const { return b.value > a.value || (b.value == a.value && b.key < a.key) ? b : a; } };
struct ArgMin { template <class P> __host__ __device__ P operator()(const P& a, const P& b) const { return b.value < a.value || (b.value == a.value && b.key < a.key) ? b : a; } };
template <class T> struct CastOp { template <class A> __host__ __device__ T operator()(const A& a) const { return (T)a; } };
struct NullType {};
template <class T> struct DoubleBuffer {
  T* d_buffers[2];
  int selector;
  __host__ __device__ DoubleBuffer() : d_buffers{nullptr, nullptr}, selector(0) {}
  __host__ __device__ DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate}, selector(0) {}
  __host__ __device__ T* Current() { return d_buffers[selector]; }
  __host__ __device__ T* Alternate() { return d_buffers[selector ^ 1]; }
};
}  // namespace cub
