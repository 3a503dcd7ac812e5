// A plain C++ file of the project that uses the runtime API.
#include <cuda_runtime.h>

#include "shared.h"

int host_only(int x) {
  int count = 0;
  cudaGetDeviceCount(&count);
  dim3 grid(x, 2);
  return (int)(grid.x * grid.y) + 2 * count;
}
