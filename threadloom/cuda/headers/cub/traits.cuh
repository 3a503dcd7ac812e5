/* Types' bits, in whose unsigned order the values are sorted. */
#pragma once
#include <limits>
#include <type_traits>
#include <loom/prelude.h>
namespace cub {
enum Category { NOT_A_NUMBER, SIGNED_INTEGER, UNSIGNED_INTEGER, FLOATING_POINT };
template <size_t bytes> struct __loom_bits_of_size;
template <> struct __loom_bits_of_size<1> { typedef unsigned char type; };
template <> struct __loom_bits_of_size<2> { typedef unsigned short type; };
template <> struct __loom_bits_of_size<4> { typedef unsigned int type; };
template <> struct __loom_bits_of_size<8> { typedef unsigned long long type; };

template <class T> struct __loom_number_traits {
  typedef typename __loom_bits_of_size<sizeof(T)>::type UnsignedBits;
  static constexpr bool is_floating = !std::is_integral<T>::value;
  static constexpr Category CATEGORY = is_floating ? FLOATING_POINT : std::is_signed<T>::value ? SIGNED_INTEGER : UNSIGNED_INTEGER;
  static constexpr bool PRIMITIVE = true, NULL_TYPE = false;
  static constexpr UnsignedBits HIGH_BIT = UnsignedBits(1) << (8 * sizeof(T) - 1);
  static constexpr UnsignedBits LOWEST_KEY = is_floating ? UnsignedBits(-1) : CATEGORY == SIGNED_INTEGER ? HIGH_BIT : UnsignedBits(0);
  static constexpr UnsignedBits MAX_KEY = CATEGORY == UNSIGNED_INTEGER ? UnsignedBits(-1) : UnsignedBits(~HIGH_BIT);
  static __host__ __device__ UnsignedBits TwiddleIn(UnsignedBits key) {
    if (is_floating) return key ^ ((key & HIGH_BIT) ? UnsignedBits(-1) : HIGH_BIT);
    return CATEGORY == SIGNED_INTEGER ? key ^ HIGH_BIT : key;
  }
  static __host__ __device__ UnsignedBits TwiddleOut(UnsignedBits key) {
    if (is_floating) return key ^ ((key & HIGH_BIT) ? HIGH_BIT : UnsignedBits(-1));
    return CATEGORY == SIGNED_INTEGER ? key ^ HIGH_BIT : key;
  }
};
struct __loom_no_number_traits {
  static constexpr Category CATEGORY = NOT_A_NUMBER;
  static constexpr bool PRIMITIVE = false, NULL_TYPE = false;
};
/* __half and __nv_bfloat16 are classes of two bytes that convert to float. */
template <class T> constexpr bool __loom_is_number = std::is_arithmetic<T>::value || (sizeof(T) == 2 && std::is_convertible<T, float>::value);
template <class T> struct NumericTraits : std::conditional_t<__loom_is_number<T>, __loom_number_traits<T>, __loom_no_number_traits> {};
template <class T> struct Traits : NumericTraits<typename std::remove_cv<T>::type> {};
}  // namespace cub
