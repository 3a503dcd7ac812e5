// Times `multiply`, checks some elements in double, and prints "seconds GFLOP/s" of the fastest of some runs.
#include <cmath>

static float *device_a, *device_b, *device_c;
void prepare(const float* a, const float* b, int n);
void multiply(int n);
void fetch(float* c, int n);

int main(int count, char** words) {
  int n = count > 1 ? atoi(words[1]) : 512, runs = count > 2 ? atoi(words[2]) : 5;
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; ++i) a[i] = (i * 7 % 13) * 0.25f - 1, b[i] = (i * 5 % 11) * 0.125f - 0.5f;
  prepare(a.data(), b.data(), n);
  double best = 1e30;
  for (int run = 0; run <= runs; ++run) {  // the first one warms up
    auto start = std::chrono::steady_clock::now();
    multiply(n);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (run && seconds < best) best = seconds;
  }
  fetch(c.data(), n);
  for (int at = 0; at < n * n; at += 997) {
    double exact = 0, size = 0;
    for (int k = 0; k < n; ++k) exact += (double)a[at / n * n + k] * b[k * n + at % n], size += std::fabs(a[at / n * n + k] * b[k * n + at % n]);
    if (std::fabs(c[at] - exact) > 6e-8 * std::sqrt((double)n) * 4 * size + 1e-6) return printf("wrong at %d: %g, not %g\n", at, c[at], exact), 1;
  }
  printf("%.9f %.3f\n", best, 2e-9 * n * n * n / best);
}
