/* Scans, and algorithms that move, remove or sort elements: once per place, as in algorithms.h. */
#pragma once
namespace thrust {
template <class In, class Out> Out __loom_inclusive_scan(const host_tag&, In first, In last, Out out) { if (first != last) { __loom_value<In> sum = *first; *out = sum; for (++first, ++out; first != last; ++first, ++out) *out = sum = sum + *first; } return out; }
template <class In, class Out> Out __loom_inclusive_scan(const device_tag& where, In first, In last, Out out) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { if (first != last) { __loom_value<In> sum = *first; *out = sum; for (++first, ++out; first != last; ++first, ++out) *out = sum = sum + *first; } *result = out; });
  return memory.take();
}
template <class Policy, class In, class Out, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out inclusive_scan(const Policy& policy, In first, In last, Out out) { return __loom_inclusive_scan(policy, first, last, out); }
template <class In, class Out> Out inclusive_scan(In first, In last, Out out) { return __loom_inclusive_scan(__loom_where<In, Out>(), first, last, out); }

template <class In, class Out, class F> Out __loom_inclusive_scan(const host_tag&, In first, In last, Out out, F f) { if (first != last) { __loom_value<In> sum = *first; *out = sum; for (++first, ++out; first != last; ++first, ++out) *out = sum = f(sum, *first); } return out; }
template <class In, class Out, class F> Out __loom_inclusive_scan(const device_tag& where, In first, In last, Out out, F f) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { if (first != last) { __loom_value<In> sum = *first; *out = sum; for (++first, ++out; first != last; ++first, ++out) *out = sum = f(sum, *first); } *result = out; });
  return memory.take();
}
template <class Policy, class In, class Out, class F, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out inclusive_scan(const Policy& policy, In first, In last, Out out, F f) { return __loom_inclusive_scan(policy, first, last, out, f); }
template <class In, class Out, class F> Out inclusive_scan(In first, In last, Out out, F f) { return __loom_inclusive_scan(__loom_where<In, Out>(), first, last, out, f); }

template <class In, class Out> Out __loom_exclusive_scan(const host_tag&, In first, In last, Out out) { __loom_value<In> sum = 0; for (; first != last; ++first, ++out) { __loom_value<In> v = *first; *out = sum; sum = sum + v; } return out; }
template <class In, class Out> Out __loom_exclusive_scan(const device_tag& where, In first, In last, Out out) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { __loom_value<In> sum = 0; for (; first != last; ++first, ++out) { __loom_value<In> v = *first; *out = sum; sum = sum + v; } *result = out; });
  return memory.take();
}
template <class Policy, class In, class Out, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out exclusive_scan(const Policy& policy, In first, In last, Out out) { return __loom_exclusive_scan(policy, first, last, out); }
template <class In, class Out> Out exclusive_scan(In first, In last, Out out) { return __loom_exclusive_scan(__loom_where<In, Out>(), first, last, out); }

template <class In, class Out, class T> Out __loom_exclusive_scan(const host_tag&, In first, In last, Out out, T sum) { for (; first != last; ++first, ++out) { T v = *first; *out = sum; sum = sum + v; } return out; }
template <class In, class Out, class T> Out __loom_exclusive_scan(const device_tag& where, In first, In last, Out out, T sum) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first, ++out) { T v = *first; *out = sum; sum = sum + v; } *result = out; });
  return memory.take();
}
template <class Policy, class In, class Out, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out exclusive_scan(const Policy& policy, In first, In last, Out out, T sum) { return __loom_exclusive_scan(policy, first, last, out, sum); }
template <class In, class Out, class T> Out exclusive_scan(In first, In last, Out out, T sum) { return __loom_exclusive_scan(__loom_where<In, Out>(), first, last, out, sum); }

template <class In, class Out, class T, class F> Out __loom_exclusive_scan(const host_tag&, In first, In last, Out out, T sum, F f) { for (; first != last; ++first, ++out) { T v = *first; *out = sum; sum = f(sum, v); } return out; }
template <class In, class Out, class T, class F> Out __loom_exclusive_scan(const device_tag& where, In first, In last, Out out, T sum, F f) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first, ++out) { T v = *first; *out = sum; sum = f(sum, v); } *result = out; });
  return memory.take();
}
template <class Policy, class In, class Out, class T, class F, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out exclusive_scan(const Policy& policy, In first, In last, Out out, T sum, F f) { return __loom_exclusive_scan(policy, first, last, out, sum, f); }
template <class In, class Out, class T, class F> Out exclusive_scan(In first, In last, Out out, T sum, F f) { return __loom_exclusive_scan(__loom_where<In, Out>(), first, last, out, sum, f); }

template <class In, class Out> Out __loom_adjacent_difference(const host_tag&, In first, In last, Out out) { if (first != last) { __loom_value<In> before = *first; *out = before; for (++first, ++out; first != last; ++first, ++out) { __loom_value<In> v = *first; *out = v - before; before = v; } } return out; }
template <class In, class Out> Out __loom_adjacent_difference(const device_tag& where, In first, In last, Out out) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { if (first != last) { __loom_value<In> before = *first; *out = before; for (++first, ++out; first != last; ++first, ++out) { __loom_value<In> v = *first; *out = v - before; before = v; } } *result = out; });
  return memory.take();
}
template <class Policy, class In, class Out, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out adjacent_difference(const Policy& policy, In first, In last, Out out) { return __loom_adjacent_difference(policy, first, last, out); }
template <class In, class Out> Out adjacent_difference(In first, In last, Out out) { return __loom_adjacent_difference(__loom_where<In, Out>(), first, last, out); }

template <class Map, class In, class Out> Out __loom_gather(const host_tag&, Map first, Map last, In in, Out out) { for (; first != last; ++first, ++out) *out = in[*first]; return out; }
template <class Map, class In, class Out> Out __loom_gather(const device_tag& where, Map first, Map last, In in, Out out) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first, ++out) *out = in[*first]; *result = out; });
  return memory.take();
}
template <class Policy, class Map, class In, class Out, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out gather(const Policy& policy, Map first, Map last, In in, Out out) { return __loom_gather(policy, first, last, in, out); }
template <class Map, class In, class Out> Out gather(Map first, Map last, In in, Out out) { return __loom_gather(__loom_where<Map, In, Out>(), first, last, in, out); }

template <class In, class Map, class Out> Out __loom_scatter(const host_tag&, In first, In last, Map map, Out out) { for (; first != last; ++first, ++map) out[*map] = *first; return out; }
template <class In, class Map, class Out> Out __loom_scatter(const device_tag& where, In first, In last, Map map, Out out) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first, ++map) out[*map] = *first; *result = out; });
  return memory.take();
}
template <class Policy, class In, class Map, class Out, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out scatter(const Policy& policy, In first, In last, Map map, Out out) { return __loom_scatter(policy, first, last, map, out); }
template <class In, class Map, class Out> Out scatter(In first, In last, Map map, Out out) { return __loom_scatter(__loom_where<In, Map, Out>(), first, last, map, out); }

template <class It, class P> It __loom_remove_if(const host_tag&, It first, It last, P p) { It out = first; for (; first != last; ++first) if (!p(*first)) *out = *first, ++out; return out; }
template <class It, class P> It __loom_remove_if(const device_tag& where, It first, It last, P p) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { It out = first; for (; first != last; ++first) if (!p(*first)) *out = *first, ++out; *result = out; });
  return memory.take();
}
template <class Policy, class It, class P, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It remove_if(const Policy& policy, It first, It last, P p) { return __loom_remove_if(policy, first, last, p); }
template <class It, class P> It remove_if(It first, It last, P p) { return __loom_remove_if(__loom_where<It>(), first, last, p); }

template <class It, class T> It __loom_remove(const host_tag&, It first, It last, T value) { It out = first; for (; first != last; ++first) if (!(*first == value)) *out = *first, ++out; return out; }
template <class It, class T> It __loom_remove(const device_tag& where, It first, It last, T value) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { It out = first; for (; first != last; ++first) if (!(*first == value)) *out = *first, ++out; *result = out; });
  return memory.take();
}
template <class Policy, class It, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It remove(const Policy& policy, It first, It last, T value) { return __loom_remove(policy, first, last, value); }
template <class It, class T> It remove(It first, It last, T value) { return __loom_remove(__loom_where<It>(), first, last, value); }

template <class It> It __loom_unique(const host_tag&, It first, It last) { if (first != last) { It out = first; for (++first; first != last; ++first) if (!(*out == *first)) ++out, *out = *first; ++out; return out; } else return first; }
template <class It> It __loom_unique(const device_tag& where, It first, It last) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { if (first != last) { It out = first; for (++first; first != last; ++first) if (!(*out == *first)) ++out, *out = *first; ++out; *result = out; } else *result = first; });
  return memory.take();
}
template <class Policy, class It, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It unique(const Policy& policy, It first, It last) { return __loom_unique(policy, first, last); }
template <class It> It unique(It first, It last) { return __loom_unique(__loom_where<It>(), first, last); }

template <class It, class T> It __loom_replace(const host_tag&, It first, It last, T before, T after) { for (; first != last; ++first) if (*first == before) *first = after; return first; }
template <class It, class T> It __loom_replace(const device_tag& where, It first, It last, T before, T after) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first) if (*first == before) *first = after; *result = first; });
  return memory.take();
}
template <class Policy, class It, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It replace(const Policy& policy, It first, It last, T before, T after) { return __loom_replace(policy, first, last, before, after); }
template <class It, class T> It replace(It first, It last, T before, T after) { return __loom_replace(__loom_where<It>(), first, last, before, after); }

template <class It, class P, class T> It __loom_replace_if(const host_tag&, It first, It last, P p, T after) { for (; first != last; ++first) if (p(*first)) *first = after; return first; }
template <class It, class P, class T> It __loom_replace_if(const device_tag& where, It first, It last, P p, T after) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first) if (p(*first)) *first = after; *result = first; });
  return memory.take();
}
template <class Policy, class It, class P, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It replace_if(const Policy& policy, It first, It last, P p, T after) { return __loom_replace_if(policy, first, last, p, after); }
template <class It, class P, class T> It replace_if(It first, It last, P p, T after) { return __loom_replace_if(__loom_where<It>(), first, last, p, after); }

template <class It> It __loom_reverse(const host_tag&, It first, It last) { for (long i = 0, j = last - first - 1; i < j; ++i, --j) { auto v = first[i]; first[i] = first[j]; first[j] = v; } return first; }
template <class It> It __loom_reverse(const device_tag& where, It first, It last) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (long i = 0, j = last - first - 1; i < j; ++i, --j) { auto v = first[i]; first[i] = first[j]; first[j] = v; } *result = first; });
  return memory.take();
}
template <class Policy, class It, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It reverse(const Policy& policy, It first, It last) { return __loom_reverse(policy, first, last); }
template <class It> It reverse(It first, It last) { return __loom_reverse(__loom_where<It>(), first, last); }

template <class It, class It2> It2 __loom_swap_ranges(const host_tag&, It first, It last, It2 second) { for (; first != last; ++first, ++second) { auto v = *first; *first = *second; *second = v; } return second; }
template <class It, class It2> It2 __loom_swap_ranges(const device_tag& where, It first, It last, It2 second) {
  __loom_result<It2> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first, ++second) { auto v = *first; *first = *second; *second = v; } *result = second; });
  return memory.take();
}
template <class Policy, class It, class It2, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It2 swap_ranges(const Policy& policy, It first, It last, It2 second) { return __loom_swap_ranges(policy, first, last, second); }
template <class It, class It2> It2 swap_ranges(It first, It last, It2 second) { return __loom_swap_ranges(__loom_where<It, It2>(), first, last, second); }

/* Runs of equal keys: one key and one sum each. Outputs are only written, for iterators that keep nothing. */
template <class K, class V, class KO, class VO, class Equal, class Op>
__host__ __device__ pair<KO, VO> __loom_reduce_runs(K first, K last, V values, KO keys, VO sums, Equal equal, Op op) {
  while (first != last) {
    K run = first;
    typename std::iterator_traits<V>::value_type sum = *values;
    for (++first, ++values; first != last && equal(*run, *first); ++first, ++values) sum = op(sum, *values);
    *keys = *run;
    *sums = sum;
    ++keys, ++sums;
  }
  return pair<KO, VO>(keys, sums);
}
template <class K, class V, class KO, class VO, class Equal, class Op>
pair<KO, VO> __loom_reduce_by_key(const host_tag&, K first, K last, V values, KO keys, VO sums, Equal equal, Op op) { return __loom_reduce_runs(first, last, values, keys, sums, equal, op); }
template <class K, class V, class KO, class VO, class Equal, class Op>
pair<KO, VO> __loom_reduce_by_key(const device_tag& where, K first, K last, V values, KO keys, VO sums, Equal equal, Op op) {
  __loom_result<pair<KO, VO>> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { auto ends = __loom_reduce_runs(first, last, values, keys, sums, equal, op); result->first = ends.first, result->second = ends.second; });
  return memory.take();
}
template <class Policy, class K, class V, class KO, class VO, class Equal = equal_to<void>, class Op = plus<void>, std::enable_if_t<__loom_is_policy<Policy>, int> = 0>
pair<KO, VO> reduce_by_key(const Policy& policy, K first, K last, V values, KO keys, VO sums, Equal equal = Equal(), Op op = Op()) { return __loom_reduce_by_key(policy, first, last, values, keys, sums, equal, op); }
template <class K, class V, class KO, class VO, class Equal = equal_to<void>, class Op = plus<void>, std::enable_if_t<!__loom_is_policy<K>, int> = 0>
pair<KO, VO> reduce_by_key(K first, K last, V values, KO keys, VO sums, Equal equal = Equal(), Op op = Op()) { return __loom_reduce_by_key(__loom_where<K, V, KO, VO>(), first, last, values, keys, sums, equal, op); }

/* ---- sorting: a stable merge sort of positions */
template <class K, class L> __host__ __device__ void __loom_sort_positions(K first, long n, long* order, long* spare, L less) {
  for (long i = 0; i < n; ++i) order[i] = i;
  for (long width = 1; width < n; width *= 2) {
    for (long low = 0; low < n; low += 2 * width) {
      long middle = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n, a = low, b = middle;
      for (long k = low; k < high; ++k) spare[k] = a < middle && (b >= high || !less(first[order[b]], first[order[a]])) ? order[a++] : order[b++];
    }
    for (long k = 0; k < n; ++k) order[k] = spare[k];
  }
}
template <class It> __host__ __device__ void __loom_permute(It first, long n, const long* order, __loom_value<It>* copy) {
  for (long i = 0; i < n; ++i) copy[i] = first[order[i]];
  for (long i = 0; i < n; ++i) first[i] = copy[i];
}
template <class T> T* __loom_scratch(long n) { T* p = nullptr; cudaMalloc(&p, (size_t)(n + 1) * sizeof(T)); return p; }
template <class K, class L> void __loom_sort(const host_tag&, K first, K last, L less) {
  if constexpr (std::is_reference<decltype(*first)>::value) {
    std::stable_sort(first, last, less);
  } else { /* of zipped iterators: the elements are tuples of references, which std cannot swap */
    long n = last - first;
    auto* order = new long[2 * n];
    auto* copy = new __loom_value<K>[n];
    __loom_sort_positions(first, n, order, order + n, less);
    __loom_permute(first, n, order, copy);
    delete[] order;
    delete[] copy;
  }
}
template <class K, class L> void __loom_sort(const device_tag& where, K first, K last, L less) {
  long n = last - first, *order = __loom_scratch<long>(2 * n), *spare = order + n;
  auto* copy = __loom_scratch<__loom_value<K>>(n);
  __loom_run(where, [=] __device__() mutable {
    __loom_sort_positions(first, n, order, spare, less);
    __loom_permute(first, n, order, copy);
  });
  cudaFree(order), cudaFree(copy);
}
template <class P, class K, class V, class L> void __loom_sort_by_key(const P& where, K first, K last, V values, L less) {
  long n = last - first, *order = __loom_scratch<long>(2 * n), *spare = order + n;
  auto* keys = __loom_scratch<__loom_value<K>>(n);
  auto* copy = __loom_scratch<__loom_value<V>>(n);
  if constexpr (std::is_base_of<device_tag, P>::value) {
    __loom_run(where, [=] __device__() mutable {
      __loom_sort_positions(first, n, order, spare, less);
      __loom_permute(first, n, order, keys);
      __loom_permute(values, n, order, copy);
    });
  } else {
    __loom_sort_positions(first, n, order, spare, less);
    __loom_permute(first, n, order, keys);
    __loom_permute(values, n, order, copy);
  }
  cudaFree(order), cudaFree(keys), cudaFree(copy);
}
#define LOOM_SORT(name)                                                                                                            \
  template <class P, class K, std::enable_if_t<__loom_is_policy<P>, int> = 0> void name(const P& p, K first, K last) { __loom_sort(p, first, last, less<>()); } \
  template <class P, class K, class L, std::enable_if_t<__loom_is_policy<P>, int> = 0> void name(const P& p, K first, K last, L l) { __loom_sort(p, first, last, l); } \
  template <class K> void name(K first, K last) { __loom_sort(__loom_where<K>(), first, last, less<>()); }                         \
  template <class K, class L, std::enable_if_t<!__loom_is_policy<K>, int> = 0> void name(K first, K last, L l) { __loom_sort(__loom_where<K>(), first, last, l); } \
  template <class P, class K, class V, std::enable_if_t<__loom_is_policy<P>, int> = 0> void name##_by_key(const P& p, K first, K last, V values) { __loom_sort_by_key(p, first, last, values, less<>()); } \
  template <class P, class K, class V, class L, std::enable_if_t<__loom_is_policy<P>, int> = 0> void name##_by_key(const P& p, K first, K last, V values, L l) { __loom_sort_by_key(p, first, last, values, l); } \
  template <class K, class V> void name##_by_key(K first, K last, V values) { __loom_sort_by_key(__loom_where<K, V>(), first, last, values, less<>()); } \
  template <class K, class V, class L, std::enable_if_t<!__loom_is_policy<K>, int> = 0> void name##_by_key(K first, K last, V values, L l) { __loom_sort_by_key(__loom_where<K, V>(), first, last, values, l); }
LOOM_SORT(sort)
LOOM_SORT(stable_sort)
#undef LOOM_SORT
template <class It> auto distance(It first, It last) { return last - first; }
template <class It, class N> void advance(It& it, N n) { it += n; }
}  // namespace thrust
