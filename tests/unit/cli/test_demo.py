"""`loom demo`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from threadloom.cli.execution import Execution
from threadloom.demo import CUDA_EXAMPLES, cuda_program, fraction_of_peak
from threadloom.machine.peaks import Peaks


def run_of(flops: float | None, bytes_: float | None) -> Execution:
    return Execution("cpu", {}, [], 1.0, 1.0, flops, bytes_)


@pytest.mark.parametrize(
    ("flops", "bytes_", "expected"),
    [
        (50.0, None, (0.5, "FMA peak")),
        (None, 5.0, (0.5, "copy rate")),
        (50.0, 9.0, (0.9, "copy rate")),
        (None, None, (None, "")),
    ],
)
def test_fraction_is_of_what_bounds_the_kernel(flops, bytes_, expected):
    assert fraction_of_peak(run_of(flops, bytes_), Peaks(1, 100.0, 10.0)) == expected


def test_one_kernel(loom, tmp_path):
    done = loom("demo", "copy_tiles", "--no-cuda", "--repeat", "1", "--to", "drawn", "--json", "out.json")
    assert done.returncode == 0, done.stderr + done.stdout
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["schema"] == "threadloom.demo/1"
    (kernel,) = record["kernels"]
    assert kernel["kernel"] == "copy_tiles" and kernel["agrees"] is True and kernel["tiles"]
    assert kernel["fraction_of_peak"] > 0 and kernel["peak"] == "copy rate"
    assert all((tmp_path / name).stat().st_size for name in [*kernel["files"], record["page"]])
    assert "load_x" in done.stdout and "\x1b" not in done.stdout


def test_unknown_example(loom):
    done = loom("demo", "nothing")
    assert done.returncode == 2 and "nothing" in done.stderr


@pytest.mark.slow
@pytest.mark.clang
def test_cuda_program():
    shown = cuda_program()
    assert shown.problem == ""
    assert shown.error < 1e-10 and shown.milliseconds > 0


@pytest.mark.slow
@pytest.mark.clang
def test_cuda_program_that_fails_says_so(tmp_path: Path):
    text = (CUDA_EXAMPLES / "block_sums.cu").read_text()
    broken = tmp_path / "broken.cu"
    broken.write_text(text.replace("error < 1e-10", "error < 0").replace("1 << 24", "1 << 12"))
    assert "status 1" in cuda_program(broken).problem


@pytest.mark.slow
def test_whole_demo(loom):
    done = loom("demo")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "all results agree with float64" in done.stdout
