// LOOM_PROFILE=FILE: at its end a program writes how often each kernel ran and for how long, as JSON.
#include "profile.h"

#include <cstdlib>
#include <map>

#include "runtime.h"

namespace loom {
namespace {
struct Total {
  long long calls = 0;
  double seconds = 0;
};
struct Profile {
  std::mutex mutex;
  std::map<std::string, Total> kernels;
  Clock::time_point first, last;
  double copies = 0, copies_between = 0;  // seconds; between the first launch and the end of the last kernel
  bool launched = false;
};
Profile& profile() {
  static Profile* all = new Profile;
  return *all;
}
const char* const file = getenv("LOOM_PROFILE");

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

void write() {
  run_postponed();
  FILE* out = fopen(file, "w");
  if (!out) return;
  Profile& all = profile();
  double span = all.launched ? seconds(all.last - all.first) : 0;
  fprintf(out, "{\"span_s\": %.9f, \"copies_in_span_s\": %.9f, \"copies_s\": %.9f, \"kernels\": [", span, all.copies_between, all.copies);
  const char* between = "";
  for (auto& [name, total] : all.kernels) {
    fprintf(out, "%s\n {\"name\": \"%s\", \"calls\": %lld, \"seconds\": %.9f}", between, name.c_str(), total.calls, total.seconds);
    between = ",";
  }
  fprintf(out, "]}\n");
  fclose(out);
}
}  // namespace

bool profiling() { return file != nullptr; }

void profile_kernel(const char* name, Clock::time_point start) {
  Clock::time_point end = Clock::now();
  Profile& all = profile();
  std::lock_guard<std::mutex> guard(all.mutex);
  if (!all.launched) {
    atexit(write);
    all.first = start;
    all.launched = true;
  }
  all.last = end;
  all.copies_between = all.copies;
  Total& total = all.kernels[name];
  ++total.calls;
  total.seconds += seconds(end - start);
}

void profile_end() {
  if (!profiling()) return;
  Profile& all = profile();
  std::lock_guard<std::mutex> guard(all.mutex);
  all.last = Clock::now();
}

void profile_copy(Clock::time_point start) {
  Profile& all = profile();
  std::lock_guard<std::mutex> guard(all.mutex);
  if (all.launched) all.copies += seconds(Clock::now() - start);
}
}  // namespace loom
