// cuRAND: jumps of the generators, and the host API. The host API makes numbers where they are wanted, in stream order.
#include <curand_types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "runtime.h"
#include "sobol.h"

namespace {
// ---- XORWOW: 160 bits that step linearly over GF(2); a jump is a power of the step's matrix
struct Bits160 {
  unsigned word[5];
};
typedef std::array<Bits160, 160> BitMatrix;  // column i: the image of unit vector i

void step(unsigned* v) {
  unsigned t = v[0] ^ (v[0] >> 2);
  v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = v[4];
  v[4] = (v[4] ^ (v[4] << 4)) ^ (t ^ (t << 1));
}
Bits160 image(const BitMatrix& m, const Bits160& x) {
  Bits160 result = {};
  for (int i = 0; i < 160; ++i)
    if (x.word[i / 32] >> (i % 32) & 1)
      for (int w = 0; w < 5; ++w) result.word[w] ^= m[i].word[w];
  return result;
}
BitMatrix squared(const BitMatrix& m) {
  BitMatrix result;
  for (int i = 0; i < 160; ++i) result[i] = image(m, m[i]);
  return result;
}
// powers[k] jumps 2^k steps; 67 + 64 of them serve offsets and subsequences
const std::vector<BitMatrix>& powers() {
  static const std::vector<BitMatrix> all = [] {
    std::vector<BitMatrix> made(1);
    for (int i = 0; i < 160; ++i) {
      Bits160 unit = {};
      unit.word[i / 32] = 1u << (i % 32);
      step(unit.word);
      made[0][i] = unit;
    }
    while (made.size() < 67 + 64) made.push_back(squared(made.back()));
    return made;
  }();
  return all;
}

// ---- MRG32k3a: two linear recurrences modulo primes
typedef std::array<std::array<unsigned long long, 3>, 3> Square;
Square product(const Square& a, const Square& b, unsigned long long m) {
  Square c{};
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 3; ++k) c[i][j] = (c[i][j] + a[i][k] * b[k][j] % m) % m;
  return c;
}
void jump(unsigned* s, Square a, unsigned long long m, unsigned long long n, int squarings) {
  for (int i = 0; i < squarings; ++i) a = product(a, a, m);
  Square total{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  for (; n; n >>= 1, a = product(a, a, m))
    if (n & 1) total = product(a, total, m);
  unsigned next[3];
  for (int i = 0; i < 3; ++i) {
    unsigned long long sum = 0;
    for (int k = 0; k < 3; ++k) sum = (sum + total[i][k] * s[k] % m) % m;
    next[i] = (unsigned)sum;
  }
  for (int i = 0; i < 3; ++i) s[i] = next[i];
}
}  // namespace

extern "C" {
void __loom_xorwow_skip(unsigned* v, unsigned long long n, int subsequences) {
  Bits160 x;
  for (int w = 0; w < 5; ++w) x.word[w] = v[w];
  for (int k = 0; k < 64; ++k)
    if (n >> k & 1) x = image(powers()[k + (subsequences ? 67 : 0)], x);
  for (int w = 0; w < 5; ++w) v[w] = x.word[w];
}
void __loom_mrg_skip(unsigned* s1, unsigned* s2, unsigned long long n, int subsequences) {
  const unsigned long long m1 = 4294967087ull, m2 = 4294944443ull;
  jump(s1, Square{{{0, 1, 0}, {0, 0, 1}, {m1 - 810728, 1403580, 0}}}, m1, n, subsequences ? 76 : 0);
  jump(s2, Square{{{0, 1, 0}, {0, 0, 1}, {m2 - 1370589, 0, 527612}}}, m2, n, subsequences ? 76 : 0);
}
}

// ---- generators of the host API
extern "C" double normcdfinv(double p);  // device_functions.cpp

namespace {
struct Xorwow {
  unsigned d, v[5];
  Xorwow(unsigned long long seed, unsigned long long subsequence, unsigned long long offset) {
    unsigned t0 = 1099087573u * ((unsigned)seed ^ 0xaad26b49u), t1 = 2591861531u * ((unsigned)(seed >> 32) ^ 0xf7dcefddu);
    d = 6615241u + t1 + t0 + 362437u * (unsigned)offset;
    v[0] = 123456789u + t0, v[1] = 362436069u ^ t0, v[2] = 521288629u + t1, v[3] = 88675123u ^ t1, v[4] = 5783321u + t0;
    __loom_xorwow_skip(v, subsequence, 1);
    __loom_xorwow_skip(v, offset, 0);
  }
  unsigned next() {
    step(v);
    d += 362437u;
    return v[4] + d;
  }
};
struct Philox {
  unsigned long long key, position;
  unsigned at(unsigned long long n) const {
    unsigned c[4] = {(unsigned)(n >> 2), (unsigned)(n >> 34), 0, 0}, k[2] = {(unsigned)key, (unsigned)(key >> 32)};
    for (int round = 0; round < 10; ++round) {
      unsigned long long a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
      unsigned next[4] = {(unsigned)(b >> 32) ^ c[1] ^ k[0], (unsigned)b, (unsigned)(a >> 32) ^ c[3] ^ k[1], (unsigned)a};
      for (int i = 0; i < 4; ++i) c[i] = next[i];
      k[0] += 0x9E3779B9u, k[1] += 0xBB67AE85u;
    }
    return c[n & 3];
  }
};
constexpr size_t lanes = 4096;  // result n of XORWOW is draw n / 4096 of subsequence n % 4096
}  // namespace

struct curandGenerator_st {
  curandRngType_t type;
  unsigned long long seed = 0, offset = 0;
  cudaStream_t stream = nullptr;
  std::vector<Xorwow> xorwow;
  size_t lane = 0;
  unsigned dimensions = 1;
  size_t each = 0, made = 0;  // of Sobol's numbers: how many of each dimension a call makes, one dimension after the other

  bool is_sobol() const { return type >= CURAND_RNG_QUASI_DEFAULT; }
  unsigned long long next_point() {
    size_t n = made++;
    return loom::sobol((unsigned)(n / each), offset + n % each);
  }
  unsigned next() {
    if (is_sobol()) return (unsigned)(next_point() >> 32);
    if (type == CURAND_RNG_PSEUDO_PHILOX4_32_10) return Philox{seed, 0}.at(offset++);
    if (xorwow.empty()) {
      for (size_t i = 0; i < lanes; ++i) xorwow.emplace_back(seed, i, (offset + lanes - 1 - i) / lanes);
      lane = offset % lanes;
    }
    unsigned value = xorwow[lane].next();
    lane = (lane + 1) % lanes;
    return value;
  }
  float uniform() { return (float)next() * 2.3283064e-10f + 2.3283064e-10f / 2.0f; }
  double uniform_double() {
    if (type == CURAND_RNG_QUASI_SOBOL64) return (double)(next_point() >> 11) * 1.1102230246251565e-16 + 1.1102230246251565e-16 / 2;
    if (is_sobol()) return next() * 2.3283064365386963e-10 + 2.3283064365386963e-10 / 2;
    unsigned long long x = next(), y = next();
    return (double)(x ^ y << 21) * 1.1102230246251565e-16 + 1.1102230246251565e-16 / 2;
  }
};

namespace {
template <class F> curandStatus_t fill(curandGenerator_t g, size_t count, F f) {
  if (g->is_sobol() && count % g->dimensions) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  auto work = [=] {
    g->each = count / g->dimensions, g->made = 0;
    f();
    if (g->is_sobol()) g->offset += g->each;
  };
  return loom::enqueue_and_wait(g->stream, work) == cudaSuccess ? CURAND_STATUS_SUCCESS : CURAND_STATUS_LAUNCH_FAILURE;
}
template <class T, class U> void normals(curandGenerator_t g, T* out, size_t count, T mean, T deviation, U uniform) {
  for (size_t i = 0; i < count && g->is_sobol(); ++i) out[i] = mean + deviation * (T)normcdfinv(g->uniform_double());
  for (size_t i = 0; i < count && !g->is_sobol(); i += 2) {
    T radius = std::sqrt(T(-2) * std::log(uniform())), angle = T(6.283185307179586) * uniform();
    out[i] = mean + deviation * radius * std::sin(angle);
    if (i + 1 < count) out[i + 1] = mean + deviation * radius * std::cos(angle);
  }
}
}  // namespace

extern "C" {
curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type) {
  if (type == CURAND_RNG_QUASI_DEFAULT) type = CURAND_RNG_QUASI_SOBOL32;
  if (type == CURAND_RNG_QUASI_SCRAMBLED_SOBOL32 || type > CURAND_RNG_QUASI_SOBOL64) return CURAND_STATUS_TYPE_ERROR;
  *generator = new curandGenerator_st;
  (*generator)->type = type;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandCreateGeneratorHost(curandGenerator_t* generator, curandRngType_t type) { return curandCreateGenerator(generator, type); }
curandStatus_t curandDestroyGenerator(curandGenerator_t generator) { return delete generator, CURAND_STATUS_SUCCESS; }
curandStatus_t curandGetVersion(int* version) { return *version = LOOM_CUDA_VERSION, CURAND_STATUS_SUCCESS; }
curandStatus_t curandSetStream(curandGenerator_t g, cudaStream_t stream) { return g->stream = stream, CURAND_STATUS_SUCCESS; }
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t g, unsigned long long seed) {
  g->seed = seed, g->offset = 0;
  g->xorwow.clear();
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOffset(curandGenerator_t g, unsigned long long offset) {
  g->offset = offset;
  g->xorwow.clear();
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOrdering(curandGenerator_t, curandOrdering_t) { return CURAND_STATUS_SUCCESS; }
curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t g, unsigned dimensions) {
  if (!g->is_sobol()) return CURAND_STATUS_TYPE_ERROR;
  if (dimensions < 1 || dimensions > loom::sobol_dimensions) return CURAND_STATUS_OUT_OF_RANGE;
  return g->dimensions = dimensions, CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGenerateSeeds(curandGenerator_t) { return CURAND_STATUS_SUCCESS; }
curandStatus_t curandGenerate(curandGenerator_t g, unsigned* out, size_t count) {
  if (g->type == CURAND_RNG_QUASI_SOBOL64) return CURAND_STATUS_TYPE_ERROR;
  return fill(g, count, [=] { for (size_t i = 0; i < count; ++i) out[i] = g->next(); });
}
curandStatus_t curandGenerateLongLong(curandGenerator_t g, unsigned long long* out, size_t count) {
  if (g->type != CURAND_RNG_QUASI_SOBOL64) return CURAND_STATUS_TYPE_ERROR;
  return fill(g, count, [=] { for (size_t i = 0; i < count; ++i) out[i] = g->next_point(); });
}
curandStatus_t curandGenerateUniform(curandGenerator_t g, float* out, size_t count) {
  return fill(g, count, [=] { for (size_t i = 0; i < count; ++i) out[i] = g->uniform(); });
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_t g, double* out, size_t count) {
  return fill(g, count, [=] { for (size_t i = 0; i < count; ++i) out[i] = g->uniform_double(); });
}
curandStatus_t curandGenerateNormal(curandGenerator_t g, float* out, size_t count, float mean, float deviation) {
  if (count % 2 && !g->is_sobol()) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return fill(g, count, [=] { normals(g, out, count, mean, deviation, [=] { return g->uniform(); }); });
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t g, double* out, size_t count, double mean, double deviation) {
  if (count % 2 && !g->is_sobol()) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return fill(g, count, [=] { normals(g, out, count, mean, deviation, [=] { return g->uniform_double(); }); });
}
curandStatus_t curandGenerateLogNormal(curandGenerator_t g, float* out, size_t count, float mean, float deviation) {
  curandStatus_t status = curandGenerateNormal(g, out, count, mean, deviation);
  return status ? status : fill(g, count, [=] { for (size_t i = 0; i < count; ++i) out[i] = std::exp(out[i]); });
}
// As curand_poisson: Knuth's product for small means, a rounded normal for large ones; not of Sobol's points, of which a
// result would take several.
curandStatus_t curandGeneratePoisson(curandGenerator_t g, unsigned* out, size_t count, double lambda) {
  if (g->is_sobol()) return CURAND_STATUS_TYPE_ERROR;
  return fill(g, count, [=] {
    if (lambda > 64) {
      std::vector<double> values(count);
      normals(g, values.data(), count, lambda + 0.5, std::sqrt(lambda), [=] { return g->uniform_double(); });
      for (size_t i = 0; i < count; ++i) out[i] = (unsigned)std::max(0.0, std::floor(values[i]));
      return;
    }
    double limit = std::exp(-lambda);
    for (size_t i = 0; i < count; ++i) {
      double p = g->uniform_double();
      for (out[i] = 0; p > limit; ++out[i]) p *= g->uniform_double();
    }
  });
}
}
