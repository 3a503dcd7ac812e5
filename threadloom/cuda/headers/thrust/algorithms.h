/* Algorithms that visit elements, fill, copy and transform, reduce, count and find. Scans, and what moves elements about:
   moving_algorithms.h; orders, keys and parts: order.h; searches in sorted ranges: searches.h. */
#pragma once
#include <thrust/apply.h>
namespace thrust {
struct __loom_body_for_each {
  template <class It, class F> LOOM_BODY It run(It first, It last, F f) {
    for (; first != last; ++first) f(*first);
    return first;
  }
};
LOOM_ALGORITHM(for_each)
struct __loom_body_for_each_n {
  template <class It, class N, class F> LOOM_BODY It run(It first, N n, F f) {
    for (N i = 0; i < n; ++i) f(first[i]);
    return first + n;
  }
};
LOOM_ALGORITHM(for_each_n)

/* ---- filling */
struct __loom_body_fill {
  template <class It, class T> LOOM_BODY void run(It first, It last, T value) {
    for (; first != last; ++first) *first = value;
  }
};
LOOM_ALGORITHM(fill)
typedef __loom_body_fill __loom_body_uninitialized_fill;
LOOM_ALGORITHM(uninitialized_fill)
struct __loom_body_fill_n {
  template <class It, class N, class T> LOOM_BODY It run(It first, N n, T value) {
    for (N i = 0; i < n; ++i, ++first) *first = value;
    return first;
  }
};
LOOM_ALGORITHM(fill_n)
typedef __loom_body_fill_n __loom_body_uninitialized_fill_n;
LOOM_ALGORITHM(uninitialized_fill_n)
struct __loom_body_sequence {
  template <class It, class T = __loom_value<It>> LOOM_BODY void run(It first, It last, T value = T()) {
    for (; first != last; ++first) *first = value, value = value + 1;
  }
  template <class It, class T> LOOM_BODY void run(It first, It last, T value, T step) {
    for (; first != last; ++first) *first = value, value = value + step;
  }
};
LOOM_ALGORITHM(sequence)
struct __loom_body_generate {
  template <class It, class F> LOOM_BODY void run(It first, It last, F f) {
    for (; first != last; ++first) *first = f();
  }
};
LOOM_ALGORITHM(generate)
struct __loom_body_generate_n {
  template <class It, class N, class F> LOOM_BODY It run(It first, N n, F f) {
    for (N i = 0; i < n; ++i, ++first) *first = f();
    return first;
  }
};
LOOM_ALGORITHM(generate_n)
struct __loom_body_tabulate {
  template <class It, class F> LOOM_BODY void run(It first, It last, F f) {
    for (std::ptrdiff_t i = 0; first != last; ++first, ++i) *first = f(i);
  }
};
LOOM_ALGORITHM(tabulate)

/* ---- copying and transforming */
struct __loom_copy_elements {
  template <class In, class Out> LOOM_BODY Out run(In first, In last, Out out) {
    for (; first != last; ++first, ++out) *out = *first;
    return out;
  }
};
template <class In, class Out, class Policy> Out __loom_copy(const Policy& where, In first, In last, Out out) {
  auto to = __loom_unwrap<Out>::raw(out);
  auto end = __loom_apply<__loom_copy_elements>(where, __loom_unwrap<In>::raw(first), __loom_unwrap<In>::raw(last), to);
  if constexpr (std::is_same_v<decltype(to), Out>) return end;
  else return out + (end - to);
}
template <class P, class In, class Out, std::enable_if_t<__loom_is_policy<P>, int> = 0> __host__ Out copy(const P& where, In first, In last, Out out) { return __loom_copy(where, first, last, out); }
template <class In, class Out> __host__ Out copy(In first, In last, Out out) { return __loom_copy(__loom_where<In, Out>(), first, last, out); }
template <class P, class In, class Out, std::enable_if_t<__loom_is_policy<P>, int> = 0> __device__ Out copy(const P&, In first, In last, Out out) { return __loom_copy_elements::run(first, last, out); }
template <class In, class Out> __device__ Out copy(In first, In last, Out out) { return __loom_copy_elements::run(first, last, out); }
typedef __loom_copy_elements __loom_body_uninitialized_copy;
LOOM_ALGORITHM(uninitialized_copy)
struct __loom_body_copy_n {
  template <class In, class N, class Out> LOOM_BODY Out run(In first, N n, Out out) {
    for (N i = 0; i < n; ++i, ++first, ++out) *out = *first;
    return out;
  }
};
LOOM_ALGORITHM(copy_n)
typedef __loom_body_copy_n __loom_body_uninitialized_copy_n;
LOOM_ALGORITHM(uninitialized_copy_n)
struct __loom_body_copy_if {
  template <class In, class Out, class P> LOOM_BODY Out run(In first, In last, Out out, P keep) {
    for (; first != last; ++first) if (keep(*first)) *out = *first, ++out;
    return out;
  }
  template <class In, class S, class Out, class P> LOOM_BODY Out run(In first, In last, S stencil, Out out, P keep) {
    for (; first != last; ++first, ++stencil) if (keep(*stencil)) *out = *first, ++out;
    return out;
  }
};
LOOM_ALGORITHM(copy_if)
struct __loom_body_transform {
  template <class In, class Out, class F> LOOM_BODY Out run(In first, In last, Out out, F f) {
    for (; first != last; ++first, ++out) *out = f(*first);
    return out;
  }
  template <class A, class B, class Out, class F> LOOM_BODY Out run(A first, A last, B second, Out out, F f) {
    for (; first != last; ++first, ++second, ++out) *out = f(*first, *second);
    return out;
  }
};
LOOM_ALGORITHM(transform)
struct __loom_body_transform_if {
  template <class In, class Out, class F, class P> LOOM_BODY Out run(In first, In last, Out out, F f, P wanted) {
    for (; first != last; ++first, ++out) if (wanted(*first)) *out = f(*first);
    return out;
  }
  template <class In, class S, class Out, class F, class P> LOOM_BODY Out run(In first, In last, S stencil, Out out, F f, P wanted) {
    for (; first != last; ++first, ++stencil, ++out) if (wanted(*stencil)) *out = f(*first);
    return out;
  }
  template <class A, class B, class S, class Out, class F, class P> LOOM_BODY Out run(A first, A last, B second, S stencil, Out out, F f, P wanted) {
    for (; first != last; ++first, ++second, ++stencil, ++out) if (wanted(*stencil)) *out = f(*first, *second);
    return out;
  }
};
LOOM_ALGORITHM(transform_if)

/* ---- reducing */
struct __loom_body_reduce {
  template <class In> LOOM_BODY __loom_value<In> run(In first, In last) { return run(first, last, __loom_value<In>()); }
  template <class In, class T, class Op = plus<>> LOOM_BODY T run(In first, In last, T sum, Op op = Op()) {
    for (; first != last; ++first) sum = op(sum, *first);
    return sum;
  }
};
LOOM_ALGORITHM(reduce)
struct __loom_body_transform_reduce {
  template <class In, class F, class T, class Op> LOOM_BODY T run(In first, In last, F f, T sum, Op op) {
    for (; first != last; ++first) sum = op(sum, f(*first));
    return sum;
  }
};
LOOM_ALGORITHM(transform_reduce)
struct __loom_body_inner_product {
  template <class A, class B, class T, class Op = plus<>, class Product = multiplies<>>
  LOOM_BODY T run(A first, A last, B second, T sum, Op op = Op(), Product product = Product()) {
    for (; first != last; ++first, ++second) sum = op(sum, product(*first, *second));
    return sum;
  }
};
LOOM_ALGORITHM(inner_product)
struct __loom_body_count {
  template <class In, class T> LOOM_BODY std::ptrdiff_t run(In first, In last, T value) {
    std::ptrdiff_t n = 0;
    for (; first != last; ++first) n += *first == value;
    return n;
  }
};
LOOM_ALGORITHM(count)
struct __loom_body_count_if {
  template <class In, class P> LOOM_BODY std::ptrdiff_t run(In first, In last, P p) {
    std::ptrdiff_t n = 0;
    for (; first != last; ++first) n += p(*first) ? 1 : 0;
    return n;
  }
};
LOOM_ALGORITHM(count_if)

/* ---- finding, comparing */
struct __loom_body_find {
  template <class In, class T> LOOM_BODY In run(In first, In last, T value) {
    while (first != last && !(*first == value)) ++first;
    return first;
  }
};
LOOM_ALGORITHM(find)
struct __loom_body_find_if {
  template <class In, class P> LOOM_BODY In run(In first, In last, P p) {
    while (first != last && !p(*first)) ++first;
    return first;
  }
};
LOOM_ALGORITHM(find_if)
struct __loom_body_find_if_not {
  template <class In, class P> LOOM_BODY In run(In first, In last, P p) {
    while (first != last && p(*first)) ++first;
    return first;
  }
};
LOOM_ALGORITHM(find_if_not)
typedef __loom_body_find_if_not __loom_body_partition_point;
LOOM_ALGORITHM(partition_point)
struct __loom_body_all_of {
  template <class In, class P> LOOM_BODY bool run(In first, In last, P p) { return __loom_body_find_if_not::run(first, last, p) == last; }
};
LOOM_ALGORITHM(all_of)
struct __loom_body_any_of {
  template <class In, class P> LOOM_BODY bool run(In first, In last, P p) { return __loom_body_find_if::run(first, last, p) != last; }
};
LOOM_ALGORITHM(any_of)
struct __loom_body_none_of {
  template <class In, class P> LOOM_BODY bool run(In first, In last, P p) { return __loom_body_find_if::run(first, last, p) == last; }
};
LOOM_ALGORITHM(none_of)
struct __loom_body_is_partitioned {
  template <class In, class P> LOOM_BODY bool run(In first, In last, P p) {
    return __loom_body_find_if::run(__loom_body_find_if_not::run(first, last, p), last, p) == last;
  }
};
LOOM_ALGORITHM(is_partitioned)
struct __loom_body_equal {
  template <class A, class B, class E = equal_to<>> LOOM_BODY bool run(A first, A last, B second, E same = E()) {
    for (; first != last; ++first, ++second) if (!same(*first, *second)) return false;
    return true;
  }
};
LOOM_ALGORITHM(equal)
struct __loom_body_mismatch {
  template <class A, class B, class E = equal_to<>> LOOM_BODY pair<A, B> run(A first, A last, B other, E same = E()) {
    while (first != last && same(*first, *other)) ++first, ++other;
    return pair<A, B>(first, other);
  }
};
LOOM_ALGORITHM(mismatch)
struct __loom_body_max_element {
  template <class In, class L = less<>> LOOM_BODY In run(In first, In last, L smaller = L()) {
    In best = first;
    for (; first != last; ++first) if (smaller(*best, *first)) best = first;
    return best;
  }
};
LOOM_ALGORITHM(max_element)
struct __loom_body_min_element {
  template <class In, class L = less<>> LOOM_BODY In run(In first, In last, L smaller = L()) {
    In best = first;
    for (; first != last; ++first) if (smaller(*first, *best)) best = first;
    return best;
  }
};
LOOM_ALGORITHM(min_element)
struct __loom_body_minmax_element {
  template <class It, class L = less<>> LOOM_BODY pair<It, It> run(It first, It last, L smaller = L()) {
    return pair<It, It>(__loom_body_min_element::run(first, last, smaller), __loom_body_max_element::run(first, last, smaller));
  }
};
LOOM_ALGORITHM(minmax_element)
}  // namespace thrust
#include <thrust/moving_algorithms.h>
