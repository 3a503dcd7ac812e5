// C = A * B, square, in tiles of 16 x 16 in shared memory: the kernel that MCUDA and PPoPP'23 (section 5.2) compare with.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int TILE = 16;

__global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float as[TILE][TILE], bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += TILE) {
    as[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

#include "matmul_main.h"

void prepare(const float* a, const float* b, int n) {
  size_t bytes = sizeof(float) * n * n;
  cudaMalloc(&device_a, bytes), cudaMalloc(&device_b, bytes), cudaMalloc(&device_c, bytes);
  cudaMemcpy(device_a, a, bytes, cudaMemcpyHostToDevice), cudaMemcpy(device_b, b, bytes, cudaMemcpyHostToDevice);
}
void multiply(int n) {
  matmul<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(device_a, device_b, device_c, n);
  cudaDeviceSynchronize();
}
void fetch(float* c, int n) { cudaMemcpy(c, device_c, sizeof(float) * n * n, cudaMemcpyDeviceToHost); }
