/* CUB's macros for return codes and sizes. */
#pragma once
#include <cstdio>
#include <cstdlib>
#include <loom/prelude.h>
namespace cub {
static inline cudaError_t Debug(cudaError_t error, const char* file, int line) {
  if (error != cudaSuccess) fprintf(stderr, "CUDA error %d [%s, %d]: %s\n", (int)error, file, line, cudaGetErrorString(error));
  return error;
}
}  // namespace cub
#define CubDebug(e) ::cub::Debug((cudaError_t)(e), __FILE__, __LINE__)
#define CubDebugExit(e) if (::cub::Debug((cudaError_t)(e), __FILE__, __LINE__) != cudaSuccess) { exit(1); }
#define CUB_PREVENT_MACRO_SUBSTITUTION
#define CUB_QUOTIENT_FLOOR(x, y) ((x) / (y))
#define CUB_QUOTIENT_CEILING(x, y) (((x) + (y) - 1) / (y))
#define CUB_ROUND_UP_NEAREST(x, y) ((((x) + (y) - 1) / (y)) * (y))
