// LOOM_PROFILE=FILE: at its end a program writes how often each kernel ran and for how long, as JSON; the block and the
// arguments of its first launch, as far as all others had the same (`loom cc --launches=FILE` makes a version for them); and
// of its last copies to the host the size and a few words, evenly spaced.
#include "profile.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "runtime.h"

namespace loom {
namespace {
struct Total {
  long long calls = 0;
  double seconds = 0;
  std::vector<std::string> first;  // three block extents, then arguments of up to eight bytes; "" where launches differ
};
std::vector<std::string> described(const Kernel& kernel, void** arguments, const Geometry& geometry) {
  std::vector<std::string> all;
  for (unsigned extent : geometry.block) all.push_back(std::to_string(extent));
  for (int i = 0; i < kernel.arguments; ++i) {
    char text[20] = "";
    int bytes = kernel.argument_bytes[i];
    for (int k = 0; k < bytes && bytes <= 8; ++k) snprintf(text + 2 * k, 3, "%02x", ((const unsigned char*)arguments[i])[k]);
    all.push_back(text);
  }
  return all;
}
void write_first(FILE* out, const std::vector<std::string>& first) {
  const char* between = "";
  for (const std::string& one : first) {
    fprintf(out, "%s\"%s\"", between, one.c_str());
    between = ", ";
  }
}
struct Copied {
  size_t bytes;
  std::vector<uint64_t> words;
};
constexpr size_t most_results = 256, most_words = 32;
struct Profile {
  std::deque<Copied> results;
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
    fprintf(out, "%s\n {\"name\": \"%s\", \"calls\": %lld, \"seconds\": %.9f, \"first\": [", between, name.c_str(), total.calls, total.seconds);
    write_first(out, total.first);
    fprintf(out, "]}");
    between = ",";
  }
  fprintf(out, "], \"results\": [");
  between = "";
  for (auto& [bytes, words] : all.results) {
    fprintf(out, "%s\n [%zu, \"", between, bytes);
    for (uint64_t word : words) fprintf(out, "%016llx", (unsigned long long)word);
    fprintf(out, "\"]");
    between = ",";
  }
  fprintf(out, "]}\n");
  fclose(out);
}
}  // namespace

bool profiling() { return file != nullptr; }

void profile_kernel(const Kernel& kernel, void** arguments, const Geometry& geometry, Clock::time_point start) {
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
  Total& total = all.kernels[kernel.name];
  std::vector<std::string> launched = described(kernel, arguments, geometry);
  if (!total.calls) total.first = launched;
  for (size_t i = 0; i < launched.size(); ++i)
    if (launched[i] != total.first[i]) total.first[i].clear();
  ++total.calls;
  total.seconds += seconds(end - start);
}

void profile_end() {
  if (!profiling()) return;
  Profile& all = profile();
  std::lock_guard<std::mutex> guard(all.mutex);
  all.last = Clock::now();
}

void profile_result(const void* p, size_t bytes) {
  Copied copied{bytes, {}};
  size_t count = (bytes + 7) / 8, taken = std::min(count, most_words);
  for (size_t i = 0; i < taken; ++i) {
    size_t at = taken < 2 ? 0 : i * (count - 1) / (taken - 1) * 8;
    uint64_t word = 0;
    memcpy(&word, (const char*)p + at, std::min<size_t>(8, bytes - at));
    copied.words.push_back(word);
  }
  Profile& all = profile();
  std::lock_guard<std::mutex> guard(all.mutex);
  if (all.results.size() == most_results) all.results.pop_front();
  all.results.push_back(std::move(copied));
}

void profile_copy(Clock::time_point start) {
  Profile& all = profile();
  std::lock_guard<std::mutex> guard(all.mutex);
  if (all.launched) all.copies += seconds(Clock::now() - start);
}
}  // namespace loom
