/* Names of cuBLASLt that programs mention without using it; its products are not there (cublas_v2.h has cuBLAS's). */
#pragma once
#include <cublas_v2.h>
typedef struct cublasLtContext* cublasLtHandle_t;
