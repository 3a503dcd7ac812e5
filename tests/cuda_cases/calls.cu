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

/* Variables that no kernel names: the host reads them, and passes the function's address to a kernel. */
__device__ int negate(int a, int b) { return b - a; }
__device__ Operation chosen = negate;
__device__ int version = 7;
static __constant__ float bounds[2] = {1.5f, 2.5f};
__global__ void apply(Operation operation, int* out) { *out = operation(30, 72); }
static void check_host_only() {
  Operation operation = nullptr;
  int found = 0;
  float two[2] = {};
  int* out = to_device(std::vector<int>(1));
  CUDA(cudaMemcpyFromSymbol(&operation, chosen, sizeof operation));
  CUDA(cudaMemcpyFromSymbol(&found, version, sizeof found));
  CUDA(cudaMemcpyFromSymbol(two, bounds, sizeof two));
  EXPECT(found == 7 && two[0] == 1.5f && two[1] == 2.5f, "variables of the host: %d %f %f", found, two[0], two[1]);
  EXPECT(operation != nullptr, "a pointer");
  if (operation == nullptr) return;
  apply<<<1, 1>>>(operation, out);
  EXPECT(to_host(out, 1)[0] == 42, "by a pointer of the host: %d", to_host(out, 1)[0]);
}

int main() {
  check_host_only();
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
