"""PolyBench/GPU's CUDA programs, which compare with a serial version of their own."""

from __future__ import annotations

import re
from pathlib import Path

from threadloom.bench.suites.process import Outcome
from threadloom.bench.suites.program import PASS, RAN, WRONG, Program, judge_bad

ABOUT = (
    "All CUDA programs of PolyBench/GPU, unmodified, with the data set SMALL (MINI where that takes minutes "
    "serially). Each compares its result with a serial version and counts the values that are further away than"
    " its own threshold. Build times are CPU seconds, run times are of a shared machine, no measurement."
)
_MINI = ("correlation", "covariance", "gramschmidt", "3DConvolution", "fdtd2d", "doitgen")


def programs(checkout: Path) -> list[Program]:
    return [_program(makefile, checkout) for makefile in sorted((checkout / "CUDA").rglob("Makefile"))]


def _program(makefile: Path, checkout: Path) -> Program:
    text = makefile.read_text()
    executable = re.search(r"EXECUTABLE\s*:=\s*(\S+)", text)[1]
    sources = re.search(r"CUFILES\s*:=\s*(\S+)", text)[1]
    name = makefile.parent.name
    size = "MINI" if name in _MINI else "SMALL"
    build = f'export PATH=$(loom cuda-home)/bin:$PATH && make CUFILES="{sources} -D{size}_DATASET"'
    return Program(name, str(makefile.parent.relative_to(checkout)), (build,), (f"./{executable}",), _judge)


def _judge(folder: Path, outcomes: list[Outcome]) -> tuple[str, str]:
    outcome = outcomes[-1]
    if not outcome.good:
        return judge_bad(outcome)
    found = re.search(r"(?:Non-Matching CPU-GPU Outputs.*|Number of misses): (\d+)", outcome.output)
    if not found:
        return RAN, ""
    return (PASS if found[1] == "0" else WRONG), found[0]
