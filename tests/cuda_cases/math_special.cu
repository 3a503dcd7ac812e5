// slow; Special functions stay within the bounds of the CUDA programming guide (units in the last place), also where double
// arithmetic would lose digits: in tails, near zeros and between their expansions. Measured against the host's long double.
#include <cmath>

#include "check.h"

typedef long double Real;
static Real erfcx_(Real x) {
  if (x < 20) return expl(x * x) * erfcl(x);
  Real fraction = x;  // Laplace's continued fraction
  for (int k = 60; k > 0; --k) fraction = x + k / 2.0L / fraction;
  return 1 / (sqrtl(acosl(-1)) * fraction);
}
static Real normcdf_(Real x) { return erfcl(-x / sqrtl(2)) / 2; }
static Real inverse(Real (*f)(Real), Real low, Real high, Real value, bool rising) {
  for (int i = 0; i < 100; ++i) {
    Real middle = (low + high) / 2;
    ((f(middle) < value) == rising ? low : high) = middle;
  }
  return (low + high) / 2;
}
static Real erfinv_(Real y) { return inverse(erfl, -6, 6, y, true); }
static Real erfcinv_(Real y) { return y > 0.5L ? erfinv_(1 - y) : inverse(erfcl, -6, 27, y, false); }
static Real normcdfinv_(Real p) { return -sqrtl(2) * erfcinv_(2 * p); }
static Real rcbrt_(Real x) { return 1 / cbrtl(x); }
static Real jn_(Real x) { return jnl(2, x); }
static Real yn_(Real x) { return ynl(2, x); }
static Real i0_(Real x) {
  Real term = 1, sum = 0;
  for (int k = 1; k < 600; ++k) sum += term, term *= x * x / 4 / k / k;
  return sum;
}
static Real i1_(Real x) {
  Real term = x / 2, sum = 0;
  for (int k = 1; k < 600; ++k) sum += term, term *= x * x / 4 / k / (k + 1);
  return sum;
}

// number, function, its call, exact value, range, bounds of float and double
#define FUNCTIONS(F)                                                          \
  F(0, rcbrt, (x), rcbrt_, 1e-3, 1e6, 1, 1)                                   \
  F(1, erfinv, (x), erfinv_, -0.9999, 0.9999, 2, 5)                           \
  F(2, erfcinv, (x), erfcinv_, 1e-9, 1.999, 4, 6)                             \
  F(3, erfcx, (x), erfcx_, -5, 40, 4, 4)                                      \
  F(4, normcdf, (x), normcdf_, -12, 8, 5, 5)                                  \
  F(5, normcdfinv, (x), normcdfinv_, 1e-9, 0.999, 5, 8)                       \
  F(6, tgamma, (x), tgammal, 0.1, 30, 5, 10)                                  \
  F(7, lgamma, (x), lgammal, 3, 1e4, 6, 4)                                    \
  F(8, cyl_bessel_i0, (x), i0_, -80, 80, 6, 6)                                \
  F(9, cyl_bessel_i1, (x), i1_, -80, 80, 6, 6)                                \
  F(10, j0, (x), j0l, 0.01, 7.9, 9, 7)                                        \
  F(11, j1, (x), j1l, 0.01, 7.9, 9, 7)                                        \
  F(12, y0, (x), y0l, 0.01, 7.9, 9, 7)                                        \
  F(13, y1, (x), y1l, 0.01, 7.9, 9, 7)                                        \
  F(14, jn, (2, x), jn_, 0.1, 7.9, 9, 7)                                      \
  F(15, yn, (2, x), yn_, 0.1, 7.9, 9, 7)                                      \
  F(16, tgamma, (x), tgammal, -5.49, 0.1, 5, 10)                              \
  F(17, lgamma, (x), lgammal, 0.01, 3, 6, 4)                                  \
  F(18, lgamma, (x), lgammal, -60, -24, 6, 4)

#define OF_FLOAT(number, name, call, exact, low, high, of_float, of_double) case number: return name##f call;
#define OF_DOUBLE(number, name, call, exact, low, high, of_float, of_double) case number: return name call;
__device__ float value(int function, float x) {
  switch (function) { FUNCTIONS(OF_FLOAT) }
  return 0;
}
__device__ double value(int function, double x) {
  switch (function) { FUNCTIONS(OF_DOUBLE) }
  return 0;
}
template <class T> __global__ void values(int function, const T* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = value(function, x[i]);
}

// `bound`: of units in the last place, or, where `absolute`, of the difference.
template <class T>
void measure(int function, const char* name, Real (*exact)(Real), double low, double high, double bound, bool absolute = false) {
  const int n = 4000;
  std::vector<T> x(n);
  for (int i = 0; i < n; ++i) {
    double u = std::fmod(i * 0.6180339887498949, 1.0);
    x[i] = (T)(i % 3 || low <= 0 ? low + (high - low) * u : low * std::pow(high / low, u));
  }
  T *device_x = to_device(x), *y;
  CUDA(cudaMalloc(&y, n * sizeof(T)));
  values<<<(n + 127) / 128, 128>>>(function, device_x, y, n);
  auto got = to_host(y, n);
  double worst = 0;
  int at = 0;
  for (int i = 0; i < n; ++i) {
    Real wanted = exact(x[i]);
    T near = std::fabs((T)wanted);
    double off = (double)(fabsl(got[i] - wanted) / (absolute ? 1 : std::nextafter(near, (T)INFINITY) - near));
    if (!(off <= worst)) worst = off, at = i;
  }
  EXPECT(worst <= bound, "%s of %s: %g units at %.17g: %.17g, not %.17Lg", name, sizeof(T) == 4 ? "float" : "double", worst, x[at], got[at], exact(x[at]));
}

int main() {
#define MEASURE(number, name, call, exact, low, high, of_float, of_double) \
  measure<float>(number, #name, exact, low, high, of_float);               \
  measure<double>(number, #name, exact, low, high, of_double);
  FUNCTIONS(MEASURE)
  struct { int number; const char* name; Real (*exact)(Real); } far[] = {{10, "j0", j0l}, {11, "j1", j1l}, {12, "y0", y0l}, {13, "y1", y1l},
                                                                         {14, "jn", jn_}, {15, "yn", yn_}};
  for (auto& one : far) {
    measure<float>(one.number, one.name, one.exact, 8, 1000, 2.2e-6, true);
    measure<double>(one.number, one.name, one.exact, 8, 1000, 5e-12, true);
  }
  return wrong != 0;
}
