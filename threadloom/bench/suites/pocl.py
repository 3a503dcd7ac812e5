"""Rodinia's OpenCL twins on PoCL beside the CUDA programs compiled by us: the same problem, kernels only.

PoCL's side is the time of all clEnqueueNDRangeKernel, each waited for, after a first run that fills PoCL's cache
of compiled kernels (a first use still loads them from there). Ours is from the first launch to the end of the last
kernel, without copies. A twin that does not build or run stays in the table, with the cause; logs stay in the scratch
folder.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from threadloom.bench.suites import ablation
from threadloom.bench.suites.process import Limits, run
from threadloom.bench.suites.program import build_cause
from threadloom.bench.suites.rodinia_pairs import PAIRS

_LIMITS = Limits(cpu_s=200)
_OBSERVER = Path(__file__).with_name("opencl_kernels.c")
_TIMING = "-I../util -DTIMING -lOpenCL -lm -o program"
_DEVICE = "-p 0 -d 0"


@dataclass(frozen=True, slots=True)
class OpenClTwin:
    """`pair` names the CUDA program with the same problem."""

    pair: str
    folder: str  # under opencl/
    build: str
    run: str


TWINS = (
    OpenClTwin("backprop", "backprop", f"g++ -O3 -w -fpermissive *.c backprop_ocl.cpp ../util/timing.c {_TIMING}",
               f"./program -n 262144 {_DEVICE}"),
    OpenClTwin("bfs", "bfs", f"g++ -std=c++98 -O3 -w -fopenmp -fpermissive bfs.cpp timer.cc ../util/timing.c {_TIMING}",
               f"./program ../../data/bfs/graph1MW_6.txt {_DEVICE}"),
    OpenClTwin("b+tree", "b+tree",
               f"gcc -O3 -w -fopenmp -fcommon main.c kernel/*.c util/*/*.c ../util/timing.c {_TIMING}",
               f"./program file ../../data/b+tree/mil.txt command ../../data/b+tree/command.txt {_DEVICE}"),
    OpenClTwin("cfd", "cfd", f"g++ -std=c++98 -O3 -w -fpermissive euler3d.cpp ../util/timing.c {_TIMING}",
               f"./program ../../data/cfd/box.domn.004K {_DEVICE}"),
    OpenClTwin("hotspot", "hotspot",
               f"gcc -O3 -w -fcommon OpenCL_helper_library.c hotspot.c ../util/timing.c {_TIMING}",
               f"./program 1024 2 100 ../../data/hotspot/temp_1024 ../../data/hotspot/power_1024 output.out {_DEVICE}"),
    OpenClTwin("hotspot3D", "hotspot3D", f"gcc -O3 -w -fcommon 3D.c CL_helper.c ../util/timing.c {_TIMING}",
               "./program -n 512 -l 8 -i 100 -f ../../data/hotspot3D/power_512x8 ../../data/hotspot3D/temp_512x8 "
               f"output.txt {_DEVICE}"),
    OpenClTwin("kmeans", "kmeans",
               "g++ -std=c++14 -O3 -w -fpermissive kmeans.cpp cluster.c getopt.c read_input.c kmeans_clustering.c "
               f"rmse.c ../util/timing.c {_TIMING}",
               f"./program -i ../../data/kmeans/kdd_cup {_DEVICE}"),
    OpenClTwin("lavaMD", "lavaMD", "gcc -O3 -w -fopenmp -fcommon main.c kernel/*.c util/num/*.c util/timer/*.c "
               f"util/opencl/*.c ../util/timing.c {_TIMING}",
               f"./program -boxes1d 8 {_DEVICE}"),
    OpenClTwin("lud", "lud",
               "g++ -O3 -w ocl/lud.cpp common/common.c ../util/timing.c -Icommon " + _TIMING,
               f"./program -s 1024 {_DEVICE}"),
    OpenClTwin("nw", "nw", f"g++ -O3 -w nw.c ../util/timing.c {_TIMING}", f"./program 2048 10 ./nw.cl {_DEVICE}"),
    OpenClTwin("particlefilter", "particlefilter",
               f"g++ -O3 -w -fpermissive ex_particle_OCL_double_seq.cpp ../util/timing.c {_TIMING}",
               f"./program -x 128 -y 128 -z 10 -np 10000 {_DEVICE}"),
    OpenClTwin("pathfinder", "pathfinder",
               f"g++ -std=c++14 -O3 -w main.cpp OpenCL.cpp ../util/timing.c {_TIMING}",
               f"./program -c 100000 -r 100 -h 20 {_DEVICE}"),
    OpenClTwin("srad_v1", "srad",
               "gcc -O3 -w -fcommon main.c kernel/kernel_gpu_opencl_wrapper.c util/*/*.c ../util/timing.c " + _TIMING,
               f"./program -n 100 -l 0.5 -s 502 458 {_DEVICE}"),
    OpenClTwin("streamcluster", "streamcluster",
               f"g++ -std=c++14 -O3 -w -fpermissive streamcluster.cpp ../util/timing.c {_TIMING}",
               f"./program 10 20 256 8192 8192 1000 none output.txt 1 {_DEVICE}"),
)  # fmt: skip


@dataclass(slots=True)
class Comparison:
    """Kernel seconds of each round on both sides; `cause` says why PoCL has none."""

    name: str
    ours_s: list[float] = field(default_factory=list)
    pocl_s: list[float] = field(default_factory=list)
    cause: str = ""
    build_log: str = ""  # the twin's command and what the compiler said, without notes

    @property
    def ratio(self) -> float | None:
        """PoCL's fastest round over ours."""
        return min(self.pocl_s) / min(self.ours_s) if self.pocl_s and self.ours_s else None


def compare(checkout: Path, scratch: Path, rounds: int, only: Iterable[str] = ()) -> Iterable[Comparison]:
    """Each twin as soon as it is timed; with no rounds only builds and first runs."""
    pairs = {pair.name: pair for pair in PAIRS}
    scratch.mkdir(parents=True, exist_ok=True)
    observer = scratch / "opencl_kernels.so"
    subprocess.run(["gcc", "-O2", "-w", "-shared", "-fPIC", "-o", str(observer), str(_OBSERVER), "-ldl"], check=True)
    for twin in TWINS:
        if only and twin.pair not in only:
            continue
        pair, found = pairs[twin.pair], Comparison(twin.pair)
        folder = ablation.copied(pair, checkout, scratch)
        program = folder / "program.pocl-peer"
        if not program.exists() and (cause := ablation.build(pair, folder, (), program)):
            found.cause = f"ours {cause}"
        else:
            _time(twin, found, checkout, scratch, rounds, observer)
            for _ in range(rounds):
                seconds = ablation.kernel_seconds(pair, folder, "./program.pocl-peer", {})
                found.ours_s += [] if seconds is None else [seconds]
        yield found


def _time(twin: OpenClTwin, found: Comparison, checkout: Path, scratch: Path, rounds: int, observer: Path) -> None:
    place = scratch / "opencl"
    for name in (twin.folder, "util"):
        if not (place / name).exists():
            shutil.copytree(checkout / "opencl" / name, place / name)
    folder = place / twin.folder
    built, log = folder / "program", scratch / f"{twin.pair}.pocl-build.log"
    if not (folder / "warm").exists():
        built.unlink(missing_ok=True)
        outcome = run(["sh", "-c", twin.build], folder, _LIMITS, {})
        log.write_text(f"$ {twin.build}\n{outcome.output}status {outcome.status}\n")
        found.build_log = _short(log)
        if not outcome.good:
            found.cause = "does not build: " + (outcome.stopped or build_cause(outcome.output))
            return
        if _round(twin, found, folder, observer) is None:
            return
        (folder / "warm").touch()
    found.build_log = _short(log)
    for _ in range(rounds):
        seconds = _round(twin, found, folder, observer)
        found.pocl_s += [] if seconds is None else [seconds]


def _short(log: Path) -> str:
    lines = log.read_text().splitlines() if log.exists() else []
    kept = [line for line in lines if line.startswith(("$", "status")) or "error" in line or "warning" in line]
    return "\n".join(kept[:20])


def _round(twin: OpenClTwin, found: Comparison, folder: Path, observer: Path) -> float | None:
    times = folder / "times.json"
    times.unlink(missing_ok=True)
    variables = {"LD_PRELOAD": str(observer), "LOOM_OPENCL_FILE": str(times)}
    outcome = run(["sh", "-c", "exec " + twin.run], folder, _LIMITS, variables)
    if outcome.stopped or outcome.status < 0 or not times.exists():
        found.cause = f"does not run: {outcome.stopped or outcome.output.strip().splitlines()[-1:] or outcome.status}"
        return None
    record = json.loads(times.read_text())
    return record["kernels_s"] + record["first_s"]
