"""CUDA programs beside this file that check themselves (check.h) are built with `loom cc`, and end with status 0."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from threadloom.cuda import build, nvcc_options

CASES = [path for path in sorted(Path(__file__).parent.glob("*.cu")) if '#include "check.h"' in path.read_text()]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_case_builds_and_checks_itself(case: Path, tmp_path: Path) -> None:
    program = tmp_path / case.stem
    first = case.read_text().splitlines()[0]
    flags = first.partition("flags:")[2].split() if "flags:" in first else []
    assert build.run(nvcc_options.parse([str(case), "-o", str(program), *flags])) == 0
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
