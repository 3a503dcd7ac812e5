// slow; Shuffles at the edge of their segment keep the own value; widths 32, 16, 8; a last warp that is not full; lanes that are not there give 0.
#include "check.h"

__global__ void shuffles(int* down, int* up, int* exchanged, int* direct, int delta, int width) {
  int t = threadIdx.x, value = 100 + t;
  unsigned all = __activemask();
  down[t] = __shfl_down_sync(all, value, delta, width);
  up[t] = __shfl_up_sync(all, value, delta, width);
  exchanged[t] = __shfl_xor_sync(all, value, delta, width);
  direct[t] = __shfl_sync(all, value, delta, width);
}

__global__ void wide_types(double* d, long long* l, float* f) {
  int t = threadIdx.x;
  d[t] = __shfl_down_sync(0xffffffffu, t * 0.5, 3);
  l[t] = __shfl_xor_sync(0xffffffffu, (long long)t << 40, 5);
  f[t] = __shfl_sync(0xffffffffu, t * 0.25f, 7);
}

// The lanes that bring nothing have brought something before: to the same call, and to the other ones.
__global__ void parts(int* sums, double* products, int n) {
  int t = threadIdx.x, sum = 1000 + t;
  for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  unsigned some = __ballot_sync(0xffffffffu, t < n);
  if (t < n) {
    sum = t + 1;
    for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(some, sum, offset);
  }
  sums[t] = sum;
  double product = 0;
  for (int trip = 0; trip <= t; ++trip) product += __shfl_xor_sync(__activemask(), t + 0.5, 16) + __shfl_sync(__activemask(), 2 * t, trip);
  products[t] = product;
}

int main() {
  const int threads = 64;
  for (int width : {32, 16, 8})
    for (int delta : {1, 2, 16}) {
      int *down, *up, *exchanged, *direct;
      for (int** p : {&down, &up, &exchanged, &direct}) CUDA(cudaMalloc(p, threads * sizeof(int)));
      shuffles<<<1, threads>>>(down, up, exchanged, direct, delta, width);
      auto d = to_host(down, threads), u = to_host(up, threads), x = to_host(exchanged, threads), s = to_host(direct, threads);
      for (int t = 0; t < threads; ++t) {
        int first = t / width * width, lane = t % width, other = t ^ delta;
        EXPECT(d[t] == 100 + (lane + delta < width ? t + delta : t), "down %d width %d thread %d: %d", delta, width, t, d[t]);
        EXPECT(u[t] == 100 + (lane >= delta ? t - delta : t), "up %d width %d thread %d: %d", delta, width, t, u[t]);
        EXPECT(x[t] == 100 + (other < first + width ? other : t), "xor %d width %d thread %d: %d", delta, width, t, x[t]);
        EXPECT(s[t] == 100 + first + delta % width, "idx %d width %d thread %d: %d", delta, width, t, s[t]);
      }
    }
  // 40 threads: lanes 8 to 31 of the second warp do not exist.
  int* p[4];
  for (int*& q : p) CUDA(cudaMalloc(&q, 40 * sizeof(int)));
  shuffles<<<1, 40>>>(p[0], p[1], p[2], p[3], 1, 32);
  auto up = to_host(p[1], 40), exchanged = to_host(p[2], 40);
  for (int t = 33; t < 40; ++t) EXPECT(up[t] == 100 + t - 1, "thread %d: %d", t, up[t]);
  for (int t = 32; t < 40; ++t) EXPECT(exchanged[t] == 100 + (t ^ 1), "thread %d: %d", t, exchanged[t]);
  // CUDA leaves open what they hold; sums over 32 lanes in a block of 4 threads want 0 (reduction in CUDA's samples).
  shuffles<<<1, 4>>>(p[0], p[1], p[2], p[3], 16, 32);
  auto down = to_host(p[0], 4), across = to_host(p[2], 4);
  for (int t = 0; t < 4; ++t) EXPECT(down[t] == 0 && across[t] == 0, "thread %d: %d %d", t, down[t], across[t]);

  for (int n : {1, 4, 8, 20, 32}) {
    int* sums;
    double* products;
    CUDA(cudaMalloc(&sums, 32 * sizeof(int)));
    CUDA(cudaMalloc(&products, 32 * sizeof(double)));
    parts<<<1, 32>>>(sums, products, n);
    EXPECT(to_host(sums, 1)[0] == n * (n + 1) / 2, "%d lanes: %d", n, to_host(sums, 1)[0]);
    auto p = to_host(products, 32);
    for (int t = 0; t < 32; ++t) {
      double wanted = 0;
      for (int trip = 0; trip <= t; ++trip) wanted += ((t ^ 16) >= trip ? (t ^ 16) + 0.5 : 0) + 2 * trip;
      EXPECT(p[t] == wanted, "lane %d: %g for %g", t, p[t], wanted);
    }
  }

  double* d;
  long long* l;
  float* f;
  CUDA(cudaMalloc(&d, 32 * sizeof *d));
  CUDA(cudaMalloc(&l, 32 * sizeof *l));
  CUDA(cudaMalloc(&f, 32 * sizeof *f));
  wide_types<<<1, 32>>>(d, l, f);
  auto hd = to_host(d, 32);
  auto hl = to_host(l, 32);
  auto hf = to_host(f, 32);
  for (int t = 0; t < 32; ++t) {
    EXPECT(hd[t] == (t + 3 < 32 ? t + 3 : t) * 0.5, "double %d: %f", t, hd[t]);
    EXPECT(hl[t] == (long long)(t ^ 5) << 40, "long long %d: %lld", t, hl[t]);
    EXPECT(hf[t] == 7 * 0.25f, "float %d: %f", t, hf[t]);
  }
  return wrong != 0;
}
