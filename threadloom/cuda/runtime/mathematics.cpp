// Mathematics for device code that libm lacks or has less exactly than CUDA. Doubles are computed in long double, which has more
// bits wherever we run, so that the rounding at the end is nearly all of the error; floats in double would do, and use the same.
#include <algorithm>
#include <cmath>

namespace {
typedef long double Real;
constexpr Real root_half = 0.707106781186547524400844362104849039L, root_two_pi = 2.50662827463100050241576528481104525L;

Real scaled_erfc(Real x) {
  if (!(x >= 25)) return std::exp(x * x) * std::erfc(x);
  Real term = 1, sum = 0;  // asymptotic: erfc underflows far out
  for (int k = 1; k <= 12; ++k) sum += term, term *= -(2 * k - 1) / (2 * x * x);
  return 0.564189583547756286948079451560772586L / x * sum;
}

// Where the normal distribution is 1/2 + q; `tail` is the smaller of that and its rest to 1, `q` and `tail` exact.
// Acklam's rational start, then steps of Halley's method.
Real normal_quantile(Real exact_q, Real exact_tail) {
  static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02, 1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00};
  static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01, -1.328068155288572e+01};
  static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00, -2.549732539343734e+00, 4.374664141464968e+00, 2.938163982698783e+00};
  static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
  double x, tail = (double)exact_tail;
  if (tail < 0.02425) {
    double q = std::sqrt(-2 * std::log(tail));
    x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) / ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    if (exact_q > 0) x = -x;
  } else {
    double q = (double)exact_q, r = q * q;
    x = (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q / (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
  }
  Real result = x;
  for (int step = 0; step < 3; ++step) {
    Real error = std::fabs(exact_q) < 0.25L ? std::erf(result * root_half) / 2 - exact_q
                 : exact_q < 0              ? std::erfc(-result * root_half) / 2 - exact_tail
                                            : exact_tail - std::erfc(result * root_half) / 2;
    Real u = error * root_two_pi * std::exp(result * result / 2);
    result -= u / (1 + result * u / 2);
  }
  return result;
}
Real quantile(Real q, Real tail) {
  if (!(tail >= 0)) return NAN;
  if (tail == 0) return q < 0 ? -INFINITY : INFINITY;
  return normal_quantile(q, tail);
}

Real bessel_i(int order, Real x) {
  Real half = std::fabs(x) / 2, sum = 0;
  if (half < 20) {
    Real term = order ? half : 1;
    for (int k = 1; k < 400 && term > sum * 1e-21L; ++k) {
      sum += term;
      term *= half * half / (k * (Real)(k + order));
    }
  } else {  // asymptotic expansion
    Real mu = 4 * order * order, term = 1;
    for (int k = 1; k < 40; ++k) {
      sum += term;
      Real next = -term * (mu - (2 * k - 1) * (2 * k - 1)) / (k * 8 * 2 * half);
      if (std::fabs(next) > std::fabs(term)) break;
      term = next;
    }
    sum *= std::exp(2 * half) / std::sqrt(4 * M_PIl * half);
  }
  return order && x < 0 ? -sum : sum;
}
}  // namespace

extern "C" {
double erfcx(double x) { return (double)scaled_erfc(x); }
float erfcxf(float x) { return (float)scaled_erfc(x); }
double normcdf(double x) { return (double)(std::erfc(-x * root_half) / 2); }
float normcdff(float x) { return (float)normcdf(x); }
double normcdfinv(double p) { return (double)quantile((Real)p - 0.5L, std::min<Real>(p, 1 - (Real)p)); }
float normcdfinvf(float p) { return (float)normcdfinv(p); }
double erfcinv(double y) { return (double)(-quantile(((Real)y - 1) / 2, std::min<Real>(y, 2 - (Real)y) / 2) * root_half); }
float erfcinvf(float y) { return (float)erfcinv(y); }
double erfinv(double y) { return y == 0 ? y : (double)(quantile((Real)y / 2, (1 - std::fabs((Real)y)) / 2) * root_half); }
float erfinvf(float y) { return (float)erfinv(y); }
double cyl_bessel_i0(double x) { return (double)bessel_i(0, x); }
float cyl_bessel_i0f(float x) { return (float)bessel_i(0, x); }
double cyl_bessel_i1(double x) { return (double)bessel_i(1, x); }
float cyl_bessel_i1f(float x) { return (float)bessel_i(1, x); }

// Of Bessel's functions libm has the double ones only as differences of large numbers near their zeros.
double __loom_j0(double x) { return (double)j0l(x); }
double __loom_j1(double x) { return (double)j1l(x); }
double __loom_jn(int n, double x) { return (double)jnl(n, x); }
double __loom_y0(double x) { return (double)y0l(x); }
double __loom_y1(double x) { return (double)y1l(x); }
double __loom_yn(int n, double x) { return (double)ynl(n, x); }
float __loom_j0f(float x) { return (float)j0(x); }
float __loom_j1f(float x) { return (float)j1(x); }
float __loom_jnf(int n, float x) { return (float)jn(n, x); }
float __loom_y0f(float x) { return (float)y0(x); }
float __loom_y1f(float x) { return (float)y1(x); }
float __loom_ynf(int n, float x) { return (float)yn(n, x); }
}
