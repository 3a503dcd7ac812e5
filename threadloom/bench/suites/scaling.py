"""Rodinia's programs over the number of cores: ours and both OpenMP twins, from programs that are built already.

The machine with many cores may have no compiler: `pack` puts what `loom bench rodinia --scratch DIR --rounds 0` built
into a folder with the OpenMP runtimes beside it; `time_all` needs that folder, Python and NumPy. Inputs are
generated where they are missing. Problems are larger than the pinned ones where they come from arguments alone, so that
many cores have something to do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from threadloom.bench.suites import ablation, rodinia_data
from threadloom.bench.suites.process import Limits, run
from threadloom.bench.suites.rodinia_pairs import Pair
from threadloom.bench.suites.rodinia_speed import BUILDS

OURS = "ours"
_TWINS = {"gcc": "openmp-gcc", "clang": "openmp-clang"}
_MOST_SECONDS = 20  # of one run; a twin that takes longer is left out
_WRITTEN = "times.json"
_OBSERVER = "openmp_regions.so"
_LIBRARIES = "lib"  # beside the programs: libomp.so and libgomp.so.1

# Arguments of both sides, and inputs, where they differ from the pinned problem.
_LARGER: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "backprop": ("./program 917504", "./program 917504", ()),
    "bfs": (
        "./program ../../data/bfs/graph262144.txt",
        "./program {threads} ../../data/bfs/graph262144.txt",
        ("bfs/graph262144.txt",),
    ),
    "hotspot": (
        "./program 1024 2 200 ../../data/hotspot/temp_1024 ../../data/hotspot/power_1024 output.out",
        "./program 1024 1024 200 {threads} ../../data/hotspot/temp_1024 ../../data/hotspot/power_1024 output.out",
        ("hotspot/temp_1024", "hotspot/power_1024"),
    ),
    "hotspot3D": (  # of the same files the first quarter
        "./program 256 8 400 ../../data/hotspot3D/power_512x8 ../../data/hotspot3D/temp_512x8 output.out",
        "./program 256 8 400 ../../data/hotspot3D/power_512x8 ../../data/hotspot3D/temp_512x8 output.out",
        ("hotspot3D/power_512x8", "hotspot3D/temp_512x8"),
    ),
    "lud": ("./program -s 2048", "./program -n {threads} -s 2048", ()),
    "myocyte": (
        "./program 100 256 1",
        "./program 100 256 1 {threads}",
        ("myocyte/y.txt", "myocyte/params.txt"),
    ),
    "nw": ("./program 4096 10", "./program 4096 10 {threads}", ()),
    "pathfinder": ("./program 200000 100 20", "./program 200000 100 > out.txt", ()),
    "srad_v2": (
        "./program 2048 2048 0 127 0 127 0.5 8",
        "./program 2048 2048 0 127 0 127 {threads} 0.5 8",
        (),
    ),
    "streamcluster": (
        "./program 10 20 256 4096 4096 1000 none output.txt 1",
        "./program 10 20 256 4096 4096 1000 none output.txt {threads}",
        (),
    ),
    "lavaMD": ("./program -boxes1d 10", "./program -cores {threads} -boxes1d 10", ()),
}


@dataclass(slots=True)
class Scaling:
    """Kernel seconds of one pair: program -> workers -> rounds."""

    pair: Pair
    kernel_s: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """One program with one number of workers."""

    found: Scaling
    side: str
    threads: int

    @property
    def key(self) -> tuple[str, str, int]:
        return self.found.pair.name, self.side, self.threads


def problem(pair: Pair) -> tuple[str, str, tuple[str, ...]]:
    """Our command, the twin's with {threads}, and the inputs of both."""
    return _LARGER.get(pair.name, (pair.run, pair.twin_run, pair.inputs))


def time_all(built: Path, pairs: Sequence[Pair], counts: Sequence[int], seconds: float) -> list[Scaling]:
    """Rounds over all of `pairs` until `seconds` are over, the ends of `counts` first, so that what matters most is
    there whenever time runs out. Where cores are left, the three sides of a pair run beside each other."""
    end = time.monotonic() + seconds
    for pair in pairs:
        rodinia_data.provide(built / "data", built / "nowhere", problem(pair)[2])
    all_ = [Scaling(pair) for pair in pairs]
    took: dict[tuple[str, str, int], float] = {}
    failed: set[tuple[str, str, int]] = set()
    while True:
        idle = True
        for batch in _batches(_order(all_, counts), len(ablation.core_numbers())):
            left = end - time.monotonic()
            batch = [one for one in batch if one.key not in failed and took.get(one.key, 0.0) * 1.2 < left]
            if not batch or left <= 0:
                continue
            start, idle = time.monotonic(), False
            for one, runs in zip(batch, _time_together(batch, built), strict=True):
                took[one.key] = time.monotonic() - start
                if not runs:
                    failed.add(one.key)
        if idle:
            return all_


def _batches(runs: Iterator[Run], cores: int) -> Iterator[list[Run]]:
    """Sides of one pair that fit beside each other: each once, since a run writes to its folder."""
    batch: list[Run] = []
    for one in runs:
        fits = sum(other.threads for other in batch) + one.threads <= cores
        if batch and (not fits or one.key[::2] != batch[0].key[::2]):
            yield batch
            batch = []
        batch.append(one)
    yield batch


def _time_together(batch: Sequence[Run], built: Path) -> list[bool]:
    cores = iter(ablation.core_numbers() * max(one.threads for one in batch))  # there may be fewer cores than workers
    places = [[next(cores) for _ in range(one.threads)] for one in batch]
    with ThreadPoolExecutor(len(batch)) as pool:
        return list(pool.map(lambda pair: _time(pair[0], built, pair[1]), zip(batch, places, strict=True)))


def _order(all_: Sequence[Scaling], counts: Sequence[int]) -> Iterator[Run]:
    for threads in dict.fromkeys((counts[-1], counts[0], *reversed(counts))):
        for found in all_:
            yield from (Run(found, side, threads) for side in (OURS, *_TWINS))


def _time(one: Run, built: Path, cores: Sequence[int]) -> bool:
    """Whether it ran."""
    ours, twin, _ = problem(one.found.pair)
    pair = one.found.pair
    folder = built / "cuda" / pair.cuda if one.side == OURS else built / _TWINS[one.side] / pair.openmp
    if not (folder / "program").exists():
        one.found.causes[one.side] = "not built"
        return False
    written = folder / _WRITTEN
    written.unlink(missing_ok=True)
    command = ours if one.side == OURS else twin.format(threads=one.threads)
    limits = Limits(cpu_s=_MOST_SECONDS * one.threads)
    outcome = run(["sh", "-c", "exec " + command], folder, limits, _variables(one, built, written, cores))
    if outcome.stopped or outcome.status < 0 or not written.exists():
        shown = f"over its limit of {outcome.stopped} with {one.threads}" if outcome.stopped else ""
        one.found.causes[one.side] = shown or outcome.output.strip().rpartition("\n")[2] or "does not run"
        return False
    record = json.loads(written.read_text())
    seconds = record["span_s"] - record.get("copies_in_span_s", 0.0)
    one.found.kernel_s.setdefault(one.side, {}).setdefault(one.threads, []).append(seconds)
    return True


def _variables(one: Run, built: Path, written: Path, cores: Sequence[int]) -> dict[str, str]:
    """Workers on cores of their own."""
    libraries = built / _LIBRARIES
    variables = {
        "OMP_NUM_THREADS": str(one.threads),
        "OMP_PLACES": ",".join(f"{{{core}}}" for core in dict.fromkeys(cores)),
        "OMP_PROC_BIND": "close",
        "OMP_WAIT_POLICY": "active",
        "OMP_DYNAMIC": "false",
    }
    preloaded = []
    if libraries.is_dir():
        variables["LD_LIBRARY_PATH"] = f"{libraries}{os.pathsep}{os.environ.get('LD_LIBRARY_PATH', '')}"
        preloaded += [str(libraries / "libomp.so")] * (one.side == OURS)  # ours takes what the process has
    if one.side == OURS:
        variables["LOOM_PROFILE"] = str(written)
    else:
        variables["LOOM_REGIONS_FILE"] = str(written)
        preloaded.append(str(built / _OBSERVER))
    return variables | ({"LD_PRELOAD": os.pathsep.join(preloaded)} if preloaded else {})


def pack(scratch: Path, folder: Path, pairs: Sequence[Pair]) -> None:
    """`folder` with the programs of `pairs` that were built in `scratch`, and the OpenMP runtimes that they want."""
    from threadloom.targets.cpu.openmp import runtime

    for pair in pairs:
        for place in (Path("cuda") / pair.cuda, *(Path(name) / pair.openmp for name in _TWINS.values())):
            if (scratch / place / "program").exists():
                (folder / place).mkdir(parents=True, exist_ok=True)
                shutil.copy2(scratch / place / "program", folder / place / "program")
    shutil.copy2(scratch / BUILDS, folder / BUILDS)
    libraries = folder / _LIBRARIES
    libraries.mkdir(parents=True, exist_ok=True)
    shutil.copy2(scratch / _OBSERVER, folder / _OBSERVER)
    shutil.copy2(Path(runtime().path).resolve(), libraries / "libomp.so")
    found = subprocess.run(["gcc", "-print-file-name=libgomp.so.1"], capture_output=True, text=True, check=False)
    if (place := Path(found.stdout.strip() or "libgomp.so.1")).is_absolute():
        shutil.copy2(place.resolve(), libraries / "libgomp.so.1")


def cores_text() -> str:
    """What lscpu says of the cores, threads of a core (SMT) and memory nodes; "" where there is no such program."""
    try:
        text = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
    kept = ("Model name", "CPU(s)", "On-line", "Thread(s)", "Core(s)", "Socket(s)", "NUMA", "L2", "L3", "CPU max MHz")
    return "\n".join(line for line in text.splitlines() if line.strip().startswith(kept))
