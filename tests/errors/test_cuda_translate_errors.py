"""What `loom translate` says about kernels that it cannot write as C++."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadloom import cli

LAMBDA = """
template <class F> __global__ void k(int *out, F f) { out[threadIdx.x] = f(threadIdx.x); }
template <class T> void run(T by) { k<<<1, 32>>>((int *)nullptr, [=] __device__(int x) { return int(x + by); }); }
int main() { run(1), run(2.5f); }
"""
HEADER = """
#include <cub/cub.cuh>
int main() { size_t bytes = 0; cub::DeviceReduce::Sum(nullptr, bytes, (int *)nullptr, (int *)nullptr, 4); }
"""


@pytest.mark.clang
@pytest.mark.parametrize(
    ("source", "place"), [(LAMBDA, "x.cu:2:"), (HEADER, "device.cuh:")], ids=["instances of a lambda", "of a header"]
)
def test_untranslatable_kernels_are_refused(
    source: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.cu").write_text(source)
    assert cli.main(["translate", str(tmp_path / "x.cu"), "-o", str(tmp_path / "x.cpp")]) == 1
    shown = capsys.readouterr().err
    assert place in shown
    assert "error[cuda-untranslatable]" in shown and "loom cc" in shown
    assert not (tmp_path / "x.cpp").exists()
