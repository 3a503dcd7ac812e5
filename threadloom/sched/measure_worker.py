"""The process that measures plans for `measure.py`: jobs on standard input, answers on standard output, a line each."""

from __future__ import annotations

import importlib
import json
import os
import sys

import numpy as np

from threadloom.dtypes import numpy_dtype, u4
from threadloom.errors import ThreadloomError
from threadloom.sched.sizes import dim_extent
from threadloom.tile.ops import Access, Kernel, Tensor

# arch -> function (program, arrays, dims, scalars, device) -> nanoseconds of one launch
TIMERS: dict[str, str] = {
    "cpu": "threadloom.targets.cpu.time_plan:time_plan",
    "sm_90a": "threadloom.targets.cuda.time_plan:time_plan",
}


def answer(request: dict) -> dict:
    """Measure one plan."""
    from threadloom.machine.devices import device
    from threadloom.sched.reuse import recipe_from_text, remake
    from threadloom.tile.text import parse_text

    kernel, machine = parse_text(request["kernel"]), device(request["device"])
    program = remake(kernel, request["dims"], machine, recipe_from_text(request["recipe"])).best
    arrays = make_arrays(kernel, request["dims"], request["index_arrays"])
    if machine.arch not in TIMERS:
        return {"error": f"nothing here can run plans for {machine.name}"}
    module, _, name = TIMERS[machine.arch].partition(":")
    time_plan = getattr(importlib.import_module(module), name)
    return {"ns": time_plan(program, arrays, request["dims"], request["scalars"], machine)}


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
    return (rng.standard_normal(shape, dtype=np.float32) * 0.1).astype(numpy_dtype(tensor.dtype))


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", buffering=1)  # whatever libraries print must not get between the answers
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except ThreadloomError as error:
            reply = {"error": str(error).splitlines()[0]}
        except Exception as error:  # a worker reports whatever went wrong and lives on
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
