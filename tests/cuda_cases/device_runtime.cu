// What CUDA's device runtime offers beside launches: memory and errors, in device code.
#include <cublasLt.h>

#include <cstring>

#include "check.h"

cublasLtHandle_t only_named = nullptr;

__global__ void sums(int* out, char* text) {
  int *numbers = nullptr, sum = 0;
  cudaError_t error = cudaMalloc((void**)&numbers, 100 * sizeof(int));
  for (int i = 0; i < 100; ++i) numbers[i] = i * threadIdx.x;
  for (int i = 0; i < 100; ++i) sum += numbers[i];
  if (error == cudaSuccess && cudaFree(numbers) == cudaSuccess && cudaGetLastError() == cudaSuccess) out[threadIdx.x] = sum;
  const char* name = cudaGetErrorString(cudaErrorInvalidValue);
  if (threadIdx.x == 0)
    for (int i = 0; i == 0 || name[i - 1]; ++i) text[i] = name[i];
}

int main() {
  int* out = to_device(std::vector<int>(32));
  char* text = to_device(std::vector<char>(64));
  sums<<<1, 32>>>(out, text);
  std::vector<int> found = to_host(out, 32);
  for (int i = 0; i < 32; ++i) EXPECT(found[i] == 4950 * i, "thread %d: %d", i, found[i]);
  EXPECT(!strcmp(to_host(text, 64).data(), cudaGetErrorString(cudaErrorInvalidValue)), "%s", to_host(text, 64).data());
  EXPECT(!only_named, "named");
  return wrong != 0;
}
