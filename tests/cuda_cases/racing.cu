// A tiled sum that lacks one barrier: the next step overwrites the tile while others still read it. A barrier for half a block,
// shuffles that name lanes which are not there. With -DREPAIRED all are right.
#include <cstdio>

__global__ void tiled(float* out, const float* in, int n) {
  __shared__ float tile[64];
  float sum = 0;
  for (int k = 0; k < n; k += 64) {
    tile[threadIdx.x] = in[k + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 64; j++) sum += tile[(j + threadIdx.x) % 64];
#ifdef REPAIRED
    __syncthreads();
#endif
  }
  out[threadIdx.x] = sum;
}

__global__ void halves(float* out) {
  __shared__ float s[32];
  s[threadIdx.x] = threadIdx.x;
#ifndef REPAIRED
  if (threadIdx.x < 16)
#endif
    __syncthreads();
  out[threadIdx.x] = s[31 - threadIdx.x];
}

__global__ void sums(float* out) {
  float sum = threadIdx.x;
  if (threadIdx.x < 16) {
#ifdef REPAIRED
    unsigned lanes = 0xffff;
#else
    unsigned lanes = 0xffffffff;
#endif
    for (int step = 8; step > 0; step /= 2) sum += __shfl_down_sync(lanes, sum, step);
    sum += __shfl(sum, 3) + __all(1);  // these name nobody
  }
  out[threadIdx.x] = sum;
}

int main() {
  float *out, *in;
  cudaMalloc(&out, 64 * sizeof(float));
  cudaMalloc(&in, 256 * sizeof(float));
  cudaMemset(in, 0, 256 * sizeof(float));
  tiled<<<1, 64>>>(out, in, 256);
  sums<<<1, 32>>>(out);
  halves<<<1, 32>>>(out);
  return cudaDeviceSynchronize() != cudaSuccess;
}
