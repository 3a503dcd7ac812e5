/* SIMD-in-a-word intrinsics: two 16-bit or four 8-bit lanes of an unsigned. Names as CUDA's: `ss` and `us` saturate. */
#pragma once
#define LOOM_LANES(n, bits, S, U)                                                                                           \
  LOOM_DEVICE int __loom_s##n(unsigned v, int i) { return (S)(v >> (bits * i)); }                                           \
  LOOM_DEVICE int __loom_u##n(unsigned v, int i) { return (U)(v >> (bits * i)); }                                           \
  LOOM_DEVICE unsigned __loom_put##n(int v, int i) { return ((unsigned)v & ((1u << bits) - 1u)) << (bits * i); }            \
  LOOM_DEVICE int __loom_clamp##n(int v, int low, int high) { return v < low ? low : v > high ? high : v; }                 \
  LOOM_LANEWISE1(n, __vabs##n, s < 0 ? -s : s)                                                                              \
  LOOM_LANEWISE1(n, __vabsss##n, __loom_clamp##n(s < 0 ? -s : s, 0, (1 << (bits - 1)) - 1))                                 \
  LOOM_LANEWISE1(n, __vneg##n, -s)                                                                                          \
  LOOM_LANEWISE1(n, __vnegss##n, __loom_clamp##n(-s, -(1 << (bits - 1)), (1 << (bits - 1)) - 1))                            \
  LOOM_LANEWISE2(n, __vadd##n, s + t)                                                                                       \
  LOOM_LANEWISE2(n, __vaddss##n, __loom_clamp##n(s + t, -(1 << (bits - 1)), (1 << (bits - 1)) - 1))                         \
  LOOM_LANEWISE2(n, __vaddus##n, __loom_clamp##n(u + w, 0, (1 << bits) - 1))                                                \
  LOOM_LANEWISE2(n, __vsub##n, s - t)                                                                                       \
  LOOM_LANEWISE2(n, __vsubss##n, __loom_clamp##n(s - t, -(1 << (bits - 1)), (1 << (bits - 1)) - 1))                         \
  LOOM_LANEWISE2(n, __vsubus##n, __loom_clamp##n(u - w, 0, (1 << bits) - 1))                                                \
  LOOM_LANEWISE2(n, __vabsdiffs##n, s > t ? s - t : t - s)                                                                  \
  LOOM_LANEWISE2(n, __vabsdiffu##n, u > w ? u - w : w - u)                                                                  \
  LOOM_LANEWISE2(n, __vavgs##n, (s + t + (s + t >= 0)) >> 1)                                                                \
  LOOM_LANEWISE2(n, __vavgu##n, (u + w + 1) >> 1)                                                                           \
  LOOM_LANEWISE2(n, __vhaddu##n, (u + w) >> 1)                                                                              \
  LOOM_LANEWISE2(n, __vmaxs##n, s > t ? s : t)                                                                              \
  LOOM_LANEWISE2(n, __vmaxu##n, u > w ? u : w)                                                                              \
  LOOM_LANEWISE2(n, __vmins##n, s < t ? s : t)                                                                              \
  LOOM_LANEWISE2(n, __vminu##n, u < w ? u : w)                                                                              \
  LOOM_LANE_COMPARE(n, eq, u == w)                                                                                          \
  LOOM_LANE_COMPARE(n, ne, u != w)                                                                                          \
  LOOM_LANE_COMPARE(n, gts, s > t)                                                                                          \
  LOOM_LANE_COMPARE(n, gtu, u > w)                                                                                          \
  LOOM_LANE_COMPARE(n, ges, s >= t)                                                                                         \
  LOOM_LANE_COMPARE(n, geu, u >= w)                                                                                         \
  LOOM_LANE_COMPARE(n, lts, s < t)                                                                                          \
  LOOM_LANE_COMPARE(n, ltu, u < w)                                                                                          \
  LOOM_LANE_COMPARE(n, les, s <= t)                                                                                         \
  LOOM_LANE_COMPARE(n, leu, u <= w)                                                                                         \
  LOOM_DEVICE unsigned __vsads##n(unsigned a, unsigned b) {                                                                 \
    unsigned sum = 0;                                                                                                       \
    for (int i = 0; i < n; ++i) { int s = __loom_s##n(a, i), t = __loom_s##n(b, i); sum += (unsigned)(s > t ? s - t : t - s); } \
    return sum;                                                                                                             \
  }                                                                                                                         \
  LOOM_DEVICE unsigned __vsadu##n(unsigned a, unsigned b) {                                                                 \
    unsigned sum = 0;                                                                                                       \
    for (int i = 0; i < n; ++i) { int u = __loom_u##n(a, i), w = __loom_u##n(b, i); sum += (unsigned)(u > w ? u - w : w - u); } \
    return sum;                                                                                                             \
  }
#define LOOM_LANEWISE1(n, name, expression)                                                            \
  LOOM_DEVICE unsigned name(unsigned a) {                                                              \
    unsigned result = 0;                                                                               \
    for (int i = 0; i < n; ++i) { int s = __loom_s##n(a, i); result |= __loom_put##n(expression, i); } \
    return result;                                                                                     \
  }
#define LOOM_LANEWISE2(n, name, expression)                                                            \
  LOOM_DEVICE unsigned name(unsigned a, unsigned b) {                                                  \
    unsigned result = 0;                                                                               \
    for (int i = 0; i < n; ++i) {                                                                      \
      int s = __loom_s##n(a, i), t = __loom_s##n(b, i), u = __loom_u##n(a, i), w = __loom_u##n(b, i);  \
      (void)s, (void)t, (void)u, (void)w;                                                              \
      result |= __loom_put##n(expression, i);                                                          \
    }                                                                                                  \
    return result;                                                                                     \
  }
#define LOOM_LANE_COMPARE(n, name, condition)             \
  LOOM_LANEWISE2(n, __vcmp##name##n, (condition) ? -1 : 0) \
  LOOM_LANEWISE2(n, __vset##name##n, (condition) ? 1 : 0)
LOOM_LANES(2, 16, short, unsigned short)
LOOM_LANES(4, 8, signed char, unsigned char)
#undef LOOM_LANES
#undef LOOM_LANEWISE1
#undef LOOM_LANEWISE2
#undef LOOM_LANE_COMPARE
