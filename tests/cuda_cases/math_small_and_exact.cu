// slow; What math_bounds.cu and math_special.cu leave out. Functions of half and bfloat16, of every value there is: correctly
// rounded but for one in a thousand. Norms, and the fast functions of float, within the bounds of the CUDA programming guide.
// Functions that CUDA has exactly: bit for bit those of the host. Measured against the host's long double.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <type_traits>

#include "check.h"

typedef long double Real;

// ---- half and bfloat16: number, function, exact value
static Real rsqrt_(Real x) { return 1 / sqrtl(x); }
static Real rcp_(Real x) { return 1 / x; }
static Real exp10_(Real x) { return powl(10, x); }
#define SMALL(F)                                                                                               \
  F(0, hsqrt, sqrtl) F(1, hrsqrt, rsqrt_) F(2, hrcp, rcp_) F(3, hexp, expl) F(4, hexp2, exp2l)                 \
  F(5, hexp10, exp10_) F(6, hlog, logl) F(7, hlog2, log2l) F(8, hlog10, log10l) F(9, hsin, sinl)               \
  F(10, hcos, cosl) F(11, htanh, tanhl) F(12, hfloor, floorl) F(13, hceil, ceill) F(14, htrunc, truncl)        \
  F(15, hrint, rintl)
template <class H> __device__ H small_value(int function, H x) {
  switch (function) {
#define CASE(number, name, exact) case number: return name(x);
    SMALL(CASE)
#undef CASE
  }
  return x;
}
template <class H> __global__ void small_values(int function, H* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned short bits = (unsigned short)i;
  H x;
  memcpy(&x, &bits, 2);
  y[i] = small_value(function, x);
}
// Units in the last place of a format with so many digits, least exponent and largest number.
static double small_error(float got, Real wanted, int digits, int least, Real largest) {
  if (std::isnan(wanted)) return std::isnan(got) ? 0 : 1e30;
  int exponent;
  frexpl(wanted, &exponent);
  Real unit = ldexpl(1, std::max(exponent, least) - digits);
  if (std::isinf(got)) return fabsl(wanted) >= largest + 0.49L * ldexpl(1, (int)log2l(largest) + 1 - digits) && (got > 0) == (wanted > 0) ? 0 : 1e30;
  return (double)(fabsl(got - wanted) / unit);
}
template <class H> static void check_small(const char* type, int digits, int least, Real largest) {
  H* y;
  CUDA(cudaMalloc(&y, 65536 * sizeof(H)));
  auto measure = [&](int function, const char* name, Real (*exact)(Real)) {
    small_values<H><<<512, 128>>>(function, y);
    std::vector<H> got = to_host(y, 65536);
    double worst = 0;
    float at = 0;
    for (int i = 0; i < 65536; ++i) {
      unsigned short bits = (unsigned short)i;
      H x;
      memcpy(&x, &bits, 2);
      double error = small_error((float)got[i], exact((float)x), digits, least, largest);
      if (error > worst) worst = error, at = (float)x;
    }
    EXPECT(worst <= 0.501, "%s of %s(%.9g): %.4f units", name, type, at, worst);
  };
#define MEASURE(number, name, exact) measure(number, #name, exact);
  SMALL(MEASURE)
#undef MEASURE
  cudaFree(y);
}

// ---- of two, three and four numbers
static Real norm_(Real a, Real b, Real c, Real d) { return sqrtl(a * a + b * b + c * c + d * d); }
#define NORMS(F, s)                                                                                                  \
  F(0, hypot##s(a, b), norm_(a, b, 0, 0), 3, 2) F(1, rhypot##s(a, b), 1 / norm_(a, b, 0, 0), 2, 1)                   \
  F(2, norm3d##s(a, b, c), norm_(a, b, c, 0), 3, 2) F(3, rnorm3d##s(a, b, c), 1 / norm_(a, b, c, 0), 2, 1)           \
  F(4, norm4d##s(a, b, c, d), norm_(a, b, c, d), 3, 2) F(5, rnorm4d##s(a, b, c, d), 1 / norm_(a, b, c, d), 2, 1)     \
  F(6, norm##s(4, all), norm_(a, b, c, d), 4, 4) F(7, rnorm##s(4, all), 1 / norm_(a, b, c, d), 4, 4)
#define CASE(number, call, exact, of_float, of_double) case number: return call;
__device__ float norms(int function, float a, float b, float c, float d) {
  float all[] = {a, b, c, d};
  switch (function) { NORMS(CASE, f) }
  return 0;
}
__device__ double norms(int function, double a, double b, double c, double d) {
  double all[] = {a, b, c, d};
  switch (function) { NORMS(CASE, ) }
  return 0;
}
#undef CASE
enum { count = 4096 };
template <class T> __global__ void all_norms(int function, const T* x, T* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = norms(function, x[i], x[(i + 1) % count], x[(i + 2) % count], x[(i + 3) % count]);
}
template <class T> static double units(T got, Real wanted) {
  T near = std::fabs((T)wanted);
  return (double)(fabsl(got - wanted) / (std::nextafter(near, (T)INFINITY) - near));
}
template <class T> static void check_norms() {
  std::vector<T> x(count);
  for (int i = 0; i < count; ++i) x[i] = (T)std::ldexp(0.5 + std::fmod(i * 0.6180339887498949, 0.5), i % 7 * (sizeof(T) == 4 ? 30 : 300) / 7 - 20);
  T *device_x = to_device(x), *y;
  CUDA(cudaMalloc(&y, count * sizeof(T)));
#define MEASURE(number, call, exact, of_float, of_double)                                               \
  {                                                                                                     \
    all_norms<T><<<count / 128, 128>>>(number, device_x, y);                                            \
    std::vector<T> got = to_host(y, count);                                                             \
    for (int i = 0; i < count; ++i) {                                                                   \
      Real a = x[i], b = x[(i + 1) % count], c = x[(i + 2) % count], d = x[(i + 3) % count];            \
      (void)c, (void)d;                                                                                 \
      double error = units<T>(got[i], exact);                                                           \
      EXPECT(error <= (sizeof(T) == 4 ? of_float : of_double), "%s: %.2f units", #call, error);         \
    }                                                                                                   \
  }
  NORMS(MEASURE, )
#undef MEASURE
}

// ---- fast functions of float: number, call, exact value, range, units allowed, and how far off it may be instead
#define FAST(F)                                                                                         \
  F(0, __expf(x), expl(x), -80, 80, 2 + floor(fabs(1.173 * x)), 0)                                      \
  F(1, __exp10f(x), powl(10, x), -30, 30, 2 + floor(fabs(2.97 * x)), 0)                                 \
  F(2, __logf(x), logl(x), 1e-30, 1e30, 3, std::pow(2, -21.41))                                         \
  F(3, __log2f(x), log2l(x), 1e-30, 1e30, 2, std::pow(2, -22))                                          \
  F(4, __log10f(x), log10l(x), 1e-30, 1e30, 3, std::pow(2, -24))                                        \
  F(5, __sinf(x), sinl(x), -3.14159, 3.14159, 0, std::pow(2, -21.41))                                   \
  F(6, __cosf(x), cosl(x), -3.14159, 3.14159, 0, std::pow(2, -21.19))                                   \
  F(7, __tanf(x), tanl(x), -1.5, 1.5, 1e4, 0)                                                           \
  F(8, __powf(1.75f, x), powl(1.75L, x), -50, 50, 4 + fabs(2 * x), 0)                                   \
  F(9, __fdividef(1.75f, x), 1.75L / x, 1e-30, 1e30, 2, 0)                                              \
  F(10, __frcp_rn(x), 1 / (Real)x, 1e-30, 1e30, 0.5001, 0)                                              \
  F(11, __fsqrt_rn(x), sqrtl(x), 1e-30, 1e30, 0.5001, 0)                                                \
  F(12, __frsqrt_rn(x), 1 / sqrtl(x), 1e-30, 1e30, 0.5001, 0)
__global__ void fast(int function, const float* in, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = in[i];
  switch (function) {
#define CASE(number, call, exact, low, high, bound, absolute) case number: y[i] = call; break;
    FAST(CASE)
#undef CASE
  }
}
static void check_fast() {
  std::vector<float> in(count);
  float* y;
  CUDA(cudaMalloc(&y, count * sizeof(float)));
  auto spread = [&](double low, double high) {
    for (int i = 0; i < count; ++i) {
      double u = std::fmod(i * 0.6180339887498949, 1.0);
      in[i] = (float)(low > 0 ? i % 4 ? low * std::pow(high / low, u) : 0.5 + 1.5 * u : low + (high - low) * u);
    }
  };
#define MEASURE(number, call, exact, low, high, bound, absolute)                                                          \
  {                                                                                                                       \
    spread(low, high);                                                                                                    \
    float* device_x = to_device(in);                                                                                      \
    fast<<<count / 128, 128>>>(number, device_x, y);                                                                      \
    std::vector<float> got = to_host(y, count);                                                                           \
    for (int i = 0; i < count; ++i) {                                                                                     \
      Real x = in[i], wanted = exact;                                                                                     \
      double error = units<float>(got[i], wanted);                                                                        \
      EXPECT(error <= (bound) || fabsl(got[i] - wanted) <= (absolute), "%s of %.9g: %.2f units", #call, in[i], error);    \
    }                                                                                                                     \
    cudaFree(device_x);                                                                                                   \
  }
  FAST(MEASURE)
#undef MEASURE
}

// ---- exactly the host's
#define EXACT(F, s)                                                                                                              \
  F(0, fmod##s(x, y)) F(1, remainder##s(x, y)) F(2, fma##s(x, y, x)) F(3, modf##s(x, &whole) + 2 * whole) F(4, frexp##s(x, &e) + e) \
  F(5, logb##s(x)) F(6, ilogb##s(x)) F(7, ldexp##s(x, 5)) F(8, scalbn##s(x, -7)) F(9, scalbln##s(x, 9l)) F(10, rint##s(x))       \
  F(11, round##s(x)) F(12, trunc##s(x)) F(13, floor##s(x)) F(14, ceil##s(x)) F(15, nearbyint##s(x)) F(16, fdim##s(x, y))         \
  F(17, nextafter##s(x, y)) F(18, copysign##s(x, y)) F(19, fmax##s(x, y)) F(20, fmin##s(x, y)) F(21, fabs##s(x))                 \
  F(22, remquo##s(x, y, &e) + (e & 7)) F(23, lrint##s(x)) F(24, llround##s(x)) F(25, lround##s(x)) F(26, llrint##s(x))           \
  F(27, sqrt##s(fabs##s(x)))
#define CASE(number, call) case number: return call;
__host__ __device__ float exactly(int function, float x, float y) {
  float whole;
  int e;
  switch (function) { EXACT(CASE, f) }
  return 0;
}
__host__ __device__ double exactly(int function, double x, double y) {
  double whole;
  int e;
  switch (function) { EXACT(CASE, ) }
  return 0;
}
template <class T> __global__ void all_exact(int function, const T* x, const T* y, T* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = exactly(function, x[i], y[i]);
}
template <class T> static void check_exact() {
  std::vector<T> x(count), y(count);
  for (int i = 0; i < count; ++i) {
    double u = std::fmod(i * 0.6180339887498949, 1.0), sign = i % 3 ? 1 : -1;
    x[i] = (T)(i % 5 == 0 ? sign * (i / 2 % 64) / 2 : sign * std::ldexp(1 + u, i % 60 - 20));
    y[i] = (T)(i % 7 == 0 ? -1.25 : std::ldexp(1 + std::fmod(3 * u, 1.0), i % 11 - 5));
  }
  T *device_x = to_device(x), *device_y = to_device(y), *out;
  CUDA(cudaMalloc(&out, count * sizeof(T)));
  for (int function = 0; function <= 27; ++function) {
    all_exact<T><<<count / 128, 128>>>(function, device_x, device_y, out);
    std::vector<T> got = to_host(out, count);
    for (int i = 0; i < count; ++i) {
      T wanted = exactly(function, x[i], y[i]);
      EXPECT(memcmp(&wanted, &got[i], sizeof(T)) == 0 || (std::isnan(wanted) && std::isnan(got[i])), "function %d of %.17g and %.17g: %.17g, not %.17g",
             function, (double)x[i], (double)y[i], (double)got[i], (double)wanted);
    }
  }
}

// ---- two results at once
__global__ void pairs(const double* x, double* y, float* z) {
  int i = threadIdx.x;
  sincos(x[i], y + 4 * i, y + 4 * i + 1), sincospi(x[i], y + 4 * i + 2, y + 4 * i + 3);
  sincosf((float)x[i], z + 4 * i, z + 4 * i + 1), sincospif((float)x[i], z + 4 * i + 2, z + 4 * i + 3);
}
static void check_pairs() {
  std::vector<double> x(256);
  for (int i = 0; i < 256; ++i) x[i] = (float)(i * 0.3701 - 39.997);
  double *device_x = to_device(x), *y;
  float* z;
  CUDA(cudaMalloc(&y, 1024 * sizeof(double)));
  CUDA(cudaMalloc(&z, 1024 * sizeof(float)));
  pairs<<<1, 256>>>(device_x, y, z);
  std::vector<double> got = to_host(y, 1024);
  std::vector<float> of_float = to_host(z, 1024);
  for (int i = 0; i < 256; ++i) {
    Real turn = acosl(-1) * remainderl(x[i], 2), wanted[] = {sinl(x[i]), cosl(x[i]), sinl(turn), cosl(turn)};
    for (int k = 0; k < 4; ++k) {
      EXPECT(units<double>(got[4 * i + k], wanted[k]) <= 2, "%d of %.17g: %.17g", k, x[i], got[4 * i + k]);
      EXPECT(units<float>(of_float[4 * i + k], wanted[k]) <= 2, "%d of float %.9g: %.9g", k, x[i], of_float[4 * i + k]);
    }
  }
}

int main() {
  check_small<__half>("half", 11, -13, 65504);
  check_small<__nv_bfloat16>("bfloat16", 8, -125, 3.3895313892515355e38L);
  check_norms<float>();
  check_norms<double>();
  check_fast();
  check_exact<float>();
  check_exact<double>();
  check_pairs();
  return wrong != 0;
}
