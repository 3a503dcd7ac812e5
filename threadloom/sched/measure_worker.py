"""The process that measures plans for `measure.py`: jobs on standard input, answers on standard output, a line each."""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import astuple
from pathlib import Path

import numpy as np

from threadloom.dtypes import numpy_dtype, u4
from threadloom.errors import ThreadloomError
from threadloom.machine.model import Device
from threadloom.sched.ops import SProgram
from threadloom.sched.profiled import times_of_records
from threadloom.sched.sizes import dim_extent
from threadloom.tile.ops import Access, Kernel, Tensor
from threadloom.tile.text import parse_text

MOST_RANDOM = (1 << 22) + 3  # random numbers made for a tensor; longer ones repeat them, in step with no dimension

# arch -> module with time_plan(program, arrays, dims, scalars, device) -> nanoseconds of one launch
TIMERS: dict[str, str] = {
    "cpu": "threadloom.targets.cpu.time_plan",
    "sm_90a": "threadloom.targets.cuda.time_plan",
    "sm_80": "threadloom.targets.cuda.time_plan",
}


def answer(request: dict) -> dict:
    """Do what is asked for one plan (`do`: see measure.py)."""
    from threadloom.machine.devices import device

    machine = device(request["device"])
    if machine.arch not in TIMERS:
        return {"error": f"nothing here can run plans for {machine.name}"}
    timer = importlib.import_module(TIMERS[machine.arch])
    dims, scalars = request["dims"], request["scalars"]
    match request["do"]:
        case "make":
            program, path = _program(request, machine), Path(request["path"])
            return {"fault": timer.make_ready(program, dims, path, **({"clocks": True} if request["clocks"] else {}))}
        case "load":
            return {"loaded": len(_arrays(request))}
        case "measure":
            return {"ns": timer.time_plan(_program(request, machine), _arrays(request), dims, scalars, machine)}
        case "measure_ready":
            paths = [Path(p) for p in request["paths"]]
            ns, sample = timer.time_ready(paths, _arrays(request), dims, scalars, machine)
            return {"ns": ns, "sample": sample}
        case "clocks":
            made = timer.read_ready(Path(request["paths"][0]))
            records = timer.clocks_of(made, _arrays(request), dims, scalars)
            return times_of_records(made.program, dims, machine, records) | {"records": [astuple(r) for r in records]}
        case "explain_hang":
            return {"hang": timer.explain_hang(Path(request["paths"][0]), _arrays(request), dims, scalars)}
    return {"error": f"there is no job called {request['do']!r}"}


def _program(request: dict, machine: Device) -> SProgram:
    from threadloom.sched.reuse import recipe_from_text, remake

    recipe = recipe_from_text(request["recipe"])
    return remake(parse_text(request["kernel"]), request["dims"], machine, recipe).best


_made: dict[str, dict[str, np.ndarray]] = {}  # of the last kernel: plans of one kernel are measured one after another


def _arrays(request: dict) -> dict[str, np.ndarray]:
    key = json.dumps([request["kernel"], request["dims"], request["index_arrays"]])
    if key not in _made:
        _made.clear()
        _made[key] = make_arrays(parse_text(request["kernel"]), request["dims"], request["index_arrays"])
    return _made[key]


def make_arrays(kernel: Kernel, dims: dict[str, int], index_arrays: str) -> dict[str, np.ndarray]:
    """Arrays of the kernel's shapes: floats are made up (times of dense kernels do not depend on them)."""
    rng = np.random.default_rng(0)
    known: dict[str, np.ndarray] = {}
    if index_arrays:
        with np.load(index_arrays) as given:
            known = {name: given[name] for name in given.files}
    return {t.name: known.get(t.name, _made_up(t, dims, rng)) for t in kernel.tensors}


def _made_up(tensor: Tensor, dims: dict[str, int], rng: np.random.Generator) -> np.ndarray:
    shape = [dim_extent(d, dims) for d in tensor.dims]
    if tensor.dtype is u4 and shape:
        shape[-1] = (shape[-1] + 1) // 2
    if tensor.access is not Access.IN or not tensor.dtype.is_float:
        return np.zeros(shape, numpy_dtype(tensor.dtype))
    size = int(np.prod(shape))
    some = rng.standard_normal(min(size, MOST_RANDOM), dtype=np.float32) * 0.1
    return np.resize(some.astype(numpy_dtype(tensor.dtype)), shape)


def _short(text: str) -> str:
    """The first line, and what a compiler below it calls an error."""
    first, *more = text.splitlines()
    said = next((line for line in more if "error" in line), "")
    return f"{first} {said}".strip()[:400]


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", buffering=1)  # whatever libraries print must not get between the answers
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except ThreadloomError as error:
            reply = {"error": _short(str(error))}
        except Exception as error:  # a worker reports whatever went wrong and lives on
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
