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
  int number;  // in State::sites; 0: not yet there
};
enum Kind { Read, Write, Atomic, VolatileRead, VolatileWrite };
inline bool reads_only(int kind) { return kind == Read || kind == VolatileRead; }
inline bool writes_only(int kind) { return kind == Write || kind == VolatileWrite; }

// Who accessed a cell, and when, in one word: block : 24, thread : 10, barrier : 14, warp's barrier : 8, grid's : 8 (the
// counters wrap; equal words are the same thread between the same barriers).
struct Who {
  unsigned long long bits = 0;

  unsigned block() const { return (unsigned)(bits >> 40); }
  unsigned thread() const { return (unsigned)(bits >> 30) & 1023; }
  unsigned barrier() const { return (unsigned)(bits >> 16) & 0x3fff; }
  unsigned warp() const { return (unsigned)(bits >> 8) & 255; }
  unsigned grid() const { return (unsigned)bits & 255; }
};

struct Record {
  Who who;
  unsigned site = 0;  // 0: nobody yet
};

// Half a cache line: the last write and two reads since.
struct alignas(32) Cell {
  Who write, read[2];
  unsigned short write_site = 0, read_site[2] = {0, 0};
  bool initialised = false;
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
  struct Cached {
    uintptr_t number = ~(uintptr_t)0;
    Page* page = nullptr;
  } cached[256];
  std::vector<const Site*> sites{nullptr};
  unsigned launch = 0;
  const char* kernel = "";
  BlockState block;
  std::set<std::string> told;
  std::vector<std::string> findings;
  alignas(64) char harmless[4096];
};

State* the_state = nullptr;  // from the first launch of an instrumented kernel on

inline State& state() { return *the_state; }

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

const char* verb(const Site& site) { return reads_only(site.kind) ? "reads" : writes_only(site.kind) ? "writes" : "updates"; }

bool unordered(Who a, Who b) {
  if (a.block() != b.block()) return a.grid() == b.grid();
  if (a.thread() == b.thread() || a.barrier() != b.barrier()) return false;
  return !(a.thread() / 32 == b.thread() / 32 && a.warp() != b.warp());
}

__attribute__((noinline)) void compare(const Record& old, const Record& now) {
  const Site &before = *state().sites[old.site], &here = *state().sites[now.site];
  if (reads_only(before.kind) && reads_only(here.kind)) return;
  if (before.kind >= Atomic && here.kind >= Atomic) return;  // volatile accesses are meant to meet each other
  if (!unordered(old.who, now.who)) return;
  std::string message = at(before) + ": thread " + std::to_string(old.who.thread()) + " of block " + std::to_string(old.who.block()) + " " +
                        verb(before) + " what thread " + std::to_string(now.who.thread()) + " of block " + std::to_string(now.who.block()) +
                        " " + verb(here) + " at " + at(here) + ", and nothing orders the two";
  report(key("race", &before, &here), "race", message, place(before) + ", " + place(here));
}

// Cheap proof that two accesses are in order: the same block, and the same thread or a barrier between.
inline bool surely_ordered(Who old, Who now) {
  unsigned long long differ = old.bits ^ now.bits;
  return differ >> 40 == 0 && ((differ >> 16 & 0x3fff) != 0 || (differ >> 30 & 1023) == 0);
}

inline bool same_thread(Who a, Who b) { return a.bits >> 30 == b.bits >> 30; }

inline void remember_read(Cell& cell, const Record& now) {
  Who a = cell.read[0], b = cell.read[1];
  int slot = -1;
  if (!cell.read_site[0] || same_thread(a, now.who)) slot = 0;  // of one thread the last read will do
  else if (!cell.read_site[1] || same_thread(b, now.who)) slot = 1;
  else if (a.block() == b.block() && now.who.block() != a.block()) slot = 1;  // a reader of another block meets more writers
  else if (a.block() == now.who.block() && a.barrier() != now.who.barrier()) slot = 0;
  else if (b.block() == now.who.block() && b.barrier() != now.who.barrier()) slot = 1;
  if (slot >= 0) cell.read[slot] = now.who, cell.read_site[slot] = (unsigned short)now.site;
}

__attribute__((noinline)) void renew(Page& page) {
  page.cells.assign((size_t)1 << (page_bits - page.shift), Cell());
  page.launch = state().launch;
}

inline Page& page_of(uintptr_t number) {
  State& s = state();
  State::Cached& cached = s.cached[number & 255];
  if (cached.number != number) {
    cached.page = &s.pages[number];  // nodes of the map stay where they are
    cached.number = number;
  }
  Page& page = *cached.page;
  if (page.launch != s.launch) renew(page);
  return page;
}

__attribute__((noinline)) void refine(Page& page) {
  std::vector<Cell> fine((size_t)1 << page_bits);
  for (size_t i = 0; i < fine.size(); i++) fine[i] = page.cells[i / 4];
  page.cells.swap(fine);
  page.shift = 0;
}

__attribute__((noinline)) void uninitialised(const Record& now, const char* object) {
  const Site& site = *state().sites[now.site];
  report(key("uninitialised", &site, &site), "uninitialised",
         at(site) + ": thread " + std::to_string(now.who.thread()) + " of block " + std::to_string(now.who.block()) +
             " reads shared memory of '" + object + "' that nobody has written",
         place(site));
}

inline void touch(Cell& cell, const Record& now, int kind, bool shared, const char* object) {
  if (!writes_only(kind) && shared && !cell.initialised) uninitialised(now, object);
  if (cell.write_site && !surely_ordered(cell.write, now.who)) compare({cell.write, cell.write_site}, now);
  if (reads_only(kind)) {
    if (cell.read[0].bits != now.who.bits || !cell.read_site[0]) remember_read(cell, now);
    return;
  }
  for (int i = 0; i < 2; i++)
    if (cell.read_site[i] && !surely_ordered(cell.read[i], now.who)) compare({cell.read[i], cell.read_site[i]}, now);
  cell.write = now.who, cell.write_site = (unsigned short)now.site;
  cell.read_site[0] = cell.read_site[1] = 0;
  cell.initialised = true;
}

inline void touch_all(uintptr_t address, const Record& now, const Site& site, bool shared, const char* object) {
  uintptr_t end = address + site.bytes;
  while (address < end) {
    Page* page = &page_of(address >> page_bits);
    size_t offset = address & (((uintptr_t)1 << page_bits) - 1);
    if (page->shift == 2 && (offset % 4 != 0 || end - address < 4)) refine(*page);
    touch(page->cells[offset >> page->shift], now, site.kind, shared, object);
    address += (size_t)1 << page->shift;
  }
}

// Most accesses: four bytes whose cell is at hand and has nothing new to learn. False: take the long way.
inline bool known_read(State& s, uintptr_t address, Who now, bool shared) {
  const State::Cached& cached = s.cached[(address >> page_bits) & 255];
  if (cached.number != address >> page_bits || cached.page->launch != s.launch || cached.page->shift != 2) return false;
  const Cell& cell = cached.page->cells[(address & (((uintptr_t)1 << page_bits) - 1)) >> 2];
  if ((shared && !cell.initialised) || (cell.write_site && !surely_ordered(cell.write, now))) return false;
  if (!cell.read_site[0]) return false;
  unsigned long long first = cell.read[0].bits ^ now.bits, second = cell.read[1].bits ^ now.bits;
  if (first == 0) return true;
  // Two other threads of this block have read it between the same barriers: a third adds nothing.
  return cell.read_site[1] && ((first | second) & 0xffffff003fffffffull) == 0 && first >> 30 && second >> 30;
}

__attribute__((noinline)) void number_site(Site& site) {
  State& s = state();
  site.number = (int)s.sites.size();
  if (site.number < 65535) s.sites.push_back(&site);
  else site.number = 65534;  // a program with more accesses than that shares the last one's name
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
  if (!the_state) return;  // the program is not being checked
  Site site{file, "", line, 0, Read, -1, 0};
  report(std::string("divergent ") + at(site), "divergent-barrier",
         at(site) + ": __syncthreads() was reached by a part of the threads of a block only", place(site));
  fflush(stdout);
  write_findings();
  _exit(1);
}

extern "C" {

extern int loom_thread_limit __attribute__((weak));  // of the compiled kernels (targets/cpu/outline.py)

void __loom_check_launch(const char* kernel) {
  if (!the_state) the_state = new State;
  State& s = state();
  if (&loom_thread_limit) loom_thread_limit = 1;
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

void* __loom_check_access(void*, int thread, long long epoch, char* address, Site* site) {
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
  if (!site->number) number_site(*site);
  Record now;
  unsigned long long counters = (unsigned long long)(epoch & 0x3fff) << 16 | (epoch >> 16 & 255) << 8 | (epoch >> 32 & 255);
  now.who.bits = (unsigned long long)s.block.index << 40 | (unsigned long long)(thread & 1023) << 30 | counters;
  now.site = (unsigned)site->number;
  if (site->kind == Read && site->bytes == 4 && !((uintptr_t)address & 3) && known_read(s, (uintptr_t)address, now.who, shared))
    return address;
  touch_all((uintptr_t)address, now, *site, shared, name);
  return address;
}

// Memory that a thread has just got from malloc: who had it before does not matter.
void __loom_check_fresh(char* memory, long long bytes) {
  if (!memory) return;
  for (uintptr_t address = (uintptr_t)memory, end = address + (uintptr_t)bytes; address < end;) {
    Page& page = page_of(address >> page_bits);
    page.cells[(address & (((uintptr_t)1 << page_bits) - 1)) >> page.shift] = Cell();
    address = ((address >> page.shift) + 1) << page.shift;
  }
}

void* __loom_check_private(char* base, long long bytes, char* address, const Site* site, const char* name) {
  if (address >= base && address + site->bytes <= base + bytes) return address;
  out_of_bounds(*site, name, address - base, bytes, "a thread of block " + std::to_string(state().block.index));
  return state().harmless;
}

// What was found since the last call, one JSON object per line; for callers that stay in the process.
const char* __loom_check_take() {
  static std::string text;
  if (!the_state) return "";
  State& s = state();
  text.clear();
  for (const std::string& finding : s.findings) text += finding + "\n";
  s.findings.clear();
  s.told.clear();
  return text.c_str();
}
}
