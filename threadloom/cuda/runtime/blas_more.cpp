// cuBLAS: symmetric and triangular matrices, complex numbers, products in small floats. Plain loops.
#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "blas.h"

using namespace loom::blas;

namespace {
template <class T> T conjugate(T x) { return x; }
template <class T> std::complex<T> conjugate(std::complex<T> x) { return std::conj(x); }

template <class V> struct Matrix {  // op(A)
  const V* a;
  int lda;
  cublasOperation_t op;
  V operator()(int i, int j) const {
    if (op == CUBLAS_OP_N) return a[(size_t)j * lda + i];
    V value = a[(size_t)i * lda + j];
    return op == CUBLAS_OP_C ? conjugate(value) : value;
  }
};
template <class V> struct Symmetric {  // of which one half is there
  const V* a;
  int lda;
  bool lower;
  V operator()(int i, int j) const { return (i >= j) == lower ? a[(size_t)j * lda + i] : a[(size_t)i * lda + j]; }
};

// op(A) with the other half zero, `flipped`: its transpose.
template <class V> struct Triangle {
  Matrix<V> matrix;
  bool lower, unit, flipped;
  Triangle(const V* a, int lda, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag, bool flipped = false)
      : matrix{a, lda, op}, lower(((fill == CUBLAS_FILL_MODE_LOWER) == (op == CUBLAS_OP_N)) != flipped), unit(diag == CUBLAS_DIAG_UNIT), flipped(flipped) {}
  V operator()(int i, int j) const { return i == j && unit ? V(1) : flipped ? matrix(j, i) : matrix(i, j); }
  void multiply(int n, V* x, long inc) const {  // x = A x
    for (int step = 0; step < n; ++step) {
      int i = lower ? n - 1 - step : step;
      V sum = V(0);
      for (int j = lower ? 0 : i; j < (lower ? i + 1 : n); ++j) sum += (*this)(i, j) * x[j * inc];
      x[i * inc] = sum;
    }
  }
  void solve(int n, V* x, long inc) const {  // A x = x
    for (int step = 0; step < n; ++step) {
      int i = lower ? step : n - 1 - step;
      V sum = x[i * inc];
      for (int j = lower ? 0 : i + 1; j < (lower ? i : n); ++j) sum -= (*this)(i, j) * x[j * inc];
      x[i * inc] = unit ? sum : sum / (*this)(i, i);
    }
  }
};

template <class V> V scaled(V beta, V value) { return beta == V(0) ? V(0) : beta * value; }
template <class V> V* first(V* x, int inc, int n) { return at(x, inc, n, 0); }

template <class V, class A, class B> void product(int m, int n, int k, V alpha, A a, B b, V beta, V* c, int ldc) {
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      V sum = V(0);
      for (int l = 0; l < k; ++l) sum += a(i, l) * b(l, j);
      c[(size_t)j * ldc + i] = alpha * sum + scaled(beta, c[(size_t)j * ldc + i]);
    }
}
// C = alpha op(A) op(B)^T (+ alpha op(B) op(A)^T where `twice`) + beta C, in one half of C.
template <class V> void rank_k(bool lower, cublasOperation_t op, int n, int k, V alpha, const V* a, int lda, const V* b, int ldb, bool twice, V beta, V* c, int ldc) {
  Matrix<V> left{a, lda, op == CUBLAS_OP_N ? CUBLAS_OP_N : CUBLAS_OP_T}, right{b, ldb, left.op};
  for (int j = 0; j < n; ++j)
    for (int i = lower ? j : 0; i < (lower ? n : j + 1); ++i) {
      V sum = V(0);
      for (int l = 0; l < k; ++l) sum += left(i, l) * right(j, l) + (twice ? right(i, l) * left(j, l) : V(0));
      c[(size_t)j * ldc + i] = alpha * sum + scaled(beta, c[(size_t)j * ldc + i]);
    }
}
template <class V> void each_vector(cublasSideMode_t side, int m, int n, const Triangle<V>& a, bool solve, V* b, int ldb) {
  bool left = side == CUBLAS_SIDE_LEFT;
  for (int i = 0; i < (left ? n : m); ++i) {
    V* x = left ? b + (size_t)i * ldb : b + i;
    solve ? a.solve(left ? m : n, x, left ? 1 : ldb) : a.multiply(left ? m : n, x, left ? 1 : ldb);
  }
}

// ---- products whose types are told at run time
double element(const void* p, cudaDataType type, size_t i) {
  switch (type) {
    case CUDA_R_16F: return (double)__half2float(((const __half*)p)[i]);
    case CUDA_R_16BF: return (double)__bfloat162float(((const __nv_bfloat16*)p)[i]);
    case CUDA_R_32F: return ((const float*)p)[i];
    case CUDA_R_64F: return ((const double*)p)[i];
    case CUDA_R_8I: return ((const signed char*)p)[i];
    default: return ((const int*)p)[i];
  }
}
void set_element(void* p, cudaDataType type, size_t i, double value) {
  switch (type) {
    case CUDA_R_16F: ((__half*)p)[i] = __float2half((float)value); return;
    case CUDA_R_16BF: ((__nv_bfloat16*)p)[i] = __float2bfloat16((float)value); return;
    case CUDA_R_32F: ((float*)p)[i] = (float)value; return;
    case CUDA_R_64F: ((double*)p)[i] = value; return;
    case CUDA_R_8I: ((signed char*)p)[i] = (signed char)value; return;
    default: ((int*)p)[i] = (int)value; return;
  }
}
bool is_known(cudaDataType type) {
  return type == CUDA_R_16F || type == CUDA_R_16BF || type == CUDA_R_32F || type == CUDA_R_64F || type == CUDA_R_8I || type == CUDA_R_32I;
}
size_t bytes_of(cudaDataType type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_8I ? 1 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 4; }
cudaDataType scale_type(cublasComputeType_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_16F: case CUBLAS_COMPUTE_16F_PEDANTIC: return CUDA_R_16F;
    case CUBLAS_COMPUTE_64F: case CUBLAS_COMPUTE_64F_PEDANTIC: return CUDA_R_64F;
    case CUBLAS_COMPUTE_32I: case CUBLAS_COMPUTE_32I_PEDANTIC: return CUDA_R_32I;
    default: return CUDA_R_32F;
  }
}
// Packed, with op applied.
template <class T> std::vector<T> packed(const void* a, cudaDataType type, int lda, cublasOperation_t op, int rows, int columns) {
  std::vector<T> values((size_t)rows * columns);
  for (int j = 0; j < columns; ++j)
    for (int i = 0; i < rows; ++i) values[(size_t)j * rows + i] = (T)element(a, type, op == CUBLAS_OP_N ? (size_t)j * lda + i : (size_t)i * lda + j);
  return values;
}
template <class T>
void typed_product(cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, double alpha, const void* a, cudaDataType ta, int lda, const void* b,
                   cudaDataType tb, int ldb, double beta, void* c, cudaDataType tc, int ldc) {
  std::vector<T> left = packed<T>(a, ta, lda, opa, m, k), right = packed<T>(b, tb, ldb, opb, k, n), sums((size_t)m * n);
  gemm<T>(false, false, m, n, k, T(1), left.data(), m, right.data(), k, T(0), sums.data(), m);
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      size_t at = (size_t)j * ldc + i;
      set_element(c, tc, at, alpha * (double)sums[(size_t)j * m + i] + (beta == 0 ? 0.0 : beta * element(c, tc, at)));
    }
}
typedef std::complex<float> CV;
typedef std::complex<double> ZV;
}  // namespace

extern "C" {
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const void* alpha, const void* a,
                                          cudaDataType ta, int lda, long long sa, const void* b, cudaDataType tb, int ldb, long long sb, const void* beta, void* c,
                                          cudaDataType tc, int ldc, long long sc, int count, cublasComputeType_t compute, cublasGemmAlgo_t) {
  if (!is_known(ta) || !is_known(tb) || !is_known(tc)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!possible(opa, opb, m, n, k, lda, ldb, ldc, count)) return CUBLAS_STATUS_INVALID_VALUE;
  cudaDataType type = scale_type(compute);
  bool device = h && h->mode == CUBLAS_POINTER_MODE_DEVICE;
  double x = device ? 0 : element(alpha, type, 0), y = device ? 0 : element(beta, type, 0);
  return run(h, [=] {
    double factor = device ? element(alpha, type, 0) : x, old = device ? element(beta, type, 0) : y;
    auto product_of = type == CUDA_R_64F || type == CUDA_R_32I ? typed_product<double> : typed_product<float>;
    for (int i = 0; i < count; ++i)
      product_of(opa, opb, m, n, k, factor, (const char*)a + i * sa * (long)bytes_of(ta), ta, lda, (const char*)b + i * sb * (long)bytes_of(tb), tb, ldb, old,
                 (char*)c + i * sc * (long)bytes_of(tc), tc, ldc);
  });
}
cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const void* alpha, const void* a, cudaDataType ta, int lda,
                            const void* b, cudaDataType tb, int ldb, const void* beta, void* c, cudaDataType tc, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(h, opa, opb, m, n, k, alpha, a, ta, lda, 0, b, tb, ldb, 0, beta, c, tc, ldc, 0, 1, compute, algorithm);
}
cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const float* alpha, const void* a, cudaDataType ta, int lda,
                             const void* b, cudaDataType tb, int ldb, const float* beta, void* c, cudaDataType tc, int ldc) {
  return cublasGemmEx(h, opa, opb, m, n, k, alpha, a, ta, lda, b, tb, ldb, beta, c, tc, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
cublasStatus_t cublasHgemm(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const __half* alpha, const __half* a, int lda, const __half* b,
                           int ldb, const __half* beta, __half* c, int ldc) {
  return cublasGemmEx(h, opa, opb, m, n, k, alpha, a, CUDA_R_16F, lda, b, CUDA_R_16F, ldb, beta, c, CUDA_R_16F, ldc, CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT);
}
cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const __half* alpha, const __half* a, int lda,
                                         long long sa, const __half* b, int ldb, long long sb, const __half* beta, __half* c, int ldc, long long sc, int count) {
  return cublasGemmStridedBatchedEx(h, opa, opb, m, n, k, alpha, a, CUDA_R_16F, lda, sa, b, CUDA_R_16F, ldb, sb, beta, c, CUDA_R_16F, ldc, sc, count, CUBLAS_COMPUTE_16F,
                                    CUBLAS_GEMM_DEFAULT);
}

// V: T as C++ counts with it
#define LOOM_CUBLAS_MATRICES(S, T, V)                                                                                                      \
  cublasStatus_t cublas##S##symv_v2(cublasHandle_t h, cublasFillMode_t fill, int n, const T* alpha, const T* a, int lda, const T* x, int incx, const T* beta, T* y, int incy) { \
    return run(h, [=, alpha = scalar(h, (const V*)alpha), beta = scalar(h, (const V*)beta)] {                                             \
      Symmetric<V> matrix{(const V*)a, lda, fill == CUBLAS_FILL_MODE_LOWER};                                                              \
      for (int i = 0; i < n; ++i) {                                                                                                       \
        V sum = V(0), *out = at((V*)y, incy, n, i);                                                                                       \
        for (int j = 0; j < n; ++j) sum += matrix(i, j) * *at((const V*)x, incx, n, j);                                                   \
        *out = V(alpha) * sum + scaled<V>(beta, *out);                                                                                    \
      }                                                                                                                                   \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##syr_v2(cublasHandle_t h, cublasFillMode_t fill, int n, const T* alpha, const T* x, int incx, T* a, int lda) { \
    return run(h, [=, alpha = scalar(h, (const V*)alpha)] {                                                                               \
      for (int j = 0; j < n; ++j)                                                                                                         \
        for (int i = 0; i < n; ++i)                                                                                                       \
          if (fill == CUBLAS_FILL_MODE_LOWER ? i >= j : i <= j)                                                                           \
            ((V*)a)[(size_t)j * lda + i] += V(alpha) * *at((const V*)x, incx, n, i) * *at((const V*)x, incx, n, j);                       \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##trmv_v2(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag, int n, const T* a, int lda, T* x, int incx) { \
    return run(h, [=] { Triangle<V>((const V*)a, lda, fill, op, diag).multiply(n, first((V*)x, incx, n), incx); });                       \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##trsv_v2(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag, int n, const T* a, int lda, T* x, int incx) { \
    return run(h, [=] { Triangle<V>((const V*)a, lda, fill, op, diag).solve(n, first((V*)x, incx, n), incx); });                          \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##symm_v2(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, int m, int n, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc) { \
    return run(h, [=, alpha = scalar(h, (const V*)alpha), beta = scalar(h, (const V*)beta)] {                                             \
      Symmetric<V> one{(const V*)a, lda, fill == CUBLAS_FILL_MODE_LOWER};                                                                 \
      Matrix<V> other{(const V*)b, ldb, CUBLAS_OP_N};                                                                                     \
      side == CUBLAS_SIDE_LEFT ? product<V>(m, n, m, alpha, one, other, beta, (V*)c, ldc) : product<V>(m, n, n, alpha, other, one, beta, (V*)c, ldc); \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##syrk_v2(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op, int n, int k, const T* alpha, const T* a, int lda, const T* beta, T* c, int ldc) { \
    return run(h, [=, alpha = scalar(h, (const V*)alpha), beta = scalar(h, (const V*)beta)] {                                             \
      rank_k<V>(fill == CUBLAS_FILL_MODE_LOWER, op, n, k, alpha, (const V*)a, lda, (const V*)a, lda, false, beta, (V*)c, ldc);            \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##syr2k_v2(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op, int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc) { \
    return run(h, [=, alpha = scalar(h, (const V*)alpha), beta = scalar(h, (const V*)beta)] {                                             \
      rank_k<V>(fill == CUBLAS_FILL_MODE_LOWER, op, n, k, alpha, (const V*)a, lda, (const V*)b, ldb, true, beta, (V*)c, ldc);             \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##trsm_v2(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag, int m, int n, const T* alpha, const T* a, int lda, T* b, int ldb) { \
    return run(h, [=, alpha = scalar(h, (const V*)alpha)] {                                                                               \
      for (int j = 0; j < n; ++j)                                                                                                         \
        for (int i = 0; i < m; ++i) ((V*)b)[(size_t)j * ldb + i] *= V(alpha);                                                             \
      each_vector(side, m, n, Triangle<V>((const V*)a, lda, fill, op, diag, side == CUBLAS_SIDE_RIGHT), true, (V*)b, ldb);                \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##trmm_v2(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag, int m, int n, const T* alpha, const T* a, int lda, const T* b, int ldb, T* c, int ldc) { \
    return run(h, [=, alpha = scalar(h, (const V*)alpha)] {                                                                               \
      for (int j = 0; j < n; ++j)                                                                                                         \
        for (int i = 0; i < m; ++i) ((V*)c)[(size_t)j * ldc + i] = V(alpha) * ((const V*)b)[(size_t)j * ldb + i];                         \
      each_vector(side, m, n, Triangle<V>((const V*)a, lda, fill, op, diag, side == CUBLAS_SIDE_RIGHT), false, (V*)c, ldc);               \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##dgmm(cublasHandle_t h, cublasSideMode_t side, int m, int n, const T* a, int lda, const T* x, int incx, T* c, int ldc) { \
    return run(h, [=] {                                                                                                                   \
      for (int j = 0; j < n; ++j)                                                                                                         \
        for (int i = 0; i < m; ++i)                                                                                                       \
          ((V*)c)[(size_t)j * ldc + i] = ((const V*)a)[(size_t)j * lda + i] * *(side == CUBLAS_SIDE_LEFT ? at((const V*)x, incx, m, i) : at((const V*)x, incx, n, j)); \
    });                                                                                                                                   \
  }
LOOM_CUBLAS_MATRICES(S, float, float)
LOOM_CUBLAS_MATRICES(D, double, double)
LOOM_CUBLAS_MATRICES(C, cuComplex, CV)
LOOM_CUBLAS_MATRICES(Z, cuDoubleComplex, ZV)

#define LOOM_CUBLAS_ROTATION(S, T)                                                                                                        \
  cublasStatus_t cublas##S##rot_v2(cublasHandle_t h, int n, T* x, int incx, T* y, int incy, const T* c, const T* s) {                     \
    return run(h, [=, c = scalar(h, c), s = scalar(h, s)] {                                                                               \
      for (int i = 0; i < n; ++i) {                                                                                                       \
        T *p = at(x, incx, n, i), *q = at(y, incy, n, i), old = *p;                                                                       \
        *p = c * old + s * *q, *q = c * *q - s * old;                                                                                     \
      }                                                                                                                                   \
    });                                                                                                                                   \
  }
LOOM_CUBLAS_ROTATION(S, float)
LOOM_CUBLAS_ROTATION(D, double)

#define LOOM_CUBLAS_COMPLEX(S, RS, I, T, R, V)                                                                                            \
  cublasStatus_t cublas##S##axpy_v2(cublasHandle_t h, int n, const T* alpha, const T* x, int incx, T* y, int incy) {                      \
    return run(h, [=, alpha = scalar(h, (const V*)alpha)] { for (int i = 0; i < n; ++i) *at((V*)y, incy, n, i) += V(alpha) * *at((const V*)x, incx, n, i); }); \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##scal_v2(cublasHandle_t h, int n, const T* alpha, T* x, int incx) {                                            \
    return run(h, [=, alpha = scalar(h, (const V*)alpha)] { for (int i = 0; i < n; ++i) *at((V*)x, incx, n, i) *= V(alpha); });           \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##copy_v2(cublasHandle_t h, int n, const T* x, int incx, T* y, int incy) {                                      \
    return run(h, [=] { for (int i = 0; i < n; ++i) *at(y, incy, n, i) = *at(x, incx, n, i); });                                          \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##swap_v2(cublasHandle_t h, int n, T* x, int incx, T* y, int incy) {                                            \
    return run(h, [=] { for (int i = 0; i < n; ++i) std::swap(*at(y, incy, n, i), *at(x, incx, n, i)); });                                \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##dotu_v2(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy, T* result) {                     \
    return run(h, [=] { V s = V(0); for (int i = 0; i < n; ++i) s += *at((const V*)x, incx, n, i) * *at((const V*)y, incy, n, i); *(V*)result = s; }); \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##dotc_v2(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy, T* result) {                     \
    return run(h, [=] { V s = V(0); for (int i = 0; i < n; ++i) s += std::conj(*at((const V*)x, incx, n, i)) * *at((const V*)y, incy, n, i); *(V*)result = s; }); \
  }                                                                                                                                       \
  cublasStatus_t cublas##RS##nrm2_v2(cublasHandle_t h, int n, const T* x, int incx, R* result) {                                          \
    return run(h, [=] { double s = 0; for (int i = 0; i < n; ++i) s += (double)std::norm(*at((const V*)x, incx, n, i)); *result = (R)std::sqrt(s); }); \
  }                                                                                                                                       \
  cublasStatus_t cublas##RS##asum_v2(cublasHandle_t h, int n, const T* x, int incx, R* result) {                                          \
    return run(h, [=] { double s = 0; for (int i = 0; i < n; ++i) s += std::fabs(at(x, incx, n, i)->x) + std::fabs(at(x, incx, n, i)->y); *result = (R)s; }); \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##gemv_v2(cublasHandle_t h, cublasOperation_t op, int m, int n, const T* alpha, const T* a, int lda, const T* x, int incx, const T* beta, T* y, int incy) { \
    return run(h, [=, alpha = scalar(h, (const V*)alpha), beta = scalar(h, (const V*)beta)] {                                             \
      int rows = op == CUBLAS_OP_N ? m : n, columns = op == CUBLAS_OP_N ? n : m;                                                          \
      Matrix<V> matrix{(const V*)a, lda, op};                                                                                             \
      for (int i = 0; i < rows; ++i) {                                                                                                    \
        V s = V(0), *out = at((V*)y, incy, rows, i);                                                                                      \
        for (int j = 0; j < columns; ++j) s += matrix(i, j) * *at((const V*)x, incx, columns, j);                                         \
        *out = V(alpha) * s + scaled<V>(beta, *out);                                                                                      \
      }                                                                                                                                   \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##gemmStridedBatched(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const T* alpha, const T* a, int lda, long long sa, const T* b, int ldb, long long sb, const T* beta, T* c, int ldc, long long sc, int count) { \
    if (!possible(opa, opb, m, n, k, lda, ldb, ldc, count)) return CUBLAS_STATUS_INVALID_VALUE;                                           \
    return run(h, [=, alpha = scalar(h, (const V*)alpha), beta = scalar(h, (const V*)beta)] {                                             \
      for (int i = 0; i < count; ++i)                                                                                                     \
        product<V>(m, n, k, alpha, Matrix<V>{(const V*)a + i * sa, lda, opa}, Matrix<V>{(const V*)b + i * sb, ldb, opb}, beta, (V*)c + i * sc, ldc); \
    });                                                                                                                                   \
  }                                                                                                                                       \
  cublasStatus_t cublas##S##gemm_v2(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc) { \
    return cublas##S##gemmStridedBatched(h, opa, opb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);                          \
  }
LOOM_CUBLAS_COMPLEX(C, Sc, c, cuComplex, float, CV)
LOOM_CUBLAS_COMPLEX(Z, Dz, z, cuDoubleComplex, double, ZV)
}
