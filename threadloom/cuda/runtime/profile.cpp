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
#include <unordered_map>
#include <vector>

#include "runtime.h"

namespace loom {
namespace {
// Of the first launch: three block extents, then arguments of up to eight bytes; what later launches have otherwise is cleared.
// Kept as bytes, since a program may launch every few microseconds; they become text at the end.
struct Word {
  unsigned char bytes[8];
  int count;  // 0: launches differ, or the argument is longer
};
struct Total {
  long long calls = 0;
  double seconds = 0;
  std::vector<Word> first;

  void add(const Kernel& kernel, void** arguments, const Geometry& geometry, double took) {
    seconds += took;
    if (!calls++) first.assign(3 + (size_t)kernel.arguments, Word{{}, 0});
    for (size_t i = 0; i < first.size(); ++i) {
      const void* given = i < 3 ? &geometry.block[i] : arguments[i - 3];
      int bytes = i < 3 ? (int)sizeof geometry.block[i] : kernel.argument_bytes[i - 3];
      if (calls == 1 && bytes <= 8) {
        memcpy(first[i].bytes, given, (size_t)bytes);
        first[i].count = bytes;
      } else if (first[i].count && memcmp(first[i].bytes, given, (size_t)bytes)) {
        first[i].count = 0;
      }
    }
  }
  void add(const Total& other) {  // of another kernel of this name
    calls += other.calls;
    seconds += other.seconds;
    if (first.empty()) first = other.first;
    for (size_t i = 0; i < first.size(); ++i)
      if (i >= other.first.size() || first[i].count != other.first[i].count || memcmp(first[i].bytes, other.first[i].bytes, 8)) first[i].count = 0;
  }
  std::vector<std::string> described() const {
    std::vector<std::string> all;
    for (size_t i = 0; i < first.size(); ++i) {
      unsigned extent = 0;
      memcpy(&extent, first[i].bytes, sizeof extent);
      char text[20] = "";
      for (int k = 0; k < first[i].count; ++k) snprintf(text + 2 * k, 3, "%02x", first[i].bytes[k]);
      all.push_back(i < 3 && first[i].count ? std::to_string(extent) : text);
    }
    return all;
  }
};
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
  std::unordered_map<const Kernel*, Total> kernels;
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
  std::map<std::string, Total> by_name;
  for (auto& [kernel, total] : all.kernels) by_name[kernel->name].add(total);
  for (auto& [name, total] : by_name) {
    fprintf(out, "%s\n {\"name\": \"%s\", \"calls\": %lld, \"seconds\": %.9f, \"first\": [", between, name.c_str(), total.calls, total.seconds);
    write_first(out, total.described());
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
  all.kernels[&kernel].add(kernel, arguments, geometry, seconds(end - start));
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
