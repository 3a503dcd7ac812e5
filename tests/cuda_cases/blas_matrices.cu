// cuBLAS beyond level 1 and products: triangular and symmetric matrices, complex numbers, small floats, factors on the device.
#include <cmath>
#include <complex>
#include <cublas_v2.h>

#include "check.h"

#define BLAS(call) EXPECT((call) == CUBLAS_STATUS_SUCCESS, "failed")
#define NEAR(a, b) EXPECT(std::fabs((double)(a) - (double)(b)) < 1e-3, "%g, not %g", (double)(a), (double)(b))
const int n = 5;

__global__ void set(float* x, float value) { *x = value; }

template <class T> T* managed(int count) {
  T* p;
  CUDA(cudaMallocManaged(&p, count * sizeof(T)));
  return p;
}

// x solves op(A) X = B where A is one half of a full matrix: multiplied again it is B.
void check_triangles(cublasHandle_t h) {
  float *a = managed<float>(n * n), *b = managed<float>(n * n), *x = managed<float>(n * n), one = 1, two = 2;
  for (int i = 0; i < n * n; ++i) a[i] = i % (n + 1) ? 0.25f * (i % 7) : 3.0f + i, b[i] = (float)(i % 11);
  for (auto fill : {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER})
    for (auto op : {CUBLAS_OP_N, CUBLAS_OP_T})
      for (auto side : {CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT})
        for (auto diag : {CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT}) {
          auto element = [&](int i, int j) {  // of op(the half)
            if (i == j && diag == CUBLAS_DIAG_UNIT) return 1.0f;
            int row = op == CUBLAS_OP_N ? i : j, column = op == CUBLAS_OP_N ? j : i;
            return (fill == CUBLAS_FILL_MODE_LOWER ? row >= column : row <= column) ? a[column * n + row] : 0.0f;
          };
          memcpy(x, b, n * n * sizeof(float));
          BLAS(cublasStrsm(h, side, fill, op, diag, n, n, &two, a, n, x, n));
          for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) {
              float sum = 0;
              for (int l = 0; l < n; ++l) sum += side == CUBLAS_SIDE_LEFT ? element(i, l) * x[j * n + l] : x[l * n + i] * element(l, j);
              NEAR(sum, 2 * b[j * n + i]);
            }
          BLAS(cublasStrmm(h, side, fill, op, diag, n, n, &one, a, n, x, n, x, n));
          for (int i = 0; i < n * n; ++i) NEAR(x[i], 2 * b[i]);
          memcpy(x, b, n * sizeof(float));
          BLAS(cublasStrmv(h, fill, op, diag, n, a, n, x, 1));
          BLAS(cublasStrsv(h, fill, op, diag, n, a, n, x, 1));
          for (int i = 0; i < n; ++i) NEAR(x[i], b[i]);
        }
}

void check_symmetric(cublasHandle_t h) {
  float *a = managed<float>(n * n), *b = managed<float>(n * n), *c = managed<float>(n * n), *d = managed<float>(n * n), one = 1, zero = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) a[j * n + i] = (float)(i + j + (i == j)), b[j * n + i] = (float)(i - 2 * j);
  BLAS(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n));
  for (auto fill : {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER}) {
    BLAS(cublasSsymm(h, CUBLAS_SIDE_LEFT, fill, n, n, &one, a, n, b, n, &zero, d, n));
    for (int i = 0; i < n * n; ++i) NEAR(d[i], c[i]);
    BLAS(cublasSsymv(h, fill, n, &one, a, n, b, 1, &zero, d, 1));
    for (int i = 0; i < n; ++i) NEAR(d[i], c[i]);
  }
  BLAS(cublasSgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, b, n, b, n, &zero, c, n));
  for (int i = 0; i < n * n; ++i) d[i] = -1;
  BLAS(cublasSsyrk(h, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T, n, n, &one, b, n, &zero, d, n));
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) NEAR(d[j * n + i], i >= j ? c[j * n + i] : -1);  // the other half stays
  BLAS(cublasSdgmm(h, CUBLAS_SIDE_RIGHT, n, n, a, n, b, 1, c, n));
  NEAR(c[2 * n + 1], a[2 * n + 1] * b[2]);
}

void check_complex_and_small(cublasHandle_t h) {
  typedef std::complex<double> C;
  auto *a = managed<cuDoubleComplex>(4), *b = managed<cuDoubleComplex>(4), *c = managed<cuDoubleComplex>(4);
  for (int i = 0; i < 4; ++i) a[i] = make_cuDoubleComplex(i, 1), b[i] = make_cuDoubleComplex(1, -i);
  cuDoubleComplex one = make_cuDoubleComplex(1, 0), zero = make_cuDoubleComplex(0, 0), dot;
  BLAS(cublasZgemm(h, CUBLAS_OP_C, CUBLAS_OP_N, 2, 2, 2, &one, a, 2, b, 2, &zero, c, 2));
  C expected = std::conj(C(0, 1)) * C(1, -2) + std::conj(C(1, 1)) * C(1, -3);
  NEAR(c[2].x, expected.real());
  NEAR(c[2].y, expected.imag());
  BLAS(cublasZdotc(h, 2, a, 1, b + 2, 1, &dot));
  NEAR(dot.x, expected.real());
  double norm;
  BLAS(cublasDznrm2(h, 4, a, 1, &norm));
  NEAR(norm, std::sqrt(18.0));
  __half* small = managed<__half>(8);
  float* sums = managed<float>(4), f_one = 1, f_zero = 0;
  for (int i = 0; i < 8; ++i) small[i] = __float2half((float)i);
  BLAS(cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_T, 2, 2, 2, &f_one, small, CUDA_R_16F, 2, small + 4, CUDA_R_16F, 2, &f_zero, sums, CUDA_R_32F, 2, CUBLAS_COMPUTE_32F,
                    CUBLAS_GEMM_DEFAULT));
  NEAR(sums[1], 1 * 4 + 3 * 6);
  EXPECT(cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &f_one, small, CUDA_C_16F, 2, small, CUDA_R_16F, 2, &f_zero, sums, CUDA_R_32F, 2, CUBLAS_COMPUTE_32F,
                      CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_NOT_SUPPORTED, "a type that is not there");
}

// A factor on the device is read when what comes before in the stream has written it.
void check_pointer_mode(cublasHandle_t h) {
  float *factor, *x = managed<float>(1), *y = managed<float>(1);
  CUDA(cudaMalloc(&factor, sizeof(float)));
  CUDA(cudaMemset(factor, 0, sizeof(float)));
  *x = 3, *y = 1;
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  BLAS(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE));
  set<<<1, 1>>>(factor, 2);  // waits in a batch
  BLAS(cublasSaxpy(h, 1, factor, x, 1, y, 1));
  NEAR(*y, 7);
  BLAS(cublasSetStream(h, stream));
  set<<<1, 1, 0, stream>>>(factor, 10);
  BLAS(cublasSaxpy(h, 1, factor, x, 1, y, 1));
  CUDA(cudaStreamSynchronize(stream));
  NEAR(*y, 37);
  BLAS(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));
}

int main() {
  cublasHandle_t handle;
  BLAS(cublasCreate(&handle));
  check_triangles(handle);
  check_symmetric(handle);
  check_complex_and_small(handle);
  check_pointer_mode(handle);
  BLAS(cublasDestroy(handle));
  return wrong != 0;
}
