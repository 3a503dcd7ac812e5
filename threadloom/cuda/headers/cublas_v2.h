/* cuBLAS: levels 1 and 2, matrix products, and the copying helpers; column-major as there. */
#pragma once
#define CUBLAS_API_H_
#include <cuComplex.h>
#include <cuda_fp16.h>
#include <library_types.h>
#include <loom/prelude.h>
typedef enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED = 3, CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8, CUBLAS_STATUS_MAPPING_ERROR = 11, CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14, CUBLAS_STATUS_NOT_SUPPORTED = 15, CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;
typedef enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C } cublasOperation_t;
typedef enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER, CUBLAS_FILL_MODE_FULL } cublasFillMode_t;
typedef enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT } cublasDiagType_t;
typedef enum cublasSideMode_t { CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT } cublasSideMode_t;
typedef enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE } cublasPointerMode_t;
typedef enum cublasMath_t { CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH, CUBLAS_PEDANTIC_MATH, CUBLAS_TF32_TENSOR_OP_MATH } cublasMath_t;
typedef enum cublasAtomicsMode_t { CUBLAS_ATOMICS_NOT_ALLOWED, CUBLAS_ATOMICS_ALLOWED } cublasAtomicsMode_t;
typedef enum cublasComputeType_t {
  CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_16F_PEDANTIC = 65, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_PEDANTIC = 69, CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75, CUBLAS_COMPUTE_32F_FAST_TF32 = 77, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_64F_PEDANTIC = 71, CUBLAS_COMPUTE_32I = 72,
  CUBLAS_COMPUTE_32I_PEDANTIC = 73
} cublasComputeType_t;
typedef enum cublasGemmAlgo_t { CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DFALT_TENSOR_OP = 99, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 } cublasGemmAlgo_t;
typedef cudaDataType cublasDataType_t;
typedef struct cublasContext* cublasHandle_t;
LOOM_EXTERN_C_BEGIN
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int* version);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream);
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
const char* cublasGetStatusString(cublasStatus_t status);
const char* cublasGetStatusName(cublasStatus_t status);
cublasStatus_t cublasSetVector(int n, int size, const void* x, int incx, void* y, int incy);
cublasStatus_t cublasGetVector(int n, int size, const void* x, int incx, void* y, int incy);
cublasStatus_t cublasSetMatrix(int rows, int columns, int size, const void* a, int lda, void* b, int ldb);
cublasStatus_t cublasGetMatrix(int rows, int columns, int size, const void* a, int lda, void* b, int ldb);
#define LOOM_CUBLAS(S, T, I)                                                                                                              \
  cublasStatus_t cublas##S##axpy_v2(cublasHandle_t h, int n, const T* alpha, const T* x, int incx, T* y, int incy);                       \
  cublasStatus_t cublas##S##scal_v2(cublasHandle_t h, int n, const T* alpha, T* x, int incx);                                             \
  cublasStatus_t cublas##S##copy_v2(cublasHandle_t h, int n, const T* x, int incx, T* y, int incy);                                       \
  cublasStatus_t cublas##S##swap_v2(cublasHandle_t h, int n, T* x, int incx, T* y, int incy);                                             \
  cublasStatus_t cublas##S##dot_v2(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy, T* result);                       \
  cublasStatus_t cublas##S##nrm2_v2(cublasHandle_t h, int n, const T* x, int incx, T* result);                                            \
  cublasStatus_t cublas##S##asum_v2(cublasHandle_t h, int n, const T* x, int incx, T* result);                                            \
  cublasStatus_t cublasI##I##amax_v2(cublasHandle_t h, int n, const T* x, int incx, int* result);                                         \
  cublasStatus_t cublasI##I##amin_v2(cublasHandle_t h, int n, const T* x, int incx, int* result);                                         \
  cublasStatus_t cublas##S##gemv_v2(cublasHandle_t h, cublasOperation_t op, int m, int n, const T* alpha, const T* a, int lda, const T* x, int incx, const T* beta, T* y, int incy); \
  cublasStatus_t cublas##S##ger_v2(cublasHandle_t h, int m, int n, const T* alpha, const T* x, int incx, const T* y, int incy, T* a, int lda); \
  cublasStatus_t cublas##S##gemm_v2(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc); \
  cublasStatus_t cublas##S##gemmStridedBatched(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const T* alpha, const T* a, int lda, long long stride_a, const T* b, int ldb, long long stride_b, const T* beta, T* c, int ldc, long long stride_c, int count); \
  cublasStatus_t cublas##S##gemmBatched(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const T* alpha, const T* const a[], int lda, const T* const b[], int ldb, const T* beta, T* const c[], int ldc, int count); \
  cublasStatus_t cublas##S##getrfBatched(cublasHandle_t h, int n, T* const a[], int lda, int* pivots, int* info, int count);              \
  cublasStatus_t cublas##S##geam(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, const T* alpha, const T* a, int lda, const T* beta, const T* b, int ldb, T* c, int ldc);
LOOM_CUBLAS(S, float, s)
LOOM_CUBLAS(D, double, d)
#undef LOOM_CUBLAS
#define LOOM_CUBLAS_MATRICES(S, T)                                                                                                         \
  cublasStatus_t cublas##S##symv_v2(cublasHandle_t h, cublasFillMode_t fill, int n, const T* alpha, const T* a, int lda, const T* x, int incx, const T* beta, T* y, int incy); \
  cublasStatus_t cublas##S##syr_v2(cublasHandle_t h, cublasFillMode_t fill, int n, const T* alpha, const T* x, int incx, T* a, int lda);  \
  cublasStatus_t cublas##S##trmv_v2(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag, int n, const T* a, int lda, T* x, int incx); \
  cublasStatus_t cublas##S##trsv_v2(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag, int n, const T* a, int lda, T* x, int incx); \
  cublasStatus_t cublas##S##symm_v2(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, int m, int n, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc); \
  cublasStatus_t cublas##S##syrk_v2(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op, int n, int k, const T* alpha, const T* a, int lda, const T* beta, T* c, int ldc); \
  cublasStatus_t cublas##S##syr2k_v2(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op, int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc); \
  cublasStatus_t cublas##S##trsm_v2(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag, int m, int n, const T* alpha, const T* a, int lda, T* b, int ldb); \
  cublasStatus_t cublas##S##trmm_v2(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag, int m, int n, const T* alpha, const T* a, int lda, const T* b, int ldb, T* c, int ldc); \
  cublasStatus_t cublas##S##dgmm(cublasHandle_t h, cublasSideMode_t side, int m, int n, const T* a, int lda, const T* x, int incx, T* c, int ldc);
LOOM_CUBLAS_MATRICES(S, float)
LOOM_CUBLAS_MATRICES(D, double)
LOOM_CUBLAS_MATRICES(C, cuComplex)
LOOM_CUBLAS_MATRICES(Z, cuDoubleComplex)
#undef LOOM_CUBLAS_MATRICES
cublasStatus_t cublasSrot_v2(cublasHandle_t h, int n, float* x, int incx, float* y, int incy, const float* c, const float* s);
cublasStatus_t cublasDrot_v2(cublasHandle_t h, int n, double* x, int incx, double* y, int incy, const double* c, const double* s);
#define LOOM_CUBLAS_COMPLEX(S, RS, T, R)                                                                                                   \
  cublasStatus_t cublas##S##axpy_v2(cublasHandle_t h, int n, const T* alpha, const T* x, int incx, T* y, int incy);                       \
  cublasStatus_t cublas##S##scal_v2(cublasHandle_t h, int n, const T* alpha, T* x, int incx);                                             \
  cublasStatus_t cublas##S##copy_v2(cublasHandle_t h, int n, const T* x, int incx, T* y, int incy);                                       \
  cublasStatus_t cublas##S##swap_v2(cublasHandle_t h, int n, T* x, int incx, T* y, int incy);                                             \
  cublasStatus_t cublas##S##dotu_v2(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy, T* result);                      \
  cublasStatus_t cublas##S##dotc_v2(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy, T* result);                      \
  cublasStatus_t cublas##RS##nrm2_v2(cublasHandle_t h, int n, const T* x, int incx, R* result);                                           \
  cublasStatus_t cublas##RS##asum_v2(cublasHandle_t h, int n, const T* x, int incx, R* result);                                           \
  cublasStatus_t cublas##S##gemv_v2(cublasHandle_t h, cublasOperation_t op, int m, int n, const T* alpha, const T* a, int lda, const T* x, int incx, const T* beta, T* y, int incy); \
  cublasStatus_t cublas##S##gemm_v2(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc); \
  cublasStatus_t cublas##S##gemmStridedBatched(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const T* alpha, const T* a, int lda, long long stride_a, const T* b, int ldb, long long stride_b, const T* beta, T* c, int ldc, long long stride_c, int count);
LOOM_CUBLAS_COMPLEX(C, Sc, cuComplex, float)
LOOM_CUBLAS_COMPLEX(Z, Dz, cuDoubleComplex, double)
#undef LOOM_CUBLAS_COMPLEX
cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const void* alpha, const void* a, cudaDataType type_a, int lda,
                            const void* b, cudaDataType type_b, int ldb, const void* beta, void* c, cudaDataType type_c, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const void* alpha, const void* a,
                                          cudaDataType type_a, int lda, long long stride_a, const void* b, cudaDataType type_b, int ldb, long long stride_b, const void* beta,
                                          void* c, cudaDataType type_c, int ldc, long long stride_c, int count, cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const float* alpha, const void* a, cudaDataType type_a, int lda,
                             const void* b, cudaDataType type_b, int ldb, const float* beta, void* c, cudaDataType type_c, int ldc);
cublasStatus_t cublasHgemm(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const __half* alpha, const __half* a, int lda, const __half* b,
                           int ldb, const __half* beta, __half* c, int ldc);
cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const __half* alpha, const __half* a, int lda,
                                         long long stride_a, const __half* b, int ldb, long long stride_b, const __half* beta, __half* c, int ldc, long long stride_c, int count);
LOOM_EXTERN_C_END
#if defined(__cplusplus)
/* Before CUDA 11 the type of the sums was a data type. */
static inline cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const void* alpha, const void* a,
                                          cudaDataType type_a, int lda, const void* b, cudaDataType type_b, int ldb, const void* beta, void* c, cudaDataType type_c, int ldc,
                                          cudaDataType compute, cublasGemmAlgo_t algorithm) {
  cublasComputeType_t type = compute == CUDA_R_16F ? CUBLAS_COMPUTE_16F : compute == CUDA_R_64F ? CUBLAS_COMPUTE_64F : compute == CUDA_R_32I ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F;
  return cublasGemmEx(h, opa, opb, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, type, algorithm);
}
#endif
#define cublasCreate cublasCreate_v2
#define cublasDestroy cublasDestroy_v2
#define cublasGetVersion cublasGetVersion_v2
#define cublasSetStream cublasSetStream_v2
#define cublasGetStream cublasGetStream_v2
#define cublasSetPointerMode cublasSetPointerMode_v2
#define cublasSaxpy cublasSaxpy_v2
#define cublasDaxpy cublasDaxpy_v2
#define cublasSscal cublasSscal_v2
#define cublasDscal cublasDscal_v2
#define cublasScopy cublasScopy_v2
#define cublasDcopy cublasDcopy_v2
#define cublasSswap cublasSswap_v2
#define cublasDswap cublasDswap_v2
#define cublasSdot cublasSdot_v2
#define cublasDdot cublasDdot_v2
#define cublasSnrm2 cublasSnrm2_v2
#define cublasDnrm2 cublasDnrm2_v2
#define cublasSasum cublasSasum_v2
#define cublasDasum cublasDasum_v2
#define cublasIsamax cublasIsamax_v2
#define cublasIdamax cublasIdamax_v2
#define cublasIsamin cublasIsamin_v2
#define cublasIdamin cublasIdamin_v2
#define cublasSgemv cublasSgemv_v2
#define cublasDgemv cublasDgemv_v2
#define cublasSger cublasSger_v2
#define cublasDger cublasDger_v2
#define cublasSgemm cublasSgemm_v2
#define cublasDgemm cublasDgemm_v2
#define cublasGetPointerMode cublasGetPointerMode_v2
#define cublasSsymv cublasSsymv_v2
#define cublasDsymv cublasDsymv_v2
#define cublasCsymv cublasCsymv_v2
#define cublasZsymv cublasZsymv_v2
#define cublasSsyr cublasSsyr_v2
#define cublasDsyr cublasDsyr_v2
#define cublasCsyr cublasCsyr_v2
#define cublasZsyr cublasZsyr_v2
#define cublasStrmv cublasStrmv_v2
#define cublasDtrmv cublasDtrmv_v2
#define cublasCtrmv cublasCtrmv_v2
#define cublasZtrmv cublasZtrmv_v2
#define cublasStrsv cublasStrsv_v2
#define cublasDtrsv cublasDtrsv_v2
#define cublasCtrsv cublasCtrsv_v2
#define cublasZtrsv cublasZtrsv_v2
#define cublasSsymm cublasSsymm_v2
#define cublasDsymm cublasDsymm_v2
#define cublasCsymm cublasCsymm_v2
#define cublasZsymm cublasZsymm_v2
#define cublasSsyrk cublasSsyrk_v2
#define cublasDsyrk cublasDsyrk_v2
#define cublasCsyrk cublasCsyrk_v2
#define cublasZsyrk cublasZsyrk_v2
#define cublasSsyr2k cublasSsyr2k_v2
#define cublasDsyr2k cublasDsyr2k_v2
#define cublasCsyr2k cublasCsyr2k_v2
#define cublasZsyr2k cublasZsyr2k_v2
#define cublasStrsm cublasStrsm_v2
#define cublasDtrsm cublasDtrsm_v2
#define cublasCtrsm cublasCtrsm_v2
#define cublasZtrsm cublasZtrsm_v2
#define cublasStrmm cublasStrmm_v2
#define cublasDtrmm cublasDtrmm_v2
#define cublasCtrmm cublasCtrmm_v2
#define cublasZtrmm cublasZtrmm_v2
#define cublasSrot cublasSrot_v2
#define cublasDrot cublasDrot_v2
#define cublasCaxpy cublasCaxpy_v2
#define cublasZaxpy cublasZaxpy_v2
#define cublasCscal cublasCscal_v2
#define cublasZscal cublasZscal_v2
#define cublasCcopy cublasCcopy_v2
#define cublasZcopy cublasZcopy_v2
#define cublasCswap cublasCswap_v2
#define cublasZswap cublasZswap_v2
#define cublasCdotu cublasCdotu_v2
#define cublasZdotu cublasZdotu_v2
#define cublasCdotc cublasCdotc_v2
#define cublasZdotc cublasZdotc_v2
#define cublasCgemv cublasCgemv_v2
#define cublasZgemv cublasZgemv_v2
#define cublasCgemm cublasCgemm_v2
#define cublasZgemm cublasZgemm_v2
#define cublasScnrm2 cublasScnrm2_v2
#define cublasDznrm2 cublasDznrm2_v2
#define cublasScasum cublasScasum_v2
#define cublasDzasum cublasDzasum_v2
