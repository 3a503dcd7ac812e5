// slow; Threads beyond n return at the top; the rest goes through barriers, votes and a loop left by return.
#include "check.h"

__global__ void guarded(const int* in, int* out, int* votes, int n) {
  __shared__ int tile[128];
  int t = threadIdx.x;
  if (t >= n) return;
  tile[t] = in[t];
  __syncthreads();
  int value = tile[n - 1 - t];
  votes[t] = __popc(__ballot_sync(__activemask(), value > 0));
  __syncthreads();
  for (int i = 0; i < 5; ++i) {
    if (value + i == 13) {
      out[t] = -i;
      return;
    }
  }
  out[t] = value;
}

int main() {
  for (int n : {1, 31, 64, 100, 128}) {
    std::vector<int> in(128);
    for (int t = 0; t < 128; ++t) in[t] = t * 5 % 23 - 4;
    int *device_in = to_device(in), *out, *votes;
    CUDA(cudaMalloc(&out, 128 * sizeof(int)));
    CUDA(cudaMalloc(&votes, 128 * sizeof(int)));
    guarded<<<1, 128>>>(device_in, out, votes, n);
    auto got = to_host(out, n), counted = to_host(votes, n);
    for (int t = 0; t < n; ++t) {
      int value = in[n - 1 - t], expected = value, positive = 0;
      for (int i = 4; i >= 0; --i)
        if (value + i == 13) expected = -i;
      EXPECT(got[t] == expected, "n %d thread %d: %d, not %d", n, t, got[t], expected);
      for (int lane = t / 32 * 32; lane < n && lane < t / 32 * 32 + 32; ++lane) positive += in[n - 1 - lane] > 0;
      EXPECT(counted[t] == positive, "n %d thread %d: %d votes, not %d", n, t, counted[t], positive);
    }
  }
  return wrong != 0;
}
