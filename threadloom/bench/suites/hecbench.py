"""HeCBench's `*-cuda` programs: the first 200 in alphabetical order whose Makefile links no vendor library."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from threadloom.bench.suites import hecbench_data
from threadloom.bench.suites.hecbench_problems import ARGUMENTS, CHECKS, MAKE_OPTIONS, SMALLER
from threadloom.bench.suites.process import Outcome
from threadloom.bench.suites.program import PASS, RAN, WRONG, Program, judge_by_output, make_smaller, shown_edits

COUNT = 200
ABOUT = (
    "The first 200 `*-cuda` programs in alphabetical order whose Makefile links no vendor library (cuBLAS, "
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
    """Paths are relative to the checkout; argument lists come from hecbench_problems, else from the Makefile."""
    found = []
    for folder in sorted((checkout / "src").glob("*-cuda"), key=lambda path: path.name):
        makefile = folder / "Makefile"
        if not makefile.exists() or _VENDOR.search(text := makefile.read_text(errors="replace")):
            continue
        found.append(_program(folder.name, text))
        if len(found) == COUNT:
            break
    return found


def _program(folder: str, makefile: str) -> Program:
    name = folder.removesuffix("-cuda")
    commands = _run_commands(makefile)
    if name in ARGUMENTS:
        program = next((command.split()[0] for command in commands if command.startswith("./")), "./main")
        commands = [f"{program} {arguments}".strip() for arguments in ARGUMENTS[name]]
    build = f"make CC=loom-nvcc NVCC=loom-nvcc {MAKE_OPTIONS.get(name, '')}".strip()
    edits = shown_edits(SMALLER.get(name, ()))
    prepare = partial(_prepare, name)
    return Program(name, f"src/{folder}", (build,), tuple(commands), partial(_judge, name), prepare, changed=edits)


def _prepare(name: str, folder: Path) -> None:
    """Missing inputs, and smaller constants in the sources of the copy."""
    hecbench_data.provide(name, folder)
    make_smaller(SMALLER.get(name, ()), folder)


def _judge(name: str, folder: Path, outcomes: list[Outcome]) -> tuple[str, str]:
    """As the output says; programs that say something only when wrong, or print an error's size, as CHECKS says."""
    result, cause = judge_by_output(folder, outcomes)
    if result != RAN or name not in CHECKS:
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
