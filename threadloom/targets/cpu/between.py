"""Arrays between the two programs of a split reduction (sched/split_stream.py): written by one, read by the other."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from threadloom.dtypes import numpy_dtype
from threadloom.sched.ops import SProgram
from threadloom.tile.ops import Access

ALIGN_BYTES = 64


def between_arrays(program: SProgram, dims: Mapping[str, int]) -> dict[str, np.ndarray]:
    """New arrays for what `program` hands over, by tensor name; none where no program follows it."""
    if program.combine is None:
        return {}
    found = {}
    for tensor in program.graph.kernel.tensors:
        if tensor.access is not Access.IN:
            shape = tuple(d if isinstance(d, int) else dims[d] for d in tensor.dims)
            found[tensor.name] = _aligned(shape, numpy_dtype(tensor.dtype))
    return found


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Uninitialised, at a multiple of a cache line: all such arrays have one form."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGN_BYTES, np.uint8)
    first = -memory.ctypes.data % ALIGN_BYTES
    return memory[first : first + size].view(dtype).reshape(shape)


def steps_of(
    program: SProgram, arrays: Mapping[str, np.ndarray], dims: Mapping[str, int]
) -> list[tuple[SProgram, dict[str, np.ndarray]]]:
    """The programs to run one after the other, with their arrays (among others)."""
    joined = {**arrays, **between_arrays(program, dims)}
    return [(program, joined)] if program.combine is None else [(program, joined), (program.combine, joined)]


class Kept:
    """Arrays between programs, kept from call to call. A call that another one overlaps gets its own."""

    def __init__(self, program: SProgram, dims: Mapping[str, int]):
        self._program, self._dims = program, dict(dims)
        self._free: list[dict[str, np.ndarray]] = []  # append and pop are atomic

    def take(self) -> dict[str, np.ndarray]:
        try:
            return self._free.pop()
        except IndexError:
            return between_arrays(self._program, self._dims)

    def give(self, arrays: dict[str, np.ndarray]) -> None:
        self._free.append(arrays)
