/* DPX: minima and maxima of sums and of three, whole and in two lanes of 16 bits. Sums wrap; `relu` is not below 0. */
#pragma once
#define LOOM_DPX(T, kind)                                                                                            \
  LOOM_HOST_DEVICE T __loom_max_##kind(T a, T b) { return a >= b ? a : b; }                                          \
  LOOM_HOST_DEVICE T __loom_min_##kind(T a, T b) { return a <= b ? a : b; }                                          \
  LOOM_HOST_DEVICE T __viaddmax_##kind(T a, T b, T c) { return __loom_max_##kind((T)((unsigned)a + (unsigned)b), c); } \
  LOOM_HOST_DEVICE T __viaddmin_##kind(T a, T b, T c) { return __loom_min_##kind((T)((unsigned)a + (unsigned)b), c); } \
  LOOM_HOST_DEVICE T __vimax3_##kind(T a, T b, T c) { return __loom_max_##kind(__loom_max_##kind(a, b), c); }        \
  LOOM_HOST_DEVICE T __vimin3_##kind(T a, T b, T c) { return __loom_min_##kind(__loom_min_##kind(a, b), c); }        \
  LOOM_HOST_DEVICE T __vibmax_##kind(T a, T b, bool* first) { *first = a >= b; return *first ? a : b; }              \
  LOOM_HOST_DEVICE T __vibmin_##kind(T a, T b, bool* first) { *first = a <= b; return *first ? a : b; }
LOOM_DPX(int, s32)
LOOM_DPX(unsigned, u32)
LOOM_DPX(short, __loom_s16)
LOOM_DPX(unsigned short, __loom_u16)
#undef LOOM_DPX

#define LOOM_DPX_PAIR(T, kind, lane)                                                                                  \
  LOOM_HOST_DEVICE unsigned __loom_pair_##kind(T high, T low) { return (unsigned)(unsigned short)high << 16 | (unsigned short)low; } \
  LOOM_DPX_OF_THREE(T, kind, lane, __viaddmax_)                                                                       \
  LOOM_DPX_OF_THREE(T, kind, lane, __viaddmin_)                                                                       \
  LOOM_DPX_OF_THREE(T, kind, lane, __vimax3_)                                                                         \
  LOOM_DPX_OF_THREE(T, kind, lane, __vimin3_)                                                                         \
  LOOM_DPX_WITH_FLAGS(T, kind, lane, __vibmax_)                                                                       \
  LOOM_DPX_WITH_FLAGS(T, kind, lane, __vibmin_)
#define LOOM_DPX_OF_THREE(T, kind, lane, name)                                                                        \
  LOOM_HOST_DEVICE unsigned name##kind(unsigned a, unsigned b, unsigned c) {                                          \
    return __loom_pair_##kind(name##lane((T)(a >> 16), (T)(b >> 16), (T)(c >> 16)), name##lane((T)a, (T)b, (T)c));    \
  }
#define LOOM_DPX_WITH_FLAGS(T, kind, lane, name)                                                                      \
  LOOM_HOST_DEVICE unsigned name##kind(unsigned a, unsigned b, bool* high, bool* low) {                               \
    T upper = name##lane((T)(a >> 16), (T)(b >> 16), high);                                                           \
    return __loom_pair_##kind(upper, name##lane((T)a, (T)b, low));                                                    \
  }
LOOM_DPX_PAIR(short, s16x2, __loom_s16)
LOOM_DPX_PAIR(unsigned short, u16x2, __loom_u16)
#undef LOOM_DPX_PAIR
#undef LOOM_DPX_OF_THREE
#undef LOOM_DPX_WITH_FLAGS

LOOM_HOST_DEVICE int __loom_relu_s32(int a) { return a > 0 ? a : 0; }
LOOM_HOST_DEVICE unsigned __loom_relu_s16x2(unsigned a) { return (a & 0x80000000u ? 0 : a & 0xffff0000u) | (a & 0x8000u ? 0 : a & 0xffffu); }
#define LOOM_DPX_RELU(T, kind)                                                                                        \
  LOOM_HOST_DEVICE T __viaddmax_##kind##_relu(T a, T b, T c) { return __loom_relu_##kind(__viaddmax_##kind(a, b, c)); } \
  LOOM_HOST_DEVICE T __viaddmin_##kind##_relu(T a, T b, T c) { return __loom_relu_##kind(__viaddmin_##kind(a, b, c)); } \
  LOOM_HOST_DEVICE T __vimax3_##kind##_relu(T a, T b, T c) { return __loom_relu_##kind(__vimax3_##kind(a, b, c)); }   \
  LOOM_HOST_DEVICE T __vimin3_##kind##_relu(T a, T b, T c) { return __loom_relu_##kind(__vimin3_##kind(a, b, c)); }   \
  LOOM_HOST_DEVICE T __vimax_##kind##_relu(T a, T b) { return __vimax3_##kind##_relu(a, b, b); }                      \
  LOOM_HOST_DEVICE T __vimin_##kind##_relu(T a, T b) { return __vimin3_##kind##_relu(a, b, b); }
LOOM_DPX_RELU(int, s32)
LOOM_DPX_RELU(unsigned, s16x2)
#undef LOOM_DPX_RELU
