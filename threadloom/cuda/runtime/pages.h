// Where device memory lies, and how other processes get at it.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace loom {
size_t total_bytes();  // of the machine's memory
constexpr size_t sparse_bytes = (size_t)256 << 20;  // from here on pages come as they are touched

// Whole pages, which have nothing but device memory in them. Shared ones are a file without a name.
struct Pages {
  size_t bytes;
  char* begin;  // null where there is no memory
  int file = -1;
  Pages(size_t least, size_t alignment);
  Pages(const Pages&) = delete;
  ~Pages();
  bool share();  // keeps contents and addresses
};

struct Room {
  char* memory = nullptr;
  size_t bytes = 0;
  std::shared_ptr<Pages> pages;
};
Room device_room(size_t bytes, size_t whole);  // for `bytes`, and with what belongs to nobody behind them `whole`
void give_back(Room room);

// What a handle for other processes holds: bytes of a file that one of them has opened.
struct SharedPlace {
  int process, file;
  unsigned long long inode;
  size_t file_bytes, offset, bytes;
};
SharedPlace shared_place(int file, size_t file_bytes, size_t offset, size_t bytes);  // of this process
std::shared_ptr<char> map_shared(const SharedPlace& place);                         // the whole file; null where it is gone

// The records of an event that several processes know, by number: how many there are, and which have been reached.
class SharedRecords {
  static constexpr size_t slots = 511;
  struct Counts {
    std::atomic<uint64_t> issued, reached[slots];  // the last one of those that share a slot
  };
  std::shared_ptr<char> page_;
  Counts& counts() { return *(Counts*)page_.get(); }

 public:
  SharedPlace place;
  SharedRecords();                          // new ones
  explicit SharedRecords(const SharedPlace& place);  // those of another process
  bool good() const { return page_ != nullptr; }
  uint64_t issue() { return ++counts().issued; }
  uint64_t last() { return counts().issued; }
  void reach(uint64_t number) { counts().reached[number % slots] = number; }
  bool is_reached(uint64_t number) { return counts().reached[number % slots] >= number; }
  void wait(uint64_t number);
};
}  // namespace loom
