/* Preloaded into a program that was built with -fopenmp: when did its first parallel region begin, when did its last one end?
   libgomp is watched by standing in front of its entry points, LLVM's runtime by its tool interface (OMPT). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double first = -1, last, inside, entered;
static long regions;
static __thread int depth;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
static void report(void) {
  FILE* out = fopen(getenv("LOOM_REGIONS_FILE"), "w");
  if (!out) return;
  fprintf(out, "{\"span_s\": %.9f, \"inside_s\": %.9f, \"regions\": %ld}\n", first < 0 ? 0 : last - first, inside, regions);
  fclose(out);
}
static void enter(void) {
  if (depth++) return;
  entered = now();
  if (first < 0) {
    first = entered;
    atexit(report);
  }
}
static void leave(void) {
  if (--depth) return;
  last = now();
  inside += last - entered;
  ++regions;
}

/* ---- libgomp: clause values are machine words */
typedef void (*body_t)(void*);
#define REAL(name, type) ((type)dlsym(RTLD_NEXT, #name))
void GOMP_parallel(body_t body, void* context, unsigned threads, unsigned flags) {
  enter();
  REAL(GOMP_parallel, void (*)(body_t, void*, unsigned, unsigned))(body, context, threads, flags);
  leave();
}
#define LOOP(name)                                                                                                    \
  void name(body_t body, void* context, unsigned threads, long start, long end, long step, long chunk, unsigned flags) { \
    enter();                                                                                                           \
    REAL(name, void (*)(body_t, void*, unsigned, long, long, long, long, unsigned))                                    \
    (body, context, threads, start, end, step, chunk, flags);                                                          \
    leave();                                                                                                           \
  }
LOOP(GOMP_parallel_loop_static)
LOOP(GOMP_parallel_loop_dynamic)
LOOP(GOMP_parallel_loop_guided)
LOOP(GOMP_parallel_loop_nonmonotonic_dynamic)
LOOP(GOMP_parallel_loop_nonmonotonic_guided)
#define LOOP_RUNTIME(name)                                                                                             \
  void name(body_t body, void* context, unsigned threads, long start, long end, long step, unsigned flags) {           \
    enter();                                                                                                           \
    REAL(name, void (*)(body_t, void*, unsigned, long, long, long, unsigned))(body, context, threads, start, end, step, flags); \
    leave();                                                                                                           \
  }
LOOP_RUNTIME(GOMP_parallel_loop_runtime)
LOOP_RUNTIME(GOMP_parallel_loop_nonmonotonic_runtime)
LOOP_RUNTIME(GOMP_parallel_loop_maybe_nonmonotonic_runtime)
void GOMP_parallel_sections(body_t body, void* context, unsigned threads, unsigned count, unsigned flags) {
  enter();
  REAL(GOMP_parallel_sections, void (*)(body_t, void*, unsigned, unsigned, unsigned))(body, context, threads, count, flags);
  leave();
}

/* ---- OMPT: the two callbacks that are needed, by their numbers in the specification */
enum { on_parallel_begin = 3, on_parallel_end = 4 };
typedef void (*callback_t)(void);
typedef int (*set_callback_t)(int, callback_t);
struct tool {
  int (*initialize)(callback_t (*)(const char*), int, void*);
  void (*finalize)(void*);
  unsigned long data;
};
static int initialize(callback_t (*find)(const char*), int device, void* tool) {
  set_callback_t set = (set_callback_t)find("ompt_set_callback");
  set(on_parallel_begin, (callback_t)enter);
  set(on_parallel_end, (callback_t)leave);
  return 1;
}
static void finalize(void* tool) {}
struct tool* ompt_start_tool(unsigned version, const char* runtime) {
  static struct tool ours = {initialize, finalize, 0};
  return &ours;
}
