#pragma once
#include <c10/cuda/CUDAException.h>
#include <c10/util/Exception.h>
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#define TORCH_CUDABLAS_CHECK(EXPR)                                                        \
  do {                                                                                    \
    auto loom_status = (EXPR);                                                            \
    TORCH_CHECK(loom_status == 0, "cuBLAS error ", (int)loom_status, " when calling " #EXPR); \
  } while (0)
