// For `loom check`: memory that is used, or freed again, after it has been freed. The argument says which; 0: none.
#include <cuda_runtime.h>
#include <cstdlib>
__device__ int *kept;
__global__ void k(int *o) { o[threadIdx.x] = 1; }
__global__ void keep(int *o) { kept = o; }
__global__ void use() { kept[threadIdx.x] = 2; }
int main(int argc, char **argv) {
  int *o, *p, *m, h[4];
  int what = argc > 1 ? atoi(argv[1]) : 0;
  cudaMalloc(&o, 256);
  cudaMallocManaged(&m, 256);
  keep<<<1, 1>>>(o);
  k<<<1, 64>>>(o), k<<<1, 64>>>(m);
  cudaDeviceSynchronize();
  cudaFree(o);
  cudaMalloc(&p, 256);
  k<<<1, 64>>>(p);
  if (what == 1) k<<<1, 64>>>(o);
  if (what == 2) use<<<1, 64>>>();
  if (what == 3) cudaFree(o);
  if (what == 4) cudaMemcpy(h, o, 16, cudaMemcpyDeviceToHost);
  if (what == 5) cudaFreeHost(m);
  if (what == 6) cudaFree(m), k<<<1, 64>>>(m);
  if (what == 7) cudaMemset(o + 3, 0, 4);
  cudaFree(nullptr);
  cudaFree(p);
  return cudaDeviceSynchronize();
}
