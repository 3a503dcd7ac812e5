// Where device memory lies. Memory that other processes get becomes a file without a name, mapped in the same place: so all
// device memory lies in pages of its own (a page that malloc uses, too, must not be shared with children of a fork).
#include "pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <vector>

#include "team.h"

namespace loom {
size_t total_bytes() { return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE); }

namespace {
size_t page_bytes() {
  static const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  return bytes;
}
size_t whole_pages(size_t bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }

// Pages of zeros are holes of the file, and take no memory.
bool write_pages(int file, const char* from, size_t bytes) {
  static const std::vector<char> zeros(page_bytes());
  for (size_t at = 0; at < bytes; at += page_bytes())
    if (memcmp(from + at, zeros.data(), page_bytes()) && pwrite(file, from + at, page_bytes(), (off_t)at) != (ssize_t)page_bytes()) return false;
  return true;
}
}  // namespace

Pages::Pages(size_t least, size_t alignment)
    : bytes(whole_pages(least)), begin((char*)aligned_alloc(std::max(alignment, page_bytes()), bytes)) {}

Pages::~Pages() {
  if (file >= 0) {  // malloc gets private memory back
    mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    close(file);
  }
  free(begin);
}

bool Pages::share() {
  if (file >= 0) return true;
  int made = memfd_create("memory", MFD_CLOEXEC);
  bool written = made >= 0 && !ftruncate(made, (off_t)bytes) && write_pages(made, begin, bytes);
  if (!written || mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, made, 0) == MAP_FAILED) {
    if (made >= 0) close(made);
    return false;
  }
  return file = made, true;
}

// A GPU's memory is there once it is asked for, and it has large pages. Here each page would come when a kernel first writes to it,
// one fault of one worker at a time. So arrays ask for all their pages at once, and for pages of 2 MB where they fill some. Programs
// ask for pools of gigabytes of which they use little: those come as they are touched.
//
// Pages that come at once lie side by side, so equal indices of arrays that began at a page would share the few places of one set of
// a cache: arrays begin at different sets.
namespace {
constexpr size_t large_page = 2 << 20, least_populated = 64 << 10;
constexpr size_t most_populated = (size_t)2 << 30;  // by a program: some ask for arrays again and again and touch few
constexpr size_t set_step = 77 * 512, set_count = 13;
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

// Small arrays lie side by side in pages that have nothing else in them.
struct Small {
  std::mutex mutex;
  std::map<size_t, std::vector<Room>> unused;  // by size
  std::shared_ptr<Pages> pages;
  size_t taken = 0;
};
Small& small() {
  static Small* all = new Small;
  return *all;
}
Room small_room(size_t whole) {
  std::lock_guard<std::mutex> guard(small().mutex);
  std::vector<Room>& unused = small().unused[whole];
  if (!unused.empty()) {
    Room room = std::move(unused.back());
    return unused.pop_back(), room;
  }
  if (!small().pages || small().taken + whole > small().pages->bytes) {
    auto pages = std::make_shared<Pages>(large_page, 0);
    if (!pages->begin) return {};
    small().pages = std::move(pages), small().taken = 0;
  }
  Room room{small().pages->begin + small().taken, whole, small().pages};
  return small().taken += whole, room;
}
}  // namespace

Room device_room(size_t bytes, size_t whole) {
  if (bytes < least_populated) return small_room(whole);
  bool sparse = bytes >= sparse_bytes, large = bytes >= 2 * large_page;
  static std::atomic<size_t> arrays{0}, populated{0};
  size_t start = sparse ? 0 : arrays.fetch_add(1) % set_count * set_step;
  auto pages = std::make_shared<Pages>(sparse ? whole : whole + set_step * set_count, large && !sparse ? large_page : 0);
  if (!pages->begin) return {};
  char* memory = pages->begin + start;
  if (!sparse) {
    start_workers();  // a GPU is made ready by a program's first calls, too, not by its first kernel
    char* begin = pages->begin + whole_pages(start);
    size_t filled = (size_t)(memory + bytes - begin) / page_bytes() * page_bytes();
    if (large) madvise(begin, filled, MADV_HUGEPAGE);
    bool may = populated.fetch_add(bytes) < std::min(total_bytes() / 16, most_populated);
    if (may) madvise(begin, filled, MADV_POPULATE_WRITE);  // older systems do not know it
  }
  return {memory, whole, std::move(pages)};
}

void give_back(Room room) {
  if (!room.pages)
    free(room.memory);
  else if (room.pages.use_count() > 1) {  // a small one: its pages stay
    std::lock_guard<std::mutex> guard(small().mutex);
    small().unused[room.bytes].push_back(std::move(room));
  }
}

// ---- other processes
SharedPlace shared_place(int file, size_t file_bytes, size_t offset, size_t bytes) {
  struct stat facts = {};
  fstat(file, &facts);
  return {(int)getpid(), file, facts.st_ino, file_bytes, offset, bytes};
}

std::shared_ptr<char> map_shared(const SharedPlace& place) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", place.process, place.file);
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat facts = {};
  bool same = !fstat(file, &facts) && facts.st_ino == place.inode && (size_t)facts.st_size == place.file_bytes;
  void* begin = same ? mmap(nullptr, place.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (begin == MAP_FAILED) return nullptr;
  return {(char*)begin, [bytes = place.file_bytes](char* begin) { munmap(begin, bytes); }};
}

SharedRecords::SharedRecords() : place{} {
  int file = memfd_create("event", MFD_CLOEXEC);
  if (file < 0) return;
  if (!ftruncate(file, sizeof(Counts))) {
    place = shared_place(file, sizeof(Counts), 0, sizeof(Counts));
    page_ = map_shared(place);
  }
  page_ = {page_.get(), [file, mapped = page_](char*) { close(file); }};  // others open it as long as it is there
}
SharedRecords::SharedRecords(const SharedPlace& of) : place(of) {
  if (of.file_bytes == sizeof(Counts)) page_ = map_shared(of);
}
// Other processes can tell nobody here, so it looks again and again.
void SharedRecords::wait(uint64_t number) {
  for (long pause_ns = 5000; !is_reached(number); pause_ns = std::min(2 * pause_ns, 1000000L)) {
    timespec pause{0, pause_ns};
    nanosleep(&pause, nullptr);
  }
}
}  // namespace loom
