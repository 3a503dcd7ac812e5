// slow; Kernels that each have a shared variable of one name, with different sizes and types; one in two scopes of a kernel.
#include "check.h"

__global__ void small(int* out) {
  __shared__ int tile[32];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

__global__ void large(double* out) {
  __shared__ double tile[256];
  tile[threadIdx.x] = threadIdx.x * 0.5;
  __syncthreads();
  double kept = tile[255 - threadIdx.x];
  {
    __shared__ float tile[256];
    tile[threadIdx.x] = (float)threadIdx.x;
    __syncthreads();
    kept += tile[(threadIdx.x + 1) % 256];
  }
  out[threadIdx.x] = kept;
}

int main() {
  int* a;
  double* b;
  CUDA(cudaMalloc(&a, 32 * sizeof(int)));
  CUDA(cudaMalloc(&b, 256 * sizeof(double)));
  small<<<1, 32>>>(a);
  large<<<1, 256>>>(b);
  auto ha = to_host(a, 32);
  auto hb = to_host(b, 256);
  for (int t = 0; t < 32; ++t) EXPECT(ha[t] == 31 - t, "small %d: %d", t, ha[t]);
  for (int t = 0; t < 256; ++t) EXPECT(hb[t] == (255 - t) * 0.5 + (t + 1) % 256, "large %d: %f", t, hb[t]);
  return wrong != 0;
}
