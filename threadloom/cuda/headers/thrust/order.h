/* Algorithms about runs of equal keys, parts and sorted ranges. */
#pragma once
namespace thrust {
/* ---- runs of equal elements; outputs are only written, for iterators that keep nothing */
struct __loom_body_reduce_by_key {
  template <class K, class V, class KO, class VO, class E = equal_to<>, class Op = plus<>>
  LOOM_BODY pair<KO, VO> run(K first, K last, V values, KO keys, VO sums, E same = E(), Op op = Op()) {
    while (first != last) {
      __loom_value<K> key = *first;
      __loom_value<V> sum = *values;
      for (++first, ++values; first != last && same(key, *first); ++first, ++values) sum = op(sum, *values);
      *keys = key, *sums = sum;
      ++keys, ++sums;
    }
    return pair<KO, VO>(keys, sums);
  }
};
LOOM_ALGORITHM(reduce_by_key)
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

/* ---- what a predicate chooses */
struct __loom_body_partition_copy {
  template <class In, class A, class B, class P> LOOM_BODY pair<A, B> run(In first, In last, A yes, B no, P p) { return run(first, last, first, yes, no, p); }
  template <class In, class S, class A, class B, class P> LOOM_BODY pair<A, B> run(In first, In last, S stencil, A yes, B no, P p) {
    for (; first != last; ++first, ++stencil)
      if (p(*stencil)) *yes = *first, ++yes;
      else *no = *first, ++no;
    return pair<A, B>(yes, no);
  }
};
LOOM_ALGORITHM(partition_copy)
typedef __loom_body_partition_copy __loom_body_stable_partition_copy;
LOOM_ALGORITHM(stable_partition_copy)
struct __loom_body_stable_partition {
  template <class It, class P> LOOM_BODY It run(It first, It last, P p) { return run(first, last, first, p); }
  template <class It, class S, class P> LOOM_BODY It run(It first, It last, S stencil, P p) {
    __loom_buffer<__loom_value<It>> all(first, last - first);
    It yes = first;
    __loom_buffer<bool> chosen(all.n);
    for (long i = 0; i < all.n; ++i, ++stencil) chosen.p[i] = p(*stencil);
    for (long i = 0; i < all.n; ++i) if (chosen.p[i]) *yes = all.p[i], ++yes;
    It no = yes;
    for (long i = 0; i < all.n; ++i) if (!chosen.p[i]) *no = all.p[i], ++no;
    return yes;
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
/* Keys with a value each: sets of pairs, ordered by their first parts. Of an intersection B has no values. */
template <class L> struct __loom_by_first {
  L smaller;
  template <class X, class Y> __host__ __device__ bool operator()(const X& x, const Y& y) const { return smaller(get<0>(x), get<0>(y)); }
};
template <class Set> struct __loom_body_set_by_key {
  template <class A, class B, class AV, class BV, class KO, class VO, class L = less<>>
  LOOM_BODY pair<KO, VO> run(A a, A a_end, B b, B b_end, AV av, BV bv, KO keys, VO values, L smaller = L()) {
    auto end = Set::run(make_zip_iterator(a, av), make_zip_iterator(a_end, av), make_zip_iterator(b, bv), make_zip_iterator(b_end, bv), make_zip_iterator(keys, values), __loom_by_first<L>{smaller});
    return pair<KO, VO>(get<0>(end.get_iterator_tuple()), get<1>(end.get_iterator_tuple()));
  }
};
struct __loom_body_set_intersection_by_key {
  template <class A, class B, class AV, class KO, class VO, class L = less<>>
  LOOM_BODY pair<KO, VO> run(A a, A a_end, B b, B b_end, AV av, KO keys, VO values, L smaller = L()) {
    return __loom_body_set_by_key<__loom_body_set_intersection>::run(a, a_end, b, b_end, av, constant_iterator<__loom_value<AV>>(__loom_value<AV>()), keys, values, smaller);
  }
};
typedef __loom_body_set_by_key<__loom_body_set_union> __loom_body_set_union_by_key;
typedef __loom_body_set_by_key<__loom_body_set_difference> __loom_body_set_difference_by_key;
typedef __loom_body_set_by_key<__loom_body_set_symmetric_difference> __loom_body_set_symmetric_difference_by_key;
LOOM_ALGORITHM(set_union_by_key)
LOOM_ALGORITHM(set_intersection_by_key)
LOOM_ALGORITHM(set_difference_by_key)
LOOM_ALGORITHM(set_symmetric_difference_by_key)

/* ---- other orders */
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
struct __loom_body_shuffle_copy {
  template <class In, class Out, class Engine> LOOM_BODY Out run(In first, In last, Out out, Engine engine) {
    for (In at = first; at != last; ++at, ++out) *out = *at;
    __loom_body_shuffle::run(out + -(last - first), out, engine);
    return out;
  }
};
LOOM_ALGORITHM(shuffle_copy)
}  // namespace thrust
#include <thrust/searches.h>
#undef LOOM_BODY
#undef LOOM_ALGORITHM
