/* Pairs and tuples: the library's, whose assignments device code may not call, with assignments that it may. */
#pragma once
namespace thrust {
template <class A, class B> struct pair : std::pair<A, B> {
  typedef std::pair<A, B> Base;
  __host__ __device__ pair() : Base() {}
  template <class C, class D> __host__ __device__ pair(C&& a, D&& b) : Base(std::forward<C>(a), std::forward<D>(b)) {}
  __host__ __device__ pair(const pair& o) : Base(o.first, o.second) {}
  template <class C, class D> __host__ __device__ pair(const std::pair<C, D>& o) : Base(o.first, o.second) {}
  __host__ __device__ pair& operator=(const pair& o) { this->first = o.first, this->second = o.second; return *this; }
  template <class C, class D> __host__ __device__ pair& operator=(const std::pair<C, D>& o) { this->first = o.first, this->second = o.second; return *this; }
};
template <class A, class B> __host__ __device__ pair<std::decay_t<A>, std::decay_t<B>> make_pair(A&& a, B&& b) { return {std::forward<A>(a), std::forward<B>(b)}; }

template <class... T> struct tuple : std::tuple<T...> {
  typedef std::tuple<T...> Base;
  typedef std::index_sequence_for<T...> Places;
  __host__ __device__ tuple() : Base() {}
  __host__ __device__ tuple(const tuple& o) : Base(o) {}
  template <class... U, std::enable_if_t<sizeof...(U) == sizeof...(T) && std::is_constructible_v<Base, U&&...> && !(std::is_base_of_v<Base, std::decay_t<U>> && ...), int> = 0>
  __host__ __device__ tuple(U&&... values) : Base(std::forward<U>(values)...) {}
  template <class... U> __host__ __device__ tuple(const std::tuple<U...>& o) : Base(o) {}
  __host__ __device__ tuple& operator=(const tuple& o) { return take(o, Places()); }
  template <class... U> __host__ __device__ tuple& operator=(const std::tuple<U...>& o) { return take(o, Places()); }
  template <class A, class B> __host__ __device__ tuple& operator=(const std::pair<A, B>& o) { std::get<0>(*this) = o.first, std::get<1>(*this) = o.second; return *this; }

 private:
  template <class Other, size_t... i> __host__ __device__ tuple& take(const Other& o, std::index_sequence<i...>) {
    ((std::get<i>(*this) = std::get<i>(o)), ...);
    return *this;
  }
};
template <class... T> __host__ __device__ tuple<std::decay_t<T>...> make_tuple(T&&... values) { return tuple<std::decay_t<T>...>(std::forward<T>(values)...); }
template <class... T> __host__ __device__ tuple<T&...> tie(T&... values) { return tuple<T&...>(values...); }
using std::get;
using std::ignore;
using std::tuple_element;
using std::tuple_size;
}  // namespace thrust
namespace std {
template <class A, class B> struct tuple_size<thrust::pair<A, B>> : tuple_size<pair<A, B>> {};
template <size_t i, class A, class B> struct tuple_element<i, thrust::pair<A, B>> : tuple_element<i, pair<A, B>> {};
template <class... T> struct tuple_size<thrust::tuple<T...>> : tuple_size<tuple<T...>> {};
template <size_t i, class... T> struct tuple_element<i, thrust::tuple<T...>> : tuple_element<i, tuple<T...>> {};
}  // namespace std
