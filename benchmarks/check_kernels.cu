// Five usual kernels for check_slowdown.py:  check_kernels NAME LAUNCHES
#include <cstdio>
#include <cstdlib>
#include <cstring>

constexpr int tile = 16, side = 512, count = 1 << 20, bins = 256;

__global__ void product(const float *a, const float *b, float *c, int n) {
  __shared__ float as[tile][tile], bs[tile][tile];
  int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n; t += tile) {
    as[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < tile; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__global__ void reduction(const float *x, float *sums, int n) {
  __shared__ float partial[256];
  int t = threadIdx.x, i = blockIdx.x * 512 + t;
  partial[t] = (i < n ? x[i] : 0) + (i + 256 < n ? x[i + 256] : 0);
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = partial[0];
}

__global__ void stencil(const float *x, float *y, int n) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column < 1 || row < 1 || column >= n - 1 || row >= n - 1) return;
  int i = row * n + column;
  y[i] = 0.5f * x[i] + 0.125f * (x[i - 1] + x[i + 1] + x[i - n] + x[i + n]);
}

__global__ void histogram(const unsigned char *x, unsigned *counts, int n) {
  __shared__ unsigned mine[bins];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[x[i]], 1u);
  __syncthreads();
  atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}

__global__ void saxpy(float a, const float *x, float *y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  float *a, *b, *c;
  size_t bytes = (size_t)count * 4;
  cudaMalloc(&a, bytes), cudaMalloc(&b, bytes), cudaMalloc(&c, bytes);
  cudaMemset(a, 1, bytes), cudaMemset(b, 1, bytes), cudaMemset(c, 0, bytes);
  const dim3 square(tile, tile), grid(side / tile, side / tile);
  for (int i = 0; i < atoi(argv[2]); ++i) {
    if (!strcmp(argv[1], "product")) product<<<grid, square>>>(a, b, c, side);
    if (!strcmp(argv[1], "reduction")) reduction<<<count / 512, 256>>>(a, c, count);
    if (!strcmp(argv[1], "stencil")) stencil<<<grid, square>>>(a, b, side);
    if (!strcmp(argv[1], "histogram")) histogram<<<64, bins>>>((unsigned char *)a, (unsigned *)c, count);
    if (!strcmp(argv[1], "saxpy")) saxpy<<<128, 256>>>(0.5f, a, b, count);
  }
  return cudaDeviceSynchronize();
}
