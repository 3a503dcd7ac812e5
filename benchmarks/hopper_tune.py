#!/usr/bin/env python3
"""Tunes common shapes on this GPU and writes the plans that come with the package (threadloom/plans/DEVICE.json).

    python benchmarks/hopper_tune.py --to threadloom/plans [--only matmul,retention] [--missing] [--plans 10]

Cases are planned in parallel processes first; then each is tuned as `loom tune` does it (sched/tune.py). What a run
could not measure keeps the plan that the file has already. `--missing`: only cases that have none; the file is written
after each, so that a run that is cut short loses nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from hopper_check import MODULES
from hopper_conditions import commit

import threadloom as tl
from threadloom.dtypes import numpy_dtype
from threadloom.errors import ThreadloomError
from threadloom.machine.devices import device as find_device
from threadloom.machine.model import Device
from threadloom.sched import shipped
from threadloom.sched.reuse import key_of, recipe_of_candidate, recipe_text
from threadloom.sched.search import Outcome, plan
from threadloom.sched.tune import tune
from threadloom.store import Key, Store, StoredPlan
from threadloom.tile.ops import Kernel


@dataclass(frozen=True, slots=True)
class Case:
    """The kernel of an example, or of gpu_cases, at one shape; `choices`: compile-time constants; `arrays`: of integers
    that bound loops."""

    example: str
    dims: dict[str, int]
    dtype: str = "bf16"
    choices: dict[str, object] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.example} {' '.join(f'{k}{v}' for k, v in {**self.dims, **self.choices}.items())} {self.dtype}"


def attention(b: int, s: int, h: int, kv: int, d: int, causal: bool) -> Case:
    dims = {"B": b, "H": h, "HKV": kv, "SQ": s, "SK": s, "D": d}
    return Case("flash_attention", dims, choices={"causal": True} if causal else {})


LAYERS = [
    (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672),
]  # fmt: skip
FEW_ROWS = [(28672, 4096), (4096, 14336), (6144, 4096), (4096, 4096)]  # decoding with the layers of LLAMA3 8B
MODEL = {"L": 256, "H": 80, "P": 64, "N": 128, "G": 1}  # Mamba2
CASES = [
    *(Case("matmul", {"M": n, "N": n, "K": n}) for n in (8192, 4096)),
    *(attention(4, 4096, 16, 16, 128, causal) for causal in (False, True)),
    attention(1, 4096, 32, 8, 128, True),
    *(attention(2, 8192, 32, 32, 64, causal) for causal in (False, True)),
    *(attention(2, 8192, 8, 8, 256, causal) for causal in (False, True)),
    Case("chunk_scan", {"B": 8, "C": 16, "L": 256, "H": 80, "P": 64, "N": 128, "G": 1}, "f16"),
    Case("chunk_state", {"B": 8, "C": 16, "L": 256, "H": 80, "P": 64, "N": 128, "G": 1}, "f16"),
    *(Case("flash_decoding", {"B": b, "HKV": 8, "G": 4, "S": 8192, "D": 128}) for b in (1, 32)),
    *(Case(name, {"M": 16384, "N": 4096}) for name in ("softmax", "rmsnorm", "layernorm")),
    *(Case("matmul", {"M": 4096, "N": n, "K": k}) for n, k in LAYERS),
    *(Case("matmul", {"M": m, "N": n, "K": k}) for n, k in FEW_ROWS[:2] for m in (1, 32)),
    Case("mla_decode", {"B": 128, "H": 128, "S": 4096, "D": 512, "R": 64}),
    Case("retention", {"B": 8, "H": 32, "S": 4096, "D": 128, "E": 128}),
    *(Case("w4_matmul", {"M": m, "N": 28672, "K": 4096}, "f16") for m in (1, 32, 4096)),
    *(attention(b, s, 32, 32, 64, causal) for b, s in ((8, 2048), (1, 16384)) for causal in (False, True)),
    *(Case("chunk_scan", {"B": b, "C": c, **MODEL}, "f16") for b, c in ((1, 32), (64, 32))),
    *(Case("conv2d", {"B": 128, "H": n, "W": n, "C": c, "F": c, "R": 3, "S": 3}, "f16")
      for n, c in ((56, 64), (28, 128), (14, 256), (7, 512))),
    Case("grouped_matmul", {"E": 32, "M": 8192, "K": 7168, "N": 4096},
         arrays={"starts": np.arange(33, dtype=np.int32) * 256}),
    *(attention(4, 4096, 16, 16, d, causal) for d in (96, 192) for causal in (False, True)),
    *(Case("matmul", {"M": m, "N": n, "K": k}) for n, k in FEW_ROWS[2:] for m in (1, 32)),
    Case("flash_decoding", {"B": 128, "HKV": 8, "G": 4, "S": 4096, "D": 128}),
    Case("f8_product", {"M": 8192, "N": 8192, "K": 8192}, "f8e4m3"),
]  # fmt: skip


def problem(case: Case) -> tuple[Kernel, dict[str, int], dict[str, np.ndarray], dict[str, float]]:
    """(kernel, extents, arrays, scalars): element types and scalars from the example's smallest inputs."""
    from threadloom.cli.inputs import planning_problem
    from threadloom.cli.kernel_argument import Chosen

    module = importlib.import_module(MODULES[case.example])
    kernel = getattr(module, case.example)
    arguments = module.inputs(np.random.default_rng(0), **module.SHAPES[0], dtype=numpy_dtype(getattr(tl, case.dtype)))
    call = kernel.bind(**{**arguments, **case.choices})
    chosen = Chosen(case.example, module, kernel, case.dims, dict(case.choices))
    return call.kernel, planning_problem(chosen, case.dtype, case.dtype).dims, case.arrays, dict(call.scalars)


def planned(number: int, device: str, most: int) -> tuple[Outcome | None, str, float]:
    """In a process of the pool: the case's candidates."""
    began = time.monotonic()
    try:
        kernel, dims, _, _ = problem(CASES[number])
        return plan(kernel, dims, device, breadth=most), "", time.monotonic() - began
    except ThreadloomError as error:
        return None, str(error).splitlines()[0], time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--only", default="")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--plans", type=int, default=10)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for a case")
    parser.add_argument("--total", type=float, default=240.0, help="seconds after which no case is begun")
    args = parser.parse_args()
    chosen = [n for n, c in enumerate(CASES) if not args.only or c.example in args.only.split(",")]
    machine, began = find_device(args.device), time.monotonic()
    if args.missing:
        chosen = [n for n in chosen if not has_plan(CASES[n], machine)]
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
        rows: list[tuple[Key, StoredPlan]] = []
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
            outcomes = {n: pool.submit(planned, n, args.device, args.plans) for n in chosen}
            for number in chosen:
                outcome, why, spent = outcomes[number].result()
                label = CASES[number].label
                if outcome is None or time.monotonic() - began > args.total:
                    print(f"{label}: {why or 'left out: the time is over'}", flush=True)
                    continue
                kernel, dims, arrays, scalars = problem(CASES[number])
                try:
                    found = tune(kernel, dims, machine, store, arrays, scalars, most=args.plans, limit_s=args.limit,
                                 outcome=outcome)  # fmt: skip
                except ThreadloomError as error:
                    print(f"{label}: {error}", flush=True)
                    continue
                key = key_of(kernel, dims, machine)
                rows.append((key, store.plan(key)))
                report(label, found, store, key, outcome, spent)
                write(args, rows)


def has_plan(case: Case, machine: Device) -> bool:
    """Whether the package has a plan for the case."""
    kernel, dims, _, _ = problem(case)
    return shipped.shipped(machine.name).plan(key_of(kernel, dims, machine)) is not None


def report(label: str, found, store: Store, key: Key, outcome: Outcome, spent: float) -> None:
    """One line: the best against the model's own choice."""
    first = recipe_text(recipe_of_candidate(outcome.candidates[0]))
    own = store.plan_times(key).get(first)
    gain = f"the model's first takes {own.ns / found.ns:.3f} of it" if own is not None and own.ns else "no model's time"
    tiles = " ".join(f"{t.axis}{t.extent}" for t in found.program.partition.tiles)
    faults = ", ".join(sorted({f.message[:60] for f in found.failed}))
    plan_ = f"{found.program.device} {tiles} w{found.program.partition.workers}"
    print(f"{label}: {found.ns / 1e3:.1f} us by {plan_}; {gain}; {found.measured} plans, {found.seconds:.1f} s "
          f"(planned in {spent:.1f} s); failed: {faults or 'none'}", flush=True)  # fmt: skip


def write(args: argparse.Namespace, rows: list[tuple[Key, StoredPlan]]) -> None:
    """New plans beside those of the file that were not measured now."""
    path, rows = args.to / f"{args.device}.json", list(rows)
    fresh = {(k.kernel, k.dtypes, k.shape) for k, _ in rows}
    if path.exists():
        for (kernel, dtypes), plans in shipped.read(path.read_text(encoding="utf-8")).plans.items():
            for shape, stored in plans.items():
                if (kernel, dtypes, shape) not in fresh:
                    rows.append((Key(args.device, kernel, shape, dtypes), stored))
    from threadloom.targets.cuda import driver

    measured = {"date": time.strftime("%Y-%m-%d"), "gpu": driver.name_and_memory(0)[0], "commit": commit()}
    shipped.write(path, args.device, rows, measured)
    print(f"{len(fresh)} plans measured, {len(rows)} in {path}", json.dumps(measured))


if __name__ == "__main__":
    main()
