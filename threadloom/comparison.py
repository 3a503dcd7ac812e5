"""How far a kernel's results lie from float64, and how far they may."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from threadloom.arrays import unpack_u4
from threadloom.dtypes import Dtype, f32, tf32, u4
from threadloom.flips import SHARE, flips
from threadloom.tile.functions import TABLE, Cost
from threadloom.tile.ops import (
    Access,
    AtomicAdd,
    Block,
    Cast,
    Dot,
    Grid,
    If,
    Kernel,
    Map,
    Op,
    Reduce,
    Scan,
    Store,
    Stream,
    Yield,
)
from threadloom.tile.uses import results, walk
from threadloom.tolerance import EPS, bound, worst_error


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
    """Compare outputs by name; the tolerance follows from the kernel and the magnitude of the reference. Of u4
    `results` hold two values a byte, `reference` one an element. Integers that may be one off (flips.py) may be so in
    few elements."""
    compared = []
    for tensor in kernel.tensors:
        if tensor.access is Access.IN:
            continue
        want = np.asarray(reference[tensor.name], np.float64)
        got = results[tensor.name]
        got = unpack_u4(got, want.shape[-1]) if tensor.dtype is u4 else got
        allowed = tolerance(kernel, dims, tensor.dtype, want)
        if not tensor.dtype.is_float and np.count_nonzero(got != want) > 1 + SHARE * want.size:
            allowed = 0.0
        compared.append(Comparison(tensor.name, worst_error(got, want), allowed))
    return compared


def tolerance(kernel: Kernel, dims: Mapping[str, int], dtype: Dtype, reference: np.ndarray) -> float:
    """How far an output of `dtype` may lie from `reference` [float64]: the table for this kernel's longest reduction,
    the narrow values in it and the type that it sums in; of an integer, what its casts may be off."""
    if not dtype.is_float:
        return flips(kernel, dtype)
    finite = np.abs(reference[np.isfinite(reference)])
    narrow = [value.name for value in roundings(kernel)]
    sums = [value.name for value in (*narrow_sums(kernel), *_plain_floats(kernel))]
    accumulator = max(sums, key=EPS.__getitem__, default=None)
    scale = float(finite.max(initial=0.0))
    return bound(dtype.name, longest_reduction(kernel, dims), scale, narrow, accumulator)


def roundings(kernel: Kernel) -> list[Dtype]:
    """The type of every narrow value that the kernel rounds on its way to what it stores (whose own rounding is the
    output's), and of the operands that its products round."""
    ops = list(walk(kernel.body))
    stored = {op.value for op in ops if isinstance(op, Store)}
    found = [op.result.type.dtype for op in ops if _rounds(op) and op.result not in stored]
    for op in ops:
        if isinstance(op, Dot):
            found += [v.type.dtype for v in (op.a, op.b) if v.type.dtype is tf32]
    return found


def narrow_sums(kernel: Kernel) -> list[Dtype]:
    """The narrow types in which the kernel itself sums over iterations: a carried f16, an f16 that is added to."""
    ops = list(walk(kernel.body))
    makers = {op.result: op for op in ops if isinstance(op, Map | Cast)}
    found = [t.dtype for op in ops if isinstance(op, AtomicAdd) for t in kernel.tensors if t.name == op.tensor]
    for op in ops:
        if isinstance(op, Stream):
            ends = op.body.ops[-1].values if isinstance(op.body.ops[-1], Yield) else ()
            found += [value.type.dtype for value in ends if value in makers and _rounds(makers[value])]
    return [dtype for dtype in found if _is_narrow(dtype)]


def _plain_floats(kernel: Kernel) -> set[Dtype]:
    """f32 where anything is computed in it, also on the way to an f64."""
    return {v.type.dtype for op in walk(kernel.body) for v in results(op) if v.type.dtype is f32}


def _rounds(op: Op) -> bool:
    """Whether the result of elementwise code is a narrow float that need not be its operands' exact value."""
    if isinstance(op, Map):
        return _is_narrow(op.result.type.dtype) and TABLE[op.fn].cost is not Cost.ALU
    if isinstance(op, Cast):
        return _is_narrow(op.result.type.dtype) and op.arg.type.dtype.bits >= op.result.type.dtype.bits
    return False


def _is_narrow(dtype: Dtype) -> bool:
    return dtype.is_float and dtype.bits < f32.bits


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
