// What instrumented kernels call (threadloom/cuda/check/instrument.py): shadow memory that knows who touched each byte
// last, and reports races, accesses outside their object and reads of shared memory that nobody has written.
//
// Two accesses to a byte race if one of them writes, not both are atomic, and nothing orders them: within a block other
// threads between the same barriers (and, in one warp, between the same __syncwarp), otherwise other blocks between the
// same grid-wide barriers. Kernels run with one worker, so a report does not depend on timing.
#include "runtime.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace loom {
bool owner_of(const void* p, const char** base, size_t* bytes);  // memory.cpp
void check_divergent(const char* file, int line);
}  // namespace loom

namespace {

struct Site {  // written by instrument.py
  const char* file;
  const char* text;
  int line, bytes, kind, object;
};
enum Kind { Read, Write, Atomic };

struct Record {
  const Site* site = nullptr;  // null: nobody yet
  unsigned block = 0;
  unsigned short thread = 0, barrier = 0, warp = 0, grid = 0;
  unsigned char bytes = 0;  // which of the cell's bytes
};

struct Cell {
  Record write, reads[2];
  unsigned char initialised = 0;
};

// A page of memory: one cell per 4 bytes, or per byte once a smaller access has come.
struct Page {
  unsigned launch = 0;
  int shift = 2;
  std::vector<Cell> cells;
};
constexpr int page_bits = 12;

struct Object {
  const char *base = nullptr, *name = "";
  long long bytes = -1;  // -1: unknown
  bool shared = false;
};

struct BlockState {
  unsigned index = 0, x = 0, y = 0, z = 0;
  std::vector<Object> objects;
};

struct State {
  std::unordered_map<uintptr_t, Page> pages;
  uintptr_t last_number = ~(uintptr_t)0;
  Page* last_page = nullptr;
  unsigned launch = 0;
  const char* kernel = "";
  BlockState block;
  std::set<std::string> told;
  std::vector<std::string> findings;
  alignas(64) char harmless[4096];
};

State& state() {
  static State* all = new State;
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

// One JSON object per line to LOOM_CHECK_FILE, or the messages to stderr.
void write_findings() {
  State& s = state();
  const char* path = getenv("LOOM_CHECK_FILE");
  FILE* out = path ? fopen(path, "w") : nullptr;
  for (const std::string& finding : s.findings) {
    if (out) fprintf(out, "%s\n", finding.c_str());
    else fprintf(stderr, "%s\n", message_of(finding).c_str());
  }
  if (out) fclose(out);
  if (!s.findings.empty() && !path) _exit(1);
}

void report(const std::string& key, const char* kind, const std::string& message, const std::string& places) {
  State& s = state();
  if (s.findings.size() >= 200 || !s.told.insert(key).second) return;
  if (s.findings.empty()) atexit(write_findings);
  s.findings.push_back(std::string("{\"kind\": \"") + kind + "\", \"message\": " + quoted(message) + ", \"kernel\": " +
                       quoted(s.kernel) + ", \"places\": [" + places + "]}");
}

std::string key(const char* kind, const void* a, const void* b) {
  char text[80];
  snprintf(text, sizeof text, "%s %p %p", kind, a < b ? a : b, a < b ? b : a);
  return text;
}

std::string at(const Site& site) { return std::string(site.file) + ":" + std::to_string(site.line); }

const char* verb(const Site& site) { return site.kind == Read ? "reads" : site.kind == Write ? "writes" : "updates"; }

bool unordered(const Record& a, const Record& b) {
  if (a.block != b.block) return a.grid == b.grid;
  if (a.thread == b.thread || a.barrier != b.barrier) return false;
  return !(a.thread / 32 == b.thread / 32 && a.warp != b.warp);
}

void compare(const Record& old, const Record& now) {
  if (!old.site || !(old.bytes & now.bytes)) return;
  if (old.site->kind == Read && now.site->kind == Read) return;
  if (old.site->kind == Atomic && now.site->kind == Atomic) return;
  if (!unordered(old, now)) return;
  std::string message = at(*old.site) + ": thread " + std::to_string(old.thread) + " of block " + std::to_string(old.block) + " " +
                        verb(*old.site) + " what thread " + std::to_string(now.thread) + " of block " + std::to_string(now.block) + " " +
                        verb(*now.site) + " at " + at(*now.site) + ", and nothing orders the two";
  report(key("race", old.site, now.site), "race", message, place(*old.site) + ", " + place(*now.site));
}

void remember_read(Cell& cell, const Record& now) {
  for (Record& slot : cell.reads)
    if (!slot.site || (slot.block == now.block && slot.thread == now.thread)) {
      slot = now;
      return;
    }
  Record& a = cell.reads[0];
  Record& b = cell.reads[1];
  if (a.block == b.block && now.block != a.block) b = now;  // a reader of another block conflicts with more writers
  else if (a.block == now.block && a.barrier != now.barrier) a = now;
  else if (b.block == now.block && b.barrier != now.barrier) b = now;
}

Page& page_of(uintptr_t number) {
  State& s = state();
  if (number != s.last_number) {
    s.last_page = &s.pages[number];
    s.last_number = number;
  }
  Page& page = *s.last_page;
  if (page.cells.empty() || page.launch != s.launch) {
    page.cells.assign((size_t)1 << (page_bits - page.shift), Cell());
    page.launch = s.launch;
  }
  return page;
}

void refine(Page& page) {
  std::vector<Cell> fine((size_t)1 << page_bits);
  for (size_t i = 0; i < fine.size(); i++) {
    const Cell& old = page.cells[i / 4];
    fine[i] = old;
    unsigned bit = 1u << (i % 4);
    Record* records[] = {&fine[i].write, &fine[i].reads[0], &fine[i].reads[1]};
    for (Record* record : records) {
      record->bytes = record->bytes & bit ? 1 : 0;
      if (!record->bytes) record->site = nullptr;
    }
    fine[i].initialised = old.initialised & bit ? 1 : 0;
  }
  page.cells.swap(fine);
  page.shift = 0;
}

void touch(Cell& cell, const Record& now, bool shared, const char* object) {
  if (now.site->kind != Write && shared && (cell.initialised & now.bytes) != now.bytes)
    report(key("uninitialised", now.site, now.site), "uninitialised",
           at(*now.site) + ": thread " + std::to_string(now.thread) + " of block " + std::to_string(now.block) +
               " reads shared memory of '" + object + "' that nobody has written",
           place(*now.site));
  compare(cell.write, now);
  if (now.site->kind == Read) {
    remember_read(cell, now);
    return;
  }
  compare(cell.reads[0], now);
  compare(cell.reads[1], now);
  cell.write = now;
  cell.reads[0] = cell.reads[1] = Record();
  cell.initialised |= now.bytes;
}

void touch_all(uintptr_t address, Record now, bool shared, const char* object) {
  uintptr_t end = address + now.site->bytes;
  while (address < end) {
    Page* page = &page_of(address >> page_bits);
    size_t offset = address & (((uintptr_t)1 << page_bits) - 1);
    if (page->shift == 2 && (offset % 4 != 0 || end - address < 4)) refine(*page);
    size_t width = (size_t)1 << page->shift;
    now.bytes = (unsigned char)((1u << width) - 1);
    touch(page->cells[offset >> page->shift], now, shared, object);
    address += width;
  }
}

void out_of_bounds(const Site& site, const char* object, long long offset, long long bytes, const std::string& who) {
  report(key("out-of-bounds", &site, &site), "out-of-bounds",
         at(site) + ": " + who + " " + verb(site) + " " + std::to_string(site.bytes) + " bytes at offset " + std::to_string(offset) +
             " of '" + object + "', which has " + std::to_string(bytes) + " bytes",
         place(site));
}

const Object* shared_object(const char* address) {
  for (const Object& object : state().block.objects)
    if (object.shared && address >= object.base && address < object.base + object.bytes) return &object;
  return nullptr;
}

std::string who(unsigned thread) {
  const BlockState& block = state().block;
  return "thread " + std::to_string(thread) + " of block " + std::to_string(block.index);
}

}  // namespace

void loom::check_divergent(const char* file, int line) {
  if (!state().launch) return;  // the program is not being checked
  Site site{file, "", line, 0, Read, -1};
  report(std::string("divergent ") + at(site), "divergent-barrier",
         at(site) + ": __syncthreads() was reached by a part of the threads of a block only", place(site));
  fflush(stdout);
  write_findings();
  _exit(1);
}

extern "C" {

void __loom_check_launch(const char* kernel) {
  State& s = state();
  s.launch++;
  s.kernel = kernel;
  s.block.index = ~0u;
}

void* __loom_check_block(int x, int y, int z) {
  BlockState& block = state().block;
  block.index++;
  block.x = x, block.y = y, block.z = z;
  block.objects.clear();
  return &block;
}

void __loom_check_object(void*, int number, const char* base, long long bytes, const char* name) {
  BlockState& block = state().block;
  if ((int)block.objects.size() <= number) block.objects.resize(number + 1);
  Object& object = block.objects[number];
  object.base = base, object.name = name, object.bytes = bytes, object.shared = bytes >= 0;
  if (object.shared) {  // the arena's memory of the last block: forget it
    for (long long i = 0; i < bytes;) {
      uintptr_t address = (uintptr_t)base + i;
      Page& page = page_of(address >> page_bits);
      page.cells[(address & (((uintptr_t)1 << page_bits) - 1)) >> page.shift] = Cell();
      i += (long long)1 << page.shift;
    }
    return;
  }
  size_t size;
  const char* start;
  if (loom::owner_of(base, &start, &size)) object.base = start, object.bytes = (long long)size;
}

void* __loom_check_access(void*, int thread, long long epoch, char* address, const Site* site) {
  State& s = state();
  bool shared = false;
  const char* name = "";
  if (site->object >= 0) {
    const Object& object = s.block.objects[site->object];
    shared = object.shared, name = object.name;
    if (object.bytes >= 0 && (address < object.base || address + site->bytes > object.base + object.bytes)) {
      out_of_bounds(*site, object.name, address - object.base, object.bytes, who(thread));
      memset(s.harmless, 0, site->bytes < 4096 ? site->bytes : 4096);
      return s.harmless;
    }
  } else if ((uintptr_t)address < 4096) {
    out_of_bounds(*site, "null", (long long)(uintptr_t)address, 0, who(thread));
    return s.harmless;
  } else if (const Object* object = shared_object(address)) {
    shared = true, name = object->name;
  }
  Record now;
  now.site = site, now.block = s.block.index, now.thread = (unsigned short)thread;
  now.barrier = epoch & 0xffff, now.warp = epoch >> 16 & 0xffff, now.grid = epoch >> 32 & 0xffff;
  touch_all((uintptr_t)address, now, shared, name);
  return address;
}

void* __loom_check_private(char* base, long long bytes, char* address, const Site* site, const char* name) {
  if (address >= base && address + site->bytes <= base + bytes) return address;
  out_of_bounds(*site, name, address - base, bytes, "a thread of block " + std::to_string(state().block.index));
  return state().harmless;
}

// What was found since the last call, one JSON object per line; for callers that stay in the process.
const char* __loom_check_take() {
  static std::string text;
  State& s = state();
  text.clear();
  for (const std::string& finding : s.findings) text += finding + "\n";
  s.findings.clear();
  s.told.clear();
  return text.c_str();
}
}
