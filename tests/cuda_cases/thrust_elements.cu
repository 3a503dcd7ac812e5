// slow; The host sees what kernels did to a device vector's elements, though it calls nothing between. Memory without a type,
// and what is thrown where there is none.
#include <thrust/device_free.h>
#include <thrust/device_malloc.h>
#include <thrust/device_vector.h>
#include <thrust/system_error.h>

#include "check.h"

__global__ void add(int* x, int by) { x[blockIdx.x * 32 + threadIdx.x] += by; }

void check_memory() {
  thrust::device_ptr<void> memory = thrust::device_malloc(64 * sizeof(int));
  thrust::device_ptr<int> ints((int*)memory.get());
  ints[5] = 3;
  add<<<2, 32>>>(ints.get(), 4);
  EXPECT(ints[5] == 7 && memory == thrust::device_ptr<void>(ints), "%d", (int)ints[5]);
  thrust::device_free(memory);
  bool thrown = false;
  try {
    thrust::device_vector<char> all(size_t(1) << 60);
  } catch (const std::bad_alloc& error) {
    thrown = std::string(error.what()).find("out of memory") != std::string::npos;
  }
  EXPECT(thrown, "no error");
  try {
    throw thrust::system_error(cudaErrorInvalidValue, thrust::cuda_category(), "mine");
  } catch (const thrust::system_error& error) {
    EXPECT(error.code().value() == 1 && std::string(error.what()) == "mine: invalid argument", "%s", error.what());
  }
  EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation, "no error left");
}

int main() {
  check_memory();
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
