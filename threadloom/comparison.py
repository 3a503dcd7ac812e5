"""How far a kernel's results lie from float64, and how far they may."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from threadloom.tile.ops import Access, Block, Dot, Grid, If, Kernel, Reduce, Scan, Stream
from threadloom.tolerance import bound, worst_error


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output: its largest absolute error against float64, and the bound of the tolerance table."""

    output: str
    error: float
    bound: float

    @property
    def holds(self) -> bool:
        return self.error <= self.bound


def compare(
    kernel: Kernel, dims: Mapping[str, int], results: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]
) -> list[Comparison]:
    """Compare outputs by name; the tolerance follows from dtype, longest reduction and magnitude of the reference."""
    length = longest_reduction(kernel, dims)
    compared = []
    for tensor in kernel.tensors:
        if tensor.access is Access.IN:
            continue
        want = np.asarray(reference[tensor.name], np.float64)
        finite = np.abs(want[np.isfinite(want)])
        scale = float(finite.max(initial=0.0))
        error = worst_error(results[tensor.name], want)
        compared.append(Comparison(tensor.name, error, bound(tensor.dtype.name, length, scale)))
    return compared


def longest_reduction(kernel: Kernel, dims: Mapping[str, int]) -> int:
    """The largest number of terms that any one reduction of the kernel adds up (or compares)."""
    extents = {a.name: a.dim if isinstance(a.dim, int) else dims[a.dim] for a in kernel.axes}
    lengths = [math.prod(extents[axis] for axis in axes) for axes in _reductions(kernel.body, frozenset())]
    return max(lengths, default=1)


def _reductions(block: Block, streams: frozenset[str]) -> Iterator[frozenset[str]]:
    """The axes of each reduction. One over a tile of a stream's axis goes on over all the stream's axes."""
    for op in block.ops:
        match op:
            case Dot():
                over = frozenset(op.over)
                yield over | streams if over & streams else over
            case Reduce() | Scan():
                yield streams | {op.axis} if op.axis in streams else frozenset({op.axis})
            case Stream():
                inner = streams | frozenset(a.axis.name for a in op.axes)
                yield inner
                yield from _reductions(op.body, inner)
            case Grid():
                yield from _reductions(op.body, streams)
            case If():
                yield from _reductions(op.then, streams)
                yield from _reductions(op.otherwise, streams)
