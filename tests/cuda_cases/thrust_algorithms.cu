// slow; Thrust: vectors, iterators and algorithms on host and device, with functors of the device only.
#include <nvtx3/nvToolsExt.h>
#include <thrust/detail/type_traits.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/random.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

#include "check.h"

struct Affine {
  int a, b;
  __device__ int operator()(int x) const { return a * x + b; }
};
struct IsOdd { __host__ __device__ bool operator()(int x) const { return x & 1; } };
__global__ void add_one(int* p, int n) { if (threadIdx.x < n) p[threadIdx.x] += 1; }

// Copies between device_vector and std::vector's own iterators; an iterator that keeps nothing.
static void check_host_iterators() {
  std::vector<int> in{5, 6, 6, 7, 7, 7}, back(6);
  thrust::device_vector<int> keys(6), sums(6);
  thrust::copy(in.begin(), in.end(), keys.begin());
  auto end = thrust::copy(keys.begin(), keys.end(), back.begin());
  EXPECT(end == back.end() && back == in, "copied %d", back[5]);
  auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), keys.begin(), thrust::make_discard_iterator(), sums.begin());
  EXPECT(ends.second - sums.begin() == 3 && sums[0] == 5 && sums[1] == 12 && sums[2] == 21, "sums");
  nvtxRangePushA("outer");
  EXPECT(nvtxRangePushA("inner") == 1 && nvtxRangePop() == 1 && nvtxRangePop() == 0, "ranges");
}

int main() {
  check_host_iterators();
  const int n = 100;
  thrust::host_vector<int> h(n);
  for (int i = 0; i < n; ++i) h[i] = i * 37 % 101;
  thrust::device_vector<int> d = h, out(n);
  thrust::transform(d.begin(), d.end(), out.begin(), Affine{3, 1});
  for (int i = 0; i < n; ++i) EXPECT(out[i] == 3 * h[i] + 1, "transform %d: %d", i, (int)out[i]);
  int sum = thrust::reduce(d.begin(), d.end(), 0, thrust::plus<int>()), expected = 0;
  for (int v : h) expected += v;
  EXPECT(sum == expected, "sum %d", sum);
  EXPECT(thrust::transform_reduce(d.begin(), d.end(), thrust::square<int>(), 0, thrust::maximum<int>()) == 100 * 100, "largest square");
  thrust::exclusive_scan(d.begin(), d.end(), out.begin());
  for (int i = 0, s = 0; i < n; s += h[i++]) EXPECT(out[i] == s, "scan %d", i);
  thrust::device_vector<int> keys = h, values(n);
  thrust::sequence(values.begin(), values.end());
  thrust::sort_by_key(keys.begin(), keys.end(), values.begin(), thrust::greater<int>());
  for (int i = 0; i < n; ++i) EXPECT(h[values[i]] == keys[i] && (i == 0 || keys[i - 1] >= keys[i]), "sorted %d", i);
  auto end = thrust::copy_if(d.begin(), d.end(), out.begin(), IsOdd());
  EXPECT(end - out.begin() == thrust::count_if(h.begin(), h.end(), IsOdd()), "odd");
  int* raw = thrust::raw_pointer_cast(d.data());
  add_one<<<1, 128>>>(raw, n);
  thrust::sort(thrust::device, raw, raw + n);
  thrust::host_vector<int> back = d;
  for (int i = 1; i < n; ++i) EXPECT(back[i - 1] <= back[i], "raw %d", i);
  auto first = thrust::make_counting_iterator(0);
  EXPECT(thrust::reduce(first, first + 10) == 45, "counting");
  auto doubled = thrust::make_transform_iterator(first, thrust::identity<int>());
  EXPECT(thrust::count(doubled, doubled + 10, 3) == 1, "transformed");
  thrust::device_vector<int> runs = {1, 1, 2, 2, 2, 3};
  runs.erase(thrust::unique(runs.begin(), runs.end()), runs.end());
  EXPECT(runs.size() == 3 && runs[1] == 2, "unique %zu", runs.size());
  thrust::default_random_engine engine, skipped;
  for (int i = 0; i < 9999; ++i) engine();
  skipped.discard(9999);
  EXPECT(engine == skipped && engine() == 399268537u, "the 10000th number of minstd_rand");
  thrust::uniform_int_distribution<int> die(1, 6);
  thrust::uniform_real_distribution<float> part(-1, 1);
  int seen = 0;
  for (int i = 0; i < 1000; ++i) {
    int eyes = die(engine);
    float x = part(engine);
    EXPECT(eyes >= 1 && eyes <= 6 && x >= -1 && x < 1, "%d and %f", eyes, x);
    seen |= 1 << eyes;
  }
  EXPECT(seen == 0x7e, "not all faces of a die");
  return wrong != 0;
}
