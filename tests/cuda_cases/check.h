// What the programs of this folder share: device arrays, and a count of wrong values that becomes the exit status.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <vector>

static int wrong = 0;
#define EXPECT(condition, ...)                      \
  do {                                              \
    if (!(condition) && ++wrong <= 5) {             \
      printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      printf(__VA_ARGS__);                          \
      printf("\n");                                 \
    }                                               \
  } while (0)
#define CUDA(call) EXPECT((call) == cudaSuccess, "%s", cudaGetErrorString(cudaPeekAtLastError()))

template <class T> T* to_device(const std::vector<T>& values) {
  T* p = nullptr;
  CUDA(cudaMalloc(&p, values.size() * sizeof(T)));
  CUDA(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}
template <class T> std::vector<T> to_host(const T* p, size_t count) {
  CUDA(cudaDeviceSynchronize());
  std::vector<T> values(count);
  CUDA(cudaMemcpy(values.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}
