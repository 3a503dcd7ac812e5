// slow; Thrust: runs of keys, parts, sorted ranges, other orders, iterators made of iterators; on host and device.
#include <sstream>

#include <thrust/binary_search.h>
#include <thrust/complex.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/reverse_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/set_operations.h>
#include <thrust/shuffle.h>
#include <thrust/sort.h>
#include <thrust/transform_scan.h>
#include <thrust/unique.h>

#include "check.h"

struct IsOdd { __host__ __device__ bool operator()(int x) const { return x & 1; } };
struct Nearer { __host__ __device__ bool operator()(int a, int b) const { return a % 10 < b % 10; } };
struct AddUp {
  template <class Tuple> __host__ __device__ void operator()(Tuple t) { thrust::get<2>(t) = thrust::get<0>(t) + 10 * thrust::get<1>(t); }
};
template <class V> static bool is(const V& v, size_t n, std::initializer_list<int> wanted) {
  bool same = n == wanted.size();
  for (size_t i = 0; same && i < n; ++i) same = v[i] == wanted.begin()[i];
  return same;
}

template <class V> static void check_keys() {
  V keys = std::vector<int>{1, 1, 2, 3, 3, 3}, values = std::vector<int>{5, 6, 7, 8, 9, 1}, out(6), out2(6);
  auto ends = thrust::unique_by_key_copy(keys.begin(), keys.end(), values.begin(), out.begin(), out2.begin());
  EXPECT(is(out, ends.first - out.begin(), {1, 2, 3}) && is(out2, ends.second - out2.begin(), {5, 7, 8}), "unique_by_key_copy");
  thrust::inclusive_scan_by_key(keys.begin(), keys.end(), values.begin(), out.begin());
  EXPECT(is(out, 6, {5, 11, 7, 8, 17, 18}), "inclusive_scan_by_key");
  thrust::exclusive_scan_by_key(keys.begin(), keys.end(), values.begin(), out.begin(), 100);
  EXPECT(is(out, 6, {100, 105, 100, 100, 108, 117}), "exclusive_scan_by_key");
  auto copied = thrust::unique_copy(keys.begin(), keys.end(), out.begin());
  EXPECT(is(out, copied - out.begin(), {1, 2, 3}), "unique_copy");
  auto kept = thrust::unique_by_key(keys.begin(), keys.end(), values.begin());
  EXPECT(is(keys, kept.first - keys.begin(), {1, 2, 3}) && is(values, kept.second - values.begin(), {5, 7, 8}), "unique_by_key");
}

template <class V> static void check_parts() {
  V in = std::vector<int>{31, 12, 45, 20, 77}, out(5), others(5);
  auto low_high = thrust::minmax_element(in.begin(), in.end(), Nearer());
  EXPECT(*low_high.first == 20 && *low_high.second == 77, "minmax_element");
  auto ends = thrust::partition_copy(in.begin(), in.end(), out.begin(), others.begin(), IsOdd());
  EXPECT(is(out, ends.first - out.begin(), {31, 45, 77}) && is(others, ends.second - others.begin(), {12, 20}), "partition_copy");
  auto rest = thrust::remove_copy_if(in.begin(), in.end(), out.begin(), IsOdd());
  EXPECT(is(out, rest - out.begin(), {12, 20}), "remove_copy_if");
  thrust::replace_copy_if(in.begin(), in.end(), out.begin(), IsOdd(), -1);
  EXPECT(is(out, 5, {-1, 12, -1, 20, -1}), "replace_copy_if");
  thrust::transform_if(in.begin(), in.end(), in.begin(), out.begin(), thrust::negate<int>(), IsOdd());
  EXPECT(is(out, 5, {-31, 12, -45, 20, -77}), "transform_if");
  thrust::transform_inclusive_scan(in.begin(), in.end(), out.begin(), thrust::negate<int>(), thrust::plus<int>());
  EXPECT(is(out, 5, {-31, -43, -88, -108, -185}), "transform_inclusive_scan");
  thrust::transform_exclusive_scan(in.begin(), in.end(), out.begin(), thrust::negate<int>(), 1, thrust::plus<int>());
  EXPECT(is(out, 5, {1, -30, -42, -87, -107}), "transform_exclusive_scan");
  auto differ = thrust::mismatch(in.begin(), in.end(), out.begin());
  EXPECT(differ.first == in.begin(), "mismatch");
  auto middle = thrust::stable_partition(in.begin(), in.end(), IsOdd());
  EXPECT(middle - in.begin() == 3 && is(in, 5, {31, 45, 77, 12, 20}), "stable_partition");
}

template <class V> static void check_sorted() {
  V a = std::vector<int>{1, 3, 3, 8}, b = std::vector<int>{2, 3, 9}, out(7), out2(7);
  thrust::merge(a.begin(), a.end(), b.begin(), b.end(), out.begin());
  EXPECT(is(out, 7, {1, 2, 3, 3, 3, 8, 9}), "merge");
  thrust::merge_by_key(a.begin(), a.end(), b.begin(), b.end(), a.begin(), thrust::make_counting_iterator(100), out.begin(), out2.begin());
  EXPECT(is(out2, 7, {1, 100, 3, 3, 101, 8, 102}), "merge_by_key");
  auto end = thrust::set_union(a.begin(), a.end(), b.begin(), b.end(), out.begin());
  EXPECT(is(out, end - out.begin(), {1, 2, 3, 3, 8, 9}), "set_union");
  end = thrust::set_intersection(a.begin(), a.end(), b.begin(), b.end(), out.begin());
  EXPECT(is(out, end - out.begin(), {3}), "set_intersection");
  end = thrust::set_difference(a.begin(), a.end(), b.begin(), b.end(), out.begin());
  EXPECT(is(out, end - out.begin(), {1, 3, 8}), "set_difference");
  end = thrust::reverse_copy(a.begin(), a.end(), out.begin());
  EXPECT(is(out, end - out.begin(), {8, 3, 3, 1}), "reverse_copy");
}

template <class V> static void check_iterators() {
  V a = std::vector<int>{1, 2, 3}, b = std::vector<int>{7, 8, 9}, sums(3), order = std::vector<int>{2, 0, 1};
  auto first = thrust::make_zip_iterator(thrust::make_tuple(a.begin(), b.begin(), sums.begin()));
  thrust::for_each(first, first + 3, AddUp());
  EXPECT(is(sums, 3, {71, 82, 93}), "zip_iterator");
  auto picked = thrust::make_permutation_iterator(a.begin(), order.begin());
  thrust::copy(picked, picked + 3, sums.begin());
  EXPECT(is(sums, 3, {3, 1, 2}), "permutation_iterator read");
  thrust::copy(b.begin(), b.end(), picked);
  EXPECT(is(a, 3, {8, 9, 7}), "permutation_iterator written");
  V many(1000);
  thrust::sequence(many.begin(), many.end());
  thrust::shuffle(many.begin(), many.end(), thrust::default_random_engine(5));
  int in_place = 0;
  for (int i = 0; i < 1000; ++i) in_place += many[i] == i;
  thrust::sort(many.begin(), many.end());
  EXPECT(in_place < 20 && many[0] == 0 && many[999] == 999, "shuffle leaves %d in place", in_place);
}

struct BySecond {
  template <class Tuple> __host__ __device__ bool operator()(const Tuple& a, const Tuple& b) const { return thrust::get<1>(a) < thrust::get<1>(b); }
};
/* Ranges side by side are sorted as tuples, in place, or by other keys. */
template <class V> static void check_zipped_sort() {
  V a = std::vector<int>{5, 3, 9, 3, 1}, b = std::vector<int>{1, 8, 2, 0, 4}, keys = std::vector<int>{2, 1, 5, 4, 3};
  auto both = thrust::make_zip_iterator(thrust::make_tuple(a.begin(), b.begin()));
  thrust::sort(both, both + 5);
  EXPECT(is(a, 5, {1, 3, 3, 5, 9}) && is(b, 5, {4, 0, 8, 1, 2}), "sorted tuples");
  thrust::stable_sort(both, both + 5, BySecond());
  EXPECT(is(a, 5, {3, 5, 9, 1, 3}) && is(b, 5, {0, 1, 2, 4, 8}), "by the second");
  thrust::sort_by_key(keys.begin(), keys.end(), both);
  EXPECT(is(a, 5, {5, 3, 3, 1, 9}) && is(b, 5, {1, 0, 8, 4, 2}), "tuples by other keys");
  thrust::sort_by_key(both, both + 5, keys.begin());
  EXPECT(is(a, 5, {1, 3, 3, 5, 9}) && is(keys, 5, {4, 2, 3, 1, 5}), "by keys that are tuples");
}

/* Tuples and pairs are assigned in device code. */
__global__ void assign(int* whole, float* part) {
  thrust::tie(whole[0], part[0]) = thrust::make_tuple(3, 0.5f);
  thrust::pair<int, float> p, q = thrust::make_pair(4, 1.5f);
  p = q;
  thrust::tuple<int, float> t;
  t = p;
  whole[1] = thrust::get<0>(t), part[1] = p.second;
}
static void check_tuples() {
  thrust::device_vector<int> whole(2);
  thrust::device_vector<float> part(2);
  assign<<<1, 1>>>(whole.data().get(), part.data().get());
  cudaDeviceSynchronize();
  EXPECT(whole[0] == 3 && part[0] == 0.5f && whole[1] == 4 && part[1] == 1.5f, "assigned");
  auto [a, b] = thrust::make_pair(5, 'c');
  auto [c, d] = thrust::make_tuple(6, 2.5);
  EXPECT(a == 5 && b == 'c' && c == 6 && d == 2.5, "bindings");
  std::stringstream text;
  thrust::complex<float> z;
  text << thrust::complex<float>(1, -2);
  EXPECT(text.str() == "(1,-2)" && text >> z && z == thrust::complex<float>(1, -2), "complex as text");
  register float root = rsqrtf(4) + rcbrtf(8) + cospif(2);
  EXPECT(root == 2, "host's functions: %f", root);
}

/* Searches for each of a range and by another order, backwards, and through a lambda that reads what a lambda chooses. */
template <class Vector> static void check_searches() {
  Vector sorted(6), wanted(4);
  const int elements[6] = {1, 3, 3, 5, 8, 9}, values[4] = {3, 4, 0, 100};
  for (int i = 0; i < 6; ++i) sorted[i] = elements[i];
  for (int i = 0; i < 4; ++i) wanted[i] = values[i];
  Vector low(4), high(4), there(4);
  thrust::lower_bound(sorted.begin(), sorted.end(), wanted.begin(), wanted.end(), low.begin());
  thrust::upper_bound(sorted.begin(), sorted.end(), wanted.begin(), wanted.end(), high.begin());
  thrust::binary_search(sorted.begin(), sorted.end(), wanted.begin(), wanted.end(), there.begin());
  const int lows[4] = {1, 3, 0, 6}, highs[4] = {3, 3, 0, 6};
  for (int i = 0; i < 4; ++i) EXPECT(low[i] == lows[i] && high[i] == highs[i] && there[i] == (i == 0), "search %d", i);
  EXPECT(thrust::binary_search(sorted.begin(), sorted.end(), 8) && !thrust::binary_search(sorted.begin(), sorted.end(), 7), "of one");
  auto range = thrust::equal_range(sorted.begin(), sorted.end(), 3);
  EXPECT(range.first - sorted.begin() == 1 && range.second - range.first == 2, "range");
  EXPECT(thrust::is_sorted(sorted.begin(), sorted.end()) && !thrust::is_sorted(sorted.begin(), sorted.end(), thrust::greater<int>()), "order");
  auto back = thrust::make_reverse_iterator(sorted.end());
  EXPECT(thrust::lower_bound(back, back + 6, 5, thrust::greater<int>()) - back == 2 && back[5] == 1, "backwards");
  auto odd = thrust::make_transform_iterator(thrust::make_counting_iterator(0), [] __host__ __device__(int i) { return 2 * i + 1; });
  auto picked = thrust::make_permutation_iterator(sorted.begin(), odd);
  EXPECT(thrust::reduce(picked, picked + 3) == 3 + 5 + 9, "every other");
}

int main() {
  check_searches<thrust::host_vector<int>>();
  check_searches<thrust::device_vector<int>>();
  check_tuples();
  check_keys<thrust::host_vector<int>>(), check_keys<thrust::device_vector<int>>();
  check_parts<thrust::host_vector<int>>(), check_parts<thrust::device_vector<int>>();
  check_sorted<thrust::host_vector<int>>(), check_sorted<thrust::device_vector<int>>();
  check_iterators<thrust::host_vector<int>>(), check_iterators<thrust::device_vector<int>>();
  check_zipped_sort<thrust::host_vector<int>>(), check_zipped_sort<thrust::device_vector<int>>();
  static_assert(std::is_same<thrust::tuple_element<1, thrust::tuple<int, float>>::type, float>::value, "");
  return wrong != 0;
}
