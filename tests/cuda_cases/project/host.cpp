// A plain C++ file of the project that uses the runtime API.
#include <curand_kernel.h>  // host files may keep the states of generators
#include <cuda_runtime.h>

#include "shared.h"
static_assert(sizeof(curandState) >= 24 && sizeof(curandStatePhilox4_32_10_t) >= 40, "whole types");

int host_only(int x) {
  int count = 0;
  cudaGetDeviceCount(&count);
  dim3 grid(x, 2);
  return (int)(grid.x * grid.y) + 2 * count;
}
