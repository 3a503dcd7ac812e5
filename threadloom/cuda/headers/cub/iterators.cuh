/* Iterators that compute what they point to. */
#pragma once
#include <iterator>
#include "functors.cuh"
namespace cub {
#define LOOM_ITERATOR(Self, T)                                                                       \
  typedef Self self_type;                                                                            \
  typedef long difference_type;                                                                      \
  typedef T value_type;                                                                              \
  typedef T* pointer;                                                                                \
  typedef T reference;                                                                               \
  typedef std::random_access_iterator_tag iterator_category;                                         \
  __host__ __device__ Self operator+(difference_type n) const { Self r = *this; r += n; return r; }  \
  __host__ __device__ Self operator-(difference_type n) const { Self r = *this; r += -n; return r; } \
  __host__ __device__ Self& operator++() { return *this += 1; }                                      \
  __host__ __device__ Self operator++(int) { Self r = *this; *this += 1; return r; }                 \
  __host__ __device__ T operator[](difference_type n) const { return *(*this + n); }

template <class T, class Offset = long> class CountingInputIterator {
  T value_;

 public:
  LOOM_ITERATOR(CountingInputIterator, T)
  __host__ __device__ CountingInputIterator(T value) : value_(value) {}
  __host__ __device__ T operator*() const { return value_; }
  __host__ __device__ CountingInputIterator& operator+=(difference_type n) { value_ += (T)n; return *this; }
  __host__ __device__ difference_type operator-(const CountingInputIterator& o) const { return (difference_type)(value_ - o.value_); }
  __host__ __device__ bool operator==(const CountingInputIterator& o) const { return value_ == o.value_; }
  __host__ __device__ bool operator!=(const CountingInputIterator& o) const { return value_ != o.value_; }
};
template <class T, class Offset = long> class ConstantInputIterator {
  T value_;
  Offset at_;

 public:
  LOOM_ITERATOR(ConstantInputIterator, T)
  __host__ __device__ ConstantInputIterator(T value, Offset at = 0) : value_(value), at_(at) {}
  __host__ __device__ T operator*() const { return value_; }
  __host__ __device__ ConstantInputIterator& operator+=(difference_type n) { at_ += (Offset)n; return *this; }
};
template <class T, class Op, class In, class Offset = long> class TransformInputIterator {
  In in_;
  Op op_;

 public:
  LOOM_ITERATOR(TransformInputIterator, T)
  __host__ __device__ TransformInputIterator(In in, Op op) : in_(in), op_(op) {}
  __device__ T operator*() const { return op_(*in_); }
  __host__ __device__ TransformInputIterator& operator+=(difference_type n) { in_ = in_ + n; return *this; }
};
template <class In, class Offset = int, class T = decltype(*In() + 0)> class ArgIndexInputIterator {
  In in_;
  Offset at_;

 public:
  typedef KeyValuePair<Offset, T> Pair;
  LOOM_ITERATOR(ArgIndexInputIterator, Pair)
  __host__ __device__ ArgIndexInputIterator(In in, Offset at = 0) : in_(in), at_(at) {}
  __device__ Pair operator*() const { return Pair{at_, in_[at_]}; }
  __host__ __device__ ArgIndexInputIterator& operator+=(difference_type n) { at_ += (Offset)n; return *this; }
};
}  // namespace cub
