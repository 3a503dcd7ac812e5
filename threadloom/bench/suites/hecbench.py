"""HeCBench's `*-cuda` programs: the first 200 in alphabetical order whose Makefile links no vendor library."""

from __future__ import annotations

import re
from pathlib import Path

from threadloom.bench.suites.hecbench_problems import ARGUMENTS
from threadloom.bench.suites.program import Program

COUNT = 200
ABOUT = (
    "The first 200 `*-cuda` programs in alphabetical order whose Makefile links no vendor library (cuBLAS, "
    "cuFFT, NCCL, MPI, Boost ...), built unmodified by `make CC=loom-nvcc`. Problems are pinned to what a CPU "
    "does in seconds (60 s of CPU time are allowed; the Makefiles' are for GPUs). Build times are CPU seconds, "
    "run times are of a shared machine, no measurement."
)
_VENDOR = re.compile(
    r"-l(?:cublas|cusparse|cufft|cudnn|nccl|cusolver|curand|cutensor|nvml|nvrtc|cuda\b|npp|nvidia-ml|mpi|nvshmem"
    r"|nvjpeg|gdal|boost|gsl|openblas|hdf5|tbb)"
)
_RUN = re.compile(r"^run\w*:.*\n((?:\t.*\n?)+)", re.MULTILINE)
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
    return Program(name, f"src/{folder}", ("make CC=loom-nvcc NVCC=loom-nvcc",), tuple(commands))


def _run_commands(makefile: str) -> list[str]:
    """The recipe of the target `run`, with the Makefile's variables put in."""
    found = _RUN.search(makefile)
    variables = {"LAUNCHER": "", **{name: value for name, value in _VARIABLE.findall(makefile) if name != "LAUNCHER"}}
    lines = found[1].replace("\\\n", " ").splitlines() if found else ["./main"]
    commands = []
    for line in lines:
        command = line.strip().lstrip("@-")
        for _ in range(3):
            command = re.sub(r"\$[({](\w+)[)}]", lambda match: variables.get(match[1], match[0]), command)
        if command.strip() and not command.strip().startswith("#"):
            commands.append(command.strip())
    return commands
