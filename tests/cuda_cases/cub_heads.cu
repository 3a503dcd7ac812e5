// CUB: heads and tails of runs, and histograms of a block; its largest element and where, by pairs that are built by name.
#include <algorithm>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_reduce.cuh>

#include "check.h"

const int threads = 64, items = 2;

__global__ void runs(const int* in, int* heads, int* tails, unsigned* counts) {
  typedef cub::BlockDiscontinuity<int, threads> Runs;
  typedef cub::BlockHistogram<int, threads, items, 16> Counts;
  __shared__ Runs::TempStorage storage;
  __shared__ Counts::TempStorage nothing;
  __shared__ unsigned histogram[16];
  int own[items], head[items], tail[items];
  for (int i = 0; i < items; ++i) own[i] = in[threadIdx.x * items + i];
  Runs(storage).FlagHeads(head, own, cub::Inequality(), in[0]);  // the item before is the first again: no head
  Runs(storage).FlagTails(tail, own, cub::Inequality());
  Counts(nothing).Histogram(own, histogram);
  __syncthreads();
  for (int i = 0; i < items; ++i) heads[threadIdx.x * items + i] = head[i], tails[threadIdx.x * items + i] = tail[i];
  if (threadIdx.x < 16) counts[threadIdx.x] = histogram[threadIdx.x];
}

__global__ void largest(const int* in, int n, int* where) {
  using Pair = cub::KeyValuePair<int, unsigned char>;
  using Reduce = cub::BlockReduce<Pair, threads>;
  __shared__ typename Reduce::TempStorage storage;
  Pair own(-1, 0);
  for (int i = threadIdx.x; i < n; i += threads) own = cub::ArgMax()(own, Pair(i, in[i]));
  own = Reduce(storage).Reduce(own, cub::ArgMax());
  if (threadIdx.x == 0) *where = own.key;
}

int main() {
  const int n = threads * items;
  std::vector<int> values(n), none(n);
  std::vector<unsigned> zeros(16), expected(16);
  for (int i = 0; i < n; ++i) values[i] = i / 3 % 16, ++expected[values[i]];
  int *in = to_device(values), *heads = to_device(none), *tails = to_device(none);
  unsigned* counts = to_device(zeros);
  runs<<<1, threads>>>(in, heads, tails, counts);
  std::vector<int> h = to_host(heads, n), t = to_host(tails, n);
  for (int i = 0; i < n; ++i) {
    EXPECT(h[i] == (i > 0 && values[i] != values[i - 1]), "head %d", i);
    EXPECT(t[i] == (i == n - 1 || values[i] != values[i + 1]), "tail %d", i);
  }
  std::vector<unsigned> found = to_host(counts, 16);
  for (int i = 0; i < 16; ++i) EXPECT(found[i] == expected[i], "%u of %d", found[i], i);
  int* where = to_device(std::vector<int>(1));
  largest<<<1, threads>>>(in, n, where);
  EXPECT(to_host(where, 1)[0] == std::max_element(values.begin(), values.end()) - values.begin(), "%d", to_host(where, 1)[0]);
  return wrong != 0;
}
