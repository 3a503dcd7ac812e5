// What `loom check` knows of device memory that has been given back.
#pragma once
#include <cstddef>
#include <functional>

namespace loom {
// Keeps the memory from being handed out again, for as long as there is room; `end` gives it back.
void keep_freed(const void* p, size_t bytes, std::function<void()> end);
// The range that `p` points into, if it has been freed.
bool freed_range(const void* p, const char** base, size_t* bytes);
inline bool is_freed(const void* p) {
  const char* base;
  size_t bytes;
  return freed_range(p, &base, &bytes);
}
// A call of the program's for memory that has been freed, or that it is not for: reported where the program is checked.
void told_about_free(const char* call, const void* p);
}  // namespace loom
