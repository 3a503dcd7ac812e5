"""Long device functions stay functions where a kernel with all of them inlined would become very long."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from threadloom.cuda import build, inline, nvcc_options

SOURCE = """
struct Four { unsigned long a, b, c, d; };
struct __align__(16) Pair { float x, y; };
__device__ Four mixed(Four v, const Four &by) { return {v.a * by.b + threadIdx.x, v.b ^ by.c, v.c + by.d, v.d - by.a}; }
__device__ Four rounds(Four v, Pair p) {
  for (int i = 0; i < 3; ++i) v = mixed(v, {v.d, v.c + i, v.b, v.a + (unsigned long)p.y}), p.y += p.x;
  return mixed(mixed(v, v), v);
}
__device__ void meeting(unsigned long *tile, Four v) {
  tile[threadIdx.x] = rounds(v, {1, 2}).a;
  __syncthreads();
}
__global__ void k(unsigned long *out) {
  __shared__ unsigned long tile[32];
  Four v = {threadIdx.x, 2, 3, blockIdx.x};
  meeting(tile, rounds(v, {0.5f, 7}));
  v = rounds(rounds(v, {2, 1}), {tile[31 - threadIdx.x] % 5 + 0.f, 1});
  out[blockIdx.x * 32 + threadIdx.x] = v.a ^ v.b ^ v.c ^ v.d;
}
#include <cstdio>
int main() {
  unsigned long *out;
  cudaMallocManaged(&out, 128 * sizeof *out);
  k<<<4, 32>>>(out);
  cudaDeviceSynchronize();
  for (int i = 0; i < 128; ++i) printf("%lx\\n", out[i]);
}
"""
FUNCTION = """\
define void @{name}(ptr %p) {{
{lines}
  ret void
}}
"""


def _text(calls: dict[str, list[str]], lines: int) -> str:
    own = "\n".join(f"  %v{number} = load i32, ptr %p" for number in range(lines))
    made = {name: own + "".join(f"\n  call void @{one}(ptr %p)" for one in called) for name, called in calls.items()}
    return "".join(FUNCTION.format(name=name, lines=body) for name, body in made.items())


def test_which_functions_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {"k": ["outer", "meets"], "outer": ["inner"] * 9, "inner": [], "meets": ["outer", inline.SYNCTHREADS]}
    text = _text(calls, 30)
    assert inline.long_functions([text], ("k",)) == frozenset()
    monkeypatch.setattr(inline, "LONG_KERNEL_LINES", 600)
    monkeypatch.setattr(inline, "LONG_FUNCTION_LINES", 100)
    assert inline.long_functions([text], ("k",)) == {"outer"}  # not `meets`, where threads meet
    monkeypatch.setattr(inline, "LONG_FUNCTION_LINES", 20)
    assert inline.long_functions([text], ("k",)) == {"outer", "inner"}


@pytest.mark.clang
def test_results_are_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source, program = tmp_path / "x.cu", tmp_path / "x"
    source.write_text(SOURCE)
    found = []
    for limit in (inline.LONG_KERNEL_LINES, 50):
        monkeypatch.setattr(inline, "LONG_KERNEL_LINES", limit)
        monkeypatch.setattr(inline, "LONG_FUNCTION_LINES", 10)
        assert build.run(nvcc_options.parse([str(source), "-O1", "-o", str(program)])) == 0
        found.append(subprocess.run([program], capture_output=True, text=True, check=True).stdout)
    assert found[0] == found[1] and len(set(found[0].split())) == 32
