"""Random tile programs whose reduction can be split mean the same in parts: in the interpreter, and compiled."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from generators.tile_programs import WIDE, Program, program

from threadloom.comparison import tolerance
from threadloom.dtypes import numpy_dtype
from threadloom.launch import logical_arrays
from threadloom.machine.cpu import host
from threadloom.sched.combinable import NotCombinable
from threadloom.sched.search import plan
from threadloom.sched.split_stream import split_kernels, splittable
from threadloom.targets.cpu.compile import compile, cpu_schedule, form_for
from threadloom.tile.interp import interpret
from threadloom.tile.ops import Access, Kernel
from threadloom.tile.verify import verify
from threadloom.tolerance import worst_error

PARTS, GRANULES = (2, 3, 5), (1, 4, 16)


def check(p: Program, seed: int, native: bool) -> str:
    """Why it is not split, "" where it is and agrees."""
    call = p.kernel.bind(**p.arguments)
    extents = {a.name: a.dim if isinstance(a.dim, int) else call.dims[a.dim] for a in call.kernel.axes}
    try:
        of = splittable(call.kernel, extents)
    except NotCombinable as reason:
        return str(reason)
    split = split_kernels(of, PARTS[seed % 3], GRANULES[seed // 3 % 3])
    exact = p.kernel.interpret(**p.arguments, exact=True)
    arrays = logical_arrays(call, exact=not native)
    for tensor in split.parts.tensors:
        if tensor.name in split.between:
            shape = tuple(d if isinstance(d, int) else call.dims[d] for d in tensor.dims)
            exactly = np.float64 if tensor.dtype.is_float else np.int64
            arrays[tensor.name] = np.full(shape, 77, numpy_dtype(tensor.dtype) if native else exactly)
    for kernel in (split.parts, split.combine):
        verify(kernel)
        if native:
            run_native(kernel, arrays, call)
        else:
            interpret(kernel, arrays, call.scalars, call.dims, p.tiles, exact=True)
    out = call.kernel.tensors[-1]
    allowed = tolerance(call.kernel, call.dims, out.dtype, exact) if native else 1e-9
    assert worst_error(arrays["out"].astype(exact.dtype), exact) <= allowed
    return ""


def run_native(kernel: Kernel, arrays: dict[str, np.ndarray], call) -> None:
    dims = {name: max(1, extent) for name, extent in call.dims.items()}
    made = plan(kernel, dims, host(), splits=False, most=1).best
    given = {t.name: arrays[t.name] for t in kernel.tensors}
    form = form_for(cpu_schedule(made), given, call.dims)
    compile(made, form, host()).run(given, call.dims, call.scalars)


def check_all(seeds: range, native: bool = False) -> Counter[str]:
    reasons: Counter[str] = Counter()
    for seed in seeds:
        p = program(seed)
        tensors = p.kernel.bind(**p.arguments).kernel.tensors
        if native and any(t.access is Access.INOUT or t.dtype.name == "u4" for t in tensors):
            continue
        try:
            reasons[check(p, seed, native).split(" ", 1)[-1]] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, tiles {p.tiles}\n{p.text}") from error
    print(reasons)
    return reasons


def test_a_few_programs():
    assert check_all(range(12))[""] >= 3


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 100, WIDE, WIDE + 100])
def test_programs(first):
    assert check_all(range(first, first + 100))[""] >= 10


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, WIDE])
def test_compiled_programs(first):
    assert check_all(range(first, first + 40), native=True)[""] >= 5
