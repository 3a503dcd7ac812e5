// slow: 68 functions take long to compile; math_bounds_some.cu has some of them.
// Device mathematics stays within the error bounds that the CUDA programming guide states (units in the last place), measured
// against the host's long double over each function's range.
#include <cmath>

#include "check.h"

enum { count = 8192 };

#define UNARY(T, name)                                    \
  __global__ void T##_##name(const T* x, T* y, int n) {   \
    int i = blockIdx.x * blockDim.x + threadIdx.x;        \
    if (i < n) y[i] = name(x[i]);                         \
  }
#define BINARY(T, name)                                              \
  __global__ void T##_##name(const T* x, const T* z, T* y, int n) {  \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                   \
    if (i < n) y[i] = name(x[i], z[i]);                              \
  }
// Tables: function, exact value, range, allowed units in the last place. SOME: one of each kind of implementation.
#define SOME_FLOATS(F)                  \
  F(sqrtf, sqrtl, 1e-30, 1e30, 0.5001)  \
  F(expf, expl, -86, 88, 2)             \
  F(log2f, log2l, 1e-30, 1e30, 1)       \
  F(sinf, sinl, -1e4, 1e4, 2)           \
  F(erff, erfl, -4, 4, 2)               \
  F(lgammaf, lgammal, 3, 1e4, 6)
#define MORE_FLOATS(F)                   \
  F(rsqrtf, rsqrt_, 1e-30, 1e30, 2)      \
  F(cbrtf, cbrtl, -1e6, 1e6, 1)          \
  F(rcbrtf, rcbrt_, 1e-3, 1e6, 1)        \
  F(exp2f, exp2l, -125, 127, 2)          \
  F(exp10f, exp10_, -37, 38, 2)          \
  F(expm1f, expm1l, -10, 80, 1)          \
  F(logf, logl, 1e-30, 1e30, 1)          \
  F(log10f, log10l, 1e-30, 1e30, 2)      \
  F(log1pf, log1pl, -0.99, 1e6, 1)       \
  F(cosf, cosl, -1e4, 1e4, 2)            \
  F(tanf, tanl, -1e4, 1e4, 4)            \
  F(sinpif, sinpi_, -100, 100, 1)        \
  F(cospif, cospi_, -100, 100, 1)        \
  F(asinf, asinl, -1, 1, 2)              \
  F(acosf, acosl, -1, 1, 2)              \
  F(atanf, atanl, -100, 100, 2)          \
  F(sinhf, sinhl, -80, 80, 3)            \
  F(coshf, coshl, -80, 80, 2)            \
  F(tanhf, tanhl, -10, 10, 2)            \
  F(asinhf, asinhl, -1e4, 1e4, 3)        \
  F(acoshf, acoshl, 1, 1e6, 4)           \
  F(atanhf, atanhl, -0.999, 0.999, 3)    \
  F(erfcf, erfcl, -4, 9, 4)              \
  F(erfinvf, erfinv_, -0.999, 0.999, 2)  \
  F(erfcinvf, erfcinv_, 1e-6, 1.99, 4)   \
  F(erfcxf, erfcx_, -3, 100, 4)          \
  F(normcdff, normcdf_, -8, 8, 5)        \
  F(tgammaf, tgammal, 0.1, 30, 5)
#define SOME_DOUBLES(F)           \
  F(exp, expl, -700, 700, 1)      \
  F(log, logl, 1e-300, 1e300, 1)  \
  F(sin, sinl, -1e4, 1e4, 2)
#define MORE_DOUBLES(F)                  \
  F(sqrt, sqrtl, 1e-200, 1e200, 0.5001)  \
  F(rsqrt, rsqrt_, 1e-200, 1e200, 1)     \
  F(cbrt, cbrtl, -1e6, 1e6, 1)           \
  F(exp2, exp2l, -1000, 1000, 1)         \
  F(exp10, exp10_, -300, 300, 1)         \
  F(expm1, expm1l, -10, 500, 1)          \
  F(log2, log2l, 1e-300, 1e300, 1)       \
  F(log10, log10l, 1e-300, 1e300, 2)     \
  F(log1p, log1pl, -0.99, 1e6, 1)        \
  F(cos, cosl, -1e4, 1e4, 2)             \
  F(tan, tanl, -1e4, 1e4, 2)             \
  F(sinpi, sinpi_, -10, 10, 2)           \
  F(cospi, cospi_, -10, 10, 2)           \
  F(asin, asinl, -1, 1, 2)               \
  F(acos, acosl, -1, 1, 2)               \
  F(atan, atanl, -100, 100, 2)           \
  F(sinh, sinhl, -500, 500, 2)           \
  F(cosh, coshl, -500, 500, 1)           \
  F(tanh, tanhl, -10, 10, 1)             \
  F(asinh, asinhl, -1e4, 1e4, 3)         \
  F(acosh, acoshl, 1, 1e6, 3)            \
  F(atanh, atanhl, -0.999, 0.999, 2)     \
  F(erf, erfl, -4, 4, 2)                 \
  F(erfc, erfcl, -4, 20, 5)
#ifdef SOME
#define MORE(TABLE, F)
#else
#define MORE(TABLE, F) TABLE(F)
#endif
#define OF_FLOAT(name, exact, low, high, bound) UNARY(float, name)
#define OF_DOUBLE(name, exact, low, high, bound) UNARY(double, name)
SOME_FLOATS(OF_FLOAT)
MORE(MORE_FLOATS, OF_FLOAT)
SOME_DOUBLES(OF_DOUBLE)
MORE(MORE_DOUBLES, OF_DOUBLE)
BINARY(float, powf)
#ifndef SOME
BINARY(float, atan2f)
BINARY(float, hypotf)
BINARY(float, fmodf)
BINARY(double, pow)
BINARY(double, atan2)
BINARY(double, hypot)
#endif

typedef long double Real;
static const Real pi = 3.14159265358979323846264338327950288L;
static Real rsqrt_(Real x) { return 1 / sqrtl(x); }
static Real rcbrt_(Real x) { return 1 / cbrtl(x); }
static Real exp10_(Real x) { return powl(10, x); }
// Half periods are taken off exactly first: near the zeros the product with pi would not be exact enough.
static Real sinpi_(Real x) {
  Real halves = rintl(2 * x), r = pi * (x - halves / 2);
  int quarter = (int)fmodl(halves, 4) & 3;
  Real value = quarter & 1 ? cosl(r) : sinl(r);
  return quarter & 2 ? -value : value;
}
static Real cospi_(Real x) { return sinpi_(x + 0.5L); }
static Real erfcx_(Real x) { return x < 20 ? expl(x * x) * erfcl(x) : (1 - 1 / (2 * x * x) + 3 / (4 * x * x * x * x)) / (x * sqrtl(pi)); }
static Real normcdf_(Real x) { return erfcl(-x / sqrtl(2)) / 2; }
static Real inverse(Real (*f)(Real), Real low, Real high, Real value, bool rising) {
  for (int i = 0; i < 90; ++i) {
    Real middle = (low + high) / 2;
    ((f(middle) < value) == rising ? low : high) = middle;
  }
  return (low + high) / 2;
}
static Real erfinv_(Real y) { return inverse(erfl, -6, 6, y, true); }
static Real erfcinv_(Real y) { return inverse(erfcl, -6, 15, y, false); }

// Distance in units of the last place of a T near the exact value; zero and infinity must be met exactly.
template <class T> static double ulps(T got, Real exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : 1e30;
  T rounded = (T)exact;
  if (std::isinf(rounded)) return std::isinf(got) || std::fabs(got) >= std::numeric_limits<T>::max() ? 0 : 1e30;
  T magnitude = std::max(std::fabs(rounded), std::numeric_limits<T>::min());
  int exponent;
  std::frexp(magnitude, &exponent);
  Real unit = ldexpl(1, exponent - std::numeric_limits<T>::digits);
  return (double)(fabsl((Real)got - exact) / unit);
}

template <class T> static std::vector<T> spread(double low, double high) {
  std::vector<T> x(count);
  unsigned long long state = 88172645463325252ull;
  for (int i = 0; i < count; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    double u = (double)(state >> 11) / (double)(1ull << 53);
    x[i] = (T)(i % 4 || low <= 0 ? low + (high - low) * u : std::exp(std::log(low) + (std::log(high) - std::log(low)) * u));
    double quarters = std::round(4 * x[i]) / 4;  // where sines of multiples of pi are exactly zero
    if (i % 8 == 0 && low <= 0 && quarters != 0 && quarters >= low && quarters <= high) x[i] = (T)quarters;
  }
  return x;
}

template <class T, class Kernel, class Exact>
static void measure(const char* name, Kernel kernel, Exact exact, double low, double high, double bound) {
  std::vector<T> x = spread<T>(low, high);
  T *device_x = to_device(x), *y;
  CUDA(cudaMalloc(&y, count * sizeof(T)));
  kernel<<<count / 128, 128>>>(device_x, y, count);
  std::vector<T> got = to_host(y, count);
  double worst = 0;
  int where = 0;
  for (int i = 0; i < count; ++i)
    if (double error = ulps<T>(got[i], exact((Real)x[i])); error > worst) worst = error, where = i;
  EXPECT(worst <= bound, "%s(%.9g) = %.9g: %.2f ulp, allowed %.1f", name, (double)x[where], (double)got[where], worst, bound);
  cudaFree(device_x);
  cudaFree(y);
}
template <class T, class Kernel, class Exact>
static void measure2(const char* name, Kernel kernel, Exact exact, double low, double high, double low2, double high2, double bound) {
  std::vector<T> x = spread<T>(low, high), z = spread<T>(low2, high2);
  for (int i = 0; i < count / 2; ++i) std::swap(z[i], z[count - 1 - i]);
  T *device_x = to_device(x), *device_z = to_device(z), *y;
  CUDA(cudaMalloc(&y, count * sizeof(T)));
  kernel<<<count / 128, 128>>>(device_x, device_z, y, count);
  std::vector<T> got = to_host(y, count);
  for (int i = 0; i < count; ++i) {
    double error = ulps<T>(got[i], exact((Real)x[i], (Real)z[i]));
    EXPECT(error <= bound, "%s(%.9g, %.9g) = %.9g: %.2f ulp, allowed %.1f", name, (double)x[i], (double)z[i], (double)got[i], error, bound);
  }
}
#define MEASURE_FLOAT(name, exact, low, high, bound) \
  measure<float>(#name, float_##name, [](Real x) -> Real { return exact(x); }, low, high, bound);
#define MEASURE_DOUBLE(name, exact, low, high, bound) \
  measure<double>(#name, double_##name, [](Real x) -> Real { return exact(x); }, low, high, bound);

int main() {
  SOME_FLOATS(MEASURE_FLOAT)
  MORE(MORE_FLOATS, MEASURE_FLOAT)
  SOME_DOUBLES(MEASURE_DOUBLE)
  MORE(MORE_DOUBLES, MEASURE_DOUBLE)
  measure2<float>("powf", float_powf, [](Real x, Real y) { return powl(x, y); }, 0.01, 100, -15, 15, 4);
#ifndef SOME
  measure2<float>("atan2f", float_atan2f, [](Real x, Real y) { return atan2l(x, y); }, -10, 10, -10, 10, 3);
  measure2<float>("hypotf", float_hypotf, [](Real x, Real y) { return hypotl(x, y); }, -1e10, 1e10, -1e10, 1e10, 3);
  measure2<float>("fmodf", float_fmodf, [](Real x, Real y) { return fmodl(x, y); }, -1e3, 1e3, 0.1, 10, 0);
  measure2<double>("pow", double_pow, [](Real x, Real y) { return powl(x, y); }, 0.01, 100, -100, 100, 2);
  measure2<double>("atan2", double_atan2, [](Real x, Real y) { return atan2l(x, y); }, -10, 10, -10, 10, 2);
  measure2<double>("hypot", double_hypot, [](Real x, Real y) { return hypotl(x, y); }, -1e10, 1e10, -1e10, 1e10, 2);
#endif
  return wrong != 0;
}
