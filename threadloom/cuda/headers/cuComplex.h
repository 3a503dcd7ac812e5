/* Complex numbers of CUDA. */
#pragma once
#include <loom/prelude.h>
#include <math.h>
typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;
#if defined(__cplusplus)
#define LOOM_COMPLEX(C, T, f, make, root, absolute)                                                                    \
  LOOM_HOST_DEVICE C make(T x, T y) { C r; r.x = x, r.y = y; return r; }                                               \
  LOOM_HOST_DEVICE T cuCreal##f(C z) { return z.x; }                                                                   \
  LOOM_HOST_DEVICE T cuCimag##f(C z) { return z.y; }                                                                   \
  LOOM_HOST_DEVICE C cuConj##f(C z) { return make(z.x, -z.y); }                                                        \
  LOOM_HOST_DEVICE C cuCadd##f(C a, C b) { return make(a.x + b.x, a.y + b.y); }                                        \
  LOOM_HOST_DEVICE C cuCsub##f(C a, C b) { return make(a.x - b.x, a.y - b.y); }                                        \
  LOOM_HOST_DEVICE C cuCmul##f(C a, C b) { return make(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }                \
  LOOM_HOST_DEVICE C cuCfma##f(C a, C b, C c) { return cuCadd##f(cuCmul##f(a, b), c); }                                \
  /* Scaled so that neither square overflows. */                                                                       \
  LOOM_HOST_DEVICE C cuCdiv##f(C a, C b) {                                                                             \
    T s = (b.x < 0 ? -b.x : b.x) + (b.y < 0 ? -b.y : b.y), o = 1 / s;                                                  \
    T ars = a.x * o, ais = a.y * o, brs = b.x * o, bis = b.y * o;                                                      \
    T d = 1 / (brs * brs + bis * bis);                                                                                 \
    return make((ars * brs + ais * bis) * d, (ais * brs - ars * bis) * d);                                             \
  }                                                                                                                    \
  LOOM_HOST_DEVICE T cuCabs##f(C z) { return root(z.x, z.y); }
LOOM_COMPLEX(cuFloatComplex, float, f, make_cuFloatComplex, __builtin_hypotf, )
LOOM_COMPLEX(cuDoubleComplex, double, , make_cuDoubleComplex, __builtin_hypot, )
#undef LOOM_COMPLEX
LOOM_HOST_DEVICE cuComplex make_cuComplex(float x, float y) { return make_cuFloatComplex(x, y); }
LOOM_HOST_DEVICE cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return make_cuDoubleComplex(z.x, z.y); }
LOOM_HOST_DEVICE cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) { return make_cuFloatComplex((float)z.x, (float)z.y); }
#endif
