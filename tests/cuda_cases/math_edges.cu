// slow: Directed rounding where results are too large or too small, against the host's rounding modes; norms of several numbers;
// signs of zero; halves times bytes.
#include <cfenv>
#include <cmath>

#include "check.h"

#define OPERATIONS(F, down, up, zero)                                                                          \
  F(0, x + y, down##add_rd(x, y), up##add_ru(x, y), zero##add_rz(x, y))                                        \
  F(1, x - y, down##sub_rd(x, y), up##sub_ru(x, y), zero##sub_rz(x, y))                                        \
  F(2, x * y, down##mul_rd(x, y), up##mul_ru(x, y), zero##mul_rz(x, y))                                        \
  F(3, x / y, down##div_rd(x, y), up##div_ru(x, y), zero##div_rz(x, y))                                        \
  F(4, std::sqrt(x), down##sqrt_rd(x), up##sqrt_ru(x), zero##sqrt_rz(x))
enum { operations = 6 };

#define ON_DEVICE(op, exact, down, up, zero) r[3 * op] = down, r[3 * op + 1] = up, r[3 * op + 2] = zero;
__device__ void rounded(double x, double y, double* r) {
  OPERATIONS(ON_DEVICE, __d, __d, __d)
  r[15] = __fma_rd(x, y, 1.25), r[16] = __fma_ru(x, y, 1.25), r[17] = __fma_rz(x, y, 1.25);
}
__device__ void rounded(float x, float y, float* r) {
  OPERATIONS(ON_DEVICE, __f, __f, __f)
  r[15] = __fmaf_rd(x, y, 1.25f), r[16] = __fmaf_ru(x, y, 1.25f), r[17] = __fmaf_rz(x, y, 1.25f);
}
template <class T> __global__ void round_all(const T* x, T* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * n) rounded(x[i / n], x[i % n], out + 3 * operations * i);
}
#define ON_HOST(op, exact, down, up, zero) case op: return exact;
template <class T> T on_host(int op, volatile T x, volatile T y) {
  switch (op) { OPERATIONS(ON_HOST, , , ) }
  return std::fma((T)x, (T)y, (T)1.25);
}
template <class T> void directed(const std::vector<T>& x) {
  const int n = (int)x.size(), modes[] = {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
  T *device_x = to_device(x), *out;
  CUDA(cudaMalloc(&out, 3 * operations * n * n * sizeof(T)));
  round_all<<<(n * n + 63) / 64, 64>>>(device_x, out, n);
  auto r = to_host(out, 3 * operations * n * n);
  for (int i = 0; i < 3 * operations * n * n; ++i) {
    int op = i / 3 % operations;
    T a = x[i / (3 * operations) / n], b = x[i / (3 * operations) % n];
    fesetround(modes[i % 3]);
    T wanted = on_host(op, a, b);
    fesetround(FE_TONEAREST);
    EXPECT(r[i] == wanted || (std::isnan(r[i]) && std::isnan(wanted)), "operation %d of %a, %a, mode %d: %a, not %a", op, a, b, i % 3, r[i], wanted);
  }
}

__global__ void norms(const double* x, double* d, const float* y, float* f) {
  d[0] = norm3d(x[0], x[1], x[2]), d[1] = rnorm3d(x[0], x[1], x[2]), d[2] = norm4d(x[0], x[1], x[2], x[3]), d[3] = rnorm4d(x[0], x[1], x[2], x[3]);
  d[4] = norm(5, x), d[5] = rnorm(5, x), d[6] = rhypot(x[0], x[1]), d[7] = scalbln(x[0], 3L);
  f[0] = norm3df(y[0], y[1], y[2]), f[1] = rnorm3df(y[0], y[1], y[2]), f[2] = norm4df(y[0], y[1], y[2], y[3]), f[3] = rnorm4df(y[0], y[1], y[2], y[3]);
  f[4] = normf(5, y), f[5] = rnormf(5, y), f[6] = rhypotf(y[0], y[1]), f[7] = scalblnf(y[0], 3L);
}
template <class T> void check_norms(const std::vector<T>& got, const T* x) {
  long double sum = 0, sums[6];
  for (int i = 0; i < 5; ++i) sums[i] = sum, sum += (long double)x[i] * x[i];
  sums[5] = sum;
  const long double wanted[] = {sqrtl(sums[3]), 1 / sqrtl(sums[3]), sqrtl(sums[4]), 1 / sqrtl(sums[4]), sqrtl(sums[5]), 1 / sqrtl(sums[5]), 1 / sqrtl(sums[2]), 8.0L * x[0]};
  for (int i = 0; i < 8; ++i) {
    T unit = std::nextafter((T)wanted[i], (T)INFINITY) - (T)wanted[i];
    EXPECT(std::fabs(got[i] - wanted[i]) <= unit, "norm %d from %g: %.17g, not %.17Lg", i, x[0], got[i], wanted[i]);
  }
}

__global__ void others(double* d, int* i, unsigned* u, double zero, int halves, int bytes) {
  d[0] = sinpi(3 + zero), d[1] = sinpi(-2 + zero), d[2] = cospi(0.5 + zero), d[3] = cospi(1.5 + zero), d[4] = sinpif(1 + (float)zero), d[5] = cospif(-0.5f + (float)zero);
  double infinite[] = {zero, -1 / zero, zero / zero}, none[] = {zero, zero, zero / zero};
  d[6] = norm(3, infinite), d[7] = rnorm(3, infinite), d[8] = norm(3, none), d[9] = norm(2, none), d[10] = rnorm(2, none);
  i[0] = __dp2a_lo(halves, bytes, 5), i[1] = __dp2a_hi(halves, bytes, 5);
  u[0] = __dp2a_lo((unsigned)halves, (unsigned)bytes, 5u), u[1] = __dp2a_hi((unsigned)halves, (unsigned)bytes, 5u);
}

int main() {
  directed<double>({0, 1, -3, 0.1, -7e-5, 1.7976931348623157e308, -1.7e308, 5e-324, -3e-320, 2.3e-308, 1e-200, -1e-300, 1e160, INFINITY, NAN});
  directed<float>({0, 1, -3, 0.1f, -7e-5f, 3.4028235e38f, -3e38f, 1e-45f, -1e-40f, 1.2e-38f, 1e-30f, -1e20f, INFINITY, NAN});

  const double scales[] = {1, 1e300, 1e-300, 3e-310};
  for (double scale : scales) {
    std::vector<double> x = {3.1 * scale, -0.2 * scale, 1.7 * scale, 2.9 * scale, 1e-3 * scale}, d(8);
    std::vector<float> y = {3.1f, -0.2f, 1.7f, 2.9f, 1e-3f};
    for (float& v : y) v *= scale > 1 ? 1e37f : scale < 1 ? 1e-30f : 1;
    double *dx = to_device(x), *dd = to_device(d);
    float *dy = to_device(y), *df = to_device(std::vector<float>(8));
    norms<<<1, 1>>>(dx, dd, dy, df);
    if (scale > 1e-305) check_norms(to_host(dd, 8), x.data());
    else EXPECT(std::fabs(to_host(dd, 1)[0] / std::sqrt(3.1 * 3.1 + 0.2 * 0.2 + 1.7 * 1.7) - scale) < 1e-323, "norm of subnormal numbers");
    check_norms(to_host(df, 8), y.data());
  }

  double* d = to_device(std::vector<double>(11));
  int* i = to_device(std::vector<int>(2));
  unsigned* u = to_device(std::vector<unsigned>(2));
  others<<<1, 1>>>(d, i, u, 0.0, 0xfffe0003, 0x80ff7f02);  // halves 3, -2; bytes 2, 127, -1, -128
  auto r = to_host(d, 11);
  const double wanted[] = {0.0, -0.0, 0.0, 0.0, 0.0, 0.0, INFINITY, 0, NAN, 0, INFINITY};
  for (int k = 0; k < 11; ++k)
    EXPECT(std::isnan(wanted[k]) ? std::isnan(r[k]) : r[k] == wanted[k] && std::signbit(r[k]) == std::signbit(wanted[k]), "value %d: %g, not %g", k, r[k], wanted[k]);
  EXPECT(to_host(i, 2)[0] == 5 + 3 * 2 - 2 * 127 && to_host(i, 2)[1] == 5 + 3 * -1 - 2 * -128, "signed halves");
  EXPECT(to_host(u, 2)[0] == 5u + 3 * 2 + 0xfffeu * 127 && to_host(u, 2)[1] == 5u + 3 * 255 + 0xfffeu * 128, "unsigned halves");
  return wrong != 0;
}
