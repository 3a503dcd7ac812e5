"""Runs a bound call: the one place that decides what executes a kernel.

Arrays on a GPU: the target of that GPU. Others: the CPU target compiles it; the definition in NumPy (tile/interp.py)
runs what that target does not take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from threadloom.arrays import pack_u4, unpack_u4
from threadloom.dtypes import u4
from threadloom.errors import CompileError, slug
from threadloom.lang.bind import Call
from threadloom.tile.interp import interpret
from threadloom.tile.ops import Access, AxisKind, Tensor

if TYPE_CHECKING:
    from threadloom.sched.tune import Progress, Tuned
    from threadloom.targets.cuda.export import Exported

NOTHING_KEPT = slug("nothing-kept", "tuning is asked for where nothing is kept between runs")
HOST_ONLY = slug("host-only", "what runs on the host only is asked for with arrays on a GPU")


def launch(call: Call) -> None:
    """Fill the call's outputs."""
    if call.device != "cpu":
        from threadloom.targets.cuda.launch import launch_on_gpu

        launch_on_gpu(call)
        return
    from threadloom.targets.cpu.launch import launch_on_cpu

    launch_on_cpu(call)


def tune_call(call: Call, progress: Callable[[Progress], None] | None = None, **limits: object) -> Tuned:
    """Measure plans for the call's shapes on its device (see sched/tune.py; `limits`: most, limit_s, timeout_s) and
    keep the fastest: calls of these shapes run it from now on."""
    from threadloom.sched.tune import tune
    from threadloom.store import open_store

    store = open_store()
    if store is None:
        raise CompileError(NOTHING_KEPT, "tuning has nowhere to keep what it measures", why="LOOM_CACHE=off")
    if call.device == "cpu":
        from threadloom.machine.cpu import host
        from threadloom.targets.cpu.launch import forget

        device, arrays = host(), call.arrays
    else:
        from threadloom.targets.cuda.launch import forget, integers_of, model_of, ordinal_of

        device, arrays = model_of(ordinal_of(call.device)), integers_of(call)
    dims = {name: max(1, extent) for name, extent in call.dims.items()}
    with store:
        found = tune(call.kernel, dims, device, store, arrays, call.scalars, progress, **limits)
    forget(call.kernel)
    return found


def export_call(call: Call, folder: Path, device: str) -> Exported:
    """Write the call's kernel as files for programs without Python (see targets/cuda/export.py)."""
    from threadloom.targets.cuda.export import export
    from threadloom.targets.cuda.launch import device_tensors, kernel_for, model_of, ordinal_of

    given = device_tensors(call.kernel, call.arrays)
    if call.device == "cpu":  # NumPy arrays stand for such on a GPU, which are aligned
        given = {name: replace(t, pointer=0) for name, t in given.items()}
    machine = device if call.device == "cpu" else model_of(ordinal_of(call.device))
    return export(kernel_for(call.kernel, call.dims, given, machine, splits=False), given, call.dims, folder)


def run_interpreter(call: Call, tiles: Mapping[str, int] | None = None, exact: bool = False) -> tuple[np.ndarray, ...]:
    """Run the definition; results go to the call's outputs, or (exact) to float64 arrays of their own."""
    if call.device != "cpu":
        raise CompileError(
            HOST_ONLY,
            f"the definition of {call.kernel.name} is to be run and its arrays are on {call.device}",
            why="the interpreter runs in NumPy",
            try_="copies on the CPU, as in x.cpu()",
            loc=call.kernel.loc,
        )
    logical = logical_arrays(call, exact)
    interpret(call.kernel, logical, call.scalars, call.dims, tiles, exact)
    outputs = [t for t in call.kernel.tensors if t.access is not Access.IN]
    if not exact:
        for tensor in outputs:
            if tensor.dtype is u4 and call.arrays[tensor.name].size:
                call.arrays[tensor.name][...] = pack_u4(logical[tensor.name])
    return tuple(logical[t.name] for t in outputs)


def random_tiles(call: Call, seed: int) -> dict[str, int]:
    """Tile sizes for the definition to run with: at most about five tiles along an axis."""
    rng = np.random.default_rng(seed)
    extents = {a.name: a.dim if isinstance(a.dim, int) else call.dims[a.dim] for a in call.kernel.axes}
    tiled = [a.name for a in call.kernel.axes if a.kind is AxisKind.TILE]
    return {name: int(rng.integers(max(1, extents[name] // 4), max(2, extents[name] + 2))) for name in tiled}


def logical_arrays(call: Call, exact: bool = False) -> dict[str, np.ndarray]:
    """The call's arrays as interpreters index them; targets of atomic adds are zeroed."""
    return {t.name: _logical(call, t, exact) for t in call.kernel.tensors}


def _logical(call: Call, tensor: Tensor, exact: bool) -> np.ndarray:
    """The array as the interpreter indexes it: u4 unpacked; outputs of an exact run are its own, in float64."""
    array = call.arrays[tensor.name]
    shape = tuple(d if isinstance(d, int) else call.dims[d] for d in tensor.dims)
    if tensor.access is Access.IN:
        return unpack_u4(array, shape[-1]) if tensor.dtype is u4 else array
    if exact:
        return np.zeros(shape, np.float64 if tensor.dtype.is_float else array.dtype)
    if tensor.dtype is u4:
        return np.zeros(shape, np.uint8)
    if tensor.access is Access.INOUT:
        array[...] = np.zeros((), array.dtype)
    return array
