"""What `loom translate` says about kernels that it cannot write as C++."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadloom import cli

HEADER = """
#include <cub/cub.cuh>
int main() { size_t bytes = 0; cub::DeviceReduce::Sum(nullptr, bytes, (int *)nullptr, (int *)nullptr, 4); }
"""


@pytest.mark.clang
def test_untranslatable_kernels_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.cu").write_text(HEADER)
    assert cli.main(["translate", str(tmp_path / "x.cu"), "-o", str(tmp_path / "x.cpp")]) == 1
    shown = capsys.readouterr().err
    assert "device.cuh:" in shown
    assert "error[cuda-untranslatable]" in shown and "loom cc" in shown
    assert not (tmp_path / "x.cpp").exists()
