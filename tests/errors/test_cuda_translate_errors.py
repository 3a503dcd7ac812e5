"""What `loom translate` says about kernels that it cannot write as C++."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadloom import cli

LAMBDA = """
template <class F> __global__ void k(int *out, F f) { out[threadIdx.x] = f(threadIdx.x); }
int main() { k<<<1, 32>>>((int *)nullptr, [] __device__(int x) { return x + 1; }); }
"""
RECURSION = """
__device__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
__global__ void k(int *out) { out[0] = f(out[1]); }
int main() { k<<<1, 1>>>(nullptr); }
"""


@pytest.mark.clang
@pytest.mark.parametrize(("source", "line"), [(LAMBDA, 2), (RECURSION, 3)], ids=["lambda", "recursion"])
def test_untranslatable_kernels_are_refused(
    source: str, line: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.cu").write_text(source)
    assert cli.main(["translate", str(tmp_path / "x.cu"), "-o", str(tmp_path / "x.cpp")]) == 1
    shown = capsys.readouterr().err
    assert f"x.cu:{line}:" in shown
    assert "error[cuda-untranslatable]" in shown and "loom cc" in shown
    assert not (tmp_path / "x.cpp").exists()
