// slow; cuRAND: Philox's published answers, XORWOW's and MRG's jumps against plain steps, host against device, and moments.
#include <cmath>
#include <curand.h>
#include <curand_kernel.h>

#include "check.h"

__global__ void philox(unsigned* out) {
  curandStatePhilox4_32_10_t s;
  curand_init(0, 0, 0, &s);
  for (int i = 0; i < 8; ++i) out[i] = curand(&s);
}
template <class State> __global__ void skips(unsigned* out) {
  State stepped, jumped;
  curand_init(1234, 0, 0, &stepped);
  curand_init(1234, 0, 1000, &jumped);
  for (int i = 0; i < 1000; ++i) curand(&stepped);
  out[0] = curand(&stepped), out[1] = curand(&jumped);
  State far, twice;
  curand_init(1234, 5, 0, &far);
  curand_init(1234, 2, 0, &twice);
  skipahead_sequence(3, &twice);
  out[2] = curand(&far), out[3] = curand(&twice);
}
__global__ void xorwow_lanes(unsigned* out) {
  curandState s;
  curand_init(77, threadIdx.x, 0, &s);
  for (int i = 0; i < 3; ++i) out[i * 4096 + threadIdx.x] = curand(&s);
}
__global__ void normals(float* out, int each) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  curandState s;
  curand_init(9, i, 0, &s);
  for (int k = 0; k < each; ++k) out[i * each + k] = k & 1 ? curand_normal(&s) : curand_normal2(&s).x;
}

int main() {
  unsigned* u;
  CUDA(cudaMalloc(&u, 3 * 4096 * sizeof(unsigned)));
  philox<<<1, 1>>>(u);
  auto p = to_host(u, 8);
  const unsigned published[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (int i = 0; i < 4; ++i) EXPECT(p[i] == published[i], "philox %d: %08x", i, p[i]);
  skips<curandStateXORWOW_t><<<1, 1>>>(u);
  auto x = to_host(u, 4);
  EXPECT(x[0] == x[1] && x[2] == x[3] && x[0] != x[2], "xorwow %u %u %u %u", x[0], x[1], x[2], x[3]);
  skips<curandStateMRG32k3a_t><<<1, 1>>>(u);
  auto m = to_host(u, 4);
  EXPECT(m[0] == m[1] && m[2] == m[3] && m[0] != m[2], "mrg %u %u %u %u", m[0], m[1], m[2], m[3]);
  skips<curandStatePhilox4_32_10_t><<<1, 1>>>(u);
  auto q = to_host(u, 4);
  EXPECT(q[0] == q[1] && q[2] == q[3], "philox %u %u %u %u", q[0], q[1], q[2], q[3]);

  // The host generator deals its numbers over 4096 subsequences.
  unsigned* host_made;
  CUDA(cudaMalloc(&host_made, 3 * 4096 * sizeof(unsigned)));
  curandGenerator_t g;
  EXPECT(curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT) == CURAND_STATUS_SUCCESS, "generator");
  curandSetPseudoRandomGeneratorSeed(g, 77);
  curandGenerate(g, host_made, 3 * 4096);
  xorwow_lanes<<<1, 128>>>(u);
  auto a = to_host(u, 3 * 4096), b = to_host(host_made, 3 * 4096);
  for (int i = 0; i < 3; ++i)
    for (int lane = 0; lane < 128; ++lane) EXPECT(a[i * 4096 + lane] == b[i * 4096 + lane], "draw %d of %d", i, lane);

  const int n = 128 * 64;
  float* f;
  CUDA(cudaMalloc(&f, n * sizeof(float)));
  normals<<<2, 64>>>(f, 64);
  for (int way = 0; way < 2; ++way) {
    auto v = to_host(f, n);
    double sum = 0, squares = 0;
    for (float value : v) sum += value, squares += (double)value * value;
    EXPECT(std::fabs(sum / n) < 0.05 && std::fabs(squares / n - 1) < 0.08, "mean %f variance %f", sum / n, squares / n);
    EXPECT(curandGenerateNormal(g, f, n, 0, 1) == CURAND_STATUS_SUCCESS, "normal");
  }
  EXPECT(curandGenerateUniform(g, f, n) == CURAND_STATUS_SUCCESS, "uniform");
  double sum = 0;
  for (float value : to_host(f, n)) {
    EXPECT(value > 0 && value <= 1, "uniform %f", value);
    sum += value;
  }
  EXPECT(std::fabs(sum / n - 0.5) < 0.02, "mean %f", sum / n);
  for (double lambda : {3.0, 5000.0}) {
    EXPECT(curandGeneratePoisson(g, u, 4096, lambda) == CURAND_STATUS_SUCCESS, "Poisson");
    double sum = 0, squares = 0;
    for (unsigned value : to_host(u, 4096)) sum += value, squares += (value - lambda) * (value - lambda);
    EXPECT(std::fabs(sum / 4096 / lambda - 1) < 0.1 && std::fabs(squares / 4096 / lambda - 1) < 0.15, "%g: mean %f, variance %f", lambda, sum / 4096, squares / 4096);
  }
  curandDestroyGenerator(g);
  return wrong != 0;
}
