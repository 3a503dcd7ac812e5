"""Kernels called from Python get a version for what their first launches have in common."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from threadloom import cuda
from threadloom.cuda.kernel import LAUNCHED

pytestmark = pytest.mark.clang

SOURCE = """
__device__ int launches;
__global__ void sum(int* x, int n, short step, long long far, int turn) {
  int total = turn + step + (int)far;
  for (int i = threadIdx.x; i < n; i += blockDim.x) total += x[i];
  x[n + threadIdx.x] = total;
  if (threadIdx.x == 0) ++launches;
}
"""


def _sum(kernel, block: int, n: int, turn: int) -> None:
    x = np.arange(n + block, dtype=np.int32)
    kernel(1, block, x, n, 4, -1, turn)
    assert [int(one) for one in x[n:]] == [turn + 3 + sum(range(t, n, block)) for t in range(block)]


def test_the_first_two_launches_decide() -> None:
    program = cuda.compile(SOURCE)
    kernel = program["sum"]
    _sum(kernel, 32, 100, 0)
    first = kernel._version.program
    assert LAUNCHED in first.emitted.llvm and LAUNCHED not in program.emitted.llvm
    assert kernel._known == ("32", "1", "1", "", "64000000", "0400", "f" * 16, "00000000")
    _sum(kernel, 32, 100, 1)
    second = kernel._version.program
    assert second is not first and kernel._known[-1] == "" and kernel._known[4] == "64000000"
    _sum(kernel, 8, 60, 2)  # what neither had
    _sum(kernel, 32, 100, 7)
    assert kernel._version.program is second
    assert program.symbol("launches")[()] == 4  # all versions have one variable


def test_equal_launches_are_compiled_for_once() -> None:
    kernel = cuda.compile(SOURCE)["sum"]
    _sum(kernel, 16, 50, 3)
    version = kernel._version
    _sum(kernel, 16, 50, 3)
    _sum(kernel, 16, 50, 4)
    assert kernel._version is version


def test_what_gains_nothing_is_compiled_once() -> None:
    kernel = cuda.compile("__global__ void set(int* x, int v) { x[threadIdx.x] = v; }")["set"]
    x = np.zeros(32, np.int32)
    kernel(1, 32, x, 5)
    version = kernel._version
    kernel(1, 16, x, 6)
    assert kernel._version is version and list(x) == [6] * 16 + [5] * 16


def test_variables_of_the_device_alone_are_not_doubled() -> None:
    source = "__global__ void count(int* x, int n) { static __device__ int all; while (n-- > 0) ++all; *x = all; }"
    kernel, x = cuda.compile(source)["count"], np.zeros(1, np.int32)
    for n, total in ((2, 2), (3, 5), (3, 8)):
        kernel(1, 1, x, n)
        assert x[0] == total and kernel._version.program is kernel._general


def test_a_source_that_has_changed_since_keeps_its_kernel(tmp_path: Path) -> None:
    source = tmp_path / "x.cu"
    text = "__global__ void set(int* x, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 1; }"
    source.write_text(text)
    kernel = cuda.compile(source)["set"]
    source.write_text(text.replace("= 1", "= 2"))
    x = np.zeros(40, np.int32)
    kernel(1, 32, x, 40)
    assert list(x) == [1] * 40
