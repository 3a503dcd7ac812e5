// slow; races; Device lambdas with captures, and functions that cannot be inlined: recursive, virtual, in tables of pointers.
#include "check.h"

template <class F> __global__ void each(int* out, int n, F f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = f(i);
}
namespace lib {
template <class F, class G> __global__ void both(float* out, F f, G g) { out[threadIdx.x] = f(g(threadIdx.x)); }
template <class F> void run(int* out, int n, F f) { each<<<(n + 31) / 32, 32>>>(out, n, f); }
}  // namespace lib

__device__ int add(int a, int b) { return a + b + threadIdx.x; }
static __device__ int times(int a, int b) { return a * b; }
template <class T> __device__ T less(T a, T b) { return a - b; }
typedef int (*Op)(int, int);
__device__ Op table[] = {add, times, less<int>};
__device__ float halved(float x, bool whole) { return whole ? x : x / 2; }
__device__ float (*chosen)(float, bool) = halved;
__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual float area() const = 0;
  __device__ virtual int corners() const { return 0; }
};
struct Square : Shape {
  float side;
  __device__ Square(float side) : side(side) {}
  __device__ float area() const override { return side * side; }
  __device__ int corners() const override { return 4; }
};
struct Disc : Shape {
  float r;
  __device__ Disc(float r) : r(r) {}
  __device__ float area() const override { return 3 * r * r; }
};
struct Node { const Node* next; int value; };
__device__ int total(const Node* n) { return n ? n->value + total(n->next) : 0; }
__device__ void fill(int* at, int n) {
  if (n > 0) *at = n * 10 + blockIdx.x, fill(at + 1, n - 1);
}

__global__ void recursive(int* out) {
  Node last = {nullptr, 7}, first = {&last, (int)threadIdx.x};
  out[threadIdx.x] = fib(threadIdx.x) * 1000 + total(&first);
  __syncthreads();
  if (threadIdx.x == 0) fill(out + 12, 4);
}
__global__ void through(int* out, Op op, int which) { out[threadIdx.x] = op(which, 3) + 1000 * table[(which + threadIdx.x) % 3](5, 6); }
__global__ void shapes(float* out) {
  Square a(threadIdx.x + 1.0f);
  Disc b(threadIdx.x + 2.0f);
  const Shape* s = threadIdx.x & 1 ? (const Shape*)&a : &b;
  out[threadIdx.x] = s->area() + 1000 * s->corners() + chosen(threadIdx.x, threadIdx.x > 2);
}

static void check_lambdas() {
  int *out, n = 40;
  float *f, scale = 2.5f;
  short odd = 3;
  double big = 1e3;
  CUDA(cudaMallocManaged(&out, 64 * sizeof(int)));
  CUDA(cudaMallocManaged(&f, 8 * sizeof(float)));
  each<<<2, 32>>>(out, n, [] __device__(int x) { return x + 1; });
  cudaDeviceSynchronize();
  for (int i = 0; i < n; ++i) EXPECT(out[i] == i + 1, "without captures: %d", out[i]);
  each<<<2, 32>>>(out, n, [=] __device__(int x) { return (int)(x * odd + big + scale); });
  cudaDeviceSynchronize();
  for (int i = 0; i < n; ++i) EXPECT(out[i] == 3 * i + 1002, "captures: %d", out[i]);
  auto cube = [=] __host__ __device__(int x) -> int { return x * x * x; };
  lib::run(out, n, cube);
  cudaDeviceSynchronize();
  for (int i = 0; i < n; ++i) EXPECT(out[i] == cube(i), "of both sides: %d", out[i]);
  lib::run(out, n, [out] __device__(int x) mutable { return out[50] = 7, less(2 * x, 1); });
  cudaDeviceSynchronize();
  for (int i = 0; i < n; ++i) EXPECT(out[i] == 2 * i - 1 && out[50] == 7, "mutable: %d", out[i]);
  lib::both<<<1, 8>>>(f, [scale] __device__(float x) { return x * scale; }, [] __device__(int i) { return i + 0.5f; });
  cudaDeviceSynchronize();
  for (int i = 0; i < 8; ++i) EXPECT(f[i] == (i + 0.5f) * 2.5f, "two: %g", f[i]);
}

static int apply(int which, int a, int b, int thread) { return which == 0 ? a + b + thread : which == 1 ? a * b : a - b; }

int main() {
  check_lambdas();
  int* out;
  float* f;
  CUDA(cudaMallocManaged(&out, 16 * sizeof(int)));
  CUDA(cudaMallocManaged(&f, 6 * sizeof(float)));
  recursive<<<1, 12>>>(out);
  cudaDeviceSynchronize();
  for (int i = 0, a = 0, b = 1; i < 12; ++i, b += a, a = b - a) EXPECT(out[i] == a * 1000 + i + 7, "recursive %d: %d", i, out[i]);
  EXPECT(out[12] == 40 && out[15] == 10, "filled: %d %d", out[12], out[15]);
  for (int which = 0; which < 3; ++which) {
    Op op;
    CUDA(cudaMemcpyFromSymbol(&op, table, sizeof op, which * sizeof op));
    through<<<1, 6>>>(out, op, which);
    cudaDeviceSynchronize();
    for (int i = 0; i < 6; ++i) {
      int wanted = apply(which, which, 3, i) + 1000 * apply((which + i) % 3, 5, 6, i);
      EXPECT(out[i] == wanted, "through pointers: %d, not %d", out[i], wanted);
    }
  }
  shapes<<<1, 6>>>(f);
  cudaDeviceSynchronize();
  for (int i = 0; i < 6; ++i) {
    float area = i & 1 ? (i + 1.0f) * (i + 1.0f) + 4000 : 3 * (i + 2.0f) * (i + 2.0f);
    EXPECT(f[i] == area + (i > 2 ? i : i / 2.0f), "virtual %d: %g", i, f[i]);
  }
  return wrong != 0;
}
