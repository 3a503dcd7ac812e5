"""Device memory is there before a kernel writes to it, but for pools of which a program may use little."""

from __future__ import annotations

import mmap
import os
import platform
import subprocess
from pathlib import Path

import pytest

from threadloom.cuda import build, nvcc_options

SOURCE = """
#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>
__global__ void set(int* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
long faults() { rusage used; getrusage(RUSAGE_SELF, &used); return used.ru_minflt; }
int main(int, char** words) {
  int n = atoi(words[1]), *x, *first;
  cudaMalloc(&first, 4096);
  set<<<1, 64>>>(first);
  cudaDeviceSynchronize();
  long before = faults();
  cudaMalloc(&x, n * sizeof(int));
  long between = faults();
  set<<<n / 256, 256>>>(x);
  cudaDeviceSynchronize();
  printf("%ld %ld", between - before, faults() - between);
}
"""


@pytest.mark.clang
@pytest.mark.skipif(tuple(map(int, platform.release().split(".")[:2])) < (5, 14), reason="the system cannot populate")
def test_a_kernels_first_writes_find_their_pages(tmp_path: Path) -> None:
    (tmp_path / "x.cu").write_text(SOURCE)
    assert build.run(nvcc_options.parse([str(tmp_path / "x.cu"), "-o", str(tmp_path / "x")])) == 0

    def faults(count: int) -> tuple[int, int]:
        """Page faults of cudaMalloc for `count` integers, and of a kernel that sets them."""
        done = subprocess.run([tmp_path / "x", str(count)], capture_output=True, text=True, check=True)
        before, inside = map(int, done.stdout.split())
        return before, inside

    for bytes_ in (2 << 20, 16 << 20):
        assert faults(bytes_ // 4)[1] < bytes_ // mmap.PAGESIZE // 4
    assert faults((320 << 20) // 4)[0] < 100


THREADS = """
#include <cstdio>
#include <cstdlib>
#include <filesystem>
int main(int, char** words) {
  void* p;
  cudaMalloc(&p, atoi(words[1]));
  auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  printf("%d", (int)std::distance(begin(tasks), end(tasks)));
}
"""


@pytest.mark.clang
@pytest.mark.skipif(platform.system() != "Linux", reason="counts threads in /proc")
def test_an_array_starts_the_workers(tmp_path: Path) -> None:
    (tmp_path / "x.cu").write_text(THREADS)
    assert build.run(nvcc_options.parse([str(tmp_path / "x.cu"), "-o", str(tmp_path / "x")])) == 0
    variables = os.environ | {"OMP_NUM_THREADS": "3"}
    counted = [subprocess.run([tmp_path / "x", size], capture_output=True, text=True, check=True, env=variables).stdout
               for size in ("4096", "1000000")]  # fmt: skip
    assert int(counted[1]) - int(counted[0]) == 2
