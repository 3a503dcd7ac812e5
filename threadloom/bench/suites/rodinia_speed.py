"""Rodinia's pairs timed: the CUDA program, compiled by us, beside its OpenMP twin from gcc and from clang, in one run.

Kernel time is what lies between the first launch and the end of the last kernel, copies left out; for the twin, between
the begin of its first parallel region and the end of its last. Whole time is the program's, from start to exit.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from threadloom.bench.suites import rodinia_data
from threadloom.bench.suites.driver import environment
from threadloom.bench.suites.process import Limits, Outcome, run
from threadloom.bench.suites.program import build_cause, judge_bad
from threadloom.bench.suites.rodinia_pairs import PAIRS, Pair

NOT_RUNNING = 0.1  # the ratio that a pair counts with where our side does not run
_LIMITS = Limits(cpu_s=120)
_OBSERVER = Path(__file__).with_name("openmp_regions.c")


@dataclass(slots=True)
class Times:
    """Seconds of each round; `cause` says why there are none."""

    kernel_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    cause: str = ""

    @property
    def runs(self) -> bool:
        return not self.cause and bool(self.whole_s)


@dataclass(slots=True)
class PairResult:
    pair: Pair
    ours: Times
    twins: dict[str, Times]

    def ratio(self, of: Callable[[Times], list[float]]) -> float | None:
        """The faster twin's median over ours; None where no twin runs."""
        running = [median(of(twin)) for twin in self.twins.values() if twin.runs]
        if not running:
            return None
        return min(running) / max(median(of(self.ours)), 1e-9) if self.ours.runs else NOT_RUNNING

    @property
    def kernel_ratio(self) -> float | None:
        return self.ratio(lambda times: times.kernel_s)

    @property
    def whole_ratio(self) -> float | None:
        return self.ratio(lambda times: times.whole_s)


def twin_compilers() -> dict[str, dict[str, str]]:
    """gcc and clang with what -fopenmp needs; clang is the one that compiles our kernels."""
    from threadloom.cuda import clang, runtime_library
    from threadloom.targets.cpu.openmp import runtime

    found = {}
    if shutil.which("gcc") and shutil.which("g++"):
        found["gcc"] = {"CC": "gcc -march=native", "CXX": "g++ -march=native"}
    compiler = clang.find()
    library = Path(runtime().path)
    if (library.parent.parent / "include" / "omp.h").exists():
        flags = [
            "-march=native",
            f"-I{library.parent.parent / 'include'}",
            f"-L{library.parent}",
            f"-Wl,-rpath,{library.parent}",
            *runtime_library.link_flags(compiler),
        ]
        plus = " ".join([*compiler.command, *compiler.flags, *flags])
        # What clang 22 takes for an error in old C, gcc takes for a warning.
        plain = plus.replace("clang++", "clang").replace("-stdlib=libstdc++", "")
        found["clang"] = {"CC": plain + " -Wno-error=incompatible-pointer-types", "CXX": plus}
    return found


def time_pairs(checkout: Path, scratch: Path, rounds: int, only: str = "") -> Iterable[PairResult]:
    """Results of the pairs (of those in the comma-separated `only`), each as soon as it is there."""
    scratch.mkdir(parents=True, exist_ok=True)
    observer = scratch / "openmp_regions.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(observer), str(_OBSERVER), "-ldl"], check=True)
    names = only.split(",") if only else [pair.name for pair in PAIRS]
    for pair in PAIRS:
        if pair.name in names:
            yield _time_pair(pair, checkout, scratch, rounds, observer)


def _time_pair(pair: Pair, checkout: Path, scratch: Path, rounds: int, observer: Path) -> PairResult:
    rodinia_data.provide(scratch / "data", checkout / "data", pair.inputs)
    ours = Times()
    folder = _prepared(checkout / "cuda", pair.cuda, scratch / "cuda", pair.build, ours)
    result = PairResult(pair, ours, {})
    sides: list[tuple[Times, Path, str, dict[str, str], str]] = [
        (ours, folder, pair.run, {"LOOM_PROFILE": "times.json"}, "times.json")
    ]
    for name, commands in twin_compilers().items():
        times = result.twins[name] = Times()
        build = pair.twin_build.format(**commands)
        folder = _prepared(checkout / "openmp", pair.openmp, scratch / f"openmp-{name}", build, times)
        watched = {"LD_PRELOAD": str(observer), "LOOM_REGIONS_FILE": str(folder / "times.json"), "OMP_NUM_THREADS": "2"}
        sides.append((times, folder, pair.twin_run, watched, "times.json"))
    for _ in range(rounds):
        for times, folder, command, variables, written in sides:
            if not times.cause:
                _round(times, folder, command, variables, written)
    return result


def _prepared(origin: Path, folder: str, scratch: Path, build: str, times: Times) -> Path:
    """A copy of the whole program's folder, built; `scratch/..` has `data`, as the sources expect it."""
    top = Path(folder).parts[0]
    for name in {top, "util", "hybridsort"}:
        if (origin / name).exists() and not (scratch / name).exists():
            shutil.copytree(origin / name, scratch / name)
    place = scratch / folder
    built = run(["sh", "-c", build], place, _LIMITS, environment())
    if not built.good:
        times.cause = "does not build: " + (built.stopped or build_cause(built.output))
    return place


def _round(times: Times, folder: Path, command: str, variables: dict[str, str], written: str) -> None:
    (folder / written).unlink(missing_ok=True)
    outcome: Outcome = run(["sh", "-c", "exec " + command], folder, _LIMITS, {"OMP_WAIT_POLICY": "active", **variables})
    # Some of these programs end main without a value: the status counts only where nothing else says that it ran.
    if outcome.stopped or outcome.status < 0 or (outcome.status and not (folder / written).exists()):
        times.cause = judge_bad(outcome)[1]
        return
    times.whole_s.append(outcome.seconds)
    record = json.loads((folder / written).read_text()) if (folder / written).exists() else {"span_s": math.nan}
    times.kernel_s.append(record["span_s"] - record.get("copies_in_span_s", 0.0))


def geometric_mean(ratios: Iterable[float | None]) -> float:
    known = [ratio for ratio in ratios if ratio]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan
