#!/usr/bin/env python3
"""Random tile programs on the GPU against the interpreter in float64.

    python benchmarks/hopper_random.py [--count 1000] [--most N] [--seconds 60] [--seed N] [--seeds 17,10042]
                                       [--json out.json]

Every run draws new seeds (printed). Programs come from tests/generators/tile_programs.py, from its four families alike;
each is planned, compiled with the watchdog and interpreted in parallel processes, and launched in one that is replaced
when a kernel breaks it. It ends when `--most` have run. A thousand take two to four minutes of 16 cores.
Printed at the end: what agreed, what was wrong, what there is no code for (and why), which features of the language
the programs that ran have covered, and how many operations on a type met each kind of loop and of extent. `--json`
keeps every failure's seed and text; tests/device keeps those of the past. Exit code 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as many processes as there are cores
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from generators.tile_programs import BROAD, LOOPS, WIDE, program, report
from hopper_conditions import conditions

from threadloom.comparison import tolerance
from threadloom.errors import CompileError
from threadloom.targets.cuda import best_plan
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor
from threadloom.targets.cuda.driver import WATCHDOG
from threadloom.targets.cuda.faults import fault_of
from threadloom.targets.cuda.launch import kernel_for, raise_if_stuck
from threadloom.targets.cuda.launch_copies import OnGpu
from threadloom.targets.cuda.time_plan import packed
from threadloom.tile.ops import Access
from threadloom.tolerance import worst_error

best_plan.MOST_TRIED = 3  # plans compiled until one does not spill: these programs have to be right, not fast
PLACES = ("extent", "grid", "stream", "loop", "axis", "load", "store")  # features that are no operations


@dataclass
class Made:
    """A program that was compiled and interpreted. `wanted`: output -> what it is in float64, and the error that the
    table of tolerances allows."""

    seed: int
    features: Counter[str]
    kernel: CudaKernel | None = None
    wanted: dict[str, tuple[np.ndarray, float]] = field(default_factory=dict)
    no_code: str = ""  # the reason
    broken: str = ""  # a fault of ours before the launch


def make(seed: int) -> Made:
    p = program(seed)
    made = Made(seed, p.features)
    try:
        call = p.kernel.bind(**p.arguments)
        given = {n: DeviceTensor(0, a.shape, packed(a.shape)) for n, a in call.arrays.items()}
        made.kernel = kernel_for(call.kernel, call.dims, given, defines=WATCHDOG)
        results = p.kernel.interpret(**p.arguments, exact=True)
        outputs = [t for t in call.kernel.tensors if t.access is not Access.IN]
        for tensor, result in zip(outputs, results if isinstance(results, tuple) else (results,), strict=True):
            result = np.asarray(result)
            made.wanted[tensor.name] = result, tolerance(call.kernel, call.dims, tensor.dtype, result)
    except CompileError as error:
        made.no_code = f"{error.slug}: {error.what}" + (f" ({error.why})" if error.why else "")
    except Exception as error:
        made.broken = f"{type(error).__name__}: {str(error)[:600]}"
    return made


def launch(made: Made) -> str:
    """ "" where the GPU agrees, else what is wrong."""
    p = program(made.seed)
    call = p.kernel.bind(**p.arguments)
    for tensor in call.kernel.tensors:
        if tensor.access is Access.OUT and call.arrays[tensor.name].size:
            call.arrays[tensor.name].view(np.uint8)[...] = 0xFF  # an element that is not written shows
    on_gpu = OnGpu(call)
    try:
        on_gpu.launch(made.kernel)
    except Exception:
        raise_if_stuck(made.kernel)
        raise
    on_gpu.fetch()
    on_gpu.free()
    for name, (wanted, allowed) in made.wanted.items():
        if not (error := worst_error(call.arrays[name], wanted)) <= allowed:
            return f"{name} off by {error:.3g}, {allowed:.3g} is allowed; {fault_of(made.kernel)}"
    return ""


class Launcher:
    """One process that launches; another one takes over where a kernel broke its context."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))

    def launch(self, made: Made) -> str:
        try:
            return self._pool.submit(launch, made).result(timeout=60)
        except BrokenProcessPool:
            verdict = "the launching process died"
        except Exception as error:
            verdict = f"{type(error).__name__}: {str(error)[:400]}"
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._start()
        return verdict


@dataclass
class Found:
    right: int = 0
    covered: Counter[str] = field(default_factory=Counter)
    no_code: Counter[str] = field(default_factory=Counter)
    without_code: list[int] = field(default_factory=list)  # seeds
    uncovered: Counter[str] = field(default_factory=Counter)  # features of programs without code
    failures: list[dict[str, object]] = field(default_factory=list)
    crossed: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # loop, extent -> operations on types

    def ran(self, features: Counter[str]) -> None:
        self.covered += features
        done = {
            f for f in features if f.split()[0] not in ("extent", "grid", "stream", "loop", "axis", "load", "store")
        }
        for loop in {f for f in features if f.split()[0] in ("stream", "loop")} or {"no loop"}:
            for extent in {f for f in features if f.startswith("extent")}:
                self.crossed.setdefault((loop, extent), set()).update(done)

    def table(self) -> str:
        """Of each kind of loop and of extent: operations on types that some program had beside them."""
        extents = sorted({extent for _, extent in self.crossed})
        rows = [f"{'':44}" + "".join(f"{e.removeprefix('extent '):>15}" for e in extents)]
        for loop in sorted({loop for loop, _ in self.crossed}):
            rows.append(f"{loop:44}" + "".join(f"{len(self.crossed.get((loop, e), ())):15}" for e in extents))
        return "\n".join(rows)


def run(seeds: list[int], most: int, seconds: float, processes: int) -> Found:
    found, until = Found(), time.monotonic() + seconds
    launcher = Launcher()
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
    try:
        for future in as_completed([pool.submit(make, s) for s in seeds], timeout=seconds):
            made = future.result()
            if made.no_code:
                found.no_code[made.no_code] += 1
                found.without_code.append(made.seed)
                found.uncovered += made.features
            else:
                wrong = made.broken or launcher.launch(made)
                found.ran(made.features)
                found.right += not wrong
                if wrong:
                    found.failures.append(dict(seed=made.seed, verdict=wrong, text=program(made.seed).text))
                    print(f"seed {made.seed}: {wrong}", flush=True)
            if time.monotonic() > until or found.right + len(found.failures) == most:
                break
    except TimeoutError:
        pass
    pool.shutdown(wait=False, cancel_futures=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, help="new ones (default: 1000, none with --seeds)")
    parser.add_argument("--most", type=int, default=0, help="end when so many have run (default: all)")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
    parser.add_argument("--seeds", default="", help="run these first")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    families = ((0, WIDE), (WIDE, 2**31), (BROAD, 2**31), (LOOPS, 2**31))
    seeds = [int(s) for s in args.seeds.split(",") if s]
    new = args.count if args.count is not None else 0 if seeds else 1000
    seeds += [first + rng.randrange(count) for first, count in rng.choices(families, k=new)]
    print("seed", args.seed)
    began = time.monotonic()
    found = run(seeds, args.most, args.seconds, args.processes)
    print("covered:", report(found.covered))
    print(f"operations on types beside each kind of loop and of extent:\n{found.table()}")
    missing = sorted(found.uncovered.keys() - found.covered.keys())
    print("features that ran in no program:", ", ".join(missing) or "none")
    for reason, times in found.no_code.most_common(12):
        print(f"no code, {times} times: {reason[:300]}")
    spent = f"in {time.monotonic() - began:.0f} s"
    print(f"{found.right} agree, {len(found.failures)} are wrong, {found.no_code.total()} have no code, {spent}")
    if args.json:
        record = dict(schema="threadloom.random.gpu.1", **conditions(), seed=args.seed, right=found.right,
                      failures=found.failures, no_code=dict(found.no_code), without_code=found.without_code,
                      covered=dict(found.covered),
                      crossed={" x ".join(pair): len(ops) for pair, ops in found.crossed.items()})  # fmt: skip
        Path(args.json).write_text(json.dumps(record, indent=1))
    sys.stdout.flush()
    for child in multiprocessing.active_children():
        child.kill()  # it may still be compiling, and would hold our output open for whoever reads it
    os._exit(1 if found.failures else 0)


if __name__ == "__main__":
    main()
