/* half and bfloat16: comparisons of pairs, conversions to and from whole numbers, complex products. Needs half_types.h. */
#pragma once

/* For each way to compare: a mask of 16 bits a lane. */
#define LOOM_FLOAT16_MASK(H2, name)                                                                                   \
  LOOM_HOST_DEVICE unsigned __h##name##2_mask(H2 a, H2 b) {                                                           \
    return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);                           \
  }
/* Those that hold where one is not a number: as a pair of 1 and 0, and for both lanes at once. */
#define LOOM_FLOAT16_UNORDERED(H, H2, name)                                                                           \
  LOOM_FLOAT16_MASK(H2, name)                                                                                         \
  LOOM_HOST_DEVICE H2 __h##name##2(H2 a, H2 b) {                                                                      \
    return H2(H(__h##name(a.x, b.x) ? 1.0f : 0.0f), H(__h##name(a.y, b.y) ? 1.0f : 0.0f));                            \
  }                                                                                                                   \
  LOOM_HOST_DEVICE bool __hb##name##2(H2 a, H2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }
#define LOOM_FLOAT16_TO_WHOLE(H, tag, name, T)                                                                        \
  LOOM_HOST_DEVICE T __##tag##2##name##_rd(H v) { return __loom_to<T>(__builtin_floorf((float)v)); }                           \
  LOOM_HOST_DEVICE T __##tag##2##name##_ru(H v) { return __loom_to<T>(__builtin_ceilf((float)v)); }
#define LOOM_FLOAT16_OF_WHOLE(H, tag, name, T)                                                                        \
  LOOM_HOST_DEVICE H __##name##2##tag##_rz(T v) { return __loom_directed<H>(__loom_round_to_odd(__loom_whole(v)), 0); }\
  LOOM_HOST_DEVICE H __##name##2##tag##_rd(T v) { return __loom_directed<H>(__loom_round_to_odd(__loom_whole(v)), -1); }\
  LOOM_HOST_DEVICE H __##name##2##tag##_ru(T v) { return __loom_directed<H>(__loom_round_to_odd(__loom_whole(v)), 1); }

#define LOOM_FLOAT16_COMPARISONS(H, H2, tag)                                                                          \
  LOOM_FLOAT16_MASK(H2, eq)                                                                                           \
  LOOM_FLOAT16_MASK(H2, ne)                                                                                           \
  LOOM_FLOAT16_MASK(H2, lt)                                                                                           \
  LOOM_FLOAT16_MASK(H2, le)                                                                                           \
  LOOM_FLOAT16_MASK(H2, gt)                                                                                           \
  LOOM_FLOAT16_MASK(H2, ge)                                                                                           \
  LOOM_FLOAT16_UNORDERED(H, H2, equ)                                                                                  \
  LOOM_FLOAT16_UNORDERED(H, H2, neu)                                                                                  \
  LOOM_FLOAT16_UNORDERED(H, H2, ltu)                                                                                  \
  LOOM_FLOAT16_UNORDERED(H, H2, leu)                                                                                  \
  LOOM_FLOAT16_UNORDERED(H, H2, gtu)                                                                                  \
  LOOM_FLOAT16_UNORDERED(H, H2, geu)                                                                                  \
  LOOM_HOST_DEVICE bool operator<(const H2& a, const H2& b) { return __hblt2(a, b); }                                 \
  LOOM_HOST_DEVICE bool operator<=(const H2& a, const H2& b) { return __hble2(a, b); }                                \
  LOOM_HOST_DEVICE bool operator>(const H2& a, const H2& b) { return __hbgt2(a, b); }                                 \
  LOOM_HOST_DEVICE bool operator>=(const H2& a, const H2& b) { return __hbge2(a, b); }                                \
  LOOM_HOST_DEVICE H2 h2div(H2 a, H2 b) { return a / b; }                                                             \
  LOOM_HOST_DEVICE H2 __hcmadd(H2 a, H2 b, H2 c) {                                                                    \
    return H2(__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y)));                     \
  }                                                                                                                   \
  LOOM_FLOAT16_TO_WHOLE(H, tag, uint, unsigned)                                                                       \
  LOOM_FLOAT16_TO_WHOLE(H, tag, short, short)                                                                         \
  LOOM_FLOAT16_TO_WHOLE(H, tag, ushort, unsigned short)                                                               \
  LOOM_FLOAT16_TO_WHOLE(H, tag, ll, long long)                                                                        \
  LOOM_FLOAT16_TO_WHOLE(H, tag, ull, unsigned long long)                                                              \
  LOOM_HOST_DEVICE unsigned long long __##tag##2ull_rz(H v) { return __loom_to<unsigned long long>((float)v); }                \
  LOOM_HOST_DEVICE signed char __##tag##2char_rz(H v) { return __loom_to<signed char>((float)v); }                             \
  LOOM_HOST_DEVICE unsigned char __##tag##2uchar_rz(H v) { return __loom_to<unsigned char>((float)v); }                        \
  LOOM_FLOAT16_OF_WHOLE(H, tag, int, int)                                                                             \
  LOOM_FLOAT16_OF_WHOLE(H, tag, uint, unsigned)                                                                       \
  LOOM_FLOAT16_OF_WHOLE(H, tag, short, short)                                                                         \
  LOOM_FLOAT16_OF_WHOLE(H, tag, ushort, unsigned short)                                                               \
  LOOM_FLOAT16_OF_WHOLE(H, tag, ll, long long)                                                                        \
  LOOM_FLOAT16_OF_WHOLE(H, tag, ull, unsigned long long)
