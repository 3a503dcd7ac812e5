// slow; Thrust: forms with stencils and operations of one's own, placeholders, and algorithms that threads of a kernel call.
#include <cuda/std/functional>
#include <thrust/adjacent_difference.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/random.h>
#include <thrust/remove.h>
#include <thrust/set_operations.h>
#include <thrust/shuffle.h>
#include <thrust/sort.h>
#include <thrust/swap.h>
#include <thrust/unique.h>

#include <string>

#include "check.h"

struct IsMinusOne { __host__ __device__ bool operator()(int x) const { return x == -1; } };
struct ByLevel {
  __host__ __device__ bool operator()(const thrust::tuple<int, int>& a, const thrust::tuple<int, int>& b) const { return thrust::get<1>(a) > thrust::get<1>(b); }
};
typedef thrust::device_vector<int> Ints;
static bool same(const Ints& got, std::vector<int> wanted) { return std::vector<int>(thrust::host_vector<int>(got)) == wanted; }

// Every thread sorts, shuffles and searches its own eight elements.
__global__ void in_threads(int* ids, int* levels, int* sums) {
  int* own = ids + 8 * threadIdx.x;
  int* level = levels + 8 * threadIdx.x;
  auto pairs = thrust::make_zip_iterator(thrust::make_tuple(own, level));
  thrust::shuffle(thrust::seq, pairs, pairs + 8, thrust::default_random_engine(threadIdx.x));
  thrust::sort(thrust::seq, pairs, pairs + 8, ByLevel());
  sums[threadIdx.x] = thrust::reduce(thrust::seq, own, own + 8, 0, thrust::maximum<int>()) + (int)(thrust::find(thrust::device, own, own + 8, 3) - own);
}

static void check_stencils() {
  Ints values = {0, 1, 2, 3, 4, 5}, stencil = {0, -1, 0, -1, -1, 0}, out(6, 9);
  int* raw = thrust::raw_pointer_cast(values.data());
  int* end = thrust::remove_if(thrust::device, raw, raw + 6, thrust::raw_pointer_cast(stencil.data()), IsMinusOne());
  EXPECT(end - raw == 3 && values[0] == 0 && values[1] == 2 && values[2] == 5, "remove_if");
  values = Ints{0, 1, 2, 3, 4, 5};
  auto half = thrust::stable_partition(values.begin(), values.end(), stencil.begin(), IsMinusOne());
  EXPECT(half - values.begin() == 3 && same(values, {1, 3, 4, 0, 2, 5}), "stable_partition");
  thrust::replace_if(values.begin(), values.end(), stencil.begin(), IsMinusOne(), 7);
  EXPECT(same(values, {1, 7, 4, 7, 7, 5}), "replace_if");
  thrust::remove_copy_if(values.begin(), values.end(), stencil.begin(), out.begin(), IsMinusOne());
  EXPECT(same(out, {1, 4, 5, 9, 9, 9}), "remove_copy_if");
  thrust::adjacent_difference(values.begin(), values.end(), out.begin(), thrust::not_equal_to<int>());
  EXPECT(same(out, {1, 1, 1, 1, 0, 1}), "adjacent_difference");
  EXPECT(thrust::unique_count(values.begin(), values.end()) == 5, "unique_count");
  thrust::transform_if(values.begin(), values.end(), stencil.begin(), out.begin(), thrust::negate<int>(), cuda::std::identity());
  EXPECT(same(out, {1, -7, 1, -7, -7, 1}), "transform_if");
}

static void check_functors() {
  using namespace thrust::placeholders;
  Ints x = {1, 2, 3}, y = {10, 20, 30};
  thrust::device_vector<float> part(3);
  thrust::transform(x.begin(), x.end(), y.begin(), part.begin(), thrust::divides<float>());
  EXPECT(part[1] == 0.1f && thrust::divides<>()(1, 10) == 0, "divides<float> of ints: %f", (float)part[1]);
  thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), 2 * _1 + _2);
  EXPECT(same(y, {12, 24, 36}) && thrust::count_if(y.begin(), y.end(), _1 > 20 && !(_1 == 36)) == 1, "placeholders");
  swap(x, y);
  auto a = x.begin(), b = y.begin();
  swap(a, b);
  EXPECT(*a == 1 && *b == 12 && x[2] == 36, "swap");
}

static void check_sets() {
  Ints a = {1, 3, 5}, b = {3, 4}, of_a = {10, 30, 50}, of_b = {31, 40}, keys(5, 0), values(5, 0);
  auto ends = thrust::set_union_by_key(a.begin(), a.end(), b.begin(), b.end(), of_a.begin(), of_b.begin(), keys.begin(), values.begin());
  EXPECT(ends.first - keys.begin() == 4 && same(keys, {1, 3, 4, 5, 0}) && same(values, {10, 30, 40, 50, 0}), "union");
  auto both = thrust::set_intersection_by_key(a.begin(), a.end(), b.begin(), b.end(), of_a.begin(), keys.begin(), values.begin());
  EXPECT(both.second - values.begin() == 1 && keys[0] == 3 && values[0] == 30, "intersection");
}

int main() {
  check_stencils();
  check_functors();
  check_sets();
  Ints ids(64), levels(64), sums(8);
  for (int i = 0; i < 64; ++i) ids[i] = i % 8, levels[i] = 10 * (i % 8);
  in_threads<<<1, 8>>>(thrust::raw_pointer_cast(ids.data()), thrust::raw_pointer_cast(levels.data()), thrust::raw_pointer_cast(sums.data()));
  EXPECT(cudaDeviceSynchronize() == cudaSuccess, "in threads");
  for (int i = 0; i < 64; ++i) EXPECT(ids[i] == 7 - i % 8 && levels[i] == 10 * ids[i], "%d of thread %d: %d", i % 8, i / 8, (int)ids[i]);
  for (int i = 0; i < 8; ++i) EXPECT(sums[i] == 7 + 4, "sum %d", (int)sums[i]);
  thrust::host_vector<std::string> words(3);
  words[0] = "c", words[1] = "a", words[2] = "b";
  thrust::sort(words.begin(), words.end());
  EXPECT(words[0] == "a" && words[2] == "c", "strings");
  return wrong != 0;
}
