/* Iterators made of iterators. */
#pragma once
namespace thrust {
/* The elements of `it`, each changed by f when it is read. A lambda as f cannot be assigned, so it is made again. */
template <class F, class It> class transform_iterator {
  It it_;
  F f_;

 public:
  typedef std::decay_t<decltype(std::declval<F>()(*std::declval<It>()))> value_type;
  typedef const value_type* pointer;
  typedef value_type reference;
  typedef __loom_joined<It> system_tag;
  LOOM_ITERATOR(transform_iterator)
  __host__ __device__ transform_iterator(It it, F f) : it_(it), f_(f) {}
  __host__ __device__ transform_iterator(const transform_iterator& o) : it_(o.it_), f_(o.f_) {}
  __host__ __device__ transform_iterator& operator=(const transform_iterator& o) {
    if (this == &o) return *this;
    it_ = o.it_;
    f_.~F();
    new ((void*)&f_) F(o.f_);
    return *this;
  }
  __host__ __device__ value_type operator*() const { return f_(*it_); }
  __host__ __device__ transform_iterator& operator+=(difference_type n) { it_ = it_ + n; return *this; }
  __host__ __device__ difference_type operator-(const transform_iterator& o) const { return it_ - o.it_; }
  __host__ __device__ bool operator==(const transform_iterator& o) const { return it_ == o.it_; }
};
template <class It, class F> __host__ __device__ transform_iterator<F, It> make_transform_iterator(It it, F f) { return {it, f}; }

/* From the element before `base` to the front. */
template <class It> class reverse_iterator {
  It base_;

 public:
  typedef __loom_value<It> value_type;
  typedef decltype(*std::declval<It>()) reference;
  typedef const value_type* pointer;
  typedef __loom_joined<It> system_tag;
  LOOM_ITERATOR(reverse_iterator)
  __host__ __device__ explicit reverse_iterator(It base) : base_(base) {}
  __host__ __device__ It base() const { return base_; }
  __host__ __device__ reference operator*() const { return *(base_ - 1); }
  __host__ __device__ reverse_iterator& operator+=(difference_type n) { base_ = base_ - n; return *this; }
  __host__ __device__ difference_type operator-(const reverse_iterator& o) const { return o.base_ - base_; }
  __host__ __device__ bool operator==(const reverse_iterator& o) const { return base_ == o.base_; }
};
template <class It> __host__ __device__ reverse_iterator<It> make_reverse_iterator(It base) { return reverse_iterator<It>(base); }

/* The elements that `indices` name, in that order. */
template <class Elements, class Indices> class permutation_iterator {
  Elements elements_;
  Indices indices_;

 public:
  typedef __loom_value<Elements> value_type;
  typedef decltype(*std::declval<Elements>()) reference;
  typedef const value_type* pointer;
  typedef __loom_joined<Elements, Indices> system_tag;
  LOOM_ITERATOR(permutation_iterator)
  __host__ __device__ permutation_iterator(Elements elements, Indices indices) : elements_(elements), indices_(indices) {}
  __host__ __device__ reference operator*() const { return elements_[*indices_]; }
  __host__ __device__ permutation_iterator& operator+=(difference_type n) { indices_ = indices_ + n; return *this; }
  __host__ __device__ difference_type operator-(const permutation_iterator& o) const { return indices_ - o.indices_; }
  __host__ __device__ bool operator==(const permutation_iterator& o) const { return indices_ == o.indices_; }
};
template <class E, class I> __host__ __device__ permutation_iterator<E, I> make_permutation_iterator(E elements, I indices) { return {elements, indices}; }

/* Several ranges side by side: a tuple of their elements. */
template <class Iterators> class zip_iterator;
template <class... Its> class zip_iterator<tuple<Its...>> {
  tuple<Its...> its_;
  typedef std::index_sequence_for<Its...> Places;
  template <size_t... i> __host__ __device__ auto elements(std::index_sequence<i...>) const { return reference(*std::get<i>(its_)...); }
  template <size_t... i> __host__ __device__ void step(std::ptrdiff_t n, std::index_sequence<i...>) { ((std::get<i>(its_) = std::get<i>(its_) + n), ...); }

 public:
  typedef tuple<__loom_value<Its>...> value_type;
  typedef tuple<decltype(*std::declval<Its&>())...> reference;
  typedef const value_type* pointer;
  typedef __loom_joined<Its...> system_tag;
  LOOM_ITERATOR(zip_iterator)
  __host__ __device__ zip_iterator(tuple<Its...> its) : its_(its) {}
  __host__ __device__ const tuple<Its...>& get_iterator_tuple() const { return its_; }
  __host__ __device__ reference operator*() const { return elements(Places()); }
  __host__ __device__ zip_iterator& operator+=(difference_type n) { step(n, Places()); return *this; }
  __host__ __device__ difference_type operator-(const zip_iterator& o) const { return std::get<0>(its_) - std::get<0>(o.its_); }
  __host__ __device__ bool operator==(const zip_iterator& o) const { return std::get<0>(its_) == std::get<0>(o.its_); }
};
template <class... Its> __host__ __device__ zip_iterator<tuple<Its...>> make_zip_iterator(tuple<Its...> its) { return {its}; }
template <class First, class... Its> __host__ __device__ zip_iterator<tuple<First, Its...>> make_zip_iterator(First first, Its... its) { return {tuple<First, Its...>(first, its...)}; }
template <class F> struct __loom_zip_function {
  F f;
  template <class Tuple> __host__ __device__ decltype(auto) operator()(Tuple&& t) const { return std::apply(f, t); }
};
template <class F> __host__ __device__ __loom_zip_function<F> make_zip_function(F f) { return {f}; }
#undef LOOM_ITERATOR
}  // namespace thrust
