// What the checker found, as messages: each pair of places once.
#include "check.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>

namespace loom {
namespace checking {
namespace {
struct Findings {
  std::set<std::string> told;
  std::vector<std::string> lines;  // a JSON object each
};
Findings& findings() {
  static Findings* all = new Findings;  // outlives everything that may still report
  return *all;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if ((unsigned char)c < 32) continue;
    out += c;
  }
  return out + '"';
}

std::string place(const Site& site) {
  return "{\"file\": " + quoted(site.file) + ", \"line\": " + std::to_string(site.line) + ", \"text\": " + quoted(site.text) + "}";
}

std::string message_of(const std::string& finding) {
  size_t start = finding.find("\"message\": \"") + 12;
  std::string out;
  for (size_t i = start; i < finding.size() && finding[i] != '"'; i++) {
    if (finding[i] == '\\') i++;
    out += finding[i];
  }
  return out;
}

bool is_new(const char* kind, const void* a, const void* b) {
  char text[80];
  snprintf(text, sizeof text, "%s %p %p", kind, a < b ? a : b, a < b ? b : a);
  return findings().lines.size() < 200 && findings().told.insert(text).second;
}

void add(const char* kind, const std::string& message, const std::string& places) {
  std::vector<std::string>& lines = findings().lines;
  if (lines.empty()) atexit(write_findings);
  lines.push_back(std::string("{\"kind\": \"") + kind + "\", \"message\": " + quoted(message) + ", \"kernel\": " +
                  quoted(the_state ? state().kernel : "") + ", \"places\": [" + places + "]}");
}

std::string at(const Site& site) { return std::string(site.file) + ":" + std::to_string(site.line); }
const char* verb(const Site& site) { return reads_only(site.kind) ? "reads" : writes_only(site.kind) ? "writes" : "updates"; }
std::string who(Moment m) { return "thread " + std::to_string(thread(m)) + " of block " + std::to_string(block_of(m)); }
}  // namespace

std::string who(const Block& block, unsigned thread) {
  return "thread " + std::to_string(thread) + " of block " + std::to_string(block.index);
}

// One JSON object per line to LOOM_CHECK_FILE, or the messages to stderr.
void write_findings() {
  const char* path = getenv("LOOM_CHECK_FILE");
  FILE* out = path ? fopen(path, "w") : nullptr;
  for (const std::string& finding : findings().lines) {
    if (out) fprintf(out, "%s\n", finding.c_str());
    else fprintf(stderr, "%s\n", message_of(finding).c_str());
  }
  if (out) fclose(out);
  if (!findings().lines.empty() && !path) _exit(1);
}

void report_race(Moment old, Moment now) {
  const Site &before = *state().sites[site_number(old)], &here = *state().sites[site_number(now)];
  if (!is_new("race", &before, &here)) return;
  add("race", at(before) + ": " + who(old) + " " + verb(before) + " what " + who(now) + " " + verb(here) + " at " + at(here) +
                  ", and nothing orders the two",
      place(before) + ", " + place(here));
}

void report_uninitialised(Moment now, const char* object) {
  const Site& site = *state().sites[site_number(now)];
  if (!is_new("uninitialised", &site, &site)) return;
  add("uninitialised", at(site) + ": " + who(now) + " reads shared memory of '" + object + "' that nobody has written", place(site));
}

void report_out_of_bounds(const Site& site, long long size, const char* object, long long offset, long long bytes, const std::string& who) {
  if (!is_new("out-of-bounds", &site, &site)) return;
  add("out-of-bounds", at(site) + ": " + who + " " + verb(site) + " " + std::to_string(size) + " bytes at offset " +
                           std::to_string(offset) + " of '" + object + "', which has " + std::to_string(bytes) + " bytes",
      place(site));
}

void report_freed(const Site& site, const char* object, const std::string& who) {
  if (!is_new("use-after-free", &site, &site)) return;
  add("use-after-free", at(site) + ": " + who + " " + verb(site) + " " + (object ? "'" + std::string(object) + "'" : "memory") +
                            " after it has been freed", place(site));
}

void report_call(const std::string& call, const std::string& what) {
  if (!findings().told.insert(call + what).second) return;
  bool frees = call.find("Free") != std::string::npos;
  add(frees ? "invalid-free" : "use-after-free", call + (frees ? " is called for " : " is asked for of ") + what, "");
}

// Nothing can follow: the findings are written, and the program ends.
void end_waiting(const Site& site, const std::string& who) {
  add("endless-wait", at(site) + ": " + who + " waits for a value that only a later block, another kernel or the host can "
                      "write; here they run one after another, so it waits for ever and the program was ended",
      place(site));
  write_findings();
  _exit(1);
}

// "0 to 3, 7" of the bits 10001111
std::string named(unsigned lanes) {
  std::string text;
  for (unsigned i = 0; i < 32; i++) {
    if (!(lanes >> i & 1)) continue;
    unsigned last = i;
    while (last < 31 && lanes >> (last + 1) & 1) last++;
    text += (text.empty() ? "" : ", ") + std::to_string(i) + (last > i ? " to " + std::to_string(last) : "");
    i = last;
  }
  return text;
}

void report_absent(const Site& site, const char* operation, unsigned warp, unsigned lanes) {
  if (!findings().told.insert(at(site) + operation).second) return;
  bool one = !(lanes & (lanes - 1));
  add("absent-lanes", at(site) + ": " + operation + " names lane" + (one ? " " : "s ") + named(lanes) + " of warp " + std::to_string(warp) +
                          ", which do" + (one ? "es" : "") + " not reach it", place(site));
}

void report_divergent(const Site& site) {
  add("divergent-barrier", at(site) + ": __syncthreads() was reached by a part of the threads of a block only", place(site));
}
}  // namespace checking
}  // namespace loom

// What was found since the last call, one JSON object per line; for callers that stay in the process.
extern "C" const char* __loom_check_take() {
  static std::string text;
  auto& all = loom::checking::findings();
  text.clear();
  for (const std::string& finding : all.lines) text += finding + "\n";
  all.lines.clear();
  all.told.clear();
  return text.c_str();
}
