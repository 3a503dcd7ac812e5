/* Algorithms about order, keys and parts: one body each, which host and device share. */
#pragma once
namespace thrust {
#define LOOM_BODY static __host__ __device__
/* Runs `Body::run` where the policy says, with all arguments by value. */
template <class Body, class Policy, class... A> auto __loom_apply(const Policy& where, A... arguments) {
  typedef decltype(Body::run(arguments...)) R;
  if constexpr (std::is_base_of<device_tag, Policy>::value) {
    __loom_result<R> memory;
    R* result = memory.p;
    __loom_run(where, [=] __device__() mutable { new (result) R(Body::run(arguments...)); });
    return memory.take();
  } else {
    return Body::run(arguments...);
  }
}
#define LOOM_ALGORITHM(name)                                                                                              \
  template <class P, class... A, std::enable_if_t<__loom_is_policy<P>, int> = 0> auto name(const P& where, A... arguments) { \
    return __loom_apply<__loom_body_##name>(where, arguments...);                                                         \
  }                                                                                                                       \
  template <class First, class... A, std::enable_if_t<!__loom_is_policy<First>, int> = 0> auto name(First first, A... arguments) { \
    return __loom_apply<__loom_body_##name>(__loom_where<First, A...>(), first, arguments...);                            \
  }

/* ---- runs of equal elements */
struct __loom_body_unique_by_key_copy {
  template <class K, class V, class KO, class VO, class E = equal_to<>> LOOM_BODY pair<KO, VO> run(K first, K last, V values, KO keys, VO out, E same = E()) {
    while (first != last) {
      K head = first;
      *keys = *first, *out = *values;
      ++keys, ++out;
      do ++first, ++values; while (first != last && same(*head, *first));
    }
    return pair<KO, VO>(keys, out);
  }
};
LOOM_ALGORITHM(unique_by_key_copy)
struct __loom_body_unique_by_key {
  template <class K, class V, class E = equal_to<>> LOOM_BODY pair<K, V> run(K first, K last, V values, E same = E()) {
    long kept = 0, n = last - first;
    for (long i = 0; i < n; ++i) {
      if (kept && same(first[kept - 1], first[i])) continue;
      first[kept] = first[i], values[kept] = values[i], ++kept;
    }
    return pair<K, V>(first + kept, values + kept);
  }
};
LOOM_ALGORITHM(unique_by_key)
struct __loom_body_unique_copy {
  template <class In, class Out, class E = equal_to<>> LOOM_BODY Out run(In first, In last, Out out, E same = E()) {
    for (In before = first, at = first; at != last; before = at, ++at)
      if (at == first || !same(*before, *at)) *out = *at, ++out;
    return out;
  }
};
LOOM_ALGORITHM(unique_copy)
struct __loom_body_inclusive_scan_by_key {
  template <class K, class V, class Out, class E = equal_to<>, class Op = plus<>> LOOM_BODY Out run(K first, K last, V values, Out out, E same = E(), Op op = Op()) {
    __loom_value<V> sum{};
    for (K before = first, at = first; at != last; before = at, ++at, ++values, ++out) {
      __loom_value<V> own = *values;
      sum = at == first || !same(*before, *at) ? own : op(sum, own);
      *out = sum;
    }
    return out;
  }
};
LOOM_ALGORITHM(inclusive_scan_by_key)
struct __loom_body_exclusive_scan_by_key {
  template <class K, class V, class Out, class T = __loom_value<V>, class E = equal_to<>, class Op = plus<>>
  LOOM_BODY Out run(K first, K last, V values, Out out, T start = T(), E same = E(), Op op = Op()) {
    T sum = start;
    for (K before = first, at = first; at != last; before = at, ++at, ++values, ++out) {
      if (at != first && !same(*before, *at)) sum = start;
      __loom_value<V> own = *values;
      *out = sum;
      sum = op(sum, own);
    }
    return out;
  }
};
LOOM_ALGORITHM(exclusive_scan_by_key)

/* ---- extremes, first differences */
struct __loom_body_minmax_element {
  template <class It, class L = less<>> LOOM_BODY pair<It, It> run(It first, It last, L smaller = L()) {
    It low = first, high = first;
    for (It at = first; at != last; ++at) {
      if (smaller(*at, *low)) low = at;
      if (smaller(*high, *at)) high = at;
    }
    return pair<It, It>(low, high);
  }
};
LOOM_ALGORITHM(minmax_element)
struct __loom_body_mismatch {
  template <class A, class B, class E = equal_to<>> LOOM_BODY pair<A, B> run(A first, A last, B other, E same = E()) {
    while (first != last && same(*first, *other)) ++first, ++other;
    return pair<A, B>(first, other);
  }
};
LOOM_ALGORITHM(mismatch)

/* ---- scans of transformed elements */
struct __loom_body_transform_inclusive_scan {
  template <class In, class Out, class F, class Op> LOOM_BODY Out run(In first, In last, Out out, F f, Op op) {
    if (first == last) return out;
    auto sum = f(*first);
    for (*out = sum, ++first, ++out; first != last; ++first, ++out) *out = sum = op(sum, f(*first));
    return out;
  }
};
LOOM_ALGORITHM(transform_inclusive_scan)
struct __loom_body_transform_exclusive_scan {
  template <class In, class Out, class F, class T, class Op> LOOM_BODY Out run(In first, In last, Out out, F f, T sum, Op op) {
    for (; first != last; ++first, ++out) {
      auto own = f(*first);
      *out = sum;
      sum = op(sum, own);
    }
    return out;
  }
};
LOOM_ALGORITHM(transform_exclusive_scan)

/* ---- what a predicate chooses */
struct __loom_body_transform_if {
  template <class In, class S, class Out, class F, class P> LOOM_BODY Out run(In first, In last, S stencil, Out out, F f, P wanted) {
    for (; first != last; ++first, ++stencil, ++out) if (wanted(*stencil)) *out = f(*first);
    return out;
  }
};
LOOM_ALGORITHM(transform_if)
struct __loom_body_remove_copy_if {
  template <class In, class Out, class P> LOOM_BODY Out run(In first, In last, Out out, P unwanted) {
    for (; first != last; ++first) if (!unwanted(*first)) *out = *first, ++out;
    return out;
  }
};
LOOM_ALGORITHM(remove_copy_if)
struct __loom_body_replace_copy_if {
  template <class In, class Out, class P, class T> LOOM_BODY Out run(In first, In last, Out out, P old, T value) {
    for (; first != last; ++first, ++out) *out = old(*first) ? value : (T)*first;
    return out;
  }
};
LOOM_ALGORITHM(replace_copy_if)
struct __loom_body_scatter_if {
  template <class In, class Map, class S, class Out> LOOM_BODY Out run(In first, In last, Map map, S stencil, Out out) {
    for (; first != last; ++first, ++map, ++stencil) if (*stencil) out[*map] = *first;
    return out;
  }
};
LOOM_ALGORITHM(scatter_if)
struct __loom_body_gather_if {
  template <class Map, class S, class In, class Out> LOOM_BODY Out run(Map map, Map last, S stencil, In in, Out out) {
    for (; map != last; ++map, ++stencil, ++out) if (*stencil) *out = in[*map];
    return out;
  }
};
LOOM_ALGORITHM(gather_if)
struct __loom_body_partition_copy {
  template <class In, class A, class B, class P> LOOM_BODY pair<A, B> run(In first, In last, A yes, B no, P p) {
    for (; first != last; ++first)
      if (p(*first)) *yes = *first, ++yes;
      else *no = *first, ++no;
    return pair<A, B>(yes, no);
  }
};
LOOM_ALGORITHM(partition_copy)
struct __loom_body_stable_partition {
  template <class It, class P> LOOM_BODY It run(It first, It last, P p) {
    typedef __loom_value<It> T;
    long n = last - first, kept = 0, others = 0;
    T* rest = (T*)malloc((size_t)(n + 1) * sizeof(T));
    for (long i = 0; i < n; ++i)
      if (p(first[i])) first[kept++] = first[i];
      else new (rest + others++) T(first[i]);
    for (long i = 0; i < others; ++i) first[kept + i] = rest[i];
    free(rest);
    return first + kept;
  }
};
LOOM_ALGORITHM(stable_partition)
typedef __loom_body_stable_partition __loom_body_partition;
LOOM_ALGORITHM(partition)

/* ---- sorted ranges */
struct __loom_body_merge {
  template <class A, class B, class Out, class L = less<>> LOOM_BODY Out run(A a, A a_end, B b, B b_end, Out out, L smaller = L()) {
    for (; a != a_end || b != b_end; ++out)
      if (b == b_end || (a != a_end && !smaller(*b, *a))) *out = *a, ++a;
      else *out = *b, ++b;
    return out;
  }
};
LOOM_ALGORITHM(merge)
struct __loom_body_merge_by_key {
  template <class A, class B, class AV, class BV, class KO, class VO, class L = less<>>
  LOOM_BODY pair<KO, VO> run(A a, A a_end, B b, B b_end, AV av, BV bv, KO keys, VO values, L smaller = L()) {
    for (; a != a_end || b != b_end; ++keys, ++values)
      if (b == b_end || (a != a_end && !smaller(*b, *a))) *keys = *a, *values = *av, ++a, ++av;
      else *keys = *b, *values = *bv, ++b, ++bv;
    return pair<KO, VO>(keys, values);
  }
};
LOOM_ALGORITHM(merge_by_key)
/* Of elements in A only, in both and in B only, those that are wanted. */
template <bool only_a, bool both, bool only_b> struct __loom_body_set {
  template <class A, class B, class Out, class L = less<>> LOOM_BODY Out run(A a, A a_end, B b, B b_end, Out out, L smaller = L()) {
    while (a != a_end || b != b_end) {
      bool from_a = b == b_end || (a != a_end && smaller(*a, *b)), from_b = !from_a && (a == a_end || smaller(*b, *a));
      if (from_a ? only_a : from_b ? only_b : both) {
        if (from_b) *out = *b;
        else *out = *a;
        ++out;
      }
      if (!from_b) ++a;
      if (!from_a) ++b;
    }
    return out;
  }
};
typedef __loom_body_set<true, true, true> __loom_body_set_union;
typedef __loom_body_set<false, true, false> __loom_body_set_intersection;
typedef __loom_body_set<true, false, false> __loom_body_set_difference;
typedef __loom_body_set<true, false, true> __loom_body_set_symmetric_difference;
LOOM_ALGORITHM(set_union)
LOOM_ALGORITHM(set_intersection)
LOOM_ALGORITHM(set_difference)
LOOM_ALGORITHM(set_symmetric_difference)

/* ---- other orders */
struct __loom_body_reverse_copy {
  template <class In, class Out> LOOM_BODY Out run(In first, In last, Out out) {
    for (long i = last - first; i-- > 0; ++out) *out = first[i];
    return out;
  }
};
LOOM_ALGORITHM(reverse_copy)
/* Fisher and Yates; which order an engine gives is not the one of NVIDIA's. */
struct __loom_body_shuffle {
  template <class It, class Engine> LOOM_BODY It run(It first, It last, Engine engine) {
    for (long left = last - first; left > 1; --left) {
      unsigned long long number = engine() - Engine::min;
      number = number * (Engine::max - Engine::min + 1ull) + (engine() - Engine::min);
      long other = (long)(number % (unsigned long long)left);
      __loom_value<It> kept = first[left - 1];
      first[left - 1] = first[other], first[other] = kept;
    }
    return last;
  }
};
LOOM_ALGORITHM(shuffle)
}  // namespace thrust
#include <thrust/searches.h>
#undef LOOM_BODY
#undef LOOM_ALGORITHM
