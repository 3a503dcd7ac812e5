#pragma once
#include <c10/macros/Macros.h>
#define C10_CUDA_API
#define C10_CUDA_EXPORT
#define C10_CUDA_IMPORT
#define TORCH_CUDA_CPP_API
#define TORCH_CUDA_CU_API
