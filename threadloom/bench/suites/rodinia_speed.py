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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from threadloom.bench.suites import rodinia_data
from threadloom.bench.suites.driver import environment, version
from threadloom.bench.suites.process import Limits, Outcome, run
from threadloom.bench.suites.program import build_cause, judge_bad
from threadloom.bench.suites.rodinia_pairs import PAIRS, Pair
from threadloom.whole_file import write_whole

THREADS = 2  # of a twin
NOT_RUNNING = 0.1  # the ratio that a pair counts with where our side does not run
_LIMITS = Limits(cpu_s=120)
_OBSERVER = Path(__file__).with_name("openmp_regions.c")
BUILDS = "builds.json"
_WRITTEN = "times.json"  # by each run, in its folder


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


@dataclass(frozen=True, slots=True)
class Side:
    """One program of a pair in its folder, with what makes it write its times."""

    times: Times
    folder: Path
    command: str
    variables: dict[str, str]


def chosen(only: str) -> list[Pair]:
    """The pairs of the comma-separated `only`; all of them where it is empty."""
    names = only.split(",") if only else [pair.name for pair in PAIRS]
    return [pair for pair in PAIRS if pair.name in names]


def build_pairs(checkout: Path, scratch: Path, only: str = "", jobs: int = 1, inputs: bool = True) -> dict[str, str]:
    """Build both sides of the pairs in `scratch`, `jobs` pairs at a time, with the inputs of the pinned problems; name
    -> commit that built it, of all that were ever built there. What this version built there is kept."""
    scratch.mkdir(parents=True, exist_ok=True)
    observer = scratch / _OBSERVER.with_suffix(".so").name
    if not observer.exists():
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(observer), str(_OBSERVER), "-ldl"], check=True)
    compilers, commit = twin_compilers(), version()
    known = builds(scratch)
    missing = [pair for pair in chosen(only) if not _is_built(known.get(pair.name), commit)]
    for pair in missing:  # pairs share folders and inputs
        rodinia_data.provide(scratch / "data", checkout / "data", pair.inputs if inputs else ())
        _copy(checkout / "cuda", pair.cuda, scratch / "cuda")
        for name in compilers:
            _copy(checkout / "openmp", pair.openmp, scratch / f"openmp-{name}")
    with ThreadPoolExecutor(jobs) as pool:
        causes = pool.map(lambda pair: _build_sides(pair, scratch, compilers), missing)
        for pair, found in zip(missing, causes, strict=True):
            known[pair.name] = {"commit": commit, "causes": found}
            write_whole(scratch / BUILDS, json.dumps(known, indent=2))
    return {name: one["commit"] for name, one in known.items()}


def _is_built(record: dict | None, commit: str) -> bool:
    if record is None or record["causes"]["ours"]:
        return False
    return record["commit"] == commit != "" and not commit.endswith("+")


def _build_sides(pair: Pair, scratch: Path, compilers: dict[str, dict[str, str]]) -> dict[str, str]:
    """Why a side does not build; "" where it does."""
    causes = {"ours": _build(scratch / "cuda" / pair.cuda, pair.build)}
    for name, commands in compilers.items():
        causes[name] = ""
        place = scratch / f"openmp-{name}"
        if not (place / pair.openmp / "program").exists():  # nothing of ours is in it
            causes[name] = _build(place / pair.openmp, pair.twin_build.format(**commands))
    return causes


def builds(scratch: Path) -> dict[str, dict]:
    """What build_pairs left in `scratch`: for each pair the commit, and why a side does not build ("" if it does)."""
    place = scratch / BUILDS
    return json.loads(place.read_text()) if place.exists() else {}


def time_pairs(scratch: Path, rounds: int, only: str = "") -> Iterable[PairResult]:
    """Times of the pairs that `build_pairs` built in `scratch`, each pair as soon as it is there."""
    for pair in chosen(only):
        yield _time_pair(pair, scratch, rounds, builds(scratch)[pair.name]["causes"])


def _time_pair(pair: Pair, scratch: Path, rounds: int, causes: dict[str, str]) -> PairResult:
    ours = Times(cause=causes["ours"])
    twins = {name: Times(cause=cause) for name, cause in causes.items() if name != "ours"}
    sides = [Side(ours, scratch / "cuda" / pair.cuda, pair.run, {"LOOM_PROFILE": _WRITTEN})]
    for name, times in twins.items():
        folder = scratch / f"openmp-{name}" / pair.openmp
        observer = scratch / _OBSERVER.with_suffix(".so").name
        watched = {
            "LD_PRELOAD": str(observer),
            "LOOM_REGIONS_FILE": str(folder / _WRITTEN),
            "OMP_NUM_THREADS": str(THREADS),
        }
        sides.append(Side(times, folder, pair.twin_run.format(threads=THREADS), watched))
    for _ in range(rounds):
        for side in sides:
            if not side.times.cause:
                _round(side)
    return PairResult(pair, ours, twins)


def _copy(origin: Path, folder: str, scratch: Path) -> None:
    """The whole program's folder, and what programs share. `scratch/..` has `data`, as the sources expect it."""
    for name in {Path(folder).parts[0], "util", "hybridsort"}:
        if (origin / name).exists() and not (scratch / name).exists():
            shutil.copytree(origin / name, scratch / name)


def _build(folder: Path, build: str) -> str:
    """Why that failed, or ""."""
    if not folder.exists():
        return "its sources are missing"
    built = run(["sh", "-c", build], folder, _LIMITS, environment())
    return "" if built.good else "does not build: " + (built.stopped or build_cause(built.output))


def _round(side: Side) -> None:
    written = side.folder / _WRITTEN
    written.unlink(missing_ok=True)
    shown = {"OMP_WAIT_POLICY": "active", **side.variables}
    outcome: Outcome = run(["sh", "-c", "exec " + side.command], side.folder, _LIMITS, shown)
    # Some of these programs end main without a value: the status counts only where nothing else says that it ran.
    if outcome.stopped or outcome.status < 0 or (outcome.status and not written.exists()):
        side.times.cause = judge_bad(outcome)[1]
        return
    side.times.whole_s.append(outcome.seconds)
    record = json.loads(written.read_text()) if written.exists() else {"span_s": math.nan}
    side.times.kernel_s.append(record["span_s"] - record.get("copies_in_span_s", 0.0))


def geometric_mean(ratios: Iterable[float | None]) -> float:
    known = [ratio for ratio in ratios if ratio]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan
