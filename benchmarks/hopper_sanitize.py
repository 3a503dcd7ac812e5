#!/usr/bin/env python3
"""Runs the smallest shape of each kernel family and feature under compute-sanitizer: memcheck, racecheck and synccheck.

    python benchmarks/hopper_sanitize.py [--names matmul,nibbles] [--tools memcheck,synccheck] [--json out.json]

Families are the examples; features are the kernels of benchmarks/gpu_cases (gathers, atomics, halves of bytes,
products of every form ...) and the plans of FORMS (clusters, split reductions, walked axes ...). Kernels are compiled
in parallel first; each is then launched once under each tool, a few at a time, in a process that loads nothing but the
driver, and its results are compared with float64. What the tools cannot see is told in docs/gpu.md. Exit code 1 where a
tool reports something or a result is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from hopper_conditions import conditions

from threadloom.comparison import compare
from threadloom.dtypes import numpy_dtype
from threadloom.errors import CompileError, ThreadloomError
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.search import plan
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor, compile_program, facts_of
from threadloom.targets.cuda.launch import kernel_for
from threadloom.targets.cuda.launch_copies import OnGpu
from threadloom.targets.cuda.time_plan import packed
from threadloom.tile.ops import Access

TOOLS = ("memcheck", "racecheck", "synccheck")
ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {
    "threadloom.examples": ROOT / "threadloom" / "examples",
    "benchmarks.gpu_cases": ROOT / "benchmarks" / "gpu_cases",
}
MODULES = {p.stem: f"{package}.{p.stem}" for package, f in FOLDERS.items() for p in sorted(f.glob("[a-z]*.py"))}


@dataclass(frozen=True, slots=True)
class Form:
    """A form of plan that the model does not choose for the smallest shapes: `of` is the plan without."""

    family: str
    shape: dict[str, int]
    of: Callable[[Partition], Partition]


HEADS = {"B": 1, "H": 4, "HKV": 2, "SQ": 300, "SK": 300, "D": 64}
WALK = Partition(
    (AxisTile("p", 64, 64), AxisTile("n", 128, 128), AxisTile("k", 64, 64), AxisTile("h", 4, 4)),
    sequential=("h",), order=("b", "chunk", "h", "p", "n"), group=16, persistent=True,
)  # fmt: skip
SHARED = Partition((AxisTile("m", 128, 64), AxisTile("n", 64, 64)), order=("n",), workers=2, persistent=True)
FORMS = {
    "clusters": Form("matmul", {"M": 70, "K": 200, "N": 520}, lambda p: replace(p, cluster=2)),
    "split reduction": Form(
        "matmul", {"M": 3, "K": 2000, "N": 72}, lambda p: replace(p, splits=4, order=("part", *p.order))
    ),
    "walked axis": Form("chunk_state", {"B": 1, "C": 2, "L": 128, "H": 8, "P": 64, "N": 128, "G": 1}, lambda p: WALK),
    "backwards": Form("flash_attention", HEADS, lambda p: replace(p, backwards=True)),
    "scans of a shared axis": Form("running_columns", {"M": 100, "N": 72, "K": 40}, lambda p: SHARED),
    "begun ahead": Form(  # some blocks have two tiles
        "flash_attention", HEADS | {"H": 140, "HKV": 70, "SQ": 64}, lambda p: replace(p, begins_ahead=True)
    ),
}


def case_of(name: str):
    """(call, reference outputs by name, form of plan) of the smallest shape, in f16 where the kernel takes that."""
    import threadloom as tl

    form = FORMS.get(name)
    family = form.family if form else name
    module = importlib.import_module(MODULES[family])
    shape = form.shape if form else min(module.SHAPES, key=lambda s: np.prod(list(s.values()), dtype=float))
    for dtype in (tl.f16, tl.f32):
        arguments = module.inputs(np.random.default_rng(0), **shape, dtype=numpy_dtype(dtype))
        try:
            call = getattr(module, family).bind(**arguments)
            break
        except CompileError:
            continue
    made = module.reference(**arguments)
    outputs = [t.name for t in call.kernel.tensors if t.access is not Access.IN]
    return call, dict(zip(outputs, made if isinstance(made, tuple) else (made,), strict=True)), form


def compiled(name: str) -> CudaKernel:
    call, _, form = case_of(name)
    given = {n: DeviceTensor(0, a.shape, packed(a.shape)) for n, a in call.arrays.items()}
    if form is None:
        return kernel_for(call.kernel, call.dims, given)
    best = plan(call.kernel, call.dims, "h200", splits=False).best.partition
    program = plan(call.kernel, call.dims, "h200", only=form.of(best)).best
    return compile_program(program, {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}, call.dims)


def prepare(name: str, folder: str) -> str:
    """Compile to FOLDER/NAME; returns why that cannot be done."""
    try:
        kernel = compiled(name)
    except ThreadloomError as error:
        return str(error).splitlines()[0]
    (Path(folder) / name).write_bytes(pickle.dumps(kernel))
    return ""


def child(name: str, file: str) -> None:
    """Under the tool: one launch, compared."""
    call, wanted, _ = case_of(name)
    on_gpu = OnGpu(call)
    on_gpu.launch(pickle.loads(Path(file).read_bytes()))
    on_gpu.fetch()
    found = compare(call.kernel, call.dims, {n: call.arrays[n] for n in wanted}, wanted)
    print("RESULT", "right" if all(c.holds for c in found) else f"WRONG {found}")


def sanitize(tool: str, name: str, folder: str, program: str) -> dict[str, str]:
    python = [sys.executable, __file__, "--child", name, f"{folder}/{name}"]
    command = [program, "--tool", tool, "--print-limit", "5", *python]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    except subprocess.TimeoutExpired:
        return dict(kernel=name, tool=tool, verdict="no end within 240 s", said="")
    text = done.stdout + done.stderr
    summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", text)
    result = re.findall(r"^RESULT (.*)", text, re.M)
    clean = bool(summary) and re.match(r"0 (errors|hazards)", summary[-1]) is not None
    verdict = "clean" if clean and result == ["right"] else f"{summary[-1:] or 'no summary'}, result {result or 'none'}"
    return dict(kernel=name, tool=tool, verdict=verdict, said="" if verdict == "clean" else text[-3000:])


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:4])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default="")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--together", type=int, default=12, help="how many run at a time (default: 12)")
    parser.add_argument("--json")
    args = parser.parse_args()
    installed = map(str, Path("/usr/local").glob("cuda*/bin/compute-sanitizer"))
    program = shutil.which("compute-sanitizer") or next(installed, "")
    if not program:
        sys.exit("compute-sanitizer is not installed (it comes with the CUDA toolkit)")
    names = args.names.split(",") if args.names else [*sorted(MODULES), *FORMS]
    with tempfile.TemporaryDirectory() as folder:
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
            refused = dict(zip(names, pool.map(prepare, names, [folder] * len(names)), strict=True))
        for name, why in refused.items():
            if why:
                print(f"{name}: no code: {why}")
        jobs = [(tool, n, folder, program) for n in names if not refused[n] for tool in args.tools.split(",")]
        with ThreadPoolExecutor(args.together) as pool:
            rows = list(pool.map(lambda job: sanitize(*job), jobs))
    for row in rows:
        print(f"{row['kernel']:24s} {row['tool']:10s} {row['verdict']}")
    clean = sum(row["verdict"] == "clean" for row in rows)
    print(f"{clean} of {len(rows)} are clean")
    if args.json:
        no_code = {n: w for n, w in refused.items() if w}
        record = dict(schema="threadloom.sanitize.gpu.1", **conditions(), rows=rows, no_code=no_code)
        Path(args.json).write_text(json.dumps(record, indent=1))
    sys.exit(0 if clean == len(rows) else 1)


if __name__ == "__main__":
    main()
