"""The two kernels of a split reduction as one launch: the parts, then their combination, on one stream.

What lies between them is allocated and freed in the order of the stream (cuMemAllocAsync), so that launches on several
streams do not share it and a launch may be captured in a CUDA graph. Nothing waits.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

from threadloom.sched.ops import SProgram
from threadloom.targets.cuda import driver, driver_calls
from threadloom.targets.cuda.launch_prepared import Prepared
from threadloom.tile.ops import Access, Tensor

ALIGN_BYTES = 256  # of each tensor between the kernels


def between_tensors(program: SProgram) -> tuple[Tensor, ...]:
    """What a program hands over to that which combines its parts."""
    return tuple(t for t in program.graph.kernel.tensors if t.access is not Access.IN)


def shape_of(tensor: Tensor, dims: dict[str, int]) -> tuple[int, ...]:
    return tuple(d if isinstance(d, int) else dims[d] for d in tensor.dims)


class PreparedParts:
    """As `Prepared`: launch with `launch(pointers, scalars, stream)`; `tensors` are those of the call."""

    def __init__(
        self, first: Prepared, second: Prepared, tensors: Sequence[str], program: SProgram, dims: dict[str, int]
    ):
        assert program.combine is not None
        self.loaded, self.context, self.blocks = first.loaded, first.context, second.blocks
        self._both = first, second
        self._calls = driver_calls.calls()
        self.scalars = tuple(dict.fromkeys((*first.scalars, *second.scalars)))
        self._own_scalars = [[self.scalars.index(n) for n in one.scalars] for one in self._both]
        offsets: dict[str, int] = {}
        size = 0
        for tensor in between_tensors(program):
            offsets[tensor.name] = size
            taken = tensor.dtype.bytes_for(math.prod(shape_of(tensor, dims)))
            size += -(-taken // ALIGN_BYTES) * ALIGN_BYTES
        self.bytes = size
        places = {name: at for at, name in enumerate(tensors)}
        orders = ([t.name for t in p.graph.kernel.tensors] for p in (program, program.combine))
        self._orders = [[(places.get(name, -1), offsets.get(name, 0)) for name in order] for order in orders]

    def launch(
        self, pointers: Sequence[int], scalars: Sequence[float | int | bool], stream: int, current: bool | None = None
    ) -> None:
        memory = ctypes.c_uint64()
        with driver_calls.OnContext(self.context):
            self._check(self._calls.allocate(ctypes.byref(memory), max(ALIGN_BYTES, self.bytes), stream), "allocating")
            try:
                for one, order, own in zip(self._both, self._orders, self._own_scalars, strict=True):
                    given = [pointers[at] if at >= 0 else memory.value + offset for at, offset in order]
                    if one.blocks:
                        one.launch(given, [scalars[at] for at in own], stream)
            finally:
                self._check(self._calls.free(memory, stream), "freeing")

    def _check(self, status: int, doing: str) -> None:
        if status:
            driver.raise_status(status, f"{doing} {self.bytes} bytes between two kernels of {self.loaded.name}")
