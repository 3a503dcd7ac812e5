// slow; cuBLAS: products with every transposition against plain loops, vectors with strides, matrices copied in and out,
// LU factors with and without row exchanges.
#include <algorithm>
#include <cmath>
#include <cublasXt.h>
#include <cublas_v2.h>

#include "check.h"

template <class T> T element(const std::vector<T>& a, int ld, bool transposed, int i, int j) { return transposed ? a[i * ld + j] : a[j * ld + i]; }

int main() {
  cublasHandle_t h;
  EXPECT(cublasCreate(&h) == CUBLAS_STATUS_SUCCESS, "create");
  const int m = 37, n = 29, k = 45, ld = 50;
  std::vector<double> a(ld * ld), b(ld * ld), c(ld * ld, 1.0);
  for (int i = 0; i < ld * ld; ++i) a[i] = i % 17 - 8, b[i] = i % 13 - 6;
  double *da = to_device(a), *db = to_device(b), alpha = 2, beta = -3;
  for (int ta = 0; ta < 2; ++ta)
    for (int tb = 0; tb < 2; ++tb) {
      double* dc = to_device(c);
      EXPECT(cublasDgemm(h, (cublasOperation_t)ta, (cublasOperation_t)tb, m, n, k, &alpha, da, ld, db, ld, &beta, dc, ld) == CUBLAS_STATUS_SUCCESS, "gemm");
      auto got = to_host(dc, ld * ld);
      for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
          double sum = 0;
          for (int l = 0; l < k; ++l) sum += element(a, ld, ta, i, l) * element(b, ld, tb, l, j);
          EXPECT(got[j * ld + i] == 2 * sum - 3, "%d%d (%d, %d): %f, not %f", ta, tb, i, j, got[j * ld + i], 2 * sum - 3);
        }
      EXPECT(got[m] == 1.0 && got[n * ld] == 1.0, "written outside");
    }
  auto product = [&](cublasOperation_t ta, cublasOperation_t tb, int rows, int lda, int ldb, int ldc) {
    cublasStatus_t one = cublasDgemm(h, ta, tb, rows, n, k, &alpha, da, lda, db, ldb, &beta, da, ldc);
    cublasStatus_t mixed = cublasGemmEx(h, ta, tb, rows, n, k, &alpha, da, CUDA_R_64F, lda, db, CUDA_R_64F, ldb, &beta, da, CUDA_R_64F, ldc, CUBLAS_COMPUTE_64F, CUBLAS_GEMM_DEFAULT);
    cublasStatus_t many = cublasDgemmStridedBatched(h, ta, tb, rows, n, k, &alpha, da, lda, 0, db, ldb, 0, &beta, da, ldc, 0, 1);
    return one == CUBLAS_STATUS_INVALID_VALUE && mixed == one && many == one;
  };
  EXPECT(product(CUBLAS_OP_N, CUBLAS_OP_N, -1, ld, ld, ld), "rows below zero");
  EXPECT(product(CUBLAS_OP_N, CUBLAS_OP_N, m, m - 1, ld, ld) && product(CUBLAS_OP_T, CUBLAS_OP_N, m, k - 1, ld, ld), "a's leading dimension");
  EXPECT(product(CUBLAS_OP_N, CUBLAS_OP_N, m, ld, k - 1, ld) && product(CUBLAS_OP_N, CUBLAS_OP_T, m, ld, n - 1, ld), "b's leading dimension");
  EXPECT(product(CUBLAS_OP_N, CUBLAS_OP_N, m, ld, ld, m - 1), "c's leading dimension");
  std::vector<float> x(30), y(30, 2.0f);
  for (int i = 0; i < 30; ++i) x[i] = i - 20;
  float *dx = to_device(x), *dy = to_device(y), factor = 3, result;
  int place;
  cublasSaxpy(h, 10, &factor, dx, 3, dy, 2);
  auto moved = to_host(dy, 30);
  for (int i = 0; i < 30; ++i) EXPECT(moved[i] == (i % 2 == 0 && i < 20 ? 2 + 3 * x[i / 2 * 3] : 2), "axpy %d: %f", i, moved[i]);
  cublasSdot(h, 30, dx, 1, dx, 1, &result);
  double squares = 0;
  for (float v : x) squares += v * v;
  EXPECT(result == (float)squares, "dot %f", result);
  cublasSnrm2(h, 30, dx, 1, &result);
  EXPECT(std::fabs(result - std::sqrt(squares)) < 1e-4, "norm %f", result);
  cublasIsamax(h, 30, dx, 1, &place);
  EXPECT(place == 1, "amax %d", place);
  double *dv = to_device(std::vector<double>(ld, 1.0)), *dw = to_device(std::vector<double>(ld, 0.0)), one = 1, zero = 0;
  cublasDgemv(h, CUBLAS_OP_T, m, n, &one, da, ld, dv, 1, &zero, dw, 1);
  auto w = to_host(dw, n);
  for (int j = 0; j < n; ++j) {
    double sum = 0;
    for (int i = 0; i < m; ++i) sum += a[j * ld + i];
    EXPECT(w[j] == sum, "gemv %d: %f", j, w[j]);
  }
  const int size = 5;
  std::vector<double> square(size * size);
  for (int i = 0; i < size * size; ++i) square[i] = i * i * 7 % 31 + (i % (size + 1) == 0 ? 40 : 1);
  for (bool exchanged : {true, false}) {
    if (exchanged) square[0] = 0;  // the first row must go
    else square[0] = 50;
    std::vector<double*> batch = {to_device(square), to_device(square)};
    int *pivots = to_device(std::vector<int>(2 * size)), *info = to_device(std::vector<int>(2, 9));
    EXPECT(cublasDgetrfBatched(h, size, to_device(batch), size, exchanged ? pivots : nullptr, info, 2) == CUBLAS_STATUS_SUCCESS, "getrf");
    std::vector<double> lu = to_host(batch[1], size * size), product(size * size, 0.0);
    std::vector<int> rows = to_host(pivots, 2 * size);
    EXPECT(to_host(info, 2)[1] == 0, "singular");
    for (int i = 0; i < size; ++i)
      for (int j = 0; j < size; ++j)
        for (int k = 0; k <= std::min(i, j); ++k) product[j * size + i] += (k == i ? 1.0 : lu[k * size + i]) * lu[j * size + k];
    for (int j = size - 1; exchanged && j >= 0; --j)
      for (int l = 0; l < size; ++l) std::swap(product[l * size + j], product[l * size + rows[size + j] - 1]);
    for (int i = 0; i < size * size; ++i) EXPECT(std::fabs(product[i] - square[i]) < 1e-9, "LU %d: %f, not %f", i, product[i], square[i]);
  }
  cublasXtHandle_t xt;
  int device = 0;
  float left[4] = {1, 2, 3, 4}, right[4] = {5, 6, 7, 8}, both[4], once = 1, nothing = 0;
  EXPECT(cublasXtCreate(&xt) == CUBLAS_STATUS_SUCCESS && cublasXtDeviceSelect(xt, 1, &device) == CUBLAS_STATUS_SUCCESS, "XT");
  EXPECT(cublasXtSgemm(xt, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &once, left, 2, right, 2, &nothing, both, 2) == CUBLAS_STATUS_SUCCESS, "XT product");
  EXPECT(both[0] == 23 && both[1] == 34 && both[2] == 31 && both[3] == 46, "XT product %f", both[0]);
  EXPECT(cublasXtDestroy(xt) == CUBLAS_STATUS_SUCCESS, "XT destroy");
  EXPECT(cublasDestroy(h) == CUBLAS_STATUS_SUCCESS, "destroy");
  return wrong != 0;
}
