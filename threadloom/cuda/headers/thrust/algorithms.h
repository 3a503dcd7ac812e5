/* Every algorithm once per place (host, device), and its forms with and without a policy. */
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

template <class In> bool __loom_is_sorted(const host_tag&, In first, In last) { bool yes = true; for (long i = 1; i < last - first; ++i) yes = yes && !(first[i] < first[i - 1]); return yes; }
template <class In> bool __loom_is_sorted(const device_tag& where, In first, In last) {
  __loom_result<bool> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { bool yes = true; for (long i = 1; i < last - first; ++i) yes = yes && !(first[i] < first[i - 1]); *result = yes; });
  return memory.take();
}
template <class Policy, class In, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> bool is_sorted(const Policy& policy, In first, In last) { return __loom_is_sorted(policy, first, last); }
template <class In> bool is_sorted(In first, In last) { return __loom_is_sorted(__loom_where<In>(), first, last); }

template <class In, class T> In __loom_lower_bound(const host_tag&, In first, In last, T value) { long low = 0, high = last - first; while (low < high) { long middle = (low + high) / 2; if (first[middle] < value) low = middle + 1; else high = middle; } return first + low; }
template <class In, class T> In __loom_lower_bound(const device_tag& where, In first, In last, T value) {
  __loom_result<In> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { long low = 0, high = last - first; while (low < high) { long middle = (low + high) / 2; if (first[middle] < value) low = middle + 1; else high = middle; } *result = first + low; });
  return memory.take();
}
template <class Policy, class In, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> In lower_bound(const Policy& policy, In first, In last, T value) { return __loom_lower_bound(policy, first, last, value); }
template <class In, class T> In lower_bound(In first, In last, T value) { return __loom_lower_bound(__loom_where<In>(), first, last, value); }

template <class In, class T> In __loom_upper_bound(const host_tag&, In first, In last, T value) { long low = 0, high = last - first; while (low < high) { long middle = (low + high) / 2; if (!(value < first[middle])) low = middle + 1; else high = middle; } return first + low; }
template <class In, class T> In __loom_upper_bound(const device_tag& where, In first, In last, T value) {
  __loom_result<In> memory;
  auto* result = memory.p;
  __loom_run(where, [=] __device__() mutable { long low = 0, high = last - first; while (low < high) { long middle = (low + high) / 2; if (!(value < first[middle])) low = middle + 1; else high = middle; } *result = first + low; });
  return memory.take();
}
template <class Policy, class In, class T, std::enable_if_t<__loom_is_policy<Policy>, int> = 0> In upper_bound(const Policy& policy, In first, In last, T value) { return __loom_upper_bound(policy, first, last, value); }
template <class In, class T> In upper_bound(In first, In last, T value) { return __loom_upper_bound(__loom_where<In>(), first, last, value); }

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
