/* Thrust in our own words: vectors, pointers, iterators and the algorithms that programs use.
   Device algorithms run as one serial kernel, so device functors work; host algorithms are loops. Memory is one, so a
   device element can be read by the host directly. */
#pragma once
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iostream> /* Thrust's users rely on it */
#include <iterator>
#include <limits>
#include <tuple>
#include <vector>

#include <loom/prelude.h>
#define THRUST_VERSION 200800
#if defined(__CUDA__)
#include <thrust/errors.h>
#include <thrust/functors.h>
#include <thrust/tuples.h>
namespace thrust {
/* ---- policies */
struct host_tag {};
struct device_tag {
  cudaStream_t stream = 0;
  device_tag on(cudaStream_t s) const { device_tag r; r.stream = s; return r; }
  template <class Allocator> const device_tag& operator()(const Allocator&) const { return *this; }
};
struct any_tag {}; /* of iterators that compute: their algorithms run where the other iterators say */
static constexpr host_tag host, seq;
static constexpr device_tag device;
struct __loom_par : device_tag {};
namespace cuda { static constexpr __loom_par par, par_nosync; }
namespace system { namespace cuda { static constexpr __loom_par par; } }
using cuda::par;

/* The host reads and writes elements of device vectors through references, without a call that could run launches that wait
   in a batch: in a program with Thrust none waits. */
#ifndef LOOM_DEVICE_PASS
extern "C" int __loom_launch_at_once();
__attribute__((used)) static const int __loom_launches_at_once = __loom_launch_at_once();
#endif

/* ---- pointers to device memory */
template <class T> class device_ptr {
  T* p_;

 public:
  typedef std::ptrdiff_t difference_type;
  typedef std::remove_cv_t<T> value_type;
  typedef T* pointer;
  typedef T& reference;
  typedef std::random_access_iterator_tag iterator_category;
  typedef device_tag system_tag;
  __host__ __device__ device_ptr() : p_(nullptr) {}
  __host__ __device__ explicit device_ptr(T* p) : p_(p) {}
  template <class U, class = std::enable_if_t<std::is_convertible<U*, T*>::value>> __host__ __device__ device_ptr(const device_ptr<U>& o) : p_(o.get()) {}
  __host__ __device__ T* get() const { return p_; }
  __host__ __device__ T& operator*() const { return *p_; }
  __host__ __device__ T* operator->() const { return p_; }
  __host__ __device__ T& operator[](difference_type i) const { return p_[i]; }
  __host__ __device__ device_ptr operator+(difference_type n) const { return device_ptr(p_ + n); }
  __host__ __device__ device_ptr operator-(difference_type n) const { return device_ptr(p_ - n); }
  __host__ __device__ difference_type operator-(const device_ptr& o) const { return p_ - o.p_; }
  __host__ __device__ device_ptr& operator+=(difference_type n) { p_ += n; return *this; }
  __host__ __device__ device_ptr& operator-=(difference_type n) { p_ -= n; return *this; }
  __host__ __device__ device_ptr& operator++() { ++p_; return *this; }
  __host__ __device__ device_ptr operator++(int) { return device_ptr(p_++); }
  __host__ __device__ device_ptr& operator--() { --p_; return *this; }
  __host__ __device__ device_ptr operator--(int) { return device_ptr(p_--); }
  __host__ __device__ bool operator==(const device_ptr& o) const { return p_ == o.p_; }
  __host__ __device__ bool operator!=(const device_ptr& o) const { return p_ != o.p_; }
  __host__ __device__ bool operator<(const device_ptr& o) const { return p_ < o.p_; }
  __host__ __device__ bool operator<=(const device_ptr& o) const { return p_ <= o.p_; }
  __host__ __device__ bool operator>(const device_ptr& o) const { return p_ > o.p_; }
  __host__ __device__ bool operator>=(const device_ptr& o) const { return p_ >= o.p_; }
  __host__ __device__ explicit operator bool() const { return p_; }
};
template <class T> __host__ __device__ device_ptr<T> device_pointer_cast(T* p) { return device_ptr<T>(p); }
template <class T> __host__ __device__ device_ptr<T> device_pointer_cast(const device_ptr<T>& p) { return p; }
template <class T> __host__ __device__ T* raw_pointer_cast(const device_ptr<T>& p) { return p.get(); }
template <class T> __host__ __device__ T* raw_pointer_cast(T* p) { return p; }
/* Of memory without a type: it has an address only. */
template <> class device_ptr<void> {
  void* p_ = nullptr;

 public:
  typedef device_tag system_tag;
  device_ptr() = default;
  __host__ __device__ explicit device_ptr(void* p) : p_(p) {}
  template <class T> __host__ __device__ device_ptr(const device_ptr<T>& o) : p_(o.get()) {}
  __host__ __device__ void* get() const { return p_; }
  __host__ __device__ bool operator==(const device_ptr& o) const { return p_ == o.p_; }
  __host__ __device__ bool operator!=(const device_ptr& o) const { return p_ != o.p_; }
  __host__ __device__ explicit operator bool() const { return p_; }
};
template <class T> device_ptr<T> device_malloc(size_t n) { return device_ptr<T>((T*)__loom_new(n * sizeof(T))); }
inline device_ptr<void> device_malloc(size_t bytes) { return device_ptr<void>(__loom_new(bytes)); }
template <class T> void device_free(device_ptr<T> p) { cudaFree(p.get()); }
template <class T> struct device_allocator { typedef T value_type; };

/* Two types, so that std::swap goes before it where both are seen. */
template <class A, class B> __host__ __device__ void swap(A& a, B& b) {
  A kept = std::move(a);
  a = std::move(b);
  b = std::move(kept);
}

/* ---- vectors */
template <class T> class host_vector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  host_vector() = default;
  host_vector(const std::vector<T>& o) : std::vector<T>(o) {}
  template <class V, class = decltype(V::__loom_is_device)> host_vector(const V& o) { this->assign(o.data().get(), o.data().get() + o.size()); }
  template <class V, class = decltype(V::__loom_is_device)> host_vector& operator=(const V& o) { this->assign(o.data().get(), o.data().get() + o.size()); return *this; }
};
template <class T, class Allocator = device_allocator<T>> class device_vector {
  T* p_ = nullptr;
  size_t size_ = 0, room_ = 0;
  void grow(size_t room) {
    if (room <= room_) return;
    T* fresh = (T*)__loom_new(room * sizeof(T));
    for (size_t i = 0; i < size_; ++i) new (fresh + i) T(p_[i]);
    if (p_) cudaFree(p_);
    p_ = fresh, room_ = room;
  }

 public:
  static constexpr bool __loom_is_device = true;
  typedef T value_type;
  typedef device_ptr<T> iterator, pointer;
  typedef device_ptr<const T> const_iterator;
  typedef T& reference;
  typedef size_t size_type;
  typedef std::ptrdiff_t difference_type;
  device_vector() = default;
  explicit device_vector(size_t n) { resize(n); }
  device_vector(size_t n, const T& value) { resize(n, value); }
  device_vector(std::initializer_list<T> list) { assign(list.begin(), list.end()); }
  template <class It, class = typename std::iterator_traits<It>::iterator_category> device_vector(It first, It last) { assign(first, last); }
  device_vector(const device_vector& o) { assign(o.p_, o.p_ + o.size_); }
  device_vector(device_vector&& o) : p_(o.p_), size_(o.size_), room_(o.room_) { o.p_ = nullptr, o.size_ = o.room_ = 0; }
  device_vector(const std::vector<T>& o) { assign(o.begin(), o.end()); }
  ~device_vector() { if (p_) cudaFree(p_); }
  device_vector& operator=(const device_vector& o) { if (this != &o) assign(o.p_, o.p_ + o.size_); return *this; }
  device_vector& operator=(device_vector&& o) { swap(o); return *this; }
  device_vector& operator=(const std::vector<T>& o) { assign(o.begin(), o.end()); return *this; }
  template <class It> void assign(It first, It last) {
    std::ptrdiff_t n = std::distance(first, last);
    size_ = 0;
    grow((size_t)n);
    for (size_ = 0; size_ < (size_t)n; ++size_, ++first) new (p_ + size_) T(*first);
  }
  void assign(size_t n, const T& value) { size_ = 0; resize(n, value); }
  void resize(size_t n) { resize(n, T()); }
  void resize(size_t n, const T& value) {
    grow(n);
    for (size_t i = size_; i < n; ++i) new (p_ + i) T(value);
    size_ = n;
  }
  void reserve(size_t n) { grow(n); }
  void push_back(const T& value) { T kept = value; if (size_ == room_) grow(room_ ? 2 * room_ : 8); new (p_ + size_++) T(kept); }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void shrink_to_fit() {}
  void swap(device_vector& o) { std::swap(p_, o.p_), std::swap(size_, o.size_), std::swap(room_, o.room_); }
  iterator erase(iterator first, iterator last) {
    T* end = std::copy(last.get(), p_ + size_, first.get());
    size_ = end - p_;
    return first;
  }
  size_t size() const { return size_; }
  size_t capacity() const { return room_; }
  bool empty() const { return size_ == 0; }
  pointer data() { return pointer(p_); }
  device_ptr<const T> data() const { return device_ptr<const T>(p_); }
  iterator begin() { return iterator(p_); }
  iterator end() { return iterator(p_ + size_); }
  const_iterator begin() const { return const_iterator(p_); }
  const_iterator end() const { return const_iterator(p_ + size_); }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  T& operator[](size_t i) { return p_[i]; }
  const T& operator[](size_t i) const { return p_[i]; }
  T& front() { return p_[0]; }
  T& back() { return p_[size_ - 1]; }
  const T& front() const { return p_[0]; }
  const T& back() const { return p_[size_ - 1]; }
  bool operator==(const device_vector& o) const { return size_ == o.size_ && std::equal(p_, p_ + size_, o.p_); }
  bool operator!=(const device_vector& o) const { return !(*this == o); }
};

/* ---- where an algorithm runs: on the device if one of its iterators says so, or none says host (functions and values say nothing) */
template <class It, class = void> struct __loom_system { typedef any_tag type; };
template <class T> struct __loom_system<T*, void> { typedef host_tag type; };
template <class It> struct __loom_system<It, std::enable_if_t<std::is_pointer_v<std::decay_t<decltype(std::declval<It>().base())>>>> { typedef host_tag type; };
template <class It> struct __loom_system<It, std::void_t<typename It::system_tag>> { typedef typename It::system_tag type; };
template <class Tag, class... Its> constexpr bool __loom_says = (std::is_same<typename __loom_system<Its>::type, Tag>::value || ...);
template <class... Its> using __loom_where = std::conditional_t<!__loom_says<device_tag, Its...> && __loom_says<host_tag, Its...>, host_tag, device_tag>;
/* The same for an iterator that is made of these: it says nothing where none does. */
template <class... Its> using __loom_joined = std::conditional_t<__loom_says<device_tag, Its...> || __loom_says<host_tag, Its...>, __loom_where<Its...>, any_tag>;

template <class P> constexpr bool __loom_is_policy = std::is_base_of<host_tag, P>::value || std::is_base_of<device_tag, P>::value;
template <class F> __global__ void __loom_serial(F f) { f(); }
template <class F> static inline void __loom_run(const device_tag& where, F f) { __loom_serial<<<1, 1, 0, where.stream>>>(f); cudaStreamSynchronize(where.stream); }
template <class It> using __loom_value = typename std::iterator_traits<It>::value_type;

}  // namespace thrust
#include <thrust/iterators.h>
#include <thrust/compound_iterators.h>
#include <thrust/algorithms.h>
#include <thrust/order.h>
#endif
