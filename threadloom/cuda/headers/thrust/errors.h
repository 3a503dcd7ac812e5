/* What Thrust throws: bad_alloc where there is no memory, system_error for what programs throw themselves. */
#pragma once
#include <new>
#include <string>
#include <system_error>

namespace thrust {
namespace system {
using std::errc;
using std::error_category;
using std::error_code;
using std::error_condition;
using std::generic_category;
using std::make_error_code;
using std::make_error_condition;
using std::system_category;
using std::system_error;
class __cuda_category : public std::error_category {
 public:
  const char* name() const noexcept override { return "cuda"; }
  std::string message(int error) const override { return cudaGetErrorString((cudaError_t)error); }
};
inline const std::error_category& cuda_category() {
  static const __cuda_category it;
  return it;
}
namespace detail {
class bad_alloc : public std::bad_alloc {
  std::string text_;

 public:
  explicit bad_alloc(const std::string& why) : text_("std::bad_alloc: " + why) {}
  const char* what() const noexcept override { return text_.c_str(); }
};
}  // namespace detail
}  // namespace system
using system::cuda_category;
using system::errc;
using system::error_category;
using system::error_code;
using system::error_condition;
using system::generic_category;
using system::make_error_code;
using system::system_category;
using system::system_error;

inline void* __loom_new(size_t bytes) {
  void* p = nullptr;
  cudaError_t error = cudaMalloc(&p, bytes);
  if (error != cudaSuccess) throw system::detail::bad_alloc(cudaGetErrorString(error));
  return p;
}
}  // namespace thrust
