/* Every algorithm once per place (host, device), and its forms with and without a policy: those that visit elements, reduce or
   find. Scans, and what moves elements: moving_algorithms.h. */
#pragma once
namespace thrust {
/* R is the result; on the device it is written through memory that the host reads. */
template <class T> struct __loom_result {
  T* p;
  __loom_result() { cudaMallocManaged(&p, sizeof(T)); }
  T take() { T value = *p; cudaFree(p); return value; }
};

template <class It, class F> It __loom_for_each(const host_tag&, It first, It last, F f) { for (; first != last; ++first) f(*first); return first; }
template <class It, class F> It __loom_for_each(const device_tag& where, It first, It last, F f) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first) f(*first); *result = first; });
  return memory.take();
}
template <class Policy, class It, class F, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It for_each(const Policy& policy, It first, It last, F f) { return __loom_for_each(policy, first, last, f); }
template <class It, class F> It for_each(It first, It last, F f) { return __loom_for_each(__loom_where<It>(), first, last, f); }

template <class It, class N, class F> It __loom_for_each_n(const host_tag&, It first, N n, F f) { for (N i = 0; i < n; ++i) f(first[i]); return first + n; }
template <class It, class N, class F> It __loom_for_each_n(const device_tag& where, It first, N n, F f) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (N i = 0; i < n; ++i) f(first[i]); *result = first + n; });
  return memory.take();
}
template <class Policy, class It, class N, class F, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It for_each_n(const Policy& policy, It first, N n, F f) { return __loom_for_each_n(policy, first, n, f); }
template <class It, class N, class F> It for_each_n(It first, N n, F f) { return __loom_for_each_n(__loom_where<It>(), first, n, f); }

template <class It, class T> It __loom_fill(const host_tag&, It first, It last, T value) { for (; first != last; ++first) *first = value; return first; }
template <class It, class T> It __loom_fill(const device_tag& where, It first, It last, T value) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first) *first = value; *result = first; });
  return memory.take();
}
template <class Policy, class It, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It fill(const Policy& policy, It first, It last, T value) { return __loom_fill(policy, first, last, value); }
template <class It, class T> It fill(It first, It last, T value) { return __loom_fill(__loom_where<It>(), first, last, value); }

template <class It, class N, class T> It __loom_fill_n(const host_tag&, It first, N n, T value) { for (N i = 0; i < n; ++i) first[i] = value; return first + n; }
template <class It, class N, class T> It __loom_fill_n(const device_tag& where, It first, N n, T value) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (N i = 0; i < n; ++i) first[i] = value; *result = first + n; });
  return memory.take();
}
template <class Policy, class It, class N, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It fill_n(const Policy& policy, It first, N n, T value) { return __loom_fill_n(policy, first, n, value); }
template <class It, class N, class T> It fill_n(It first, N n, T value) { return __loom_fill_n(__loom_where<It>(), first, n, value); }

template <class It> It __loom_sequence(const host_tag&, It first, It last) { __loom_value<It> v = 0; for (; first != last; ++first) *first = v, v = v + 1; return first; }
template <class It> It __loom_sequence(const device_tag& where, It first, It last) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { __loom_value<It> v = 0; for (; first != last; ++first) *first = v, v = v + 1; *result = first; });
  return memory.take();
}
template <class Policy, class It, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It sequence(const Policy& policy, It first, It last) { return __loom_sequence(policy, first, last); }
template <class It> It sequence(It first, It last) { return __loom_sequence(__loom_where<It>(), first, last); }

template <class It, class T> It __loom_sequence(const host_tag&, It first, It last, T v) { for (; first != last; ++first) *first = v, v = v + 1; return first; }
template <class It, class T> It __loom_sequence(const device_tag& where, It first, It last, T v) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first) *first = v, v = v + 1; *result = first; });
  return memory.take();
}
template <class Policy, class It, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It sequence(const Policy& policy, It first, It last, T v) { return __loom_sequence(policy, first, last, v); }
template <class It, class T> It sequence(It first, It last, T v) { return __loom_sequence(__loom_where<It>(), first, last, v); }

template <class It, class T> It __loom_sequence(const host_tag&, It first, It last, T v, T step) { for (; first != last; ++first) *first = v, v = v + step; return first; }
template <class It, class T> It __loom_sequence(const device_tag& where, It first, It last, T v, T step) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first) *first = v, v = v + step; *result = first; });
  return memory.take();
}
template <class Policy, class It, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It sequence(const Policy& policy, It first, It last, T v, T step) { return __loom_sequence(policy, first, last, v, step); }
template <class It, class T> It sequence(It first, It last, T v, T step) { return __loom_sequence(__loom_where<It>(), first, last, v, step); }

template <class It, class F> It __loom_generate(const host_tag&, It first, It last, F f) { for (; first != last; ++first) *first = f(); return first; }
template <class It, class F> It __loom_generate(const device_tag& where, It first, It last, F f) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first) *first = f(); *result = first; });
  return memory.take();
}
template <class Policy, class It, class F, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It generate(const Policy& policy, It first, It last, F f) { return __loom_generate(policy, first, last, f); }
template <class It, class F> It generate(It first, It last, F f) { return __loom_generate(__loom_where<It>(), first, last, f); }

template <class It, class F> It __loom_tabulate(const host_tag&, It first, It last, F f) { for (long i = 0; first != last; ++first, ++i) *first = f(i); return first; }
template <class It, class F> It __loom_tabulate(const device_tag& where, It first, It last, F f) {
  __loom_result<It> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (long i = 0; first != last; ++first, ++i) *first = f(i); *result = first; });
  return memory.take();
}
template <class Policy, class It, class F, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> It tabulate(const Policy& policy, It first, It last, F f) { return __loom_tabulate(policy, first, last, f); }
template <class It, class F> It tabulate(It first, It last, F f) { return __loom_tabulate(__loom_where<It>(), first, last, f); }

template <class In, class Out> Out __loom_copy(const host_tag&, In first, In last, Out out) { for (; first != last; ++first, ++out) *out = *first; return out; }
/* Iterators of std::vector, which host_vector's are, work in host code only: on the device they are the pointers in them. */
template <class It, class = void> struct __loom_unwrap { static It raw(It it) { return it; } };
template <class It> struct __loom_unwrap<It, std::enable_if_t<std::is_pointer_v<std::decay_t<decltype(std::declval<It>().base())>>>> {
  static auto raw(It it) { return it.base(); }
};
template <class In, class Out> Out __loom_copy(const device_tag& where, In first, In last, Out out) {
  auto from = __loom_unwrap<In>::raw(first), end = __loom_unwrap<In>::raw(last);
  auto to = __loom_unwrap<Out>::raw(out);
  __loom_result<decltype(to)> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; from != end; ++from, ++to) *to = *from; *result = to; });
  if constexpr (std::is_same_v<decltype(to), Out>) return memory.take();
  else return out + (memory.take() - to);
}
template <class Policy, class In, class Out, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out copy(const Policy& policy, In first, In last, Out out) { return __loom_copy(policy, first, last, out); }
template <class In, class Out> Out copy(In first, In last, Out out) { return __loom_copy(__loom_where<In, Out>(), first, last, out); }

template <class In, class N, class Out> Out __loom_copy_n(const host_tag&, In first, N n, Out out) { for (N i = 0; i < n; ++i) out[i] = first[i]; return out + n; }
template <class In, class N, class Out> Out __loom_copy_n(const device_tag& where, In first, N n, Out out) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (N i = 0; i < n; ++i) out[i] = first[i]; *result = out + n; });
  return memory.take();
}
template <class Policy, class In, class N, class Out, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out copy_n(const Policy& policy, In first, N n, Out out) { return __loom_copy_n(policy, first, n, out); }
template <class In, class N, class Out> Out copy_n(In first, N n, Out out) { return __loom_copy_n(__loom_where<In, Out>(), first, n, out); }

template <class In, class Out, class P> Out __loom_copy_if(const host_tag&, In first, In last, Out out, P keep) { for (; first != last; ++first) if (keep(*first)) *out = *first, ++out; return out; }
template <class In, class Out, class P> Out __loom_copy_if(const device_tag& where, In first, In last, Out out, P keep) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first) if (keep(*first)) *out = *first, ++out; *result = out; });
  return memory.take();
}
template <class Policy, class In, class Out, class P, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out copy_if(const Policy& policy, In first, In last, Out out, P keep) { return __loom_copy_if(policy, first, last, out, keep); }
template <class In, class Out, class P> Out copy_if(In first, In last, Out out, P keep) { return __loom_copy_if(__loom_where<In, Out>(), first, last, out, keep); }

template <class In, class S, class Out, class P> Out __loom_copy_if(const host_tag&, In first, In last, S stencil, Out out, P keep) { for (; first != last; ++first, ++stencil) if (keep(*stencil)) *out = *first, ++out; return out; }
template <class In, class S, class Out, class P> Out __loom_copy_if(const device_tag& where, In first, In last, S stencil, Out out, P keep) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first, ++stencil) if (keep(*stencil)) *out = *first, ++out; *result = out; });
  return memory.take();
}
template <class Policy, class In, class S, class Out, class P, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out copy_if(const Policy& policy, In first, In last, S stencil, Out out, P keep) { return __loom_copy_if(policy, first, last, stencil, out, keep); }
template <class In, class S, class Out, class P> Out copy_if(In first, In last, S stencil, Out out, P keep) { return __loom_copy_if(__loom_where<In, Out>(), first, last, stencil, out, keep); }

template <class In, class Out, class F> Out __loom_transform(const host_tag&, In first, In last, Out out, F f) { for (; first != last; ++first, ++out) *out = f(*first); return out; }
template <class In, class Out, class F> Out __loom_transform(const device_tag& where, In first, In last, Out out, F f) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first, ++out) *out = f(*first); *result = out; });
  return memory.take();
}
template <class Policy, class In, class Out, class F, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out transform(const Policy& policy, In first, In last, Out out, F f) { return __loom_transform(policy, first, last, out, f); }
template <class In, class Out, class F> Out transform(In first, In last, Out out, F f) { return __loom_transform(__loom_where<In, Out>(), first, last, out, f); }

template <class In, class In2, class Out, class F> Out __loom_transform(const host_tag&, In first, In last, In2 second, Out out, F f) { for (; first != last; ++first, ++second, ++out) *out = f(*first, *second); return out; }
template <class In, class In2, class Out, class F> Out __loom_transform(const device_tag& where, In first, In last, In2 second, Out out, F f) {
  __loom_result<Out> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first, ++second, ++out) *out = f(*first, *second); *result = out; });
  return memory.take();
}
template <class Policy, class In, class In2, class Out, class F, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> Out transform(const Policy& policy, In first, In last, In2 second, Out out, F f) { return __loom_transform(policy, first, last, second, out, f); }
template <class In, class In2, class Out, class F> Out transform(In first, In last, In2 second, Out out, F f) { return __loom_transform(__loom_where<In, In2, Out>(), first, last, second, out, f); }

template <class In> __loom_value<In> __loom_reduce(const host_tag&, In first, In last) { __loom_value<In> sum = 0; for (; first != last; ++first) sum = sum + *first; return sum; }
template <class In> __loom_value<In> __loom_reduce(const device_tag& where, In first, In last) {
  __loom_result<__loom_value<In>> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { __loom_value<In> sum = 0; for (; first != last; ++first) sum = sum + *first; *result = sum; });
  return memory.take();
}
template <class Policy, class In, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> __loom_value<In> reduce(const Policy& policy, In first, In last) { return __loom_reduce(policy, first, last); }
template <class In> __loom_value<In> reduce(In first, In last) { return __loom_reduce(__loom_where<In>(), first, last); }

template <class In, class T> T __loom_reduce(const host_tag&, In first, In last, T sum) { for (; first != last; ++first) sum = sum + *first; return sum; }
template <class In, class T> T __loom_reduce(const device_tag& where, In first, In last, T sum) {
  __loom_result<T> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first) sum = sum + *first; *result = sum; });
  return memory.take();
}
template <class Policy, class In, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> T reduce(const Policy& policy, In first, In last, T sum) { return __loom_reduce(policy, first, last, sum); }
template <class In, class T> T reduce(In first, In last, T sum) { return __loom_reduce(__loom_where<In>(), first, last, sum); }

template <class In, class T, class F> T __loom_reduce(const host_tag&, In first, In last, T sum, F f) { for (; first != last; ++first) sum = f(sum, *first); return sum; }
template <class In, class T, class F> T __loom_reduce(const device_tag& where, In first, In last, T sum, F f) {
  __loom_result<T> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first) sum = f(sum, *first); *result = sum; });
  return memory.take();
}
template <class Policy, class In, class T, class F, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> T reduce(const Policy& policy, In first, In last, T sum, F f) { return __loom_reduce(policy, first, last, sum, f); }
template <class In, class T, class F> T reduce(In first, In last, T sum, F f) { return __loom_reduce(__loom_where<In>(), first, last, sum, f); }

template <class In, class M, class T, class F> T __loom_transform_reduce(const host_tag&, In first, In last, M map, T sum, F f) { for (; first != last; ++first) sum = f(sum, map(*first)); return sum; }
template <class In, class M, class T, class F> T __loom_transform_reduce(const device_tag& where, In first, In last, M map, T sum, F f) {
  __loom_result<T> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first) sum = f(sum, map(*first)); *result = sum; });
  return memory.take();
}
template <class Policy, class In, class M, class T, class F, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> T transform_reduce(const Policy& policy, In first, In last, M map, T sum, F f) { return __loom_transform_reduce(policy, first, last, map, sum, f); }
template <class In, class M, class T, class F> T transform_reduce(In first, In last, M map, T sum, F f) { return __loom_transform_reduce(__loom_where<In>(), first, last, map, sum, f); }

template <class In, class In2, class T> T __loom_inner_product(const host_tag&, In first, In last, In2 second, T sum) { for (; first != last; ++first, ++second) sum = sum + *first * *second; return sum; }
template <class In, class In2, class T> T __loom_inner_product(const device_tag& where, In first, In last, In2 second, T sum) {
  __loom_result<T> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first, ++second) sum = sum + *first * *second; *result = sum; });
  return memory.take();
}
template <class Policy, class In, class In2, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> T inner_product(const Policy& policy, In first, In last, In2 second, T sum) { return __loom_inner_product(policy, first, last, second, sum); }
template <class In, class In2, class T> T inner_product(In first, In last, In2 second, T sum) { return __loom_inner_product(__loom_where<In, In2>(), first, last, second, sum); }

template <class In, class In2, class T, class F, class G> T __loom_inner_product(const host_tag&, In first, In last, In2 second, T sum, F f, G g) { for (; first != last; ++first, ++second) sum = f(sum, g(*first, *second)); return sum; }
template <class In, class In2, class T, class F, class G> T __loom_inner_product(const device_tag& where, In first, In last, In2 second, T sum, F f, G g) {
  __loom_result<T> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { for (; first != last; ++first, ++second) sum = f(sum, g(*first, *second)); *result = sum; });
  return memory.take();
}
template <class Policy, class In, class In2, class T, class F, class G, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> T inner_product(const Policy& policy, In first, In last, In2 second, T sum, F f, G g) { return __loom_inner_product(policy, first, last, second, sum, f, g); }
template <class In, class In2, class T, class F, class G> T inner_product(In first, In last, In2 second, T sum, F f, G g) { return __loom_inner_product(__loom_where<In, In2>(), first, last, second, sum, f, g); }

template <class In, class T> long __loom_count(const host_tag&, In first, In last, T value) { long n = 0; for (; first != last; ++first) n += *first == value; return n; }
template <class In, class T> long __loom_count(const device_tag& where, In first, In last, T value) {
  __loom_result<long> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { long n = 0; for (; first != last; ++first) n += *first == value; *result = n; });
  return memory.take();
}
template <class Policy, class In, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> long count(const Policy& policy, In first, In last, T value) { return __loom_count(policy, first, last, value); }
template <class In, class T> long count(In first, In last, T value) { return __loom_count(__loom_where<In>(), first, last, value); }

template <class In, class P> long __loom_count_if(const host_tag&, In first, In last, P p) { long n = 0; for (; first != last; ++first) n += p(*first) ? 1 : 0; return n; }
template <class In, class P> long __loom_count_if(const device_tag& where, In first, In last, P p) {
  __loom_result<long> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { long n = 0; for (; first != last; ++first) n += p(*first) ? 1 : 0; *result = n; });
  return memory.take();
}
template <class Policy, class In, class P, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> long count_if(const Policy& policy, In first, In last, P p) { return __loom_count_if(policy, first, last, p); }
template <class In, class P> long count_if(In first, In last, P p) { return __loom_count_if(__loom_where<In>(), first, last, p); }

template <class In, class P> bool __loom_all_of(const host_tag&, In first, In last, P p) { bool yes = true; for (; first != last; ++first) yes = yes && p(*first); return yes; }
template <class In, class P> bool __loom_all_of(const device_tag& where, In first, In last, P p) {
  __loom_result<bool> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { bool yes = true; for (; first != last; ++first) yes = yes && p(*first); *result = yes; });
  return memory.take();
}
template <class Policy, class In, class P, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> bool all_of(const Policy& policy, In first, In last, P p) { return __loom_all_of(policy, first, last, p); }
template <class In, class P> bool all_of(In first, In last, P p) { return __loom_all_of(__loom_where<In>(), first, last, p); }

template <class In, class P> bool __loom_any_of(const host_tag&, In first, In last, P p) { bool yes = false; for (; first != last; ++first) yes = yes || p(*first); return yes; }
template <class In, class P> bool __loom_any_of(const device_tag& where, In first, In last, P p) {
  __loom_result<bool> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { bool yes = false; for (; first != last; ++first) yes = yes || p(*first); *result = yes; });
  return memory.take();
}
template <class Policy, class In, class P, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> bool any_of(const Policy& policy, In first, In last, P p) { return __loom_any_of(policy, first, last, p); }
template <class In, class P> bool any_of(In first, In last, P p) { return __loom_any_of(__loom_where<In>(), first, last, p); }

template <class In, class P> bool __loom_none_of(const host_tag&, In first, In last, P p) { bool yes = false; for (; first != last; ++first) yes = yes || p(*first); return !yes; }
template <class In, class P> bool __loom_none_of(const device_tag& where, In first, In last, P p) {
  __loom_result<bool> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { bool yes = false; for (; first != last; ++first) yes = yes || p(*first); *result = !yes; });
  return memory.take();
}
template <class Policy, class In, class P, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> bool none_of(const Policy& policy, In first, In last, P p) { return __loom_none_of(policy, first, last, p); }
template <class In, class P> bool none_of(In first, In last, P p) { return __loom_none_of(__loom_where<In>(), first, last, p); }

template <class In, class In2> bool __loom_equal(const host_tag&, In first, In last, In2 second) { bool yes = true; for (; first != last; ++first, ++second) yes = yes && *first == *second; return yes; }
template <class In, class In2> bool __loom_equal(const device_tag& where, In first, In last, In2 second) {
  __loom_result<bool> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { bool yes = true; for (; first != last; ++first, ++second) yes = yes && *first == *second; *result = yes; });
  return memory.take();
}
template <class Policy, class In, class In2, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> bool equal(const Policy& policy, In first, In last, In2 second) { return __loom_equal(policy, first, last, second); }
template <class In, class In2> bool equal(In first, In last, In2 second) { return __loom_equal(__loom_where<In, In2>(), first, last, second); }

template <class In, class T> In __loom_find(const host_tag&, In first, In last, T value) { while (first != last && !(*first == value)) ++first; return first; }
template <class In, class T> In __loom_find(const device_tag& where, In first, In last, T value) {
  __loom_result<In> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { while (first != last && !(*first == value)) ++first; *result = first; });
  return memory.take();
}
template <class Policy, class In, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> In find(const Policy& policy, In first, In last, T value) { return __loom_find(policy, first, last, value); }
template <class In, class T> In find(In first, In last, T value) { return __loom_find(__loom_where<In>(), first, last, value); }

template <class In, class P> In __loom_find_if(const host_tag&, In first, In last, P p) { while (first != last && !p(*first)) ++first; return first; }
template <class In, class P> In __loom_find_if(const device_tag& where, In first, In last, P p) {
  __loom_result<In> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { while (first != last && !p(*first)) ++first; *result = first; });
  return memory.take();
}
template <class Policy, class In, class P, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> In find_if(const Policy& policy, In first, In last, P p) { return __loom_find_if(policy, first, last, p); }
template <class In, class P> In find_if(In first, In last, P p) { return __loom_find_if(__loom_where<In>(), first, last, p); }

template <class In> In __loom_max_element(const host_tag&, In first, In last) { In best = first; for (; first != last; ++first) if (*best < *first) best = first; return best; }
template <class In> In __loom_max_element(const device_tag& where, In first, In last) {
  __loom_result<In> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { In best = first; for (; first != last; ++first) if (*best < *first) best = first; *result = best; });
  return memory.take();
}
template <class Policy, class In, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> In max_element(const Policy& policy, In first, In last) { return __loom_max_element(policy, first, last); }
template <class In> In max_element(In first, In last) { return __loom_max_element(__loom_where<In>(), first, last); }

template <class In, class L> In __loom_max_element(const host_tag&, In first, In last, L less) { In best = first; for (; first != last; ++first) if (less(*best, *first)) best = first; return best; }
template <class In, class L> In __loom_max_element(const device_tag& where, In first, In last, L less) {
  __loom_result<In> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { In best = first; for (; first != last; ++first) if (less(*best, *first)) best = first; *result = best; });
  return memory.take();
}
template <class Policy, class In, class L, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> In max_element(const Policy& policy, In first, In last, L less) { return __loom_max_element(policy, first, last, less); }
template <class In, class L> In max_element(In first, In last, L less) { return __loom_max_element(__loom_where<In>(), first, last, less); }

template <class In> In __loom_min_element(const host_tag&, In first, In last) { In best = first; for (; first != last; ++first) if (*first < *best) best = first; return best; }
template <class In> In __loom_min_element(const device_tag& where, In first, In last) {
  __loom_result<In> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { In best = first; for (; first != last; ++first) if (*first < *best) best = first; *result = best; });
  return memory.take();
}
template <class Policy, class In, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> In min_element(const Policy& policy, In first, In last) { return __loom_min_element(policy, first, last); }
template <class In> In min_element(In first, In last) { return __loom_min_element(__loom_where<In>(), first, last); }

template <class In, class L> In __loom_min_element(const host_tag&, In first, In last, L less) { In best = first; for (; first != last; ++first) if (less(*first, *best)) best = first; return best; }
template <class In, class L> In __loom_min_element(const device_tag& where, In first, In last, L less) {
  __loom_result<In> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { In best = first; for (; first != last; ++first) if (less(*first, *best)) best = first; *result = best; });
  return memory.take();
}
template <class Policy, class In, class L, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> In min_element(const Policy& policy, In first, In last, L less) { return __loom_min_element(policy, first, last, less); }
template <class In, class L> In min_element(In first, In last, L less) { return __loom_min_element(__loom_where<In>(), first, last, less); }
}  // namespace thrust
#include <thrust/moving_algorithms.h>
