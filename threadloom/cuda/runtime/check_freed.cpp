// Memory that has been freed stays where it is under `loom check`, so that who still uses it is told from who has got it since.
#include "check.h"
#include "freed.h"

#include <unistd.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>

namespace loom {
bool serial();  // stream.cpp: the program is being checked

namespace {
struct Freed {
  size_t bytes;
  std::function<void()> end;
};
struct Kept {
  std::mutex mutex;
  std::map<const char*, Freed> ranges;
  std::deque<const char*> order;  // oldest first
  size_t bytes = 0;
  std::atomic<bool> any{false};
};
Kept& kept() {
  static Kept* all = new Kept;
  return *all;
}
size_t most_bytes() { return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / 8; }
}  // namespace

void keep_freed(const void* p, size_t bytes, std::function<void()> end) {
  std::lock_guard<std::mutex> guard(kept().mutex);
  kept().ranges[(const char*)p] = {bytes, std::move(end)};
  kept().order.push_back((const char*)p);
  kept().bytes += bytes;
  kept().any = true;
  while (kept().bytes > most_bytes()) {
    auto oldest = kept().ranges.find(kept().order.front());
    kept().order.pop_front();
    kept().bytes -= oldest->second.bytes;
    oldest->second.end();
    kept().ranges.erase(oldest);
  }
}

bool freed_range(const void* p, const char** base, size_t* bytes) {
  if (!kept().any) return false;
  std::lock_guard<std::mutex> guard(kept().mutex);
  auto after = kept().ranges.upper_bound((const char*)p);
  if (after == kept().ranges.begin()) return false;
  auto& [start, freed] = *std::prev(after);
  if ((const char*)p >= start + freed.bytes) return false;
  *base = start, *bytes = freed.bytes;
  return true;
}

void told_about_free(const char* call, const void* p) {
  if (serial()) checking::report_call(call, is_freed(p) ? "memory that has been freed" : "memory that it is not for");
}
}  // namespace loom
