// slow; The host sees what kernels did to a device vector's elements, though it calls nothing between.
#include <thrust/device_vector.h>

#include "check.h"

__global__ void add(int* x, int by) { x[blockIdx.x * 32 + threadIdx.x] += by; }

int main() {
  thrust::device_vector<int> v(64, 1);
  int* raw = thrust::raw_pointer_cast(v.data());
  for (int k = 0; k < 10; ++k) add<<<2, 32>>>(raw, k);
  EXPECT(v[40] == 46, "%d", (int)v[40]);
  add<<<2, 32>>>(raw, 4);
  EXPECT(*(v.begin() + 3) == 50, "%d", (int)v[3]);
  v[3] = 7;
  add<<<2, 32>>>(raw, 1);
  EXPECT(v.front() == 51 && v[3] == 8, "%d %d", (int)v.front(), (int)v[3]);
  return wrong != 0;
}
