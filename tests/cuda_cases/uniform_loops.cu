// slow; races; Barriers under uniform conditions: in a loop whose trip count is loaded from memory, nested with two conditional
// barriers, in doubly nested loops with an accumulator, and with `break` between two barriers.
#include "check.h"

// The trip count is loaded; the inner loop's depends on the thread.
__global__ void loaded_trip_count(const int* steps, int* out) {
  __shared__ int ring[64];
  int t = threadIdx.x, own = t;
  for (int s = 0; s < steps[blockIdx.x]; ++s) {
    if (steps[blockIdx.x] > 1) {
      ring[t] = own;
      __syncthreads();
      int next = ring[(t + 1) % 64];
      for (int k = 0; k < t % 3; ++k) next += k;
      __syncthreads();
      own = next;
    }
  }
  out[blockIdx.x * 64 + t] = own;
}

// Two conditional barriers in nested loops; values live across each.
__global__ void two_conditions(const int* flags, int* out) {
  __shared__ int tile[64];
  int t = threadIdx.x, sum = t * 10;
  for (int i = 0; i < 3; ++i) {
    int kept = sum + i;
    for (int j = 0; j < 4; ++j) {
      if (flags[i] > 0) {
        tile[t] = kept + j;
        __syncthreads();
        sum += tile[63 - t];
      }
      if (flags[j] > 1) {
        __syncthreads();
        tile[t] = sum;
        __syncthreads();
        sum += tile[t ^ 1] + kept;
      }
      __syncthreads();
    }
  }
  out[t] = sum;
}

// An accumulator over both of two loops with barriers: a tiled product of 32 x 32 matrices.
__global__ void tiled_product(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[8][8], tb[8][8];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, column = blockIdx.x * 8 + x;
  float sum = 0;
  for (int repeat = 0; repeat < 2; ++repeat)
    for (int tile = 0; tile < n / 8; ++tile) {
      ta[y][x] = a[row * n + tile * 8 + x];
      tb[y][x] = b[(tile * 8 + y) * n + column];
      __syncthreads();
      for (int k = 0; k < 8; ++k) sum += ta[y][k] * tb[k][x];
      __syncthreads();
    }
  c[row * n + column] = sum;
}

// `break` between the two barriers of a loop, as in iterated stencils.
__global__ void stencil(const int* in, int* out, int rounds) {
  __shared__ int previous[64], result[64];
  int t = threadIdx.x;
  previous[t] = in[t];
  __syncthreads();
  for (int i = 0; i < rounds; ++i) {
    int left = previous[t ? t - 1 : 0], right = previous[t < 63 ? t + 1 : 63];
    int least = left < right ? left : right;
    result[t] = (least < previous[t] ? least : previous[t]) + t % 5;
    __syncthreads();
    if (i == rounds - 1) break;
    previous[t] = result[t];
    __syncthreads();
  }
  out[t] = result[t];
}

static void check_loaded_trip_count() {
  std::vector<int> steps = {0, 1, 2, 7};
  int* device_steps = to_device(steps);
  int* out;
  CUDA(cudaMalloc(&out, 256 * sizeof(int)));
  loaded_trip_count<<<4, 64>>>(device_steps, out);
  auto got = to_host(out, 256);
  for (int b = 0; b < 4; ++b) {
    std::vector<int> own(64), next(64);
    for (int t = 0; t < 64; ++t) own[t] = t;
    for (int s = 0; s < steps[b] && steps[b] > 1; ++s) {
      for (int t = 0; t < 64; ++t) next[t] = own[(t + 1) % 64] + (t % 3 == 2 ? 1 : 0);
      own = next;
    }
    for (int t = 0; t < 64; ++t) EXPECT(got[b * 64 + t] == own[t], "block %d thread %d: %d, not %d", b, t, got[b * 64 + t], own[t]);
  }
}

static void check_two_conditions() {
  std::vector<int> flags = {1, 0, 2, 2};
  int *device_flags = to_device(flags), *out;
  CUDA(cudaMalloc(&out, 64 * sizeof(int)));
  two_conditions<<<1, 64>>>(device_flags, out);
  auto got = to_host(out, 64);
  std::vector<int> sum(64), kept(64), tile(64);
  for (int t = 0; t < 64; ++t) sum[t] = t * 10;
  for (int i = 0; i < 3; ++i) {
    for (int t = 0; t < 64; ++t) kept[t] = sum[t] + i;
    for (int j = 0; j < 4; ++j) {
      if (flags[i] > 0) {
        for (int t = 0; t < 64; ++t) tile[t] = kept[t] + j;
        for (int t = 0; t < 64; ++t) sum[t] += tile[63 - t];
      }
      if (flags[j] > 1) {
        for (int t = 0; t < 64; ++t) tile[t] = sum[t];
        for (int t = 0; t < 64; ++t) sum[t] += tile[t ^ 1] + kept[t];
      }
    }
  }
  for (int t = 0; t < 64; ++t) EXPECT(got[t] == sum[t], "thread %d: %d, not %d", t, got[t], sum[t]);
}

static void check_tiled_product() {
  const int n = 32;
  std::vector<float> a(n * n), b(n * n);
  for (int i = 0; i < n * n; ++i) a[i] = i % 7 - 3, b[i] = i % 5 - 2;
  float *da = to_device(a), *db = to_device(b), *dc;
  CUDA(cudaMalloc(&dc, n * n * sizeof(float)));
  tiled_product<<<dim3(n / 8, n / 8), dim3(8, 8)>>>(da, db, dc, n);
  auto c = to_host(dc, n * n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum += 2 * a[i * n + k] * b[k * n + j];
      EXPECT(c[i * n + j] == sum, "(%d, %d): %f, not %f", i, j, c[i * n + j], sum);
    }
}

static void check_stencil() {
  for (int rounds : {1, 2, 9}) {
    std::vector<int> in(64), now(64), next(64);
    for (int t = 0; t < 64; ++t) now[t] = in[t] = t * 37 % 50;
    int *device_in = to_device(in), *out;
    CUDA(cudaMalloc(&out, 64 * sizeof(int)));
    stencil<<<1, 64>>>(device_in, out, rounds);
    auto got = to_host(out, 64);
    for (int i = 0; i < rounds; ++i) {
      for (int t = 0; t < 64; ++t) {
        int left = now[t ? t - 1 : 0], right = now[t < 63 ? t + 1 : 63], least = left < right ? left : right;
        next[t] = (least < now[t] ? least : now[t]) + t % 5;
      }
      now = next;
    }
    for (int t = 0; t < 64; ++t) EXPECT(got[t] == now[t], "%d rounds, thread %d: %d, not %d", rounds, t, got[t], now[t]);
  }
}

// No barrier between the loops that fill the rows and add along them, though there are others: warps of a GPU go through
// the first about equally fast.
struct Rows { float* sums; };
__global__ void forgotten_barrier(const Rows* rows, const float* in, int n) {
  for (int i = threadIdx.x; i < 16 * n; i += blockDim.x) rows->sums[i] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < 16 * n; i += blockDim.x) rows->sums[i] = in[i] - rows->sums[i];
  for (int row = threadIdx.x; row < n; row += blockDim.x)
    for (int i = 1; i < 16; ++i) rows->sums[row + i * n] += rows->sums[row + (i - 1) * n];
  __syncthreads();
}

int main() {
  std::vector<float> ones(16 * 24, 1.0f);
  Rows sums{to_device(std::vector<float>(16 * 24, 5.0f))};
  forgotten_barrier<<<1, 64>>>(to_device(std::vector<Rows>{sums}), to_device(ones), 24);
  std::vector<float> added = to_host(sums.sums, 16 * 24);
  for (int i = 0; i < 16 * 24; ++i) EXPECT(added[i] == i / 24 + 1, "element %d is %f", i, added[i]);
  check_loaded_trip_count();
  check_two_conditions();
  check_tiled_product();
  check_stencil();
  return wrong != 0;
}
