"""What docs/cuda.md says of `loom check`: at most a hundred times slower than the normal build, here by CPU seconds on
one core each. Not of the quick suite, since it is timing; `benchmarks/check_slowdown.py` measures real programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from threadloom.cli.check import build_checked
from threadloom.cuda import build, nvcc_options

PRODUCT = """
#include <cstdlib>
__global__ void product(const float *a, const float *b, float *c, int n) {
  __shared__ float as[16][16], bs[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    as[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
int main(int, char **argv) {
  const int n = 256;
  float *a, *b, *c;
  cudaMalloc(&a, n * n * 4), cudaMalloc(&b, n * n * 4), cudaMalloc(&c, n * n * 4);
  cudaMemset(a, 0, n * n * 4), cudaMemset(b, 0, n * n * 4);
  for (int i = 0; i < atoi(argv[1]); ++i) product<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, b, c, n);
  return cudaDeviceSynchronize();
}
"""


def _cpu_seconds(program: Path, launches: int) -> float:
    """Of one launch; the shortest of three runs."""
    environment = {
        **os.environ,
        "LOOM_CHECK_FILE": str(program) + ".found",
        "LOOM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    times = []
    for _ in range(3):
        child = os.spawnve(os.P_NOWAIT, program, [str(program), str(launches)], environment)
        _, status, usage = os.wait4(child, 0)
        assert status == 0
        times.append(usage.ru_utime + usage.ru_stime)
    return min(times) / launches


@pytest.mark.slow
def test_a_tiled_product_is_checked_at_most_a_hundred_times_slower(tmp_path: Path) -> None:
    program, normal = tmp_path / "product.cu", tmp_path / "normal"
    program.write_text(PRODUCT)
    checked = build_checked([str(program)], tmp_path / "checked")
    assert build.run(nvcc_options.parse(["-O3", str(program), "-o", str(normal)])) == 0
    usual, watched = _cpu_seconds(normal, 200), _cpu_seconds(checked, 4)
    assert not Path(str(checked) + ".found").exists() or not Path(str(checked) + ".found").read_text()
    assert watched <= 100 * usual, (watched, usual)
