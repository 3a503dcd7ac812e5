// A tiled sum that lacks one barrier: the next step overwrites the tile while others still read it. With -DREPAIRED it has it.
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

int main() {
  float *out, *in;
  cudaMalloc(&out, 64 * sizeof(float));
  cudaMalloc(&in, 256 * sizeof(float));
  cudaMemset(in, 0, 256 * sizeof(float));
  tiled<<<1, 64>>>(out, in, 256);
  halves<<<1, 32>>>(out);
  return cudaDeviceSynchronize() != cudaSuccess;
}
