// slow; Launches of the default stream that wait for one another only where data crosses: results as of one by one. flags: -Xcompiler -pthread
#include "check.h"

#include <thread>
#include <vector>

#define SAME(condition) EXPECT(condition, "differs")
constexpr int n = 3000;

// Reads another block's elements, so launches on the same memory must not overlap.
__global__ void turn(int* to, const int* from, int step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[n - 1 - i] + step;
}
__global__ void skewed(int* x, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i];
  for (int k = 0; k < (blockIdx.x == 0 ? 2000 : 1); ++k) v += by;  // the first block is slow
  x[i] = v;
}
struct Pair {
  int* x;
  int by;
};
__global__ void add(Pair pair) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) pair.x[i] += pair.by;
}
__global__ void through(int** table, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) table[0][i] += by;
}
int* ints(int value) {
  int* p;
  std::vector<int> data(n, value);
  cudaMalloc(&p, n * sizeof(int));
  cudaMemcpy(p, data.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  return p;
}
std::vector<int> read(const int* p) {
  std::vector<int> data(n);
  cudaMemcpy(data.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost);
  return data;
}

void dependent_chains() {
  int *a = ints(0), *b = ints(0), *c = ints(0);
  std::vector<int> host_a(n), host_b(n);
  for (int i = 0; i < n; ++i) host_a[i] = i;
  cudaMemcpy(a, host_a.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  for (int step = 0; step < 300; ++step) {  // more launches than a batch takes
    turn<<<(n + 63) / 64, 64>>>(b, a, step);
    skewed<<<(n + 127) / 128, 128>>>(c, 1);
    turn<<<(n + 255) / 256, 256>>>(a, b, 1);
    for (int i = 0; i < n; ++i) host_b[i] = host_a[n - 1 - i] + step;
    for (int i = 0; i < n; ++i) host_a[i] = host_b[n - 1 - i] + 1;
  }
  SAME(read(a) == host_a);
  SAME(read(b) == host_b);
  std::vector<int> counted = read(c);
  for (int i = 0; i < n; ++i) SAME(counted[i] == 300 * (i < 128 ? 2000 : 1));
}

void parts_of_one_allocation() {
  int* all;
  cudaMalloc(&all, 2 * n * sizeof(int));
  cudaMemset(all, 0, 2 * n * sizeof(int));
  for (int k = 0; k < 50; ++k) {
    skewed<<<(n + 63) / 64, 64>>>(all, 1);
    turn<<<(n + 63) / 64, 64>>>(all + n, all, k);
  }
  std::vector<int> second = read(all + n);
  for (int i = 0; i < n; ++i) SAME(second[i] == 50 * (n - 1 - i < 64 ? 2000 : 1) + 49);
}

void pointers_elsewhere() {
  int *x = ints(1), **table;
  cudaMalloc(&table, sizeof(int*));
  cudaMemcpy(table, &x, sizeof(int*), cudaMemcpyHostToDevice);
  int* managed;
  cudaMallocManaged(&managed, n * sizeof(int));
  for (int i = 0; i < n; ++i) managed[i] = 0;
  for (int k = 0; k < 20; ++k) {
    add<<<(n + 63) / 64, 64>>>(Pair{x, 2});
    through<<<(n + 63) / 64, 64>>>(table, 3);
    add<<<(n + 63) / 64, 64>>>(Pair{managed, 1});
  }
  cudaDeviceSynchronize();
  for (int i = 0; i < n; ++i) SAME(managed[i] == 20);
  SAME(read(x)[7] == 101);
}

void other_streams_and_events() {
  int* x = ints(0);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaEvent_t event;
  cudaEventCreate(&event);
  for (int k = 0; k < 30; ++k) {
    add<<<(n + 63) / 64, 64>>>(Pair{x, 1});
    skewed<<<(n + 63) / 64, 64>>>(x, 1);
    add<<<(n + 63) / 64, 64, 0, stream>>>(Pair{x, 1});
    add<<<(n + 63) / 64, 64>>>(Pair{x, 1});
  }
  cudaEventRecord(event);
  SAME(cudaEventQuery(event) == cudaSuccess);
  SAME(cudaStreamQuery(0) == cudaSuccess);
  SAME(read(x)[n - 1] == 30 * 4);
  cudaStreamDestroy(stream);
}

void host_threads() {
  std::vector<std::thread> threads;
  std::vector<int> bad(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&bad, t] {
      int* x = ints(0);
      for (int round = 1; round <= 10; ++round) {
        for (int k = 0; k < 7; ++k) skewed<<<(n + 63) / 64, 64>>>(x, 1);
        cudaDeviceSynchronize();
        bad[t] += x[n - 1] != 7 * round || x[0] != 14000 * round;  // all memory is the host's
      }
    });
  for (auto& thread : threads) thread.join();
  for (int one : bad) SAME(one == 0);
}

// Between launches whose threads stay with their own elements nobody waits; with other blocks, or one element on, they do.
__global__ void twice(int* y, const int* x) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
void own_elements() {
  int *x = ints(1), *y = ints(0), *z = ints(0);
  for (int k = 0; k < 40; ++k) {
    skewed<<<(n + 127) / 128, 128>>>(x, 1);
    twice<<<(n + 127) / 128, 128>>>(y, x);
    twice<<<(n + 127) / 128, 128>>>(z, y);
    add<<<(n + 255) / 256, 256>>>(Pair{z, 1});
    twice<<<(n + 63) / 64, 128>>>(y, z);
    skewed<<<(n + 127) / 128, 128>>>(x, 1);
    turn<<<(n + 127) / 128, 128>>>(z, y, 0);
  }
  std::vector<int> a = read(x), b = read(y), c = read(z);
  for (int i = 0; i < n; ++i) {
    int before = 1 + (39 * (i < 128 ? 4000 : 2)) + (i < 128 ? 2000 : 1);
    SAME(a[i] == 1 + 40 * (i < 128 ? 4000 : 2));
    SAME(b[i] == 2 * (4 * before + 1));
    SAME(c[n - 1 - i] == b[i]);
  }
}

int main() {
  dependent_chains();
  parts_of_one_allocation();
  pointers_elsewhere();
  other_streams_and_events();
  host_threads();
  own_elements();
  return wrong != 0;
}
