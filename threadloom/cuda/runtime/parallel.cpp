// The OpenMP runtime that kernels fork with, found when the first kernel runs: one that the process has loaded
// already (a program built with -fopenmp, or a host like PyTorch), else the one installed with us, else the system's.
// Objects thus need no OpenMP library when they are linked, and a process never has two teams of workers.
#include <dlfcn.h>

#include <initializer_list>

#ifndef LOOM_OPENMP_PATH
#define LOOM_OPENMP_PATH ""
#endif

namespace {
struct OpenMp {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned);
  int (*thread_num)();
  int (*num_threads)();
  int (*max_threads)();

  bool take(void* library) {
    parallel = (decltype(parallel))dlsym(library, "GOMP_parallel");
    thread_num = (decltype(thread_num))dlsym(library, "omp_get_thread_num");
    num_threads = (decltype(num_threads))dlsym(library, "omp_get_num_threads");
    max_threads = (decltype(max_threads))dlsym(library, "omp_get_max_threads");
    return parallel && thread_num && num_threads && max_threads;
  }

  OpenMp() {
    if (take(RTLD_DEFAULT)) return;
    for (const char* name : {LOOM_OPENMP_PATH, "libgomp.so.1", "libomp.so.5", "libomp.so"})
      if (*name)
        if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL))
          if (take(library)) return;
    parallel = [](void (*work)(void*), void* context, unsigned, unsigned) { work(context); };
    thread_num = [] { return 0; };
    num_threads = max_threads = [] { return 1; };
  }
};

const OpenMp& openmp() {
  static const OpenMp found;
  return found;
}
}  // namespace

extern "C" {
void __loom_parallel(void (*work)(void*), void* context, unsigned threads, unsigned flags) { openmp().parallel(work, context, threads, flags); }
int __loom_thread_num() { return openmp().thread_num(); }
int __loom_num_threads() { return openmp().num_threads(); }
int __loom_max_threads() { return openmp().max_threads(); }
}
