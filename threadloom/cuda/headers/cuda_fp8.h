/* __nv_fp8_e4m3 and __nv_fp8_e5m2: storage of 8 bits, conversions that saturate and round to nearest even. */
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#if defined(__cplusplus)
typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

/* E4M3 has bias 7, no infinities and one NaN (0x7f); E5M2 has bias 15 and the codes of a half's upper byte. */
LOOM_HOST_DEVICE float __loom_fp8_to_float(__nv_fp8_storage_t v, __nv_fp8_interpretation_t kind) {
  int mantissa_bits = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
  int exponent = (v & 0x7f) >> mantissa_bits, mantissa = v & ((1 << mantissa_bits) - 1);
  float sign = v & 0x80 ? -1.0f : 1.0f;
  if (kind == __NV_E4M3 && (v & 0x7f) == 0x7f) return __builtin_nanf("");
  if (kind == __NV_E5M2 && exponent == 31) return mantissa ? __builtin_nanf("") : sign * __builtin_inff();
  float fraction = (float)mantissa / (float)(1 << mantissa_bits);
  return sign * (exponent ? __builtin_ldexpf(1.0f + fraction, exponent - bias) : __builtin_ldexpf(fraction, 1 - bias));
}
LOOM_HOST_DEVICE __nv_fp8_storage_t __loom_float_to_fp8(float x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
  int mantissa_bits = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
  unsigned char sign = __builtin_signbit(x) ? 0x80 : 0;
  float largest = kind == __NV_E4M3 ? 448.0f : 57344.0f, magnitude = __builtin_fabsf(x);
  if (__builtin_isnan(x)) return 0x7f;
  int exponent = 0;
  (void)__builtin_frexpf(magnitude, &exponent);
  exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
  float unit = __builtin_ldexpf(1.0f, exponent - mantissa_bits), rounded = __builtin_rintf(magnitude / unit) * unit;
  if (rounded > largest) {
    if (saturate == __NV_SATFINITE) rounded = largest;
    else return sign | (kind == __NV_E4M3 ? 0x7f : 0x7c);
  }
  if (rounded == 0.0f) return sign;
  (void)__builtin_frexpf(rounded, &exponent);
  exponent -= 1;
  if (exponent < 1 - bias) return sign | (unsigned char)(rounded / __builtin_ldexpf(1.0f, 1 - bias - mantissa_bits));
  int mantissa = (int)((rounded / __builtin_ldexpf(1.0f, exponent) - 1.0f) * (float)(1 << mantissa_bits));
  return sign | (unsigned char)((exponent + bias) << mantissa_bits | mantissa);
}
LOOM_HOST_DEVICE __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t s, __nv_fp8_interpretation_t k) { return __loom_float_to_fp8(x, s, k); }
LOOM_HOST_DEVICE __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t s, __nv_fp8_interpretation_t k) { return __loom_float_to_fp8((float)x, s, k); }
LOOM_HOST_DEVICE __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) { return __loom_float_to_fp8((float)__half(x), s, k); }
LOOM_HOST_DEVICE __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) { return __loom_float_to_fp8((float)__nv_bfloat16(x), s, k); }
LOOM_HOST_DEVICE __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
  return (__nv_fp8x2_storage_t)(__loom_float_to_fp8(x.x, s, k) | __loom_float_to_fp8(x.y, s, k) << 8);
}
LOOM_HOST_DEVICE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t k) { return __half(__loom_fp8_to_float(x, k)); }
LOOM_HOST_DEVICE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t k) {
  return __half2_raw{__nv_cvt_fp8_to_halfraw((unsigned char)x, k).x, __nv_cvt_fp8_to_halfraw((unsigned char)(x >> 8), k).x};
}
#define LOOM_FP8(name, kind)                                                                                                      \
  struct name {                                                                                                                   \
    __nv_fp8_storage_t __x;                                                                                                       \
    name() = default;                                                                                                             \
    __host__ __device__ explicit name(float v) : __x(__loom_float_to_fp8(v, __NV_SATFINITE, kind)) {}                             \
    __host__ __device__ explicit name(double v) : __x(__loom_float_to_fp8((float)v, __NV_SATFINITE, kind)) {}                     \
    __host__ __device__ explicit name(int v) : __x(__loom_float_to_fp8((float)v, __NV_SATFINITE, kind)) {}                        \
    __host__ __device__ explicit name(__half v) : __x(__loom_float_to_fp8((float)v, __NV_SATFINITE, kind)) {}                     \
    __host__ __device__ explicit name(__nv_bfloat16 v) : __x(__loom_float_to_fp8((float)v, __NV_SATFINITE, kind)) {}              \
    __host__ __device__ explicit operator float() const { return __loom_fp8_to_float(__x, kind); }                                \
    __host__ __device__ explicit operator double() const { return __loom_fp8_to_float(__x, kind); }                               \
    __host__ __device__ explicit operator int() const { return (int)__loom_fp8_to_float(__x, kind); }                             \
    __host__ __device__ explicit operator __half() const { return __half(__loom_fp8_to_float(__x, kind)); }                       \
    __host__ __device__ explicit operator __nv_bfloat16() const { return __nv_bfloat16(__loom_fp8_to_float(__x, kind)); }         \
  };
LOOM_FP8(__nv_fp8_e4m3, __NV_E4M3)
LOOM_FP8(__nv_fp8_e5m2, __NV_E5M2)
#undef LOOM_FP8
LOOM_HOST_DEVICE float2 __loom_doubles(double2 v) { return make_float2((float)v.x, (float)v.y); }
LOOM_HOST_DEVICE float4 __loom_doubles(double4 v) { return make_float4((float)v.x, (float)v.y, (float)v.z, (float)v.w); }
#define LOOM_FP8_FROM_PAIR(name, Vector, Pair) \
  __host__ __device__ explicit name(Pair v) : name(make_float2((float)v.x, (float)v.y)) {}
#define LOOM_FP8_FROM_PAIRS(name, Vector, Pair) \
  __host__ __device__ explicit name(Pair lo, Pair hi) : name(make_float4((float)lo.x, (float)lo.y, (float)hi.x, (float)hi.y)) {}
#define LOOM_DOUBLES(fields) double##fields
#define LOOM_FP8_GROUP(name, One, Storage, Vector, fields, from_pairs)               \
  struct name {                                                                       \
    Storage __x;                                                                      \
    name() = default;                                                                 \
    from_pairs(name, Vector, __half2)                                                 \
    from_pairs(name, Vector, __nv_bfloat162)                                          \
    __host__ __device__ explicit name(LOOM_DOUBLES(fields) v) : name(__loom_doubles(v)) {}         \
    __host__ __device__ explicit name(Vector v) : __x(0) {                            \
      const float* lanes = (const float*)&v;                                          \
      for (int i = 0; i < fields; ++i) __x |= (Storage)((Storage)One(lanes[i]).__x << (8 * i)); \
    }                                                                                 \
    __host__ __device__ explicit operator Vector() const {                            \
      Vector v;                                                                       \
      for (int i = 0; i < fields; ++i) {                                              \
        One lane;                                                                     \
        lane.__x = (unsigned char)(__x >> (8 * i));                                   \
        ((float*)&v)[i] = (float)lane;                                                \
      }                                                                               \
      return v;                                                                       \
    }                                                                                 \
  };
LOOM_FP8_GROUP(__nv_fp8x2_e4m3, __nv_fp8_e4m3, __nv_fp8x2_storage_t, float2, 2, LOOM_FP8_FROM_PAIR)
LOOM_FP8_GROUP(__nv_fp8x2_e5m2, __nv_fp8_e5m2, __nv_fp8x2_storage_t, float2, 2, LOOM_FP8_FROM_PAIR)
LOOM_FP8_GROUP(__nv_fp8x4_e4m3, __nv_fp8_e4m3, __nv_fp8x4_storage_t, float4, 4, LOOM_FP8_FROM_PAIRS)
LOOM_FP8_GROUP(__nv_fp8x4_e5m2, __nv_fp8_e5m2, __nv_fp8x4_storage_t, float4, 4, LOOM_FP8_FROM_PAIRS)
#undef LOOM_FP8_GROUP
#undef LOOM_FP8_FROM_PAIR
#undef LOOM_FP8_FROM_PAIRS
#undef LOOM_DOUBLES
#endif
