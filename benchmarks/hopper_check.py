#!/usr/bin/env python3
"""Runs every example and benchmarks/gpu_cases on the GPU with fresh random inputs and compares with float64 references.

    python benchmarks/hopper_check.py [--names softmax,matmul] [--dtypes f16,bf16] [--processes 16] [--json out.json]
                                      [--device a100 --arch sm_90] [--plans 8]

Kernels are compiled in parallel processes and carry the watchdog, so that a hang ends with the barrier's name.
`--device` is the machine model that plans are made for; `--arch` compiles the source for another architecture than the
model's, so that a100 code can be checked on an H200. `--plans`: not the model's choice alone, but as many of the plans
that the search ranks best, as tuning measures them. Tolerances come from threadloom/tolerance.py. Exit code 1 where
something is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from hopper_conditions import conditions

from threadloom.comparison import compare
from threadloom.dtypes import ALL, numpy_dtype
from threadloom.errors import CompileError
from threadloom.machine.devices import device as find_device
from threadloom.sched.reuse import recipe_of_candidate, recipe_text, remake
from threadloom.sched.search import plan
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor, compile_program, facts_of
from threadloom.targets.cuda.driver import WATCHDOG
from threadloom.targets.cuda.faults import fault_of
from threadloom.targets.cuda.launch import device_tensors, kernel_for
from threadloom.targets.cuda.nvrtc import compile_source
from threadloom.tile.ops import Access

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {
    "threadloom.examples": ROOT / "threadloom" / "examples",
    "benchmarks.gpu_cases": ROOT / "benchmarks" / "gpu_cases",
}
MODULES = {p.stem: f"{package}.{p.stem}" for package, f in FOLDERS.items() for p in sorted(f.glob("[a-z]*.py"))}


def bind(name: str, shape: dict[str, int], dtype: str, seed: int):
    module = importlib.import_module(MODULES[name])
    arguments = module.inputs(np.random.default_rng(seed), **shape, dtype=numpy_dtype(ALL[dtype]))
    return getattr(module, name).bind(**arguments), module.reference, arguments


def takes(name: str, shape: dict[str, int], dtype: str, seed: int) -> bool:
    """Whether the kernel may be called with arguments of that type (some say f32 for what they carry)."""
    try:
        bind(name, shape, dtype, seed)
    except CompileError as error:
        if error.slug != "carried-type":  # reported with the case
            return True
        return dtype != "f64"
    return True


Made = tuple[str, CudaKernel | None, str]  # the plan, where not the model's choice; why there is no kernel


def make(name: str, shape: dict[str, int], dtype: str, seed: int, device: str, arch: str, plans: int) -> list[Made]:
    try:
        call, _, _ = bind(name, shape, dtype, seed)
        given = device_tensors(call.kernel, call.arrays)
        if plans:
            return ranked_best(call, given, device, arch, plans)
        made = kernel_for(call.kernel, call.dims, given, device, WATCHDOG)
        return [("", compiled_for(made, arch) if arch else made, "")]
    except Exception as e:  # reported with the case
        return [("", None, reason(e))]


def ranked_best(call, given: dict[str, DeviceTensor], device: str, arch: str, plans: int) -> list[Made]:
    """The plans that the search ranks best, each compiled."""
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    dims = {n: max(1, e) for n, e in call.dims.items()}
    candidates = plan(call.kernel, dims, device, breadth=plans).candidates
    recipes = {recipe_text(r): r for r in map(recipe_of_candidate, candidates)}
    made: list[Made] = []
    for number, recipe in enumerate(list(recipes.values())[:plans]):
        tiles = " ".join(f"{t.axis}{t.extent}/{t.worker_extent}" for t in recipe.partition.tiles)
        label = f" [{number}: {tiles} w{recipe.partition.workers}]"
        try:
            program = remake(call.kernel, dims, find_device(device), recipe).best
            kernel = compile_program(program, facts, dims, WATCHDOG)
            made.append((label, compiled_for(kernel, arch) if arch else kernel, ""))
        except Exception as e:  # reported with the case
            made.append((label, None, reason(e)))
    return made


def reason(error: Exception) -> str:
    """Without the folder of this machine: it is recorded."""
    return f"{type(error).__name__} {str(error).replace(f'{ROOT}/', '')[:300]}"


def compiled_for(kernel: CudaKernel, arch: str) -> CudaKernel:
    """The same source for another architecture, and so what combines its parts."""
    combine = kernel.combine and compiled_for(kernel.combine, arch)
    return replace(kernel, cubin=compile_source(kernel.source.text, arch, defines=WATCHDOG), combine=combine)


def run(kernel: CudaKernel, call) -> dict[str, np.ndarray]:
    """Outputs by name; they are poisoned before the launch."""
    import torch

    held, given = {}, {}
    for tensor in call.kernel.tensors:
        array = np.ascontiguousarray(call.arrays[tensor.name])
        if tensor.access is Access.OUT:
            array = np.frombuffer(b"\xff" * array.nbytes, np.uint8)
        elif tensor.access is Access.INOUT:
            array = np.zeros(array.nbytes, np.uint8)
        held[tensor.name] = torch.from_numpy(array.reshape(-1).view(np.uint8).copy()).cuda()
        shown = call.arrays[tensor.name]
        strides = tuple(s // shown.itemsize for s in np.ascontiguousarray(shown).strides)
        given[tensor.name] = DeviceTensor(held[tensor.name].data_ptr(), shown.shape, strides)
    kernel.launch(given, call.dims, call.scalars, torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    found = {}
    for tensor in call.kernel.tensors:
        if tensor.access is not Access.IN:
            shown = call.arrays[tensor.name]
            found[tensor.name] = held[tensor.name].cpu().numpy().view(shown.dtype).reshape(shown.shape)
    return found


def verdict_of(kernel: CudaKernel, case: tuple, label: str) -> str:
    """Whether results are right, and what is not."""
    call, reference, arguments = bind(*case)
    try:
        got = run(kernel, call)
    except CompileError as e:
        return str(e).splitlines()[0]
    except Exception as e:  # nothing more can run in this process
        print(f"{label}: DIED {str(e)[:200]}", flush=True)
        raise
    wanted = reference(**arguments)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    verdict = "right"
    for found in compare(call.kernel, call.dims, got, dict(zip(got, wanted, strict=True))):
        if not found.holds:
            verdict = f"WRONG: {found.error:.3g} > {found.bound:.3g}"
    return verdict + (f"; {fault_of(kernel)}" if fault_of(kernel) else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default="")
    parser.add_argument("--dtypes", default="f16,bf16")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--arch", default="")
    parser.add_argument("--plans", type=int, default=0)
    parser.add_argument("--json")
    args = parser.parse_args()
    names = args.names.split(",") if args.names else sorted(MODULES)
    seed = time.time_ns() % 2**31
    print("seed", seed)
    cases = []
    for name in names:
        module = importlib.import_module(MODULES[name])
        cases += [
            (name, shape, dtype, seed) for shape in (*module.SHAPES, module.SHAPE) for dtype in args.dtypes.split(",")
        ]
    taken = [case for case in cases if takes(*case)]
    if len(taken) < len(cases):
        print(f"{len(cases) - len(taken)} cases left out: kernels that are not for that element type")
    cases = taken
    rows = []
    with ProcessPoolExecutor(args.processes, multiprocessing.get_context("spawn")) as pool:
        for case, future in [(c, pool.submit(make, *c, args.device, args.arch, args.plans)) for c in cases]:
            label = f"{case[0]} {case[1]} {case[2]}"
            for form, kernel, error in future.result():
                verdict = error or verdict_of(kernel, case, label)
                print(f"{label}{form}: {verdict}", flush=True)
                rows.append(dict(case=label + form, verdict=verdict))
    wrong = sum(row["verdict"] != "right" for row in rows)
    print(f"{len(rows) - wrong} of {len(rows)} right")
    if args.json:
        record = dict(schema="threadloom.check.gpu.1", **conditions(), seed=seed, rows=rows)
        Path(args.json).write_text(json.dumps(record, indent=1))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
