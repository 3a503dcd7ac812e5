/* Warp matrix functions. Fragments hold what CUDA leaves open, here: the A matrix by rows, B by columns, the accumulator by
   rows, each cut into 32 equal runs, one per lane. A product goes along K; each lane has the rest of a row of A (or column
   of B) from the lanes that hold it. Sums are f32 for f16, bf16 and tf32, as on the tensor cores. */
#pragma once
#include <loom/prelude.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#if defined(__CUDA__)
namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32 {}; }

/* What a fragment's elements are, and what they are multiplied and added as. */
template <class T> struct __loom_element { using stored = T; using computed = float; };
template <> struct __loom_element<precision::tf32> { using stored = float; using computed = float; };
template <> struct __loom_element<double> { using stored = double; using computed = double; };
template <> struct __loom_element<int> { using stored = int; using computed = int; };
template <> struct __loom_element<signed char> { using stored = signed char; using computed = int; };
template <> struct __loom_element<char> { using stored = char; using computed = int; };
template <> struct __loom_element<unsigned char> { using stored = unsigned char; using computed = int; };

/* Rows and columns of the matrix that `Use` is, of a product of m x k by k x n; whether its runs go along columns. */
template <class Use, int m, int n, int k> struct __loom_extent { static constexpr int rows = m, columns = n; static constexpr bool down = false; };
template <int m, int n, int k> struct __loom_extent<matrix_a, m, n, k> { static constexpr int rows = m, columns = k; static constexpr bool down = false; };
template <int m, int n, int k> struct __loom_extent<matrix_b, m, n, k> { static constexpr int rows = k, columns = n; static constexpr bool down = true; };

template <class Use, int m, int n, int k, class T, class Layout = void> class fragment {
  static_assert((m == 16 && n == 16 && (k == 16 || k == 8)) || (m == 32 && n == 8 && k == 16) || (m == 8 && n == 32 && k == 16) ||
                    (m == 8 && n == 8 && k == 4),
                "threadloom has the shapes 16x16x16, 32x8x16, 8x32x16, 16x16x8 (tf32) and 8x8x4 (double) of wmma");
  using extent = __loom_extent<Use, m, n, k>;

 public:
  using element_type = typename __loom_element<T>::stored;
  using storage_element_type = element_type;
  static constexpr int num_elements = extent::rows * extent::columns / 32, num_storage_elements = num_elements;
  element_type x[num_elements];
  __device__ static int __loom_row(int i) { return extent::down ? place(i) % extent::rows : place(i) / extent::columns; }
  __device__ static int __loom_column(int i) { return extent::down ? place(i) / extent::rows : place(i) % extent::columns; }

 private:
  __device__ static int place(int i) {
    int lane = (int)(((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u);
    return lane * num_elements + i;
  }
};

template <class Use, int m, int n, int k, class T, class Layout, class V>
LOOM_DEVICE void fill_fragment(fragment<Use, m, n, k, T, Layout>& to, const V& value) {
  for (int i = 0; i < to.num_elements; ++i) to.x[i] = (typename __loom_element<T>::stored)value;
}
template <class Fragment, class P> LOOM_DEVICE void __loom_load(Fragment& to, const P* from, unsigned stride, bool by_rows) {
  __syncwarp();
  for (int i = 0; i < to.num_elements; ++i) {
    unsigned row = (unsigned)to.__loom_row(i), column = (unsigned)to.__loom_column(i);
    to.x[i] = from[by_rows ? (size_t)row * stride + column : (size_t)column * stride + row];
  }
}
template <class Use, int m, int n, int k, class T, class P>
LOOM_DEVICE void load_matrix_sync(fragment<Use, m, n, k, T, row_major>& to, const P* from, unsigned stride) { __loom_load(to, from, stride, true); }
template <class Use, int m, int n, int k, class T, class P>
LOOM_DEVICE void load_matrix_sync(fragment<Use, m, n, k, T, col_major>& to, const P* from, unsigned stride) { __loom_load(to, from, stride, false); }
template <int m, int n, int k, class T, class P>
LOOM_DEVICE void load_matrix_sync(fragment<accumulator, m, n, k, T>& to, const P* from, unsigned stride, layout_t layout) {
  __loom_load(to, from, stride, layout == mem_row_major);
}
template <int m, int n, int k, class T, class P>
LOOM_DEVICE void store_matrix_sync(P* to, const fragment<accumulator, m, n, k, T>& from, unsigned stride, layout_t layout) {
  __syncwarp();
  for (int i = 0; i < from.num_elements; ++i) {
    unsigned row = (unsigned)from.__loom_row(i), column = (unsigned)from.__loom_column(i);
    to[layout == mem_row_major ? (size_t)row * stride + column : (size_t)column * stride + row] = from.x[i];
  }
  __syncwarp();
}

template <int m, int n, int k, class TD, class TA, class LA, class TB, class LB, class TC>
LOOM_DEVICE void mma_sync(fragment<accumulator, m, n, k, TD>& d, const fragment<matrix_a, m, n, k, TA, LA>& a,
                          const fragment<matrix_b, m, n, k, TB, LB>& b, const fragment<accumulator, m, n, k, TC>& c, bool = false) {
  using Value = typename __loom_element<TA>::computed;
  constexpr int of_a = m * k / 32, of_b = k * n / 32, of_c = m * n / 32;
  typename __loom_element<TC>::computed sum[of_c];
  for (int i = 0; i < of_c; ++i) sum[i] = c.x[i];
#pragma unroll 1
  for (int s = 0; s < k; ++s) {
    Value left = __shfl_sync(0xffffffffu, (Value)a.x[s % of_a], (c.__loom_row(0) * k + s) / of_a);
#pragma unroll
    for (int i = 0; i < of_c; ++i)
      sum[i] += left * __shfl_sync(0xffffffffu, (Value)b.x[s % of_b], (c.__loom_column(i) * k + s) / of_b);
  }
  for (int i = 0; i < of_c; ++i) d.x[i] = (typename __loom_element<TD>::stored)sum[i];
}

/* To 10 bits of mantissa, ties away from zero. */
LOOM_DEVICE float __float_to_tf32(float x) {
  unsigned bits = __float_as_uint(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? x : __uint_as_float((bits + 0x1000u) & 0xffffe000u);
}
}  // namespace wmma
}  // namespace nvcuda
#endif
