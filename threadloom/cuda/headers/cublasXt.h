/* cuBLAS-XT: products of matrices in host memory, which here is the device's. */
#pragma once
#include <cublas_v2.h>
typedef cublasHandle_t cublasXtHandle_t;
#if defined(__cplusplus)
#define LOOM_XT static inline cublasStatus_t
LOOM_XT cublasXtCreate(cublasXtHandle_t* handle) { return cublasCreate(handle); }
LOOM_XT cublasXtDestroy(cublasXtHandle_t handle) { return cublasDestroy(handle); }
LOOM_XT cublasXtDeviceSelect(cublasXtHandle_t, int count, int*) { return count == 1 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE; }
LOOM_XT cublasXtSetBlockDim(cublasXtHandle_t, int size) { return size > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE; }
LOOM_XT cublasXtSgemm(cublasXtHandle_t h, cublasOperation_t opa, cublasOperation_t opb, size_t m, size_t n, size_t k, const float* alpha, const float* a, size_t lda,
                      const float* b, size_t ldb, const float* beta, float* c, size_t ldc) {
  return cublasSgemm(h, opa, opb, (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}
LOOM_XT cublasXtDgemm(cublasXtHandle_t h, cublasOperation_t opa, cublasOperation_t opb, size_t m, size_t n, size_t k, const double* alpha, const double* a, size_t lda,
                      const double* b, size_t ldb, const double* beta, double* c, size_t ldc) {
  return cublasDgemm(h, opa, opb, (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}
#undef LOOM_XT
#endif
