/* Scans, and algorithms that gather, scatter, remove, replace, reverse and sort elements. */
#pragma once
namespace thrust {
/* ---- scans and differences */
struct __loom_body_inclusive_scan {
  template <class In, class Out, class Op = plus<>> LOOM_BODY Out run(In first, In last, Out out, Op op = Op()) {
    if (first == last) return out;
    __loom_value<In> sum = *first;
    for (*out = sum, ++first, ++out; first != last; ++first, ++out) *out = sum = op(sum, *first);
    return out;
  }
  template <class In, class Out, class T, class Op> LOOM_BODY Out run(In first, In last, Out out, T sum, Op op) {
    for (; first != last; ++first, ++out) *out = sum = op(sum, *first);
    return out;
  }
};
LOOM_ALGORITHM(inclusive_scan)
struct __loom_body_exclusive_scan {
  template <class In, class Out> LOOM_BODY Out run(In first, In last, Out out) { return run(first, last, out, __loom_value<In>()); }
  template <class In, class Out, class T, class Op = plus<>> LOOM_BODY Out run(In first, In last, Out out, T sum, Op op = Op()) {
    for (; first != last; ++first, ++out) {
      __loom_value<In> own = *first;
      *out = sum;
      sum = op(sum, own);
    }
    return out;
  }
};
LOOM_ALGORITHM(exclusive_scan)
struct __loom_body_transform_inclusive_scan {
  template <class In, class Out, class F, class Op> LOOM_BODY Out run(In first, In last, Out out, F f, Op op) {
    if (first == last) return out;
    auto sum = f(*first);
    for (*out = sum, ++first, ++out; first != last; ++first, ++out) *out = sum = op(sum, f(*first));
    return out;
  }
  template <class In, class Out, class F, class T, class Op> LOOM_BODY Out run(In first, In last, Out out, F f, T sum, Op op) {
    for (; first != last; ++first, ++out) *out = sum = op(sum, f(*first));
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
struct __loom_body_adjacent_difference {
  template <class In, class Out, class Op = minus<>> LOOM_BODY Out run(In first, In last, Out out, Op op = Op()) {
    if (first == last) return out;
    __loom_value<In> before = *first;
    for (*out = before, ++first, ++out; first != last; ++first, ++out) {
      __loom_value<In> own = *first;
      *out = op(own, before);
      before = own;
    }
    return out;
  }
};
LOOM_ALGORITHM(adjacent_difference)

/* ---- by index */
struct __loom_body_gather {
  template <class Map, class In, class Out> LOOM_BODY Out run(Map map, Map last, In in, Out out) {
    for (; map != last; ++map, ++out) *out = in[*map];
    return out;
  }
};
LOOM_ALGORITHM(gather)
struct __loom_body_gather_if {
  template <class Map, class S, class In, class Out, class P = identity<>> LOOM_BODY Out run(Map map, Map last, S stencil, In in, Out out, P wanted = P()) {
    for (; map != last; ++map, ++stencil, ++out) if (wanted(*stencil)) *out = in[*map];
    return out;
  }
};
LOOM_ALGORITHM(gather_if)
struct __loom_body_scatter {
  template <class In, class Map, class Out> LOOM_BODY void run(In first, In last, Map map, Out out) {
    for (; first != last; ++first, ++map) out[*map] = *first;
  }
};
LOOM_ALGORITHM(scatter)
struct __loom_body_scatter_if {
  template <class In, class Map, class S, class Out, class P = identity<>> LOOM_BODY void run(In first, In last, Map map, S stencil, Out out, P wanted = P()) {
    for (; first != last; ++first, ++map, ++stencil) if (wanted(*stencil)) out[*map] = *first;
  }
};
LOOM_ALGORITHM(scatter_if)

/* ---- removing */
struct __loom_body_remove_copy_if {
  template <class In, class Out, class P> LOOM_BODY Out run(In first, In last, Out out, P unwanted) { return run(first, last, first, out, unwanted); }
  template <class In, class S, class Out, class P> LOOM_BODY Out run(In first, In last, S stencil, Out out, P unwanted) {
    for (; first != last; ++first, ++stencil) if (!unwanted(*stencil)) *out = *first, ++out;
    return out;
  }
};
LOOM_ALGORITHM(remove_copy_if)
struct __loom_body_remove_if {
  template <class It, class P> LOOM_BODY It run(It first, It last, P unwanted) { return __loom_body_remove_copy_if::run(first, last, first, unwanted); }
  template <class It, class S, class P> LOOM_BODY It run(It first, It last, S stencil, P unwanted) { return __loom_body_remove_copy_if::run(first, last, stencil, first, unwanted); }
};
LOOM_ALGORITHM(remove_if)
struct __loom_body_remove_copy {
  template <class In, class Out, class T> LOOM_BODY Out run(In first, In last, Out out, T value) {
    for (; first != last; ++first) if (!(*first == value)) *out = *first, ++out;
    return out;
  }
};
LOOM_ALGORITHM(remove_copy)
struct __loom_body_remove {
  template <class It, class T> LOOM_BODY It run(It first, It last, T value) { return __loom_body_remove_copy::run(first, last, first, value); }
};
LOOM_ALGORITHM(remove)
/* Each element is compared with the one before it, as in Thrust, not with the first of its run. */
struct __loom_body_unique_copy {
  template <class In, class Out, class E = equal_to<>> LOOM_BODY Out run(In first, In last, Out out, E same = E()) {
    if (first == last) return out;
    __loom_value<In> before = *first;
    for (*out = before, ++first, ++out; first != last; ++first) {
      __loom_value<In> own = *first;
      if (!same(before, own)) *out = own, ++out;
      before = own;
    }
    return out;
  }
};
LOOM_ALGORITHM(unique_copy)
struct __loom_body_unique {
  template <class It, class E = equal_to<>> LOOM_BODY It run(It first, It last, E same = E()) { return __loom_body_unique_copy::run(first, last, first, same); }
};
LOOM_ALGORITHM(unique)
struct __loom_body_unique_count {
  template <class It, class E = equal_to<>> LOOM_BODY std::ptrdiff_t run(It first, It last, E same = E()) {
    return __loom_body_unique_copy::run(first, last, discard_iterator(), same) - discard_iterator();
  }
};
LOOM_ALGORITHM(unique_count)

/* ---- replacing, swapping, reversing */
struct __loom_body_replace {
  template <class It, class T> LOOM_BODY void run(It first, It last, T before, T after) {
    for (; first != last; ++first) if (*first == before) *first = after;
  }
};
LOOM_ALGORITHM(replace)
struct __loom_body_replace_if {
  template <class It, class P, class T> LOOM_BODY void run(It first, It last, P old, T value) { run(first, last, first, old, value); }
  template <class It, class S, class P, class T> LOOM_BODY void run(It first, It last, S stencil, P old, T value) {
    for (; first != last; ++first, ++stencil) if (old(*stencil)) *first = value;
  }
};
LOOM_ALGORITHM(replace_if)
struct __loom_body_replace_copy {
  template <class In, class Out, class T> LOOM_BODY Out run(In first, In last, Out out, T before, T after) {
    for (; first != last; ++first, ++out) if (*first == before) *out = after; else *out = *first;
    return out;
  }
};
LOOM_ALGORITHM(replace_copy)
struct __loom_body_replace_copy_if {
  template <class In, class Out, class P, class T> LOOM_BODY Out run(In first, In last, Out out, P old, T value) { return run(first, last, first, out, old, value); }
  template <class In, class S, class Out, class P, class T> LOOM_BODY Out run(In first, In last, S stencil, Out out, P old, T value) {
    for (; first != last; ++first, ++stencil, ++out) if (old(*stencil)) *out = value; else *out = *first;
    return out;
  }
};
LOOM_ALGORITHM(replace_copy_if)
struct __loom_body_swap_ranges {
  template <class A, class B> LOOM_BODY B run(A first, A last, B second) {
    for (; first != last; ++first, ++second) {
      __loom_value<A> kept = *first;
      *first = *second, *second = kept;
    }
    return second;
  }
};
LOOM_ALGORITHM(swap_ranges)
struct __loom_body_reverse {
  template <class It> LOOM_BODY void run(It first, It last) {
    for (std::ptrdiff_t i = 0, j = last - first - 1; i < j; ++i, --j) {
      __loom_value<It> kept = first[i];
      first[i] = first[j], first[j] = kept;
    }
  }
};
LOOM_ALGORITHM(reverse)
struct __loom_body_reverse_copy {
  template <class In, class Out> LOOM_BODY Out run(In first, In last, Out out) {
    for (std::ptrdiff_t i = last - first; i-- > 0; ++out) *out = first[i];
    return out;
  }
};
LOOM_ALGORITHM(reverse_copy)

/* ---- sorting: stable merges of positions or of the elements themselves */
template <class T> struct __loom_buffer {
  long n;
  T* p;
  __host__ __device__ explicit __loom_buffer(long n) : n(n), p((T*)malloc((size_t)(n + 1) * sizeof(T))) {}
  template <class In> __host__ __device__ __loom_buffer(In first, long n) : __loom_buffer(n) { for (long i = 0; i < n; ++i, ++first) new ((void*)(p + i)) T(*first); }
  __loom_buffer(const __loom_buffer&) = delete;
  __host__ __device__ ~__loom_buffer() {
    if constexpr (!std::is_trivially_destructible_v<T>) for (long i = 0; i < n; ++i) p[i].~T();
    free(p);
  }
};
/* `items` and `spare`, which has room for as many, change places after each pass; the one that is returned is sorted. */
template <class T, class L> __host__ __device__ T* __loom_merge_sort(T* items, T* spare, long n, L less) {
  for (long width = 1; width < n; width *= 2) {
    for (long low = 0; low < n; low += 2 * width) {
      long middle = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n, a = low, b = middle;
      for (long k = low; k < high; ++k) {
        if (a < middle && (b >= high || !less(items[b], items[a]))) spare[k] = items[a++];
        else spare[k] = items[b++];
      }
    }
    T* sorted = spare;
    spare = items, items = sorted;
  }
  return items;
}
struct __loom_body_stable_sort {
  template <class It, class L = less<>> LOOM_BODY void run(It first, It last, L less = L()) {
    long n = last - first;
    __loom_buffer<__loom_value<It>> items(first, n), spare(first, n);
    __loom_value<It>* sorted = __loom_merge_sort(items.p, spare.p, n, less);
    for (long i = 0; i < n; ++i, ++first) *first = sorted[i];
  }
};
LOOM_ALGORITHM(stable_sort)
typedef __loom_body_stable_sort __loom_body_sort;
LOOM_ALGORITHM(sort)
struct __loom_body_stable_sort_by_key {
  template <class K, class V, class L = less<>> LOOM_BODY void run(K first, K last, V values, L less = L()) {
    long n = last - first;
    __loom_buffer<__loom_value<K>> keys(first, n);
    __loom_buffer<__loom_value<V>> copies(values, n);
    __loom_buffer<long> order(n), spare(n);
    for (long i = 0; i < n; ++i) order.p[i] = i;
    const long* sorted = __loom_merge_sort(order.p, spare.p, n, [&](long a, long b) { return less(keys.p[a], keys.p[b]); });
    for (long i = 0; i < n; ++i, ++first, ++values) *first = keys.p[sorted[i]], *values = copies.p[sorted[i]];
  }
};
LOOM_ALGORITHM(stable_sort_by_key)
typedef __loom_body_stable_sort_by_key __loom_body_sort_by_key;
LOOM_ALGORITHM(sort_by_key)
}  // namespace thrust
