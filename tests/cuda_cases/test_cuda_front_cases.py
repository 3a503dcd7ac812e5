"""CUDA programs beside this file that check themselves (check.h) are built with `loom cc`, and end with status 0."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from threadloom.cuda import build, nvcc_options

SELF_CHECKING = [path for path in sorted(Path(__file__).parent.glob("*.cu")) if "check.h" in path.read_text()]


def marked(path: Path) -> object:
    """A program whose first line starts with `// slow` takes long to compile."""
    marks = [pytest.mark.slow] if path.read_text().startswith("// slow") else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("case", [marked(path) for path in SELF_CHECKING])
def test_case_builds_and_checks_itself(case: Path, tmp_path: Path, more: tuple[str, ...] = ()) -> None:
    program = tmp_path / case.stem
    first = case.read_text().splitlines()[0]
    flags = first.partition("flags:")[2].split() if "flags:" in first else []
    assert build.run(nvcc_options.parse([str(case), "-o", str(program), *flags, *more])) == 0
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("case", SELF_CHECKING, ids=[path.stem for path in SELF_CHECKING])
def test_case_checks_itself_where_variables_are_kept_for_a_debugger(case: Path, tmp_path: Path) -> None:
    test_case_builds_and_checks_itself(case, tmp_path, ("-g",))


def test_a_loop_that_nothing_can_end_is_named_and_ends_the_program(tmp_path: Path) -> None:
    case, program = Path(__file__).parent / "waiting_blocks.cu", tmp_path / "waiting"
    assert build.run(nvcc_options.parse([str(case), "-o", str(program)])) == 0
    done = subprocess.run([program, "forever"], capture_output=True, text=True, timeout=60, check=False)
    line = next(i for i, text in enumerate(case.read_text().splitlines(), 1) if "// never" in text)
    warning, error = (f"{case}:{line}: {word}: threads of a kernel" in done.stderr for word in ("warning", "error"))
    assert (done.returncode, warning, error) == (134, True, True), done.stderr
