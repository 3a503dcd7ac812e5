// slow; CUB: block and warp collectives with several items per thread, and the device-wide algorithms.
#include <algorithm>
#include <cub/cub.cuh>
#include <cub/util_debug.cuh>
#include <cuda_fp16.h>
#include <numeric>

#include "check.h"

constexpr int threads = 96, items = 3;

__global__ void collectives(const int* in, int* sums, int* scanned, int* sorted, int* warp_sums) {
  typedef cub::BlockReduce<int, threads> Reduce;
  typedef cub::BlockScan<int, threads> Scan;
  typedef cub::BlockLoad<int, threads, items> Load;
  typedef cub::BlockStore<int, threads, items> Store;
  typedef cub::BlockRadixSort<int, threads, items> Sort;
  typedef cub::WarpReduce<int> Warp;
  __shared__ union {
    Reduce::TempStorage reduce;
    Scan::TempStorage scan;
    Load::TempStorage load;
    Store::TempStorage store;
    Sort::TempStorage sort;
  } storage;
  __shared__ Warp::TempStorage warp[threads / 32];
  int base = blockIdx.x * threads * items, values[items], prefix[items];
  Load(storage.load).Load(in + base, values);
  __syncthreads();
  int own = values[0] + values[1] + values[2];
  int total = Reduce(storage.reduce).Sum(own);
  int largest = Reduce(storage.reduce).Reduce(own, cub::Max());
  if (threadIdx.x == 0) sums[2 * blockIdx.x] = total, sums[2 * blockIdx.x + 1] = largest;
  __syncthreads();
  Scan(storage.scan).ExclusiveSum(values, prefix);
  __syncthreads();
  Store(storage.store).Store(scanned + base, prefix);
  __syncthreads();
  Sort(storage.sort).Sort(values);
  Store(storage.store).Store(sorted + base, values);
  int warp_total = Warp(warp[threadIdx.x / 32]).Sum(own);
  if (threadIdx.x % 32 == 0) warp_sums[blockIdx.x * threads / 32 + threadIdx.x / 32] = warp_total;
}

struct Minus {
  __device__ int operator()(const int& a, const int& b) const { return a - b; }
};

__global__ void neighbours(const int* in, int* left, int* right, int* by_bits) {
  typedef cub::BlockAdjacentDifference<int, threads> Difference;
  typedef cub::BlockRadixSort<int, threads, items> Sort;
  __shared__ Difference::TempStorage storage;
  __shared__ Sort::TempStorage sorting;
  int values[items], out[items];
  cub::LoadDirectBlocked(threadIdx.x, in, values);
  Difference(storage).SubtractLeft(values, out, Minus());
  cub::StoreDirectBlocked(threadIdx.x, left, out);
  for (int i = 0; i < items; ++i) out[i] = values[i];
  Difference(storage).SubtractRight(out, out, Minus());
  cub::StoreDirectBlocked(threadIdx.x, right, out);
  Sort(sorting).SortDescending(values, 2, 5);
  cub::StoreDirectBlocked(threadIdx.x, by_bits, values);
}

static void check_neighbours() {
  const int n = threads * items;
  std::vector<int> in(n);
  for (int i = 0; i < n; ++i) in[i] = i * 7919 % 301;
  int *device_in = to_device(in), *out;
  CUDA(cudaMalloc(&out, 3 * n * sizeof(int)));
  neighbours<<<1, threads>>>(device_in, out, out + n, out + 2 * n);
  auto found = to_host(out, 3 * n);
  std::vector<int> sorted = in;
  std::stable_sort(sorted.begin(), sorted.end(), [](int a, int b) { return (a >> 2 & 7) > (b >> 2 & 7); });
  for (int i = 0; i < n; ++i) {
    EXPECT(found[i] == (i ? in[i] - in[i - 1] : in[i]), "left %d: %d", i, found[i]);
    EXPECT(found[n + i] == (i + 1 < n ? in[i] - in[i + 1] : in[i]), "right %d: %d", i, found[n + i]);
    EXPECT(found[2 * n + i] == sorted[i], "bits %d: %d", i, found[2 * n + i]);
  }
}

static void check_collectives() {
  const int blocks = 2, n = blocks * threads * items;
  std::vector<int> in(n);
  for (int i = 0; i < n; ++i) in[i] = i * 7919 % 301 - 150;
  int *device_in = to_device(in), *sums, *scanned, *sorted, *warps;
  CUDA(cudaMalloc(&sums, 4 * sizeof(int)));
  CUDA(cudaMalloc(&scanned, n * sizeof(int)));
  CUDA(cudaMalloc(&sorted, n * sizeof(int)));
  CUDA(cudaMalloc(&warps, 6 * sizeof(int)));
  collectives<<<blocks, threads>>>(device_in, sums, scanned, sorted, warps);
  auto s = to_host(sums, 4), p = to_host(scanned, n), k = to_host(sorted, n), w = to_host(warps, 6);
  for (int b = 0; b < blocks; ++b) {
    auto first = in.begin() + b * threads * items;
    std::vector<int> part(first, first + threads * items);
    EXPECT(s[2 * b] == std::accumulate(part.begin(), part.end(), 0), "sum %d", s[2 * b]);
    int largest = -1000, running = 0;
    for (int t = 0; t < threads; ++t) largest = std::max(largest, part[3 * t] + part[3 * t + 1] + part[3 * t + 2]);
    EXPECT(s[2 * b + 1] == largest, "max %d", s[2 * b + 1]);
    for (size_t i = 0; i < part.size(); running += part[i++])
      EXPECT(p[b * threads * items + i] == running, "prefix %zu: %d", i, p[b * threads * items + i]);
    for (int v = 0; v < 3; ++v)
      EXPECT(w[3 * b + v] == std::accumulate(part.begin() + v * 96, part.begin() + (v + 1) * 96, 0), "warp %d", w[3 * b + v]);
    std::sort(part.begin(), part.end());
    for (size_t i = 0; i < part.size(); ++i) EXPECT(k[b * threads * items + i] == part[i], "sorted %zu", i);
  }
}

struct IsEven { __device__ bool operator()(int x) const { return x % 2 == 0; } };

template <class F> static void with_storage(F f) {
  size_t bytes = 0;
  CUDA(f(nullptr, bytes));
  void* storage;
  CUDA(cudaMalloc(&storage, bytes));
  CUDA(f(storage, bytes));
  CUDA(cudaFree(storage));
}

/* Segments of all sizes, one of them empty, and elements outside of all, which stay. */
static void check_segments() {
  const int n = 50, segments = 4, begins[] = {0, 7, 20, 20}, ends[] = {7, 20, 20, 45};
  std::vector<int> keys(n), places(n);
  for (int i = 0; i < n; ++i) keys[i] = i * 37 % 11 - 5, places[i] = i;
  for (bool down : {false, true}) {
    int *in = to_device(keys), *out = to_device(keys), *values = to_device(places), *moved = to_device(places);
    int *first = to_device(std::vector<int>(begins, begins + segments)), *last = to_device(std::vector<int>(ends, ends + segments));
    with_storage([&](void* s, size_t& b) {
      return down ? cub::DeviceSegmentedSort::StableSortPairsDescending(s, b, in, out, values, moved, n, segments, first, last)
                  : cub::DeviceSegmentedRadixSort::SortPairs(s, b, in, out, values, moved, n, segments, first, last);
    });
    std::vector<int> order = places;
    for (int s = 0; s < segments; ++s)
      std::stable_sort(order.begin() + begins[s], order.begin() + ends[s], [&](int a, int b) { return down ? keys[b] < keys[a] : keys[a] < keys[b]; });
    auto found = to_host(out, n), from = to_host(moved, n);
    for (int i = 0; i < n; ++i) EXPECT(from[i] == order[i] && found[i] == keys[order[i]], "segment's element %d: %d from %d", i, found[i], from[i]);
    cub::DoubleBuffer<int> buffer(in, out);
    with_storage([&](void* s, size_t& b) { return cub::DeviceSegmentedSort::SortKeys(s, b, buffer, n, segments - 1, first, first + 1); });
    EXPECT(buffer.Current() == out && std::is_sorted(out + 7, out + 20), "a double buffer");
  }
}

static void check_device_wide() {
  const int n = 1000;
  std::vector<int> in(n);
  std::vector<float> keys(n);
  for (int i = 0; i < n; ++i) in[i] = i * 7919 % 613 - 300, keys[i] = (i * 31 % 97 - 48) * 0.5f;
  int *d = to_device(in), *out, *count;
  float *device_keys = to_device(keys), *sorted;
  CUDA(cudaMalloc(&out, n * sizeof(int)));
  CUDA(cudaMalloc(&sorted, n * sizeof(float)));
  CUDA(cudaMalloc(&count, sizeof(int)));
  with_storage([&](void* s, size_t& b) { return cub::DeviceReduce::Sum(s, b, d, out, n); });
  EXPECT(to_host(out, 1)[0] == std::accumulate(in.begin(), in.end(), 0), "sum");
  with_storage([&](void* s, size_t& b) { return cub::DeviceReduce::Max(s, b, d, out, n); });
  EXPECT(to_host(out, 1)[0] == *std::max_element(in.begin(), in.end()), "max");
  with_storage([&](void* s, size_t& b) { return cub::DeviceScan::ExclusiveSum(s, b, d, out, n); });
  auto scanned = to_host(out, n);
  for (int i = 0, sum = 0; i < n; sum += in[i++]) EXPECT(scanned[i] == sum, "scan %d", i);
  with_storage([&](void* s, size_t& b) { return cub::DeviceSelect::If(s, b, d, out, count, n, IsEven()); });
  int kept = to_host(count, 1)[0], expected = 0;
  auto selected = to_host(out, n);
  for (int v : in) {
    if (v % 2) continue;
    EXPECT(selected[expected] == v, "selected %d", expected);
    ++expected;
  }
  EXPECT(kept == expected, "kept %d of %d", kept, expected);
  with_storage([&](void* s, size_t& b) { return cub::DeviceRadixSort::SortPairs(s, b, device_keys, sorted, d, out, n); });
  auto k = to_host(sorted, n);
  auto v = to_host(out, n);
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  for (int i = 0; i < n; ++i) EXPECT(k[i] == keys[order[i]] && v[i] == in[order[i]], "pair %d: %f %d", i, k[i], v[i]);
}

/* In unsigned order, a type's bits are sorted as its values are. */
template <class T> __host__ __device__ bool twiddles(T low, T high) {
  typedef cub::Traits<T> Of;
  typename Of::UnsignedBits a, b;
  memcpy(&a, &low, sizeof a), memcpy(&b, &high, sizeof b);
  return Of::TwiddleIn(a) < Of::TwiddleIn(b) && Of::TwiddleOut(Of::TwiddleIn(a)) == a;
}
__global__ void twiddle(int* right) {
  *right = twiddles(-2.5f, -1.f) + twiddles(-1.f, 3.f) + twiddles(-5, 7) + twiddles(3u, 4000000000u) + twiddles(-1e300, 1e-300);
}
/* Sums of bools count. */
static void check_counting() {
  cub::CachingDeviceAllocator allocator(true);
  std::vector<char> some(300);
  for (int i = 0; i < 300; ++i) some[i] = i % 3 == 0;
  char* in = to_device(some);
  struct IsSet { __host__ __device__ bool operator()(char c) const { return c; } };
  cub::TransformInputIterator<bool, IsSet, char*> flags(in, IsSet());
  int *count, got;
  void* storage = nullptr;
  size_t bytes = 0;
  CubDebugExit(allocator.DeviceAllocate((void**)&count, sizeof *count));
  cub::DeviceReduce::Sum(storage, bytes, flags, count, 300);
  CubDebugExit(allocator.DeviceAllocate(&storage, bytes));
  cub::DeviceReduce::Sum(storage, bytes, flags, count, 300);
  cudaMemcpy(&got, count, sizeof got, cudaMemcpyDefault);
  EXPECT(got == 100, "%d of 100 flags", got);
  CubDebugExit(allocator.DeviceFree(count));
  CubDebugExit(allocator.DeviceFree(storage));
}
static void check_traits() {
  int* right;
  CubDebugExit(cudaMallocManaged(&right, sizeof(int)));
  twiddle<<<1, 1>>>(right);
  CubDebugExit(cudaDeviceSynchronize());
  EXPECT(*right == 5, "%d of 5 orders", *right);
  EXPECT(twiddles(__float2half(-2.f), __float2half(1.f)) && !cub::Traits<char*>::PRIMITIVE, "traits of others");
  EXPECT(CUB_QUOTIENT_CEILING(7, 3) == 3 && CUB_ROUND_UP_NEAREST(7, 3) == 9, "rounding");
  cudaFree(right);
}

int main() {
  check_traits();
  check_counting();
  check_collectives();
  check_neighbours();
  check_segments();
  check_device_wide();
  return wrong != 0;
}
