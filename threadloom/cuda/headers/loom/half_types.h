/* half and bfloat16, scalar and in pairs: storage is the compiler's own 16-bit type, arithmetic rounds once per operation.
   LOOM_DEFINE_FLOAT16(Type, Pair, Raw, tag, narrow) serves both; narrow(float or double) rounds to nearest even, and
   __loom_widen(Raw) is exact. */
#pragma once
#include "prelude.h"

#if defined(__cplusplus)
/* v as a float rounded to odd, which keeps what rounding to fewer bits has to know: the two together round once. */
LOOM_HOST_DEVICE constexpr float __loom_round_to_odd(double v) {
  float near = (float)v;
  if ((double)near == v || near != near || near - near != 0) return near;
  unsigned bits = __builtin_bit_cast(unsigned, near);
  if ((v < 0 ? -(double)near : (double)near) > (v < 0 ? -v : v)) --bits;
  return __builtin_bit_cast(float, bits | 1);
}
/* A whole number as a double; where it has more bits than that, rounded to odd as well. */
template <class T> LOOM_HOST_DEVICE constexpr double __loom_whole(T v) {
  if (sizeof(T) < 8) return (double)v;
  unsigned long long size = v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v;
  if (size >> 53) size = (size & ~0xfffull) | (size & 0xfff ? 0x800 : 0);
  return v < 0 ? -(double)size : (double)size;
}
/* The whole number nearest to v that T holds; 0 for NaN. */
template <class T> LOOM_HOST_DEVICE T __loom_to(float v) {
  constexpr bool is_signed = (T)-1 < (T)0;
  constexpr T most = (T)(is_signed ? ~0ull >> (65 - 8 * sizeof(T)) : ~0ull), least = is_signed ? (T)(-most - 1) : (T)0;
  return v >= (float)most ? most : v > (float)least ? (T)v : v == v ? least : (T)0;
}
/* v rounded to nearest, moved to its neighbour where that lies on the wrong side: direction 0 is towards zero. */
template <class H> LOOM_HOST_DEVICE H __loom_directed(float v, int direction) {
  H near(v);
  float got = (float)near;
  bool above = got > v, below = got < v;
  if (direction == 0) above = v > 0 && above, below = v < 0 && below;
  else if (direction > 0) above = false;
  else below = false;
  if (!above && !below) return near;
  unsigned short bits = __builtin_bit_cast(unsigned short, near);
  bool negative = bits >> 15;
  if (above && got == 0) bits = 0x8001;
  else if (below && got == 0) bits = 1;
  else bits += above != negative ? -1 : 1;
  return __builtin_bit_cast(H, bits);
}
#endif

#define LOOM_DEFINE_FLOAT16(H, H2, Raw, tag, narrow)                                                                                     \
  struct __align__(2) H {                                                                                                        \
    Raw raw;                                                                                                                     \
    H() = default;                                                                                                               \
    __host__ __device__ constexpr H(float v) : raw(narrow(v)) {}                                                                    \
    __host__ __device__ constexpr H(double v) : raw(narrow(v)) {}                                                                   \
    __host__ __device__ constexpr H(int v) : raw(narrow(v)) {}                                                                      \
    __host__ __device__ constexpr H(unsigned v) : raw(narrow(v)) {}                                                                 \
    __host__ __device__ constexpr H(short v) : raw(narrow((float)v)) {}                                                             \
    __host__ __device__ constexpr H(unsigned short v) : raw(narrow((float)v)) {}                                                    \
    __host__ __device__ constexpr H(long v) : raw(narrow(v)) {}                                                                     \
    __host__ __device__ constexpr H(unsigned long v) : raw(narrow(v)) {}                                                            \
    __host__ __device__ constexpr H(long long v) : raw(narrow(v)) {}                                                                \
    __host__ __device__ constexpr H(unsigned long long v) : raw(narrow(v)) {}                                                       \
    __host__ __device__ constexpr H(const H##_raw& r) : raw(__builtin_bit_cast(Raw, r.x)) {}                                     \
    __host__ __device__ operator H##_raw() const { return H##_raw{__builtin_bit_cast(unsigned short, raw)}; }                    \
    __host__ __device__ constexpr operator float() const { return __loom_widen(raw); }                                          \
    __host__ __device__ explicit constexpr operator double() const { return (double)__loom_widen(raw); }                        \
    __host__ __device__ explicit constexpr operator int() const { return (int)__loom_widen(raw); }                              \
    __host__ __device__ explicit constexpr operator unsigned() const { return (unsigned)__loom_widen(raw); }                    \
    __host__ __device__ explicit constexpr operator short() const { return (short)__loom_widen(raw); }                          \
    __host__ __device__ explicit constexpr operator unsigned short() const { return (unsigned short)__loom_widen(raw); }        \
    __host__ __device__ explicit constexpr operator char() const { return (char)__loom_widen(raw); }                            \
    __host__ __device__ explicit constexpr operator signed char() const { return (signed char)__loom_widen(raw); }              \
    __host__ __device__ explicit constexpr operator unsigned char() const { return (unsigned char)__loom_widen(raw); }          \
    __host__ __device__ explicit constexpr operator long long() const { return (long long)__loom_widen(raw); }                  \
    __host__ __device__ explicit constexpr operator unsigned long long() const { return (unsigned long long)__loom_widen(raw); } \
    __host__ __device__ explicit constexpr operator bool() const { return __loom_widen(raw) != 0.0f; }                          \
    __host__ __device__ H& operator+=(const H& v) { return *this = *this + v; }                                                  \
    __host__ __device__ H& operator-=(const H& v) { return *this = *this - v; }                                                  \
    __host__ __device__ H& operator*=(const H& v) { return *this = *this * v; }                                                  \
    __host__ __device__ H& operator/=(const H& v) { return *this = *this / v; }                                                  \
    __host__ __device__ H& operator++() { return *this = *this + H(1.0f); }                                                      \
    __host__ __device__ H& operator--() { return *this = *this - H(1.0f); }                                                      \
    __host__ __device__ H operator++(int) { H before = *this; ++*this; return before; }                                          \
    __host__ __device__ H operator--(int) { H before = *this; --*this; return before; }                                          \
    friend __host__ __device__ H operator+(const H& x, const H& y) { return H(__loom_widen(x.raw) + __loom_widen(y.raw)); }     \
    friend __host__ __device__ H operator-(const H& x, const H& y) { return H(__loom_widen(x.raw) - __loom_widen(y.raw)); }     \
    friend __host__ __device__ H operator*(const H& x, const H& y) { return H(__loom_widen(x.raw) * __loom_widen(y.raw)); }     \
    friend __host__ __device__ H operator/(const H& x, const H& y) { return H(__loom_widen(x.raw) / __loom_widen(y.raw)); }     \
    friend __host__ __device__ H operator-(const H& x) { return H(-__loom_widen(x.raw)); }                                      \
    friend __host__ __device__ H operator+(const H& x) { return x; }                                                             \
    friend __host__ __device__ bool operator==(const H& x, const H& y) { return __loom_widen(x.raw) == __loom_widen(y.raw); }   \
    friend __host__ __device__ bool operator!=(const H& x, const H& y) { return __loom_widen(x.raw) != __loom_widen(y.raw); }   \
    friend __host__ __device__ bool operator<(const H& x, const H& y) { return __loom_widen(x.raw) < __loom_widen(y.raw); }     \
    friend __host__ __device__ bool operator>(const H& x, const H& y) { return __loom_widen(x.raw) > __loom_widen(y.raw); }     \
    friend __host__ __device__ bool operator<=(const H& x, const H& y) { return __loom_widen(x.raw) <= __loom_widen(y.raw); }   \
    friend __host__ __device__ bool operator>=(const H& x, const H& y) { return __loom_widen(x.raw) >= __loom_widen(y.raw); }   \
  };                                                                                                                             \
  struct __align__(4) H2 {                                                                                                       \
    H x, y;                                                                                                                      \
    H2() = default;                                                                                                              \
    __host__ __device__ constexpr H2(const H& a, const H& b) : x(a), y(b) {}                                                     \
    __host__ __device__ H2& operator+=(const H2& v) { return *this = *this + v; }                                                \
    __host__ __device__ H2& operator-=(const H2& v) { return *this = *this - v; }                                                \
    __host__ __device__ H2& operator*=(const H2& v) { return *this = *this * v; }                                                \
    __host__ __device__ H2& operator/=(const H2& v) { return *this = *this / v; }                                                \
    friend __host__ __device__ H2 operator+(const H2& a, const H2& b) { return H2(a.x + b.x, a.y + b.y); }                       \
    friend __host__ __device__ H2 operator-(const H2& a, const H2& b) { return H2(a.x - b.x, a.y - b.y); }                       \
    friend __host__ __device__ H2 operator*(const H2& a, const H2& b) { return H2(a.x * b.x, a.y * b.y); }                       \
    friend __host__ __device__ H2 operator/(const H2& a, const H2& b) { return H2(a.x / b.x, a.y / b.y); }                       \
    friend __host__ __device__ H2 operator-(const H2& a) { return H2(-a.x, -a.y); }                                              \
    friend __host__ __device__ bool operator==(const H2& a, const H2& b) { return a.x == b.x && a.y == b.y; }                    \
    friend __host__ __device__ bool operator!=(const H2& a, const H2& b) { return !(a == b); }                                   \
  };                                                                                                                             \
  LOOM_HOST_DEVICE H __hadd(H a, H b) { return a + b; }                                                                          \
  LOOM_HOST_DEVICE H __hadd_rn(H a, H b) { return a + b; }                                                                       \
  LOOM_HOST_DEVICE H __hsub(H a, H b) { return a - b; }                                                                          \
  LOOM_HOST_DEVICE H __hmul(H a, H b) { return a * b; }                                                                          \
  LOOM_HOST_DEVICE H __hdiv(H a, H b) { return a / b; }                                                                          \
  LOOM_HOST_DEVICE H __hneg(H a) { return -a; }                                                                                  \
  LOOM_HOST_DEVICE H __habs(H a) { return H(__builtin_fabsf((float)a)); }                                                        \
  LOOM_HOST_DEVICE H __hfma(H a, H b, H c) { return H(__builtin_fma((double)a, (double)b, (double)c)); }                         \
  LOOM_HOST_DEVICE H __loom_saturate(H a) { return H((float)a > 0.0f ? ((float)a < 1.0f ? (float)a : 1.0f) : 0.0f); }            \
  LOOM_HOST_DEVICE H __hadd_sat(H a, H b) { return __loom_saturate(a + b); }                                                     \
  LOOM_HOST_DEVICE H __hsub_sat(H a, H b) { return __loom_saturate(a - b); }                                                     \
  LOOM_HOST_DEVICE H __hmul_sat(H a, H b) { return __loom_saturate(a * b); }                                                     \
  LOOM_HOST_DEVICE H __hfma_sat(H a, H b, H c) { return __loom_saturate(__hfma(a, b, c)); }                                      \
  LOOM_HOST_DEVICE H __hfma_relu(H a, H b, H c) { H r = __hfma(a, b, c); return (float)r > 0.0f ? r : H(0.0f); }                 \
  LOOM_HOST_DEVICE H __hmin(H a, H b) { return H(__builtin_fminf((float)a, (float)b)); }                                         \
  LOOM_HOST_DEVICE H __hmax(H a, H b) { return H(__builtin_fmaxf((float)a, (float)b)); }                                         \
  LOOM_HOST_DEVICE bool __heq(H a, H b) { return a == b; }                                                                       \
  LOOM_HOST_DEVICE bool __hne(H a, H b) { return (float)a < (float)b || (float)a > (float)b; }                                   \
  LOOM_HOST_DEVICE bool __hlt(H a, H b) { return a < b; }                                                                        \
  LOOM_HOST_DEVICE bool __hle(H a, H b) { return a <= b; }                                                                       \
  LOOM_HOST_DEVICE bool __hgt(H a, H b) { return a > b; }                                                                        \
  LOOM_HOST_DEVICE bool __hge(H a, H b) { return a >= b; }                                                                       \
  LOOM_HOST_DEVICE bool __hisnan(H a) { return __builtin_isnan((float)a); }                                                      \
  LOOM_HOST_DEVICE int __hisinf(H a) { return __builtin_isinf((float)a) ? ((float)a > 0 ? 1 : -1) : 0; }                         \
  LOOM_HOST_DEVICE H2 __hadd2(H2 a, H2 b) { return a + b; }                                                                      \
  LOOM_HOST_DEVICE H2 __hsub2(H2 a, H2 b) { return a - b; }                                                                      \
  LOOM_HOST_DEVICE H2 __hmul2(H2 a, H2 b) { return a * b; }                                                                      \
  LOOM_HOST_DEVICE H2 __h2div(H2 a, H2 b) { return a / b; }                                                                      \
  LOOM_HOST_DEVICE H2 __hneg2(H2 a) { return -a; }                                                                               \
  LOOM_HOST_DEVICE H2 __habs2(H2 a) { return H2(__habs(a.x), __habs(a.y)); }                                                     \
  LOOM_HOST_DEVICE H2 __hfma2(H2 a, H2 b, H2 c) { return H2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }                     \
  LOOM_HOST_DEVICE H2 __hmin2(H2 a, H2 b) { return H2(__hmin(a.x, b.x), __hmin(a.y, b.y)); }                                     \
  LOOM_HOST_DEVICE H2 __hmax2(H2 a, H2 b) { return H2(__hmax(a.x, b.x), __hmax(a.y, b.y)); }                                     \
  LOOM_HOST_DEVICE H2 __heq2(H2 a, H2 b) { return H2(H(a.x == b.x ? 1.0f : 0.0f), H(a.y == b.y ? 1.0f : 0.0f)); }                \
  LOOM_HOST_DEVICE H2 __hlt2(H2 a, H2 b) { return H2(H(a.x < b.x ? 1.0f : 0.0f), H(a.y < b.y ? 1.0f : 0.0f)); }                  \
  LOOM_HOST_DEVICE H2 __hgt2(H2 a, H2 b) { return H2(H(a.x > b.x ? 1.0f : 0.0f), H(a.y > b.y ? 1.0f : 0.0f)); }                  \
  LOOM_HOST_DEVICE bool __hbeq2(H2 a, H2 b) { return a == b; }                                                                   \
  LOOM_HOST_DEVICE bool __hbgt2(H2 a, H2 b) { return a.x > b.x && a.y > b.y; }                                                   \
  LOOM_HOST_DEVICE bool __hblt2(H2 a, H2 b) { return a.x < b.x && a.y < b.y; }                                                   \
  LOOM_HOST_DEVICE H2 __hge2(H2 a, H2 b) { return H2(H(a.x >= b.x ? 1.0f : 0.0f), H(a.y >= b.y ? 1.0f : 0.0f)); }                \
  LOOM_HOST_DEVICE bool __hbge2(H2 a, H2 b) { return a.x >= b.x && a.y >= b.y; }                                                 \
  LOOM_HOST_DEVICE H2 __hle2(H2 a, H2 b) { return H2(H(a.x <= b.x ? 1.0f : 0.0f), H(a.y <= b.y ? 1.0f : 0.0f)); }                \
  LOOM_HOST_DEVICE bool __hble2(H2 a, H2 b) { return a.x <= b.x && a.y <= b.y; }                                                 \
  LOOM_HOST_DEVICE H2 __hne2(H2 a, H2 b) { return H2(H(__hne(a.x, b.x) ? 1.0f : 0.0f), H(__hne(a.y, b.y) ? 1.0f : 0.0f)); }      \
  LOOM_HOST_DEVICE bool __hbne2(H2 a, H2 b) { return __hne(a.x, b.x) && __hne(a.y, b.y); }                                       \
  LOOM_HOST_DEVICE bool __hequ(H a, H b) { return __hisnan(a) || __hisnan(b) || a == b; }                                        \
  LOOM_HOST_DEVICE bool __hltu(H a, H b) { return __hisnan(a) || __hisnan(b) || a < b; }                                         \
  LOOM_HOST_DEVICE bool __hgtu(H a, H b) { return __hisnan(a) || __hisnan(b) || a > b; }                                         \
  LOOM_HOST_DEVICE bool __hgeu(H a, H b) { return __hisnan(a) || __hisnan(b) || a >= b; }                                        \
  LOOM_HOST_DEVICE bool __hleu(H a, H b) { return __hisnan(a) || __hisnan(b) || a <= b; }                                        \
  LOOM_HOST_DEVICE bool __hneu(H a, H b) { return __hisnan(a) || __hisnan(b) || a != b; }                                        \
  LOOM_HOST_DEVICE H __hmin_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); }                           \
  LOOM_HOST_DEVICE H __hmax_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); }                           \
  LOOM_HOST_DEVICE H2 __hmin2_nan(H2 a, H2 b) { return H2(__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)); }                         \
  LOOM_HOST_DEVICE H2 __hmax2_nan(H2 a, H2 b) { return H2(__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)); }                         \
  LOOM_HOST_DEVICE H __hmul_rn(H a, H b) { return a * b; }                                                                       \
  LOOM_HOST_DEVICE H __hsub_rn(H a, H b) { return a - b; }                                                                       \
  LOOM_HOST_DEVICE H2 __hadd2_rn(H2 a, H2 b) { return a + b; }                                                                   \
  LOOM_HOST_DEVICE H2 __hsub2_rn(H2 a, H2 b) { return a - b; }                                                                   \
  LOOM_HOST_DEVICE H2 __hmul2_rn(H2 a, H2 b) { return a * b; }                                                                   \
  LOOM_HOST_DEVICE H2 __hadd2_sat(H2 a, H2 b) { return H2(__hadd_sat(a.x, b.x), __hadd_sat(a.y, b.y)); }                         \
  LOOM_HOST_DEVICE H2 __hsub2_sat(H2 a, H2 b) { return H2(__hsub_sat(a.x, b.x), __hsub_sat(a.y, b.y)); }                         \
  LOOM_HOST_DEVICE H2 __hmul2_sat(H2 a, H2 b) { return H2(__hmul_sat(a.x, b.x), __hmul_sat(a.y, b.y)); }                         \
  LOOM_HOST_DEVICE H2 __hfma2_sat(H2 a, H2 b, H2 c) { return H2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)); }         \
  LOOM_HOST_DEVICE H2 __hfma2_relu(H2 a, H2 b, H2 c) { return H2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)); }      \
  LOOM_HOST_DEVICE H2 __hisnan2(H2 a) { return H2(H(__hisnan(a.x) ? 1.0f : 0.0f), H(__hisnan(a.y) ? 1.0f : 0.0f)); }             \
  LOOM_HOST_DEVICE H __float2##tag##_rz(float v) { return __loom_directed<H>(v, 0); }                                            \
  LOOM_HOST_DEVICE H __float2##tag##_rd(float v) { return __loom_directed<H>(v, -1); }                                           \
  LOOM_HOST_DEVICE H __float2##tag##_ru(float v) { return __loom_directed<H>(v, 1); }                                            \
  LOOM_HOST_DEVICE H __short2##tag##_rn(short v) { return H(v); }                                                                \
  LOOM_HOST_DEVICE H __ushort2##tag##_rn(unsigned short v) { return H(v); }                                                      \
  LOOM_HOST_DEVICE H __ull2##tag##_rn(unsigned long long v) { return H(v); }                                                     \
  LOOM_HOST_DEVICE short __##tag##2short_rn(H v) { return __loom_to<short>(__builtin_rintf((float)v)); }                                    \
  LOOM_HOST_DEVICE short __##tag##2short_rz(H v) { return __loom_to<short>((float)v); }                                                     \
  LOOM_HOST_DEVICE unsigned short __##tag##2ushort_rn(H v) { return __loom_to<unsigned short>(__builtin_rintf((float)v)); }                 \
  LOOM_HOST_DEVICE unsigned short __##tag##2ushort_rz(H v) { return __loom_to<unsigned short>((float)v); }                                  \
  LOOM_HOST_DEVICE unsigned __##tag##2uint_rz(H v) { return (unsigned)(float)v; }                                                \
  LOOM_HOST_DEVICE long long __##tag##2ll_rn(H v) { return (long long)__builtin_rintf((float)v); }                               \
  LOOM_HOST_DEVICE long long __##tag##2ll_rz(H v) { return (long long)(float)v; }                                                \
  LOOM_HOST_DEVICE unsigned long long __##tag##2ull_rn(H v) { return (unsigned long long)__builtin_rintf((float)v); }            \
  LOOM_HOST_DEVICE H __float2##tag(float v) { return H(v); }                                                                     \
  LOOM_HOST_DEVICE H __float2##tag##_rn(float v) { return H(v); }                                                                \
  LOOM_HOST_DEVICE H __double2##tag(double v) { return H(v); }                                                                   \
  LOOM_HOST_DEVICE float __##tag##2float(H v) { return (float)v; }                                                               \
  LOOM_HOST_DEVICE H __int2##tag##_rn(int v) { return H(v); }                                                                    \
  LOOM_HOST_DEVICE H __uint2##tag##_rn(unsigned v) { return H(v); }                                                              \
  LOOM_HOST_DEVICE H __ll2##tag##_rn(long long v) { return H(v); }                                                               \
  LOOM_HOST_DEVICE int __##tag##2int_rn(H v) { return (int)__builtin_rintf((float)v); }                                          \
  LOOM_HOST_DEVICE int __##tag##2int_rz(H v) { return (int)(float)v; }                                                           \
  LOOM_HOST_DEVICE int __##tag##2int_rd(H v) { return (int)__builtin_floorf((float)v); }                                         \
  LOOM_HOST_DEVICE int __##tag##2int_ru(H v) { return (int)__builtin_ceilf((float)v); }                                          \
  LOOM_HOST_DEVICE unsigned __##tag##2uint_rn(H v) { return (unsigned)__builtin_rintf((float)v); }                               \
  LOOM_HOST_DEVICE H2 __float2##tag##2_rn(float v) { return H2(H(v), H(v)); }                                                    \
  LOOM_HOST_DEVICE H2 __floats2##tag##2_rn(float a, float b) { return H2(H(a), H(b)); }                                          \
  LOOM_HOST_DEVICE H2 __float22##tag##2_rn(float2 v) { return H2(H(v.x), H(v.y)); }                                              \
  LOOM_HOST_DEVICE float2 __##tag##22float2(H2 v) { return make_float2((float)v.x, (float)v.y); }                                \
  LOOM_HOST_DEVICE H2 __##tag##2##tag##2(H v) { return H2(v, v); }                                                               \
  LOOM_HOST_DEVICE H2 __halves2##tag##2(H a, H b) { return H2(a, b); }                                                           \
  LOOM_HOST_DEVICE H2 make_##tag##2(H a, H b) { return H2(a, b); }                                                               \
  LOOM_HOST_DEVICE H __low2##tag(H2 v) { return v.x; }                                                                           \
  LOOM_HOST_DEVICE H __high2##tag(H2 v) { return v.y; }                                                                          \
  LOOM_HOST_DEVICE H2 __low2##tag##2(H2 v) { return H2(v.x, v.x); }                                                              \
  LOOM_HOST_DEVICE H2 __high2##tag##2(H2 v) { return H2(v.y, v.y); }                                                             \
  LOOM_HOST_DEVICE H2 __lows2##tag##2(H2 a, H2 b) { return H2(a.x, b.x); }                                                       \
  LOOM_HOST_DEVICE H2 __highs2##tag##2(H2 a, H2 b) { return H2(a.y, b.y); }                                                      \
  LOOM_HOST_DEVICE H2 __lowhigh2highlow(H2 v) { return H2(v.y, v.x); }                                                           \
  LOOM_HOST_DEVICE float __low2float(H2 v) { return (float)v.x; }                                                                \
  LOOM_HOST_DEVICE float __high2float(H2 v) { return (float)v.y; }                                                               \
  LOOM_HOST_DEVICE short __##tag##_as_short(H v) { return __builtin_bit_cast(short, v.raw); }                                    \
  LOOM_HOST_DEVICE unsigned short __##tag##_as_ushort(H v) { return __builtin_bit_cast(unsigned short, v.raw); }                 \
  LOOM_HOST_DEVICE H __short_as_##tag(short v) { H r; r.raw = __builtin_bit_cast(Raw, v); return r; }                            \
  LOOM_HOST_DEVICE H __ushort_as_##tag(unsigned short v) { H r; r.raw = __builtin_bit_cast(Raw, v); return r; }

/* Functions of one argument, computed in float and rounded once. */
#define LOOM_FLOAT16_FUNCTION(H, H2, name, expression)                            \
  LOOM_DEVICE H h##name(H v) { float x = (float)v; return H((float)(expression)); } \
  LOOM_DEVICE H2 h2##name(H2 v) { return H2(h##name(v.x), h##name(v.y)); }
#define LOOM_FLOAT16_FUNCTIONS(H, H2)                                \
  LOOM_FLOAT16_FUNCTION(H, H2, sqrt, __builtin_sqrtf(x))             \
  LOOM_FLOAT16_FUNCTION(H, H2, rsqrt, 1.0f / __builtin_sqrtf(x))     \
  LOOM_FLOAT16_FUNCTION(H, H2, rcp, 1.0f / x)                        \
  LOOM_FLOAT16_FUNCTION(H, H2, exp, __builtin_expf(x))               \
  LOOM_FLOAT16_FUNCTION(H, H2, exp2, __builtin_exp2f(x))             \
  LOOM_FLOAT16_FUNCTION(H, H2, exp10, __builtin_exp10f(x))           \
  LOOM_FLOAT16_FUNCTION(H, H2, log, __builtin_logf(x))               \
  LOOM_FLOAT16_FUNCTION(H, H2, log2, __builtin_log2f(x))             \
  LOOM_FLOAT16_FUNCTION(H, H2, log10, __builtin_log10f(x))           \
  LOOM_FLOAT16_FUNCTION(H, H2, sin, __builtin_sinf(x))               \
  LOOM_FLOAT16_FUNCTION(H, H2, cos, __builtin_cosf(x))               \
  LOOM_FLOAT16_FUNCTION(H, H2, tanh, __builtin_tanhf(x))             \
  LOOM_FLOAT16_FUNCTION(H, H2, floor, __builtin_floorf(x))           \
  LOOM_FLOAT16_FUNCTION(H, H2, ceil, __builtin_ceilf(x))             \
  LOOM_FLOAT16_FUNCTION(H, H2, trunc, __builtin_truncf(x))           \
  LOOM_FLOAT16_FUNCTION(H, H2, rint, __builtin_rintf(x))

/* Atomic addition by compare and swap on the bits. */
#define LOOM_FLOAT16_ATOMIC(T, Bits)                                                                          \
  LOOM_DEVICE T atomicAdd(T* p, T v) {                                                                        \
    Bits seen = __atomic_load_n((Bits*)p, __ATOMIC_RELAXED), next;                                            \
    T old;                                                                                                    \
    do {                                                                                                      \
      __builtin_memcpy(&old, &seen, sizeof old);                                                              \
      T sum = old + v;                                                                                        \
      __builtin_memcpy(&next, &sum, sizeof next);                                                             \
    } while (!__atomic_compare_exchange_n((Bits*)p, &seen, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));  \
    return old;                                                                                               \
  }
