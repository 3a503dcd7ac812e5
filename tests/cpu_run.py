"""Compiles bound calls with a plain plan, so that the generator is tested without the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from threadloom.lang.bind import Call
from threadloom.targets.cpu.compile import clear_accumulated, compile_schedule, form_for
from threadloom.targets.cpu.host import host_cpu
from threadloom.targets.cpu.schedule import AVX2, AVX512, CpuSchedule, Target
from threadloom.tile.ops import Access, AxisKind, Kernel

WIDTHS = ("avx2", "avx512")


def target_of(width: str) -> Target:
    """The CPU of that vector width. Where this machine has no AVX-512, LLVM cuts vectors of 64 bytes in two, and what
    has instructions there only (exponentials) is done as on AVX2."""
    if width == "avx2":
        return AVX2
    return AVX512 if host_cpu().has("avx512f") else replace(AVX512, avx512=False)


def plain_schedule(kernel: Kernel, tiles: Mapping[str, int] | None = None, extent: int = 64, **choices) -> CpuSchedule:
    """Every TILE axis cut by `extent`, or as `tiles` says."""
    tiles = tiles or {}
    cut = tuple((a.name, tiles.get(a.name, extent)) for a in kernel.axes if a.kind is AxisKind.TILE)
    return CpuSchedule(kernel, cut, **choices)


def run_compiled(
    call: Call, target: Target, tiles: Mapping[str, int] | None = None, extent: int = 64, **choices
) -> tuple[np.ndarray, ...]:
    """Fill the call's outputs, poisoned before, by compiled code."""
    schedule = plain_schedule(call.kernel, tiles, extent, **choices)
    outputs = [t for t in call.kernel.tensors if t.access is not Access.IN]
    for tensor in outputs:
        array = call.arrays[tensor.name]
        array[...] = np.asarray(np.nan if tensor.dtype.is_float else 77, dtype=array.dtype)
    clear_accumulated(call.kernel, call.arrays, call.dims)
    compiled = compile_schedule(schedule, form_for(schedule, call.arrays, call.dims), target)
    compiled.run(call.arrays, call.dims, call.scalars)
    return tuple(call.arrays[t.name] for t in outputs)
