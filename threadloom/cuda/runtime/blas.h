// What the files of cuBLAS share.
#pragma once
#include <algorithm>
#include <cublas_v2.h>

#include "runtime.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t mode = CUBLAS_POINTER_MODE_HOST;
};

namespace loom::blas {
template <class F> cublasStatus_t run(cublasHandle_t h, F f) {
  if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
  return loom::enqueue_and_wait(h->stream, f) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
// A factor: of the host, as it is at the call; of the device, as what comes before in the stream leaves it.
template <class T> struct Scalar {
  const T* of_device;
  T of_host;
  operator T() const { return of_device ? *of_device : of_host; }
};
template <class T> Scalar<T> scalar(cublasHandle_t h, const T* p) {
  bool device = h && h->mode == CUBLAS_POINTER_MODE_DEVICE;
  return {device ? p : nullptr, device || !p ? T() : *p};
}
// Element i of a vector with stride; BLAS counts from the far end where the stride is negative.
template <class T> T* at(T* x, int inc, int n, int i) { return x + (long)(inc < 0 ? i - (n - 1) : i) * inc; }

// Whether a product's sizes can be: each leading dimension at least the rows that are stored.
inline bool possible(cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, int lda, int ldb, int ldc, int count = 1) {
  int rows_a = opa == CUBLAS_OP_N ? m : k, rows_b = opb == CUBLAS_OP_N ? k : n;
  return m >= 0 && n >= 0 && k >= 0 && count >= 0 && lda >= std::max(1, rows_a) && ldb >= std::max(1, rows_b) && ldc >= std::max(1, m);
}

template <class T>
void gemm(bool ta, bool tb, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc);
}  // namespace loom::blas
