/* Searches in sorted ranges: of one value, or of each of a range. Needs order.h. */
#pragma once
namespace thrust {
/* How many elements at the front `before` holds of. */
template <class In, class P> __host__ __device__ long __loom_front(In first, In last, P before) {
  long low = 0, high = last - first;
  while (low < high) {
    long middle = (low + high) / 2;
    if (before(first[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}
template <class In, class T, class L> __host__ __device__ long __loom_lower(In first, In last, const T& value, L less) {
  return __loom_front(first, last, [&](const __loom_value<In>& element) { return less(element, value); });
}
template <class In, class T, class L> __host__ __device__ long __loom_upper(In first, In last, const T& value, L less) {
  return __loom_front(first, last, [&](const __loom_value<In>& element) { return !less(value, element); });
}
struct __loom_body_lower_bound {
  template <class In, class T, class L = less<>> LOOM_BODY In run(In first, In last, T value, L less = L()) {
    return first + __loom_lower(first, last, value, less);
  }
  template <class In, class V, class Out, class L = less<>> LOOM_BODY Out run(In first, In last, V value, V end, Out out, L less = L()) {
    for (; value != end; ++value, ++out) *out = __loom_lower(first, last, (__loom_value<V>)*value, less);
    return out;
  }
};
LOOM_ALGORITHM(lower_bound)
struct __loom_body_upper_bound {
  template <class In, class T, class L = less<>> LOOM_BODY In run(In first, In last, T value, L less = L()) {
    return first + __loom_upper(first, last, value, less);
  }
  template <class In, class V, class Out, class L = less<>> LOOM_BODY Out run(In first, In last, V value, V end, Out out, L less = L()) {
    for (; value != end; ++value, ++out) *out = __loom_upper(first, last, (__loom_value<V>)*value, less);
    return out;
  }
};
LOOM_ALGORITHM(upper_bound)
struct __loom_body_binary_search {
  template <class In, class T, class L = less<>> LOOM_BODY bool run(In first, In last, T value, L less = L()) {
    return __loom_lower(first, last, value, less) != __loom_upper(first, last, value, less);
  }
  template <class In, class V, class Out, class L = less<>> LOOM_BODY Out run(In first, In last, V value, V end, Out out, L less = L()) {
    for (; value != end; ++value, ++out) *out = run(first, last, (__loom_value<V>)*value, less);
    return out;
  }
};
LOOM_ALGORITHM(binary_search)
struct __loom_body_equal_range {
  template <class In, class T, class L = less<>> LOOM_BODY pair<In, In> run(In first, In last, T value, L less = L()) {
    return pair<In, In>(first + __loom_lower(first, last, value, less), first + __loom_upper(first, last, value, less));
  }
};
LOOM_ALGORITHM(equal_range)
struct __loom_body_is_sorted_until {
  template <class In, class L = less<>> LOOM_BODY In run(In first, In last, L less = L()) {
    long n = last - first, i = 1;
    while (i < n && !less(first[i], first[i - 1])) ++i;
    return i < n ? first + i : last;
  }
};
LOOM_ALGORITHM(is_sorted_until)
struct __loom_body_is_sorted {
  template <class In, class L = less<>> LOOM_BODY bool run(In first, In last, L less = L()) {
    return __loom_body_is_sorted_until::run(first, last, less) == last;
  }
};
LOOM_ALGORITHM(is_sorted)
}  // namespace thrust
