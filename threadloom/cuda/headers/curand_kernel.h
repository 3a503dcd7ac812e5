/* cuRAND's device generators: XORWOW and Philox4x32-10 give CUDA's sequences, MRG32k3a and Sobol's the published ones. */
#pragma once
#include <curand_types.h>
/* The states are there for host files, too, which point to them. */
struct curandStateXORWOW {
  unsigned d, v[5];
  int boxmuller_flag, boxmuller_flag_double;
  float boxmuller_extra;
  double boxmuller_extra_double;
};
typedef struct curandStateXORWOW curandStateXORWOW_t;
typedef struct curandStateXORWOW curandState_t;
typedef struct curandStateXORWOW curandState;
struct curandStatePhilox4_32_10 {
  uint4 ctr, output;
  uint2 key;
  unsigned STATE;
  int boxmuller_flag, boxmuller_flag_double;
  float boxmuller_extra;
  double boxmuller_extra_double;
};
typedef struct curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;
struct curandStateMRG32k3a {
  unsigned s1[3], s2[3];
  int boxmuller_flag, boxmuller_flag_double;
  float boxmuller_extra;
  double boxmuller_extra_double;
};
typedef struct curandStateMRG32k3a curandStateMRG32k3a_t;
struct curandStateSobol32 {
  unsigned i, x, c, direction_vectors[32];
};
typedef struct curandStateSobol32 curandStateSobol32_t;
struct curandStateSobol64 {
  unsigned long long i, x, c, direction_vectors[64];
};
typedef struct curandStateSobol64 curandStateSobol64_t;
#if defined(__CUDA__)
#define CURAND_2POW32_INV 2.3283064e-10f
#define CURAND_2POW32_INV_DOUBLE 2.3283064365386963e-10
#define CURAND_2POW53_INV_DOUBLE 1.1102230246251565e-16
#define CURAND_2POW32_INV_2PI (2.3283064e-10f * 6.2831855f)
#define LOOM_BOTH static __inline__ __attribute__((always_inline, unused)) __host__ __device__

/* ---- XORWOW (Marsaglia): five words and a Weyl sequence */
extern "C" {
/* Advance the five words by n steps, or by n subsequences of 2^67 steps (runtime/random.cpp). */
__host__ __device__ void __loom_xorwow_skip(unsigned* v, unsigned long long n, int subsequences);
}
LOOM_BOTH unsigned curand(curandStateXORWOW* s) {
  unsigned t = s->v[0] ^ (s->v[0] >> 2);
  s->v[0] = s->v[1], s->v[1] = s->v[2], s->v[2] = s->v[3], s->v[3] = s->v[4];
  s->v[4] = (s->v[4] ^ (s->v[4] << 4)) ^ (t ^ (t << 1));
  s->d += 362437u;
  return s->v[4] + s->d;
}
LOOM_BOTH void skipahead(unsigned long long n, curandStateXORWOW* s) {
  if (n) __loom_xorwow_skip(s->v, n, 0);
  s->d += 362437u * (unsigned)n;
  s->boxmuller_flag = s->boxmuller_flag_double = 0;
}
LOOM_BOTH void skipahead_sequence(unsigned long long n, curandStateXORWOW* s) {
  if (n) __loom_xorwow_skip(s->v, n, 1);
  s->boxmuller_flag = s->boxmuller_flag_double = 0;
}
LOOM_BOTH void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset, curandStateXORWOW* s) {
  unsigned t0 = 1099087573u * ((unsigned)seed ^ 0xaad26b49u), t1 = 2591861531u * ((unsigned)(seed >> 32) ^ 0xf7dcefddu);
  s->d = 6615241u + t1 + t0;
  s->v[0] = 123456789u + t0, s->v[1] = 362436069u ^ t0, s->v[2] = 521288629u + t1, s->v[3] = 88675123u ^ t1, s->v[4] = 5783321u + t0;
  skipahead_sequence(subsequence, s);
  skipahead(offset, s);
  s->boxmuller_extra = 0, s->boxmuller_extra_double = 0;
}

/* ---- Philox4x32-10 (Salmon et al.): a counter and a key */
LOOM_BOTH uint4 curand_Philox4x32_10(uint4 c, uint2 k) {
  for (int round = 0; round < 10; ++round) {
    unsigned long long a = 0xD2511F53ull * c.x, b = 0xCD9E8D57ull * c.z;
    c = make_uint4((unsigned)(b >> 32) ^ c.y ^ k.x, (unsigned)b, (unsigned)(a >> 32) ^ c.w ^ k.y, (unsigned)a);
    k.x += 0x9E3779B9u, k.y += 0xBB67AE85u;
  }
  return c;
}
LOOM_BOTH void __loom_philox_advance(curandStatePhilox4_32_10* s, unsigned long long n) {
  unsigned long long low = (unsigned long long)s->ctr.y << 32 | s->ctr.x, high = (unsigned long long)s->ctr.w << 32 | s->ctr.z;
  unsigned long long sum = low + n;
  high += sum < low;
  s->ctr = make_uint4((unsigned)sum, (unsigned)(sum >> 32), (unsigned)high, (unsigned)(high >> 32));
}
LOOM_BOTH void skipahead(unsigned long long n, curandStatePhilox4_32_10* s) {
  s->STATE += (unsigned)(n & 3);
  n >>= 2;
  if (s->STATE > 3) n += 1, s->STATE -= 4;
  __loom_philox_advance(s, n);
  s->output = curand_Philox4x32_10(s->ctr, s->key);
}
LOOM_BOTH void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10* s) {
  unsigned long long high = ((unsigned long long)s->ctr.w << 32 | s->ctr.z) + n;
  s->ctr.z = (unsigned)high, s->ctr.w = (unsigned)(high >> 32);
  s->output = curand_Philox4x32_10(s->ctr, s->key);
}
LOOM_BOTH void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset, curandStatePhilox4_32_10* s) {
  s->ctr = make_uint4(0, 0, 0, 0);
  s->key = make_uint2((unsigned)seed, (unsigned)(seed >> 32));
  s->STATE = 0;
  s->boxmuller_flag = s->boxmuller_flag_double = 0;
  s->boxmuller_extra = 0, s->boxmuller_extra_double = 0;
  skipahead_sequence(subsequence, s);
  skipahead(offset, s);
}
LOOM_BOTH unsigned curand(curandStatePhilox4_32_10* s) {
  unsigned value = s->STATE == 0 ? s->output.x : s->STATE == 1 ? s->output.y : s->STATE == 2 ? s->output.z : s->output.w;
  if (++s->STATE == 4) {
    __loom_philox_advance(s, 1);
    s->output = curand_Philox4x32_10(s->ctr, s->key);
    s->STATE = 0;
  }
  return value;
}
LOOM_BOTH uint4 curand4(curandStatePhilox4_32_10* s) { unsigned a = curand(s), b = curand(s), c = curand(s); return make_uint4(a, b, c, curand(s)); }

/* ---- MRG32k3a (L'Ecuyer) */
extern "C" {
__host__ __device__ void __loom_mrg_skip(unsigned* s1, unsigned* s2, unsigned long long n, int subsequences);
}
LOOM_BOTH unsigned curand(curandStateMRG32k3a* s) {
  const unsigned long long m1 = 4294967087ull, m2 = 4294944443ull;
  unsigned long long a = (1403580ull * s->s1[1] + (m1 - 810728ull) * s->s1[0]) % m1;
  unsigned long long b = (527612ull * s->s2[2] + (m2 - 1370589ull) * s->s2[0]) % m2;
  s->s1[0] = s->s1[1], s->s1[1] = s->s1[2], s->s1[2] = (unsigned)a;
  s->s2[0] = s->s2[1], s->s2[1] = s->s2[2], s->s2[2] = (unsigned)b;
  return (unsigned)(a > b ? a - b : a + m1 - b);
}
LOOM_BOTH void skipahead(unsigned long long n, curandStateMRG32k3a* s) { if (n) __loom_mrg_skip(s->s1, s->s2, n, 0); }
LOOM_BOTH void skipahead_sequence(unsigned long long n, curandStateMRG32k3a* s) { if (n) __loom_mrg_skip(s->s1, s->s2, n, 1); }
LOOM_BOTH void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset, curandStateMRG32k3a* s) {
  for (int i = 0; i < 3; ++i) s->s1[i] = s->s2[i] = 12345u;
  if (seed) {
    unsigned x1 = (unsigned)seed ^ 0x55555555u, x2 = (unsigned)(seed >> 32) ^ 0xAAAAAAAAu;
    const unsigned long long m1 = 4294967087ull, m2 = 4294944443ull;
    s->s1[0] = (unsigned)((unsigned long long)x1 * s->s1[0] % m1), s->s1[1] = (unsigned)((unsigned long long)x2 * s->s1[1] % m1);
    s->s1[2] = (unsigned)((unsigned long long)x1 * s->s1[2] % m1), s->s2[0] = (unsigned)((unsigned long long)x2 * s->s2[0] % m2);
    s->s2[1] = (unsigned)((unsigned long long)x1 * s->s2[1] % m2), s->s2[2] = (unsigned)((unsigned long long)x2 * s->s2[2] % m2);
  }
  s->boxmuller_flag = s->boxmuller_flag_double = 0;
  s->boxmuller_extra = 0, s->boxmuller_extra_double = 0;
  skipahead_sequence(subsequence, s);
  skipahead(offset, s);
}

/* ---- Sobol: the points in Gray code order, from direction vectors of curandGetDirectionVectors32 or 64 */
template <class S> LOOM_BOTH void __loom_sobol_skip(unsigned long long n, S* s) {
  decltype(s->x) last = s->i ^ s->i >> 1;
  s->i += n;
  last ^= s->i ^ s->i >> 1;
  for (int k = 0; last; ++k, last >>= 1)
    if (last & 1) s->x ^= s->direction_vectors[k];
}
template <class S, class V> LOOM_BOTH void __loom_sobol_init(const V* vectors, unsigned long long offset, S* s) {
  for (unsigned k = 0; k < sizeof(s->direction_vectors) / sizeof(V); ++k) s->direction_vectors[k] = vectors[k];
  s->i = s->x = s->c = 0;
  __loom_sobol_skip(offset, s);
}
LOOM_BOTH void curand_init(curandDirectionVectors32_t vectors, unsigned offset, curandStateSobol32* s) { __loom_sobol_init(vectors, offset, s); }
LOOM_BOTH void curand_init(curandDirectionVectors64_t vectors, unsigned long long offset, curandStateSobol64* s) { __loom_sobol_init(vectors, offset, s); }
template <class T> LOOM_BOTH void skipahead(T n, curandStateSobol32* s) { __loom_sobol_skip(n, s); }
template <class T> LOOM_BOTH void skipahead(T n, curandStateSobol64* s) { __loom_sobol_skip(n, s); }
LOOM_BOTH unsigned curand(curandStateSobol32* s) {
  unsigned value = s->x;
  return __loom_sobol_skip(1, s), value;
}
LOOM_BOTH unsigned long long curand(curandStateSobol64* s) {
  unsigned long long value = s->x;
  return __loom_sobol_skip(1, s), value;
}
/* One number of the sequence for each result: normals by the inverse of their distribution. */
LOOM_BOTH float curand_uniform(curandStateSobol32* s) { return curand(s) * CURAND_2POW32_INV + CURAND_2POW32_INV / 2.0f; }
LOOM_BOTH double curand_uniform_double(curandStateSobol32* s) { return curand(s) * CURAND_2POW32_INV_DOUBLE + CURAND_2POW32_INV_DOUBLE / 2.0; }
LOOM_BOTH double curand_uniform_double(curandStateSobol64* s) {
  return (double)(curand(s) >> 11) * CURAND_2POW53_INV_DOUBLE + CURAND_2POW53_INV_DOUBLE / 2.0;
}
LOOM_BOTH float curand_uniform(curandStateSobol64* s) { return (unsigned)(curand(s) >> 32) * CURAND_2POW32_INV + CURAND_2POW32_INV / 2.0f; }
#define LOOM_OF_SOBOL(S)                                                                                   \
  __device__ static __inline__ double curand_normal_double(S* s) { return normcdfinv(curand_uniform_double(s)); } \
  __device__ static __inline__ float curand_normal(S* s) { return (float)curand_normal_double(s); }               \
  __device__ static __inline__ float curand_log_normal(S* s, float mean, float deviation) {                       \
    return __builtin_expf(mean + deviation * curand_normal(s));                                                   \
  }                                                                                                               \
  __device__ static __inline__ double curand_log_normal_double(S* s, double mean, double deviation) {             \
    return __builtin_exp(mean + deviation * curand_normal_double(s));                                             \
  }
LOOM_OF_SOBOL(curandStateSobol32)
LOOM_OF_SOBOL(curandStateSobol64)
#undef LOOM_OF_SOBOL

/* ---- distributions over any generator */
LOOM_BOTH float __loom_uniform(unsigned x) { return x * CURAND_2POW32_INV + CURAND_2POW32_INV / 2.0f; }
LOOM_BOTH double __loom_uniform_double(unsigned x, unsigned y) {
  unsigned long long z = (unsigned long long)x ^ (unsigned long long)y << 21;
  return (double)z * CURAND_2POW53_INV_DOUBLE + CURAND_2POW53_INV_DOUBLE / 2.0;
}
LOOM_BOTH float2 __loom_box_muller(unsigned x, unsigned y) {
  float u = __loom_uniform(x), v = y * CURAND_2POW32_INV_2PI + CURAND_2POW32_INV_2PI / 2.0f, s = __builtin_sqrtf(-2.0f * __builtin_logf(u));
  return make_float2(__builtin_sinf(v) * s, __builtin_cosf(v) * s);
}
LOOM_BOTH double2 __loom_box_muller_double(unsigned x0, unsigned x1, unsigned y0, unsigned y1) {
  double u = __loom_uniform_double(x0, x1);
  unsigned long long z = (unsigned long long)y0 ^ (unsigned long long)y1 << 21;
  double v = (double)z * (CURAND_2POW53_INV_DOUBLE * 2.0) + CURAND_2POW53_INV_DOUBLE, s = __builtin_sqrt(-2.0 * __builtin_log(u));
  return make_double2(__builtin_sin(v * 3.141592653589793) * s, __builtin_cos(v * 3.141592653589793) * s);
}
template <class S> LOOM_BOTH float curand_uniform(S* s) { return __loom_uniform(curand(s)); }
template <class S> LOOM_BOTH double curand_uniform_double(S* s) { unsigned x = curand(s); return __loom_uniform_double(x, curand(s)); }
template <class S> LOOM_BOTH float2 curand_normal2(S* s) { unsigned x = curand(s); return __loom_box_muller(x, curand(s)); }
template <class S> LOOM_BOTH double2 curand_normal2_double(S* s) {
  unsigned x0 = curand(s), x1 = curand(s), y0 = curand(s);
  return __loom_box_muller_double(x0, x1, y0, curand(s));
}
template <class S> LOOM_BOTH float curand_normal(S* s) {
  if (s->boxmuller_flag) return s->boxmuller_flag = 0, s->boxmuller_extra;
  float2 v = curand_normal2(s);
  s->boxmuller_extra = v.y, s->boxmuller_flag = 1;
  return v.x;
}
template <class S> LOOM_BOTH double curand_normal_double(S* s) {
  if (s->boxmuller_flag_double) return s->boxmuller_flag_double = 0, s->boxmuller_extra_double;
  double2 v = curand_normal2_double(s);
  s->boxmuller_extra_double = v.y, s->boxmuller_flag_double = 1;
  return v.x;
}
template <class S> LOOM_BOTH float curand_log_normal(S* s, float mean, float deviation) { return __builtin_expf(mean + deviation * curand_normal(s)); }
template <class S> LOOM_BOTH double curand_log_normal_double(S* s, double mean, double deviation) { return __builtin_exp(mean + deviation * curand_normal_double(s)); }
/* Knuth's product for small means, a rounded normal for large ones: Poisson's law, not CUDA's sequence. */
template <class S> LOOM_BOTH unsigned curand_poisson(S* s, double lambda) {
  if (lambda > 64.0) {
    double value = __builtin_floor(lambda + __builtin_sqrt(lambda) * curand_normal_double(s) + 0.5);
    return value > 0 ? (unsigned)value : 0u;
  }
  double limit = __builtin_exp(-lambda), product = curand_uniform(s);
  unsigned count = 0;
  while (product > limit) product *= curand_uniform(s), ++count;
  return count;
}
LOOM_BOTH float4 curand_uniform4(curandStatePhilox4_32_10* s) {
  uint4 x = curand4(s);
  return make_float4(__loom_uniform(x.x), __loom_uniform(x.y), __loom_uniform(x.z), __loom_uniform(x.w));
}
LOOM_BOTH float4 curand_normal4(curandStatePhilox4_32_10* s) {
  uint4 x = curand4(s);
  float2 a = __loom_box_muller(x.x, x.y), b = __loom_box_muller(x.z, x.w);
  return make_float4(a.x, a.y, b.x, b.y);
}
LOOM_BOTH double2 curand_uniform2_double(curandStatePhilox4_32_10* s) {
  uint4 x = curand4(s);
  return make_double2(__loom_uniform_double(x.x, x.y), __loom_uniform_double(x.z, x.w));
}
#undef LOOM_BOTH
#endif
