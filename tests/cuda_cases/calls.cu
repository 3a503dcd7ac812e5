// Device functions that cannot be inlined: recursion, function pointers in a device table, virtual functions of
// objects made on the device; they read threadIdx through the calling thread's record.
#include "check.h"

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__device__ bool is_odd(int n);
__device__ __noinline__ bool is_even(int n) { return n == 0 || is_odd(n - 1); }
__device__ __noinline__ bool is_odd(int n) { return n != 0 && is_even(n - 1); }

__device__ int add_index(int a, int b) { return a + b + threadIdx.x; }
__device__ int multiply(int a, int b) { return a * b; }
typedef int (*Operation)(int, int);
__device__ Operation operations[2] = {add_index, multiply};

struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  float side;
  __device__ Square(float s) : side(s) {}
  __device__ float area() const override { return side * side; }
};
struct Strip : Shape {
  float length;
  __device__ Strip(float l) : length(l) {}
  __device__ float area() const override { return length * blockDim.x; }
};

// A struct passed by value that the kernel changes: every thread has its own copy.
struct Counter { int values[10]; };

__global__ void kernel(int* numbers, float* areas, int* counted, Counter counter) {
  __shared__ int tile[32];
  int t = threadIdx.x;
  tile[31 - t] = fibonacci(t % 12);
  __syncthreads();
  numbers[t] = tile[31 - t] + operations[t & 1](t, 3) + is_even(t);
  Shape* shape = t & 1 ? (Shape*)new Square(t) : (Shape*)new Strip(t);
  areas[t] = shape->area();
  delete shape;
  for (int i = 0; i <= t; ++i) counter.values[i % 10] += 1;
  __syncthreads();
  counted[t] = counter.values[t % 10];
}

int main() {
  int *numbers, *counted;
  float* areas;
  CUDA(cudaMalloc(&numbers, 128));
  CUDA(cudaMalloc(&counted, 128));
  CUDA(cudaMalloc(&areas, 128));
  Counter counter = {{5, 5, 5, 5, 5, 5, 5, 5, 5, 5}};
  kernel<<<1, 32>>>(numbers, areas, counted, counter);
  auto n = to_host(numbers, 32), c = to_host(counted, 32);
  auto a = to_host(areas, 32);
  int f[12] = {0, 1};
  for (int i = 2; i < 12; ++i) f[i] = f[i - 1] + f[i - 2];
  for (int t = 0; t < 32; ++t) {
    int expected = f[t % 12] + (t & 1 ? t * 3 : t + 3 + t) + (t % 2 == 0);
    EXPECT(n[t] == expected, "thread %d: %d, not %d", t, n[t], expected);
    EXPECT(a[t] == (t & 1 ? t * t : 32 * t), "thread %d: area %f", t, a[t]);
    EXPECT(c[t] == 5 + t / 10 + 1, "thread %d: counted %d", t, c[t]);
  }
  return wrong != 0;
}
