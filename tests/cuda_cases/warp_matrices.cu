// slow; Warp matrix products of every shape, type and layout, against sums on the host.
#include <mma.h>

#include "check.h"
using namespace nvcuda;

template <int m, int n, int k, class T, class P, class Acc, class LA, class LB>
__global__ void product(const P* a, const P* b, const Acc* c, Acc* d, int lda, int ldb) {
  wmma::fragment<wmma::matrix_a, m, n, k, T, LA> fa;
  wmma::fragment<wmma::matrix_b, m, n, k, T, LB> fb;
  wmma::fragment<wmma::accumulator, m, n, k, Acc> sum, start;
  wmma::fill_fragment(sum, (Acc)0);
  wmma::load_matrix_sync(start, c, m, wmma::mem_col_major);
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = start.x[i] + start.x[i];
  for (int step = 0; step < 2; ++step) {
    wmma::load_matrix_sync(fa, a + step * m * k, lda);
    wmma::load_matrix_sync(fb, b + step * k * n, ldb);
    wmma::mma_sync(sum, fa, fb, sum);
  }
  wmma::store_matrix_sync(d, sum, n, wmma::mem_row_major);
}

template <int m, int n, int k, class T, class P, class Acc, class LA, class LB> static void check(const char* what) {
  constexpr bool rows_a = std::is_same<LA, wmma::row_major>::value, rows_b = std::is_same<LB, wmma::row_major>::value;
  std::vector<P> a(2 * m * k), b(2 * k * n);
  std::vector<Acc> c(m * n);
  for (int i = 0; i < 2 * m * k; ++i) a[i] = (P)(float)(i * 7 % 5);
  for (int i = 0; i < 2 * k * n; ++i) b[i] = (P)(float)(i * 11 % 7);
  for (int i = 0; i < m * n; ++i) c[i] = (Acc)(float)(i % 9);
  Acc* d = to_device(c);
  product<m, n, k, T, P, Acc, LA, LB><<<1, 32>>>(to_device(a), to_device(b), to_device(c), d, rows_a ? k : m, rows_b ? n : k);
  std::vector<Acc> got = to_host(d, m * n);
  for (int row = 0; row < m; ++row)
    for (int column = 0; column < n; ++column) {
      double sum = 2 * (double)(float)c[column * m + row];
      for (int step = 0; step < 2; ++step)
        for (int s = 0; s < k; ++s)
          sum += (double)(float)a[step * m * k + (rows_a ? row * k + s : s * m + row)] *
                 (double)(float)b[step * k * n + (rows_b ? s * n + column : column * k + s)];
      EXPECT((double)(float)got[row * n + column] == sum, "%s (%d, %d): %f, not %f", what, row, column, (double)(float)got[row * n + column], sum);
    }
}

int main() {
  using wmma::col_major;
  using wmma::row_major;
  check<16, 16, 16, half, half, float, row_major, col_major>("f16");
  check<16, 16, 16, half, half, half, col_major, row_major>("f16 sums");
  check<32, 8, 16, half, half, float, row_major, row_major>("f16 32x8");
  check<8, 32, 16, half, half, float, col_major, col_major>("f16 8x32");
  check<16, 16, 16, __nv_bfloat16, __nv_bfloat16, float, row_major, row_major>("bf16");
  check<16, 16, 16, unsigned char, unsigned char, int, row_major, col_major>("u8");
  check<8, 32, 16, signed char, signed char, int, row_major, row_major>("s8 8x32");
  check<16, 16, 8, wmma::precision::tf32, float, float, row_major, col_major>("tf32");
  check<8, 8, 4, double, double, double, row_major, col_major>("f64");
  return wrong != 0;
}
