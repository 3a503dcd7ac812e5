"""`-g` without optimisation: gdb shows the user's variables inside kernels, thread by thread."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from threadloom.cuda import build, nvcc_options

pytestmark = pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb")

SOURCE = """
struct Range { int from, to; __device__ int length() const { int wide = to - from; return wide; } };
__device__ int depth(int level) {
  int below = level ? depth(level - 1) : threadIdx.x;
  return below + 1;  // deepest
}
template <class T, int N> __global__ void sums(T* x, Range range) {
  __shared__ T tile[64];
  T mine = x[blockIdx.x * blockDim.x + threadIdx.x];
  T parts[N];
  for (int k = 0; k < N; ++k) parts[k] = mine * k;
  for (int offset = 2; offset > 0; offset /= 2) {
    T other = __shfl_down_sync(0xffffffff, mine, offset);
    mine += other;  // shuffled
  }
  tile[threadIdx.x] = mine;
  __syncthreads();
  int length = range.length();
  T all = tile[0] + length;  // behind
  if (threadIdx.x == 5) all += depth(2);
  x[blockIdx.x * blockDim.x + threadIdx.x] = all + parts[1];
}
int main() {
  float* x;
  cudaMallocManaged(&x, 128 * sizeof(float));
  for (int i = 0; i < 128; ++i) x[i] = i;
  sums<float, 3><<<2, 64>>>(x, Range{3, 10});
  cudaDeviceSynchronize();
  return x[69] == 262 + 7 + 8 + 69 ? 0 : 1;
}
"""


def line(mark: str) -> int:
    return next(number for number, text in enumerate(SOURCE.splitlines(), 1) if mark in text)


def debugged(folder: Path, *commands: str, flags: tuple[str, ...] = ("-g",)) -> str:
    """What gdb prints when the program has run into breakpoints as `commands` say, with one worker."""
    source, program = folder / "sums.cu", folder / "sums"
    source.write_text(SOURCE)
    assert build.run(nvcc_options.parse([str(source), "-o", str(program), *flags])) == 0
    assert subprocess.run([program], check=False).returncode == 0
    words = [word for command in ("set environment OMP_NUM_THREADS 1", *commands) for word in ("-ex", command)]
    done = subprocess.run(["gdb", "-nx", "-batch", *words, str(program)], capture_output=True, text=True, timeout=120,
                          check=False)  # fmt: skip
    return done.stdout + done.stderr


def test_variables_of_one_thread_at_a_line(tmp_path: Path) -> None:
    told = debugged(
        tmp_path,
        f"break sums.cu:{line('// shuffled')} if threadIdx.x == 37 && blockIdx.x == 1", "run", "info args",
        "info locals",
        "delete", f"break sums.cu:{line('// behind')} if threadIdx.x == 4", "continue", "info locals", "print range",
        "print tile[8]", "delete", f"break sums.cu:{line('// deepest')} if level == 0", "continue",
        "info locals", "backtrace 4", "delete", "break sums.cu:2", "continue", "print *this", "print wide",
    )  # fmt: skip
    first, behind, deepest, inlined = re.split(r"hit Breakpoint|\nBreakpoint \d+, ", told)[1:]
    for shown in ("sums<float, 3>", "range = {from = 3, to = 10}", "other = 103", "offset = 2", "mine = 101",
                  "parts = {0, 101, 202}", "threadIdx = {x = 37, y = 0, z = 0}", "blockIdx = {x = 1,",
                  "blockDim = {x = 64, y = 1, z = 1}", "gridDim = {x = 2,"):  # fmt: skip
        assert shown in first, told
    for shown in ("length = 7", "mine = 278", "parts = {0, 68, 136}", "= {from = 3, to = 10}", "= 294"):
        assert shown in behind, told
    assert "below = 5" in deepest and "threadIdx = {x = 5," in deepest and deepest.count("depth (level=") >= 3, told
    assert "= {from = 3, to = 10}" in inlined and "wide = " in inlined, told


@pytest.mark.slow
def test_an_optimised_kernel_says_that_it_has_no_variables(tmp_path: Path) -> None:
    told = debugged(tmp_path, f"break sums.cu:{line('// behind')}", "run", "print mine", flags=("-g", "-O2"))
    assert 'No symbol "mine" in current context' in told or "optimized out" in told, told
