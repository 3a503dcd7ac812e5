"""Runs a case and puts the results beside the goals."""

from __future__ import annotations

import math
import os
import platform
import statistics
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from threadloom.bench.measure import Timing, Told, alternate, alternate_by_cpu_time, not_told
from threadloom.bench.operators import Case
from threadloom.errors import CompileError, slug

FORCED_BLAS = slug("forced-blas-core", "OPENBLAS_CORETYPE is set, so NumPy would not run at its own speed")


@dataclass(frozen=True, slots=True)
class Result:
    """Our speed over the fastest peer's, or of the copy rate: `ratio_turn`, the median over turns of the ratio within
    the turn, is what the goal is for; `ratio_min` and `ratio_median` are of the minima and medians of all samples.
    Where there is no peer they are NaN."""

    case: str
    ours: Timing
    peers: dict[str, Timing]
    copy_s: float
    ratio_turn: float
    ratio_min: float
    ratio_median: float
    goal: float | None
    flops: float
    error: float
    bound: float = math.inf
    bytes_moved: float = 0.0

    @property
    def reached(self) -> bool | None:
        return None if self.goal is None else self.ratio_turn >= self.goal

    @property
    def right(self) -> bool:
        return self.error <= self.bound


def check_environment() -> None:
    """A forced BLAS core would make NumPy slower or faster than users see it."""
    if os.environ.get("OPENBLAS_CORETYPE"):
        raise CompileError(
            FORCED_BLAS, "OPENBLAS_CORETYPE is set", why="NumPy would run kernels for another core", try_="unset it"
        )


def run_case(
    case: Case,
    rounds: int,
    limit_s: float,
    by_cpu_time: bool = False,
    without: Collection[str] = (),
    told: Told = not_told,
) -> Result:
    """Time the case in turns of `limit_s` seconds in all. The peers in `without` took longer than that for one call
    and are not called. `told` hears of what begins: the first call of each candidate, then ("") the turns."""
    case.ours()
    error = case.check() if case.check is not None else 0.0
    candidates = {"ours": case.ours, **{name: run for name, run in case.peers.items() if name not in without}}
    copy_bytes = int(case.copy_bytes) // 2
    if copy_bytes:
        candidates["copy"] = _copy(copy_bytes)
    measure = alternate_by_cpu_time if by_cpu_time else alternate
    timings = measure(candidates, rounds, limit_s, told)
    timings |= {name: Timing(limit_s, limit_s, 0, 0, False, over=True) for name in case.peers if name in without}
    ours = timings.pop("ours")
    copy = timings.pop("copy", None)
    rivals = [copy] if copy is not None else list(timings.values())
    if not rivals:
        ratios = (float("nan"),) * 3
    else:
        ratios = (
            _by_turns(ours, rivals),
            min(t.min_s for t in rivals) / ours.min_s,
            min(t.median_s for t in rivals) / ours.median_s,
        )
    copy_s = copy.min_s if copy else 0.0
    return Result(case.name, ours, timings, copy_s, *ratios, case.goal, case.flops, error, case.bound, case.bytes_moved)


def _by_turns(ours: Timing, rivals: list[Timing]) -> float:
    """Against the fastest rival: the median over turns; of the minima where no turn was undisturbed."""
    if not ours.turns:
        return min(t.min_s for t in rivals) / ours.min_s
    return min(
        statistics.median(x / y for x, y in zip(t.turns, ours.turns, strict=True)) if t.turns else t.min_s / ours.min_s
        for t in rivals
    )


def _copy(bytes_: int):
    """Our own non-temporal copy of that many bytes, on all cores."""
    import numpy as np

    from threadloom.bench.copy import copier

    source, target = (np.zeros(bytes_ + 4096, np.uint8) for _ in range(2))
    source[:], target[:] = 1, 2
    begin = [-(-array.ctypes.data // 4096) * 4096 for array in (source, target)]
    copy = copier()
    keep = (source, target)
    return lambda _keep=keep: copy(begin[1], begin[0], bytes_)


def machine() -> dict[str, str | int]:
    import numpy as np

    from threadloom.targets.cpu.host import host_cpu

    found = host_cpu()
    versions: dict[str, str | int] = {
        "cpu": found.target.cpu, "cores": found.cores, "vector_bytes": found.vector_bytes,
        "python": platform.python_version(), "numpy": np.__version__,
    }  # fmt: skip
    try:
        import torch

        versions["torch"] = torch.__version__
    except ImportError:
        pass
    return versions


def commit() -> str:
    """The commit that was measured, where this is a checkout."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    folder = Path(__file__).parent
    try:
        found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=5, check=False)
    except OSError:
        return ""
    return found.stdout.strip()
