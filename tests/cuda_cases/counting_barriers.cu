// slow; __syncthreads_count, _and, _or with predicates that differ between threads; block sizes 1, 33, 256.
#include "check.h"

__global__ void count(int* counts, int* ands, int* ors, int limit) {
  __shared__ int seen;
  if (threadIdx.x == 0) seen = 0;
  __syncthreads();
  int t = threadIdx.x;
  int below = __syncthreads_count(t < limit);
  int all = __syncthreads_and(t < limit);
  int some = __syncthreads_or(t == limit);
  if (t == 0) seen = below * 10 + all * 2 + some;
  __syncthreads();
  counts[t] = seen / 10;
  ands[t] = seen % 10 / 2;
  ors[t] = seen & 1;
}

int main() {
  for (int threads : {1, 33, 256})
    for (int limit : {0, 1, 17, 33, 300}) {
      int *counts, *ands, *ors;
      for (int** p : {&counts, &ands, &ors}) CUDA(cudaMalloc(p, threads * sizeof(int)));
      count<<<1, threads>>>(counts, ands, ors, limit);
      auto c = to_host(counts, threads), a = to_host(ands, threads), o = to_host(ors, threads);
      int below = limit < threads ? limit : threads;
      for (int t = 0; t < threads; ++t) {
        EXPECT(c[t] == below, "%d threads, limit %d: count %d", threads, limit, c[t]);
        EXPECT(a[t] == (below == threads), "%d threads, limit %d: and %d", threads, limit, a[t]);
        EXPECT(o[t] == (limit < threads), "%d threads, limit %d: or %d", threads, limit, o[t]);
      }
    }
  return wrong != 0;
}
