// slow; flags: -extended-lambda
// One template kernel over float, double, int and half, with a functor and a device lambda.
#include <cuda_fp16.h>

#include "check.h"

struct Scale {
  float factor;
  template <class T> __device__ T operator()(T x) const { return x * T(factor); }
};

template <class T, class F> __global__ void map(const T* in, T* out, int n, F f) {
  __shared__ T tile[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? in[i] : T(0.0f);
  __syncthreads();
  if (i < n) out[i] = f(tile[threadIdx.x]);
}

template <class T> void check(const char* name) {
  const int n = 100;
  std::vector<T> in(n);
  for (int i = 0; i < n; ++i) in[i] = T((float)(i - 50));
  T *device_in = to_device(in), *out;
  CUDA(cudaMalloc(&out, n * sizeof(T)));
  map<<<4, 32>>>(device_in, out, n, Scale{3.0f});
  auto scaled = to_host(out, n);
  for (int i = 0; i < n; ++i) EXPECT((float)scaled[i] == 3.0f * (i - 50), "%s %d: %f", name, i, (float)scaled[i]);
  T offset = T(5.0f);
  map<<<4, 32>>>(device_in, out, n, [offset] __device__(T x) { return x + offset; });
  auto moved = to_host(out, n);
  for (int i = 0; i < n; ++i) EXPECT((float)moved[i] == i - 45.0f, "%s %d: %f", name, i, (float)moved[i]);
}

int main() {
  check<float>("float");
  check<double>("double");
  check<int>("int");
  check<__half>("half");
  return wrong != 0;
}
