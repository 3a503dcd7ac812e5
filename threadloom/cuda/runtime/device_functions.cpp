// What lowered device code calls: clock, assert, trap, barrier errors, and mathematics that libm lacks.
#include "runtime.h"
#include "turns.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace loom {
void check_divergent(const char* file, int line);  // check.cpp
}

namespace {
// About a third of a nanosecond, or one where there is no such counter.
unsigned long long ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return (unsigned long long)std::chrono::steady_clock::now().time_since_epoch().count() * 3;
#endif
}
constexpr unsigned long long patience_ticks = 60000;  // 20 us: a loop that has lasted for so long may wait
constexpr unsigned long long turn_ticks = 1500;       // half a microsecond: a loop that waits looks again for so long

// CPU seconds of this thread of the system.
double busy_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}
}  // namespace

extern "C" {
long long __loom_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The thread then leaves the kernel; the launch has failed with cudaErrorAssert.
void __loom_assert_fail(const char* expression, const char* file, unsigned line, const char* function) {
  fprintf(stderr, "%s:%u: %s: Assertion `%s` failed.\n", file, line, function, expression);
  loom::break_device(cudaErrorAssert);
}
void __loom_trap() { loom::break_device(cudaErrorLaunchFailure); }

void __loom_divergent_barrier(const char* file, int line) {
  loom::check_divergent(file, line);  // does not return where the program is being checked
  fflush(stdout);
  fprintf(stderr, "%s:%d: error: __syncthreads() was reached by a part of the block only\n", file, line);
  fprintf(stderr, "  why: its condition differs between the threads of one block\n");
  fprintf(stderr, "  try: move the barrier out of the condition, or make the condition uniform; `loom check` shows the threads\n");
  _exit(134);
}

// Seconds without progress, computing or asleep, until there is a warning, and until the program ends. Tests make them shorter.
double __loom_waiting_seconds[2] = {10, 300};

// A thread of a kernel has gone round a loop `turns` times, and some other thread may have to end it (lower/watch_waits.py).
// Returns after how many it asks again.
unsigned long long __loom_waiting(const char* file, int line, unsigned long long turns) {
  constexpr unsigned long long first = 32;  // as in watch_waits.py
  loom::Asked& loop = loom::asked(file, line);
  unsigned long long now = ticks();
  if (!loop.turns || turns <= loop.turns) {  // it has begun anew
    if (loop.waits) loom::progress.fetch_add(1, std::memory_order_relaxed);
    loop = {file, line, false, turns, turns, now, now};
    return turns + first;
  }
  unsigned long long spent = now - loop.resumed, made = turns - loop.turns;
  loop.turns = turns;
  if (!loop.waits) {
    loop.waits = now - loop.begin > patience_ticks;
    loop.step = loop.waits ? std::max(1ull, made * turn_ticks / (spent + 1)) : made * 2;
    if (!loop.waits) return turns + loop.step;
  } else if (spent < turn_ticks / 2) {
    loop.step *= 2;
  } else if (spent > turn_ticks * 2) {
    loop.step = std::max(1ull, loop.step / 2);
  }
  loom::let_others_run(file, line);
  loop.resumed = ticks();
  return turns + loop.step;
}

double erfcx(double x) {
  if (x < 25) return std::exp(x * x) * std::erfc(x);
  double r = 1 / (x * x);  // asymptotic series: erfc underflows here
  return 0.5641895835477563 / x * (1 - r * (0.5 - r * (0.75 - r * 1.875)));
}
float erfcxf(float x) { return (float)erfcx(x); }

// Acklam's rational start, then two steps of Halley's method on erfc.
double normcdfinv(double p) {
  if (!(p >= 0 && p <= 1)) return NAN;
  if (p == 0) return -INFINITY;
  if (p == 1) return INFINITY;
  static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02, 1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00};
  static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01, -1.328068155288572e+01};
  static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00, -2.549732539343734e+00, 4.374664141464968e+00, 2.938163982698783e+00};
  static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
  double x;
  double tail = std::min(p, 1 - p);
  if (tail < 0.02425) {
    double q = std::sqrt(-2 * std::log(tail));
    x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) / ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    if (p > 0.5) x = -x;
  } else {
    double q = p - 0.5, r = q * q;
    x = (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q / (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
  }
  for (int step = 0; step < 2; ++step) {
    double error = x < 0 ? 0.5 * std::erfc(-x * M_SQRT1_2) - p : (1 - p) - 0.5 * std::erfc(x * M_SQRT1_2);
    double u = error * 2.5066282746310002 * std::exp(x * x / 2);
    x -= u / (1 + x * u / 2);
  }
  return x;
}
float normcdfinvf(float p) { return (float)normcdfinv(p); }
double normcdf(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
float normcdff(float x) { return (float)normcdf(x); }
double erfcinv(double y) { return y > 2 || y < 0 ? NAN : -normcdfinv(y / 2) * M_SQRT1_2; }
float erfcinvf(float y) { return (float)erfcinv(y); }
// Near 0 the difference to 1/2 would be lost, so a series starts Newton's method on erf itself.
double erfinv(double y) {
  if (std::fabs(y) > 0.1) return normcdfinv((y + 1) / 2) * M_SQRT1_2;
  double x = 0.8862269254527580 * y * (1 + 0.2617993877991494 * y * y);
  for (int step = 0; step < 3; ++step) x -= (std::erf(x) - y) * 0.8862269254527580 * std::exp(x * x);
  return x;
}
float erfinvf(float y) { return (float)erfinv(y); }

static double bessel_i(int order, double x) {
  double half = std::fabs(x) / 2, sum = 0;
  if (half < 20) {
    double term = order ? half : 1;
    for (int k = 1; k < 400 && term > sum * 1e-18; ++k) {
      sum += term;
      term *= half * half / (k * (double)(k + order));
    }
  } else {  // asymptotic expansion
    double mu = 4.0 * order * order, term = 1;
    for (int k = 1; k < 30; ++k) {
      sum += term;
      double next = -term * (mu - (2 * k - 1) * (2 * k - 1)) / (k * 8 * 2 * half);
      if (std::fabs(next) > std::fabs(term)) break;
      term = next;
    }
    sum *= std::exp(2 * half) / std::sqrt(2 * M_PI * 2 * half);
  }
  return order && x < 0 ? -sum : sum;
}
double cyl_bessel_i0(double x) { return bessel_i(0, x); }
float cyl_bessel_i0f(float x) { return (float)bessel_i(0, x); }
double cyl_bessel_i1(double x) { return bessel_i(1, x); }
float cyl_bessel_i1f(float x) { return (float)bessel_i(1, x); }
}

void loom::look_for_progress(const char* file, int line, double slept_now) {
  static thread_local long seen = -1;
  static thread_local double since, slept;
  static thread_local bool told;
  slept += slept_now;
  double now = busy_seconds() + slept;
  long made = progress.load(std::memory_order_relaxed);
  if (made != seen) {
    seen = made, since = now, told = false;
    return;
  }
  double spent = now - since, stop_after = __loom_waiting_seconds[1];
  if (spent < __loom_waiting_seconds[0] || (told && spent < stop_after)) return;
  fflush(stdout);
  bool stop = spent >= stop_after;
  fprintf(stderr, "%s:%d: %s: threads of a kernel have been in this loop for %.0f s\n", file, line, stop ? "error" : "warning", spent);
  fprintf(stderr, "  why: it reads what other threads write; all that can run have had their turns, and nothing has ended it\n");
  fprintf(stderr, "  try: `loom check`, which names the write that is missing\n");
  if (stop) _exit(134);
  told = true;
}
