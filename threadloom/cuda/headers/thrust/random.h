/* Engines and distributions. `default_random_engine` is minstd_rand, as in Thrust. */
#pragma once
#include <thrust/thrust.h>
#define LOOM_RANDOM inline __host__ __device__
namespace thrust {
namespace random {
template <class T, T a, T c, T m> class linear_congruential_engine {
 public:
  typedef T result_type;
  static constexpr T multiplier = a, increment = c, modulus = m, default_seed = 1u, min = c == 0u ? 1u : 0u, max = m - 1u;
  LOOM_RANDOM explicit linear_congruential_engine(T value = default_seed) { seed(value); }
  LOOM_RANDOM void seed(T value = default_seed) { x_ = c % m == 0 && value % m == 0 ? 1u : value % m; }
  LOOM_RANDOM T operator()() { return x_ = (T)(((unsigned long long)a * x_ + c) % m); }
  /* Steps are affine maps of x; their powers are taken by squaring. */
  LOOM_RANDOM void discard(unsigned long long steps) {
    unsigned long long factor = a, term = c;
    for (; steps; steps >>= 1) {
      if (steps & 1) x_ = (T)((factor * x_ + term) % m);
      term = (factor * term + term) % m;
      factor = factor * factor % m;
    }
  }
  LOOM_RANDOM bool operator==(const linear_congruential_engine& other) const { return x_ == other.x_; }

 private:
  T x_;
};
typedef linear_congruential_engine<unsigned, 16807u, 0u, 2147483647u> minstd_rand0;
typedef linear_congruential_engine<unsigned, 48271u, 0u, 2147483647u> minstd_rand;
typedef minstd_rand default_random_engine;

template <class Real = double> class uniform_real_distribution {
 public:
  typedef Real result_type;
  LOOM_RANDOM explicit uniform_real_distribution(Real low = 0, Real high = 1) : low_(low), high_(high) {}
  template <class Engine> LOOM_RANDOM Real operator()(Engine& engine) const {
    Real part = (Real)(engine() - Engine::min) / ((Real)(Engine::max - Engine::min) + (Real)1);
    return part * (high_ - low_) + low_;
  }

 private:
  Real low_, high_;
};
/* Of both ends. */
template <class Int = int> class uniform_int_distribution {
 public:
  typedef Int result_type;
  LOOM_RANDOM explicit uniform_int_distribution(Int low = 0, Int high = (Int)(~0ull >> (65 - 8 * sizeof(Int)))) : low_(low), high_(high) {}
  template <class Engine> LOOM_RANDOM Int operator()(Engine& engine) const {
    uniform_real_distribution<double> real((double)low_, (double)high_ + 1.0);
    return (Int)__builtin_floor(real(engine));
  }

 private:
  Int low_, high_;
};
}  // namespace random
using random::default_random_engine;
using random::linear_congruential_engine;
using random::minstd_rand;
using random::minstd_rand0;
using random::uniform_int_distribution;
using random::uniform_real_distribution;
}  // namespace thrust
#undef LOOM_RANDOM
