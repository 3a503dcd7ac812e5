"""HeCBench's `*-cuda` programs whose Makefile links no vendor library, in alphabetical order."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from threadloom.bench.suites import hecbench_data
from threadloom.bench.suites.hecbench_checks import CHECKS
from threadloom.bench.suites.process import Outcome
from threadloom.bench.suites.program import (
    PASS,
    RAN,
    WRONG,
    Edits,
    Program,
    Row,
    judge_by_output,
    make_smaller,
    shown_edits,
)

FIRST = 200  # of these some goals speak
ABOUT = (
    "All `*-cuda` programs, in alphabetical order, whose Makefile links no vendor library (cuBLAS, "
    "cuFFT, NCCL, MPI, Boost ...), built by `make CC=loom-nvcc`. Problems are pinned to what a CPU "
    "does in seconds (the Makefiles' are for GPUs); a row that is over a limit says after how many seconds of CPU "
    "time. Where repetitions or sizes are constants of the source, the copy that is built has smaller ones, and the "
    "row's command says which. Inputs that the repository keeps elsewhere are generated where their format is simple "
    "(`threadloom/bench/suites/hecbench_data.py`). Build times are CPU seconds, run times are of a shared machine, "
    "no measurement."
)
_VENDOR = re.compile(
    r"-cudalib=|-l(?:cublas|cusparse|cufft|cudnn|nccl|cusolver|curand|cutensor|nvml|nvrtc|cuda\b|npp|nvidia-ml|mpi|nvshmem"
    r"|nvjpeg|gdal|boost|gsl|openblas|hdf5|tbb)"
)
_RUN = re.compile(r"^run\w*:.*\n((?:\t(?:.*\\\n)*.*\n?)+)", re.MULTILINE)  # a line after "\" may begin with blanks
_VARIABLE = re.compile(r"^\s*([A-Za-z_]\w*)\s*[:?]?=\s*(.*?)\s*$", re.MULTILINE)


def programs(checkout: Path) -> list[Program]:
    """Paths are relative to the checkout; argument lists come from hecbench_problems.toml, else from the Makefile."""
    found = []
    for folder in sorted((checkout / "src").glob("*-cuda"), key=lambda path: path.name):
        makefile = folder / "Makefile"
        if not makefile.exists() or _VENDOR.search(text := makefile.read_text(errors="replace")):
            continue
        found.append(_program(folder.name, text))
    return found


def summary(rows: list[Row], names: list[str]) -> str:
    """How many pass: of the programs that check themselves, and of the first in alphabetical order.

    A program checks itself unless it ran to its end and said nothing about its results (`ran`), or was looked at and
    has nothing that would (`checks = false` in the problems). All others that do not build, end by a signal, are over a
    limit or lack an input count as ones that check themselves, and as failed.
    """
    silent = [row.name for row in rows if row.result == RAN or not _problems().get(row.name, Problem()).checks]
    checked = [row for row in rows if row.name not in silent]
    good = sum(row.result == PASS for row in checked)
    failed = [row.name for row in rows if row.name in silent and row.result != RAN]
    share = 100 * good / max(1, len(checked))
    first = Counter(row.result for row in rows if row.name in names[:FIRST])
    return (
        f"**{good} of {len(checked)} programs that check themselves pass ({share:.1f} %).** The other {len(silent)} "
        f"print nothing that says whether their results are right: they ran to their end (`ran`), or were looked at "
        f"and have no check ({', '.join(failed) or 'none'}). All others that fail in any way count as programs that "
        f"check themselves. Of the first {FIRST} by name {first[PASS]} pass and {first[RAN]} check nothing."
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """What hecbench_problems.toml says of a program."""

    runs: tuple[str, ...] = ()  # arguments, or a command that starts with "cd " or "./"
    smaller: Edits = ()
    make: str = ""
    checks: bool = True


@cache
def _problems() -> dict[str, Problem]:
    table = tomllib.loads(Path(__file__).with_name("hecbench_problems.toml").read_text())
    return {
        name: Problem(
            tuple(one.get("runs", ())),
            tuple((file, old, new) for file, old, new in one.get("smaller", ())),
            one.get("make", ""),
            one.get("checks", True),
        )
        for name, one in table.items()
    }


def _program(folder: str, makefile: str) -> Program:
    name = folder.removesuffix("-cuda")
    commands = _run_commands(makefile)
    problem = _problems().get(name, Problem())
    if problem.runs:
        program = next((command.split()[0] for command in commands if command.startswith("./")), "./main")
        commands = [run if run.startswith(("cd ", "./")) else f"{program} {run}".strip() for run in problem.runs]
    build = f"make CC=loom-nvcc NVCC=loom-nvcc {problem.make}".strip()
    edits = shown_edits(problem.smaller)
    prepare = partial(_prepare, name, problem.smaller)
    return Program(name, f"src/{folder}", (build,), tuple(commands), partial(_judge, name), prepare, changed=edits)


def _prepare(name: str, smaller: Edits, folder: Path) -> None:
    """Missing inputs, and smaller constants in the sources of the copy."""
    hecbench_data.provide(name, folder)
    make_smaller(smaller, folder)


def _judge(name: str, folder: Path, outcomes: list[Outcome]) -> tuple[str, str]:
    """As the output says; programs that say something only when wrong, or print an error's size, as CHECKS says."""
    result, cause = judge_by_output(folder, outcomes)
    if result in (PASS, WRONG) and all(one.good for one in outcomes) and not _problems().get(name, Problem()).checks:
        return RAN, ""
    if result not in (PASS, RAN) or name not in CHECKS:
        return result, cause
    wrong = CHECKS[name]("\n".join(outcome.output for outcome in outcomes))
    return (WRONG, wrong) if wrong else (PASS, CHECKS[name].__doc__ or "")


def _run_commands(makefile: str) -> list[str]:
    """The recipe of the target `run`, with the Makefile's variables put in."""
    found = _RUN.search(makefile)
    variables = {"LAUNCHER": "", **{name: value for name, value in _VARIABLE.findall(makefile) if name != "LAUNCHER"}}
    lines = re.sub(r"\s*\\\n\s*", " ", found[1]).splitlines() if found else ["./main"]
    commands = []
    for line in lines:
        command = line.strip().lstrip("@-")
        for _ in range(3):
            command = re.sub(r"\$[({](\w+)[)}]", lambda match: variables.get(match[1], match[0]), command)
        if command.strip() and not command.strip().startswith("#"):
            commands.append(command.strip())
    return commands
