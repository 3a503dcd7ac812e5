/* thrust::complex: a pair of reals with arithmetic and the elementary functions, on host and device. */
#pragma once
#include <cmath>
#include <complex>
#include <istream>
#include <ostream>

#define LOOM_COMPLEX template <typename T> __host__ __device__ inline

namespace thrust {

template <typename T>
struct complex {
  using value_type = T;
  __host__ __device__ complex(const T& re = T(), const T& im = T()) : re_(re), im_(im) {}
  template <typename U>
  __host__ __device__ complex(const complex<U>& other) : re_(T(other.real())), im_(T(other.imag())) {}
  template <typename U>
  __host__ complex(const std::complex<U>& other) : re_(T(other.real())), im_(T(other.imag())) {}
  __host__ __device__ T real() const { return re_; }
  __host__ __device__ T imag() const { return im_; }
  __host__ __device__ void real(T re) { re_ = re; }
  __host__ __device__ void imag(T im) { im_ = im; }
  __host__ operator std::complex<T>() const { return std::complex<T>(re_, im_); }
  __host__ __device__ complex& operator+=(const complex& z) { return *this = complex(re_ + z.re_, im_ + z.im_); }
  __host__ __device__ complex& operator-=(const complex& z) { return *this = complex(re_ - z.re_, im_ - z.im_); }
  __host__ __device__ complex& operator*=(const complex& z) {
    return *this = complex(re_ * z.re_ - im_ * z.im_, re_ * z.im_ + im_ * z.re_);
  }
  __host__ __device__ complex& operator/=(const complex& z) {  // Smith's way: no overflow in the middle
    if (::fabs(z.re_) >= ::fabs(z.im_)) {
      const T ratio = z.im_ / z.re_, scale = z.re_ + z.im_ * ratio;
      return *this = complex((re_ + im_ * ratio) / scale, (im_ - re_ * ratio) / scale);
    }
    const T ratio = z.re_ / z.im_, scale = z.re_ * ratio + z.im_;
    return *this = complex((re_ * ratio + im_) / scale, (im_ * ratio - re_) / scale);
  }

 private:
  T re_, im_;
};

LOOM_COMPLEX complex<T> operator+(complex<T> a, const complex<T>& b) { return a += b; }
LOOM_COMPLEX complex<T> operator-(complex<T> a, const complex<T>& b) { return a -= b; }
LOOM_COMPLEX complex<T> operator*(complex<T> a, const complex<T>& b) { return a *= b; }
LOOM_COMPLEX complex<T> operator/(complex<T> a, const complex<T>& b) { return a /= b; }
LOOM_COMPLEX complex<T> operator+(const complex<T>& a, const T& b) { return {a.real() + b, a.imag()}; }
LOOM_COMPLEX complex<T> operator+(const T& a, const complex<T>& b) { return {a + b.real(), b.imag()}; }
LOOM_COMPLEX complex<T> operator-(const complex<T>& a, const T& b) { return {a.real() - b, a.imag()}; }
LOOM_COMPLEX complex<T> operator-(const T& a, const complex<T>& b) { return {a - b.real(), -b.imag()}; }
LOOM_COMPLEX complex<T> operator*(const complex<T>& a, const T& b) { return {a.real() * b, a.imag() * b}; }
LOOM_COMPLEX complex<T> operator*(const T& a, const complex<T>& b) { return {a * b.real(), a * b.imag()}; }
LOOM_COMPLEX complex<T> operator/(const complex<T>& a, const T& b) { return {a.real() / b, a.imag() / b}; }
LOOM_COMPLEX complex<T> operator/(const T& a, const complex<T>& b) { return complex<T>(a) / b; }
LOOM_COMPLEX complex<T> operator-(const complex<T>& a) { return {-a.real(), -a.imag()}; }
LOOM_COMPLEX complex<T> operator+(const complex<T>& a) { return a; }
LOOM_COMPLEX bool operator==(const complex<T>& a, const complex<T>& b) {
  return a.real() == b.real() && a.imag() == b.imag();
}
LOOM_COMPLEX bool operator!=(const complex<T>& a, const complex<T>& b) { return !(a == b); }

LOOM_COMPLEX T abs(const complex<T>& z) { return ::hypot(z.real(), z.imag()); }
LOOM_COMPLEX T arg(const complex<T>& z) { return ::atan2(z.imag(), z.real()); }
LOOM_COMPLEX T norm(const complex<T>& z) { return z.real() * z.real() + z.imag() * z.imag(); }
LOOM_COMPLEX complex<T> conj(const complex<T>& z) { return {z.real(), -z.imag()}; }
LOOM_COMPLEX complex<T> polar(const T& length, const T& angle = T()) {
  return {length * ::cos(angle), length * ::sin(angle)};
}
LOOM_COMPLEX complex<T> exp(const complex<T>& z) { return polar(T(::exp(z.real())), z.imag()); }
LOOM_COMPLEX complex<T> log(const complex<T>& z) { return {T(::log(abs(z))), arg(z)}; }
LOOM_COMPLEX complex<T> log10(const complex<T>& z) { return log(z) / T(2.30258509299404568402); }
LOOM_COMPLEX complex<T> sqrt(const complex<T>& z) {
  if (z.real() == T() && z.imag() == T()) return {T(), z.imag()};
  const T half = ::sqrt((::fabs(z.real()) + abs(z)) / 2);  // the larger part, without cancellation
  const T other = z.imag() / (2 * half);
  return z.real() >= T() ? complex<T>(half, other) : complex<T>(::fabs(other), ::copysign(half, z.imag()));
}
LOOM_COMPLEX complex<T> pow(const complex<T>& a, const complex<T>& b) { return exp(log(a) * b); }
LOOM_COMPLEX complex<T> pow(const complex<T>& a, const T& b) { return exp(log(a) * b); }
LOOM_COMPLEX complex<T> pow(const T& a, const complex<T>& b) { return exp(log(complex<T>(a)) * b); }
template <typename A, typename B>
__host__ __device__ inline auto pow(const complex<A>& a, const complex<B>& b) {
  return pow(complex<decltype(A() * B())>(a), complex<decltype(A() * B())>(b));
}
template <typename A, typename B>
__host__ __device__ inline auto pow(const complex<A>& a, const B& b) {
  return pow(complex<decltype(A() * B())>(a), decltype(A() * B())(b));
}
template <typename A, typename B>
__host__ __device__ inline auto pow(const A& a, const complex<B>& b) {
  return pow(decltype(A() * B())(a), complex<decltype(A() * B())>(b));
}

LOOM_COMPLEX complex<T> sinh(const complex<T>& z) {
  return {T(::sinh(z.real()) * ::cos(z.imag())), T(::cosh(z.real()) * ::sin(z.imag()))};
}
LOOM_COMPLEX complex<T> cosh(const complex<T>& z) {
  return {T(::cosh(z.real()) * ::cos(z.imag())), T(::sinh(z.real()) * ::sin(z.imag()))};
}
LOOM_COMPLEX complex<T> tanh(const complex<T>& z) { return sinh(z) / cosh(z); }
LOOM_COMPLEX complex<T> sin(const complex<T>& z) {
  return {T(::sin(z.real()) * ::cosh(z.imag())), T(::cos(z.real()) * ::sinh(z.imag()))};
}
LOOM_COMPLEX complex<T> cos(const complex<T>& z) {
  return {T(::cos(z.real()) * ::cosh(z.imag())), T(-::sin(z.real()) * ::sinh(z.imag()))};
}
LOOM_COMPLEX complex<T> tan(const complex<T>& z) { return sin(z) / cos(z); }
/* The inverse functions by their logarithms, with the principal branches. */
LOOM_COMPLEX complex<T> asinh(const complex<T>& z) { return log(z + sqrt(z * z + T(1))); }
LOOM_COMPLEX complex<T> acosh(const complex<T>& z) { return log(z + sqrt(z + T(1)) * sqrt(z - T(1))); }
LOOM_COMPLEX complex<T> atanh(const complex<T>& z) { return (log(T(1) + z) - log(T(1) - z)) / T(2); }
LOOM_COMPLEX complex<T> asin(const complex<T>& z) {
  const complex<T> turned = asinh(complex<T>(-z.imag(), z.real()));
  return {turned.imag(), -turned.real()};
}
LOOM_COMPLEX complex<T> acos(const complex<T>& z) { return T(1.57079632679489661923) - asin(z); }
LOOM_COMPLEX complex<T> atan(const complex<T>& z) {
  const complex<T> turned = atanh(complex<T>(-z.imag(), z.real()));
  return {turned.imag(), -turned.real()};
}

/* As std::complex is written and read: (re,im). */
template <typename T, class C, class R> std::basic_ostream<C, R>& operator<<(std::basic_ostream<C, R>& out, const complex<T>& z) { return out << std::complex<T>(z.real(), z.imag()); }
template <typename T, class C, class R> std::basic_istream<C, R>& operator>>(std::basic_istream<C, R>& in, complex<T>& z) {
  std::complex<T> read;
  if (in >> read) z = read;
  return in;
}

}  // namespace thrust
#undef LOOM_COMPLEX
