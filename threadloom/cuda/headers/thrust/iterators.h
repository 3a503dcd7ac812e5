/* Iterators that compute what they give, and the operators that all of ours share. */
#pragma once
namespace thrust {
#define LOOM_ITERATOR(self)                                                                       \
  typedef std::ptrdiff_t difference_type;                                                         \
  typedef std::random_access_iterator_tag iterator_category;                                      \
  __host__ __device__ self& operator++() { return *this += 1; }                                   \
  __host__ __device__ self& operator--() { return *this += -1; }                                  \
  __host__ __device__ self operator++(int) { self old = *this; *this += 1; return old; }          \
  __host__ __device__ self& operator-=(difference_type n) { return *this += -n; }                 \
  __host__ __device__ self operator+(difference_type n) const { self r = *this; return r += n; }  \
  __host__ __device__ self operator-(difference_type n) const { self r = *this; return r += -n; } \
  __host__ __device__ reference operator[](difference_type n) const { return *(*this + n); }      \
  __host__ __device__ bool operator!=(const self& o) const { return !(*this == o); }              \
  __host__ __device__ bool operator<(const self& o) const { return *this - o < 0; }

template <class T> class counting_iterator {
  T value_;

 public:
  typedef T value_type;
  typedef const T* pointer;
  typedef T reference;
  typedef any_tag system_tag;
  LOOM_ITERATOR(counting_iterator)
  __host__ __device__ counting_iterator(T value = T()) : value_(value) {}
  __host__ __device__ T operator*() const { return value_; }
  __host__ __device__ counting_iterator& operator+=(difference_type n) { value_ = (T)(value_ + (T)n); return *this; }
  __host__ __device__ difference_type operator-(const counting_iterator& o) const { return (difference_type)value_ - (difference_type)o.value_; }
  __host__ __device__ bool operator==(const counting_iterator& o) const { return value_ == o.value_; }
};
template <class T> __host__ __device__ counting_iterator<T> make_counting_iterator(T value) { return counting_iterator<T>(value); }
/* Takes what is written to it, and keeps nothing. */
class discard_iterator {
  std::ptrdiff_t at_;

 public:
  struct sink { template <class T> __host__ __device__ const sink& operator=(const T&) const { return *this; } };
  typedef sink value_type;
  typedef const sink* pointer;
  typedef sink reference;
  typedef any_tag system_tag;
  LOOM_ITERATOR(discard_iterator)
  __host__ __device__ discard_iterator(difference_type at = 0) : at_(at) {}
  __host__ __device__ sink operator*() const { return sink(); }
  __host__ __device__ discard_iterator& operator+=(difference_type n) { at_ += n; return *this; }
  __host__ __device__ difference_type operator-(const discard_iterator& o) const { return at_ - o.at_; }
  __host__ __device__ bool operator==(const discard_iterator& o) const { return at_ == o.at_; }
};
__host__ __device__ inline discard_iterator make_discard_iterator(std::ptrdiff_t at = 0) { return discard_iterator(at); }
template <class T> class constant_iterator {
  T value_;
  std::ptrdiff_t at_;

 public:
  typedef T value_type;
  typedef const T* pointer;
  typedef T reference;
  typedef any_tag system_tag;
  LOOM_ITERATOR(constant_iterator)
  __host__ __device__ constant_iterator(T value, difference_type at = 0) : value_(value), at_(at) {}
  __host__ __device__ T operator*() const { return value_; }
  __host__ __device__ constant_iterator& operator+=(difference_type n) { at_ += n; return *this; }
  __host__ __device__ difference_type operator-(const constant_iterator& o) const { return at_ - o.at_; }
  __host__ __device__ bool operator==(const constant_iterator& o) const { return at_ == o.at_; }
};
template <class T> __host__ __device__ constant_iterator<T> make_constant_iterator(T value, std::ptrdiff_t at = 0) { return constant_iterator<T>(value, at); }
}  // namespace thrust
