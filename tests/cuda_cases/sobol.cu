// Sobol's sequence on the device and by the host API: the published points, and each interval hit once in every dimension.
#include <curand.h>
#include <curand_kernel.h>

#include <cmath>

#include "check.h"

// Joe and Kuo's first points in three dimensions, in eighths.
const int eighths[8][3] = {{0, 0, 0}, {4, 4, 4}, {6, 2, 2}, {2, 6, 6}, {3, 3, 5}, {7, 7, 1}, {5, 1, 7}, {1, 5, 3}};
const int dimensions = 161, points = 1024;

template <class V, class S> __global__ void draw(V* vectors, S* states, decltype(S().x)* out, float* normals) {
  int d = blockIdx.x * blockDim.x + threadIdx.x;
  if (d >= dimensions) return;
  curand_init(vectors[d], 0u, states + d);
  for (int i = 0; i < points; ++i) out[d * points + i] = curand(states + d);
  curand_init(vectors[d], 7u, states + d);
  skipahead(1000u, states + d);
  normals[d] = curand_normal(states + d);
}

template <class V, class S> void check_device(curandStatus_t (*get)(V**, curandDirectionVectorSet_t), curandDirectionVectorSet_t set) {
  typedef decltype(S().x) Number;
  V *vectors, *on_device;
  EXPECT(get(&vectors, set) == CURAND_STATUS_SUCCESS, "no vectors");
  CUDA(cudaMalloc(&on_device, dimensions * sizeof(V)));
  CUDA(cudaMemcpy(on_device, vectors, dimensions * sizeof(V), cudaMemcpyHostToDevice));
  S* states;
  CUDA(cudaMalloc(&states, dimensions * sizeof(S)));
  Number* out = to_device(std::vector<Number>(dimensions * points));
  float* normals = to_device(std::vector<float>(dimensions));
  draw<<<3, 64>>>(on_device, states, out, normals);
  std::vector<Number> found = to_host(out, dimensions * points);
  std::vector<float> normal = to_host(normals, dimensions);
  for (int d = 0; d < 3; ++d)
    for (int i = 0; i < 8; ++i) {
      int eighth = (int)(found[d * points + i] >> (8 * sizeof(Number) - 3));
      EXPECT(eighth == eighths[i][d], "dimension %d, point %d: %d/8", d, i, eighth);
    }
  for (int d = 0; d < dimensions; ++d) {
    std::vector<bool> hit(points);
    for (int i = 0; i < points; ++i) hit[(size_t)(found[d * points + i] >> (8 * sizeof(Number) - 10))] = true;
    for (int i = 0; i < points; ++i) EXPECT(hit[i], "dimension %d: nothing in interval %d", d, i);
    double u = found[d * points + 1007] / (sizeof(Number) == 4 ? 4294967296.0 : 18446744073709551616.0);
    EXPECT(std::fabs(std::erfc(-normal[d] * M_SQRT1_2) / 2 - u) < 1e-5, "dimension %d: %g of %g", d, normal[d], u);
  }
}

int main() {
  check_device<curandDirectionVectors32_t, curandStateSobol32>(curandGetDirectionVectors32, CURAND_DIRECTION_VECTORS_32_JOEKUO6);
  check_device<curandDirectionVectors64_t, curandStateSobol64>(curandGetDirectionVectors64, CURAND_DIRECTION_VECTORS_64_JOEKUO6);
  curandGenerator_t generator;
  EXPECT(curandCreateGenerator(&generator, CURAND_RNG_QUASI_SOBOL32) == CURAND_STATUS_SUCCESS, "no generator");
  EXPECT(curandSetQuasiRandomGeneratorDimensions(generator, dimensions + 1) == CURAND_STATUS_OUT_OF_RANGE, "too many dimensions");
  EXPECT(curandSetQuasiRandomGeneratorDimensions(generator, 3) == CURAND_STATUS_SUCCESS, "dimensions");
  unsigned* out = to_device(std::vector<unsigned>(12));
  for (int half = 0; half < 2; ++half) {  // four points of each dimension, then the next four
    EXPECT(curandGenerate(generator, out, 12) == CURAND_STATUS_SUCCESS, "generate");
    std::vector<unsigned> found = to_host(out, 12);
    for (int i = 0; i < 12; ++i) EXPECT((int)(found[i] >> 29) == eighths[4 * half + i % 4][i / 4], "%d: %u", i, found[i] >> 29);
  }
  EXPECT(curandGenerate(generator, out, 11) == CURAND_STATUS_LENGTH_NOT_MULTIPLE, "not a multiple");
  curandDirectionVectors32_t* none;
  EXPECT(curandGetDirectionVectors32(&none, CURAND_SCRAMBLED_DIRECTION_VECTORS_32_JOEKUO6) == CURAND_STATUS_OUT_OF_RANGE, "scrambled");
  EXPECT(curandCreateGenerator(&generator, CURAND_RNG_QUASI_SCRAMBLED_SOBOL64) == CURAND_STATUS_TYPE_ERROR, "scrambled");
  return wrong != 0;
}
