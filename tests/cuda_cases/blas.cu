// slow; cuBLAS: products with every transposition against plain loops, vectors with strides, matrices copied in and out.
#include <cmath>
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
  EXPECT(cublasDestroy(h) == CUBLAS_STATUS_SUCCESS, "destroy");
  return wrong != 0;
}
