// cuBLAS: plain loops for levels 1 and 2; products through an installed CBLAS (OpenBLAS), else a blocked loop nest.
#include "blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

using namespace loom::blas;

namespace {
typedef void (*SGemm)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
typedef void (*DGemm)(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*, int);
void* cblas(const char* name) {
  static void* library = [] {
    void* found = nullptr;
    for (const char* file : {"libopenblas.so.0", "libcblas.so.3", "libmkl_rt.so.2"})
      if (!found) found = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    return found;
  }();
  return library ? dlsym(library, name) : nullptr;
}
bool library_gemm(int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  static SGemm f = (SGemm)cblas("cblas_sgemm");
  return f ? (f(102, 111 + ta, 111 + tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), true) : false;
}
bool library_gemm(int ta, int tb, int m, int n, int k, double alpha, const double* a, int lda, const double* b, int ldb, double beta, double* c, int ldc) {
  static DGemm f = (DGemm)cblas("cblas_dgemm");
  return f ? (f(102, 111 + ta, 111 + tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), true) : false;
}

// PA = LU in place, with rows exchanged where `pivots` (from 1) is wanted; returns the first column (from 1) with a zero
// pivot, or 0.
template <class T> int factorise(int n, T* a, int lda, int* pivots) {
  int singular = 0;
  for (int j = 0; j < n; ++j) {
    T* column = a + (size_t)j * lda;
    int largest = j;
    for (int i = j + 1; pivots && i < n; ++i)
      if (std::abs(column[i]) > std::abs(column[largest])) largest = i;
    if (pivots) pivots[j] = largest + 1;
    if (column[largest] == T(0)) {
      singular = singular ? singular : j + 1;
      continue;
    }
    for (int l = 0; largest != j && l < n; ++l) std::swap(a[(size_t)l * lda + j], a[(size_t)l * lda + largest]);
    for (int i = j + 1; i < n; ++i) column[i] /= column[j];
    for (int l = j + 1; l < n; ++l)
      for (int i = j + 1; i < n; ++i) a[(size_t)l * lda + i] -= column[i] * a[(size_t)l * lda + j];
  }
  return singular;
}

}  // namespace
template <class T>
void loom::blas::gemm(bool ta, bool tb, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc) {
  if (library_gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
  std::vector<T> packed;
  if (ta) {  // columns of A must be contiguous for the inner loop
    packed.resize((size_t)m * k);
    for (int i = 0; i < m; ++i)
      for (int l = 0; l < k; ++l) packed[(size_t)l * m + i] = a[(size_t)i * lda + l];
    a = packed.data(), lda = m;
  }
  constexpr int rows = 512, depth = 128;  // a block of A stays in the cache while all columns of C pass
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) c[(size_t)j * ldc + i] = beta == T(0) ? T(0) : beta * c[(size_t)j * ldc + i];
  for (int l0 = 0; l0 < k; l0 += depth)
    for (int i0 = 0; i0 < m; i0 += rows)
      for (int j = 0; j < n; ++j)
        for (int l = l0; l < std::min(k, l0 + depth); ++l) {
          T factor = alpha * (tb ? b[(size_t)l * ldb + j] : b[(size_t)j * ldb + l]);
          const T* from = a + (size_t)l * lda;
          T* to = c + (size_t)j * ldc;
          for (int i = i0; i < std::min(m, i0 + rows); ++i) to[i] += factor * from[i];
        }
}
template void loom::blas::gemm<float>(bool, bool, int, int, int, float, const float*, int, const float*, int, float, float*, int);
template void loom::blas::gemm<double>(bool, bool, int, int, int, double, const double*, int, const double*, int, double, double*, int);

namespace {
template <class T> int extreme(int n, const T* x, int incx, bool largest) {
  int best = 0;
  for (int i = 1; i < n; ++i) {
    T a = std::fabs(*at(x, incx, n, i)), b = std::fabs(*at(x, incx, n, best));
    if (largest ? a > b : a < b) best = i;
  }
  return n > 0 ? best + 1 : 0;
}
}  // namespace

extern "C" {
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) { return *handle = new cublasContext, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) { return delete handle, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) { return *version = LOOM_CUDA_VERSION, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t stream) { return h->stream = stream, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasGetStream_v2(cublasHandle_t h, cudaStream_t* stream) { return *stream = h->stream, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t h, cublasPointerMode_t mode) { return h->mode = mode, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t h, cublasPointerMode_t* mode) { return *mode = h->mode, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasGetStatusName(cublasStatus_t status) { return status ? "CUBLAS_STATUS_EXECUTION_FAILED" : "CUBLAS_STATUS_SUCCESS"; }
const char* cublasGetStatusString(cublasStatus_t status) { return status ? "the function failed" : "success"; }
cublasStatus_t cublasSetVector(int n, int size, const void* x, int incx, void* y, int incy) {
  for (int i = 0; i < n; ++i) memcpy((char*)y + (long)i * incy * size, (const char*)x + (long)i * incx * size, (size_t)size);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVector(int n, int size, const void* x, int incx, void* y, int incy) { return cublasSetVector(n, size, x, incx, y, incy); }
cublasStatus_t cublasSetMatrix(int rows, int columns, int size, const void* a, int lda, void* b, int ldb) {
  for (int j = 0; j < columns; ++j) memcpy((char*)b + (long)j * ldb * size, (const char*)a + (long)j * lda * size, (size_t)rows * size);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMatrix(int rows, int columns, int size, const void* a, int lda, void* b, int ldb) { return cublasSetMatrix(rows, columns, size, a, lda, b, ldb); }

#define LOOM_CUBLAS(S, T, I)                                                                                                              \
  cublasStatus_t cublas##S##axpy_v2(cublasHandle_t h, int n, const T* alpha, const T* x, int incx, T* y, int incy) {                      \
    return run(h, [=, alpha = scalar(h, alpha)] { for (int i = 0; i < n; ++i) *at(y, incy, n, i) += alpha * *at(x, incx, n, i); });                 \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##scal_v2(cublasHandle_t h, int n, const T* alpha, T* x, int incx) {                                            \
    return run(h, [=, alpha = scalar(h, alpha)] { for (int i = 0; i < n; ++i) *at(x, incx, n, i) *= alpha; });                                      \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##copy_v2(cublasHandle_t h, int n, const T* x, int incx, T* y, int incy) {                                      \
    return run(h, [=] { for (int i = 0; i < n; ++i) *at(y, incy, n, i) = *at(x, incx, n, i); });                                          \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##swap_v2(cublasHandle_t h, int n, T* x, int incx, T* y, int incy) {                                            \
    return run(h, [=] { for (int i = 0; i < n; ++i) std::swap(*at(y, incy, n, i), *at(x, incx, n, i)); });                                \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##dot_v2(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy, T* result) {                      \
    return run(h, [=] { double s = 0; for (int i = 0; i < n; ++i) s += (double)*at(x, incx, n, i) * *at(y, incy, n, i); *result = (T)s; }); \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##nrm2_v2(cublasHandle_t h, int n, const T* x, int incx, T* result) {                                           \
    return run(h, [=] { double s = 0; for (int i = 0; i < n; ++i) s += (double)*at(x, incx, n, i) * *at(x, incx, n, i); *result = (T)std::sqrt(s); }); \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##asum_v2(cublasHandle_t h, int n, const T* x, int incx, T* result) {                                           \
    return run(h, [=] { double s = 0; for (int i = 0; i < n; ++i) s += std::fabs(*at(x, incx, n, i)); *result = (T)s; });                 \
  }                                                                                                                                       \
  cublasStatus_t cublasI##I##amax_v2(cublasHandle_t h, int n, const T* x, int incx, int* result) { return run(h, [=] { *result = extreme(n, x, incx, true); }); } \
  cublasStatus_t cublasI##I##amin_v2(cublasHandle_t h, int n, const T* x, int incx, int* result) { return run(h, [=] { *result = extreme(n, x, incx, false); }); } \
  cublasStatus_t cublas##S##gemv_v2(cublasHandle_t h, cublasOperation_t op, int m, int n, const T* alpha, const T* a, int lda, const T* x, int incx, const T* beta, T* y, int incy) { \
    return run(h, [=, alpha = scalar(h, alpha), beta = scalar(h, beta)] {                                                                                     \
      int rows = op == CUBLAS_OP_N ? m : n, columns = op == CUBLAS_OP_N ? n : m;                                                          \
      for (int i = 0; i < rows; ++i) {                                                                                                    \
        T s = 0, *out = at(y, incy, rows, i);                                                                                             \
        for (int j = 0; j < columns; ++j) s += (op == CUBLAS_OP_N ? a[(size_t)j * lda + i] : a[(size_t)i * lda + j]) * *at(x, incx, columns, j); \
        *out = alpha * s + (beta == T(0) ? T(0) : beta * *out);                                                                           \
      }                                                                                                                                   \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##ger_v2(cublasHandle_t h, int m, int n, const T* alpha, const T* x, int incx, const T* y, int incy, T* a, int lda) { \
    return run(h, [=, alpha = scalar(h, alpha)] { for (int j = 0; j < n; ++j) for (int i = 0; i < m; ++i) a[(size_t)j * lda + i] += alpha * *at(x, incx, m, i) * *at(y, incy, n, j); }); \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##gemm_v2(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc) { \
    if (!possible(opa, opb, m, n, k, lda, ldb, ldc)) return CUBLAS_STATUS_INVALID_VALUE;                                                  \
    return run(h, [=, alpha = scalar(h, alpha), beta = scalar(h, beta)] { gemm<T>(opa != CUBLAS_OP_N, opb != CUBLAS_OP_N, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc); }); \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##gemmStridedBatched(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const T* alpha, const T* a, int lda, long long sa, const T* b, int ldb, long long sb, const T* beta, T* c, int ldc, long long sc, int count) { \
    if (!possible(opa, opb, m, n, k, lda, ldb, ldc, count)) return CUBLAS_STATUS_INVALID_VALUE;                                           \
    return run(h, [=, alpha = scalar(h, alpha), beta = scalar(h, beta)] {                                                                                     \
      for (int i = 0; i < count; ++i) gemm<T>(opa != CUBLAS_OP_N, opb != CUBLAS_OP_N, m, n, k, alpha, a + i * sa, lda, b + i * sb, ldb, beta, c + i * sc, ldc); \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##gemmBatched(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const T* alpha, const T* const a[], int lda, const T* const b[], int ldb, const T* beta, T* const c[], int ldc, int count) { \
    if (!possible(opa, opb, m, n, k, lda, ldb, ldc, count)) return CUBLAS_STATUS_INVALID_VALUE;                                           \
    return run(h, [=, alpha = scalar(h, alpha), beta = scalar(h, beta)] {                                                                                     \
      for (int i = 0; i < count; ++i) gemm<T>(opa != CUBLAS_OP_N, opb != CUBLAS_OP_N, m, n, k, alpha, a[i], lda, b[i], ldb, beta, c[i], ldc); \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##getrfBatched(cublasHandle_t h, int n, T* const a[], int lda, int* pivots, int* info, int count) {             \
    if (n < 0 || lda < n) return CUBLAS_STATUS_INVALID_VALUE;                                                                             \
    return run(h, [=] {                                                                                                                   \
      for (int i = 0; i < count; ++i) info[i] = factorise<T>(n, a[i], lda, pivots ? pivots + (size_t)i * n : nullptr);                    \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##geam(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, const T* alpha, const T* a, int lda, const T* beta, const T* b, int ldb, T* c, int ldc) { \
    return run(h, [=, alpha = scalar(h, alpha), beta = scalar(h, beta)] {                                                                                     \
      for (int j = 0; j < n; ++j)                                                                                                         \
        for (int i = 0; i < m; ++i) {                                                                                                     \
          T x = alpha == T(0) ? T(0) : alpha * (opa == CUBLAS_OP_N ? a[(size_t)j * lda + i] : a[(size_t)i * lda + j]);                    \
          T y = beta == T(0) ? T(0) : beta * (opb == CUBLAS_OP_N ? b[(size_t)j * ldb + i] : b[(size_t)i * ldb + j]);                      \
          c[(size_t)j * ldc + i] = x + y;                                                                                                 \
        }                                                                                                                                 \
    });                                                                                                                                   \
  }
LOOM_CUBLAS(S, float, s)
LOOM_CUBLAS(D, double, d)
}
