// What MCUDA makes of matmul.cu: loops over threads, split at the barriers, with one element per thread for what lives
// across them. The paper's two forms: blocks over cores with serial loops over threads (serial-inner), or the loops over threads
// are parallel regions of their own inside (-DPARALLEL_INNER).
#include <omp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int TILE = 16;
#ifdef PARALLEL_INNER
#define BLOCKS
#define THREADS _Pragma("omp parallel for")
#else
#define BLOCKS _Pragma("omp parallel for collapse(2)")
#define THREADS
#endif

static void matmul(const float* a, const float* b, float* c, int n) {
  BLOCKS for (int by = 0; by < n / TILE; ++by) for (int bx = 0; bx < n / TILE; ++bx) {
    float as[TILE][TILE], bs[TILE][TILE], sum[TILE][TILE];
    THREADS for (int ty = 0; ty < TILE; ++ty) for (int tx = 0; tx < TILE; ++tx) sum[ty][tx] = 0;
    for (int k = 0; k < n; k += TILE) {
      THREADS for (int ty = 0; ty < TILE; ++ty) for (int tx = 0; tx < TILE; ++tx) {
        as[ty][tx] = a[(by * TILE + ty) * n + k + tx];
        bs[ty][tx] = b[(k + ty) * n + bx * TILE + tx];
      }
      THREADS for (int ty = 0; ty < TILE; ++ty) for (int tx = 0; tx < TILE; ++tx) for (int i = 0; i < TILE; ++i)
        sum[ty][tx] += as[ty][i] * bs[i][tx];
    }
    THREADS for (int ty = 0; ty < TILE; ++ty) for (int tx = 0; tx < TILE; ++tx) c[(by * TILE + ty) * n + bx * TILE + tx] = sum[ty][tx];
  }
}

#include "matmul_main.h"

void prepare(const float* a, const float* b, int n) {
  device_a = (float*)a, device_b = (float*)b;
  device_c = (float*)malloc(sizeof(float) * n * n);
}
void multiply(int n) { matmul(device_a, device_b, device_c, n); }
void fetch(float* c, int n) {
  for (int i = 0; i < n * n; ++i) c[i] = device_c[i];
}
