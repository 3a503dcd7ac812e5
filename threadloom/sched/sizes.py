"""Extents of tiles under one choice of tile sizes: axis -> elements, worker shares, trip counts, numbers of tiles.

A scalar that bounds a loop is evaluated from its tile operations where it depends only on dimensions and the position
of the block (as in causal attention); a bound read from a tensor counts as the dimension's whole extent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from threadloom.sched.ops import Partition
from threadloom.task.ops import TaskGraph
from threadloom.tile import functions
from threadloom.tile.ops import (
    Axis,
    AxisKind,
    Bound,
    Cast,
    Const,
    Dim,
    DimSize,
    Index,
    Load,
    LoopAxis,
    Map,
    TileType,
    Value,
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """`extents`: axis -> elements of one full tile; `whole`: axis -> index range of the axis; `split`: the axis that
    workers share, "" where none; `walked`: axis -> its indices in one tile of the grid, of axes that an EU walks."""

    extents: dict[str, int]
    whole: dict[str, int]
    split: str
    workers: int
    walked: dict[str, int] = field(default_factory=dict)

    def elems(self, axes: tuple[str, ...], share: bool = False) -> int:
        """Elements of a tile over `axes`; with `share`, of one worker's part."""
        count = math.prod(self.extents[a] for a in axes)
        return -(-count // self.workers) if share and self.split in axes else count

    def extent(self, axis: str, share: bool = False) -> int:
        full = self.extents[axis]
        return -(-full // self.workers) if share and axis == self.split else full

    def bytes(self, type_: TileType, share: bool = False) -> int:
        return type_.dtype.bytes_for(self.elems(type_.axes, share))

    def tiles_of(self, axis: str) -> int:
        return -(-self.whole[axis] // max(1, self.walked.get(axis, self.extents[axis])))


def dim_extent(dim: Dim, dims: dict[str, int]) -> int:
    return dim if isinstance(dim, int) else dims[dim]


def axis_extents(graph: TaskGraph, dims: dict[str, int]) -> dict[str, int]:
    return {a.name: dim_extent(a.dim, dims) for a in graph.kernel.axes}


def sizes_of(graph: TaskGraph, partition: Partition, whole: dict[str, int]) -> Sizes:
    chosen = {t.axis: t for t in partition.tiles}
    extents: dict[str, int] = {}
    for axis in graph.kernel.axes:
        extents[axis.name] = tile_extent(axis, chosen[axis.name].extent if axis.name in chosen else None, whole)
    split = next((t.axis for t in partition.tiles if t.worker_extent < t.extent), "")
    return Sizes(extents, whole, split, partition.workers, {a: chosen[a].extent for a in partition.sequential})


def tile_extent(axis: Axis, chosen: int | None, whole: dict[str, int]) -> int:
    match axis.kind:
        case AxisKind.EACH:
            return 1
        case AxisKind.WHOLE:
            return max(1, whole[axis.name])
        case AxisKind.TILE:
            return chosen if chosen is not None else max(1, whole[axis.name])


# ---------------------------------------------------------------- loop bounds as functions of the block


class BoundScalars:
    """Evaluates rank-0 values at a block position: axis -> (first index, one past the last index)."""

    def __init__(self, graph: TaskGraph, dims: dict[str, int]):
        self.dims = dims
        self.ops = {op.result.name: op for t in graph.tasks for op in t.ops if hasattr(op, "result")}

    def value(self, value: Value, position: dict[str, tuple[int, int]]) -> float | None:
        """The number, or None where it depends on a tensor or a run-time scalar."""
        op = self.ops.get(value.name)
        match op:
            case Const():
                return op.number
            case DimSize():
                return dim_extent(op.dim, self.dims)
            case Index() if op.axis in position:
                return position[op.axis][0]
            case Bound() if op.axis in position:
                return position[op.axis][0 if op.which == "start" else 1]
            case Cast():
                return self.value(op.arg, position)
            case Map():
                return self._map(op, position)
            case _:
                return None

    def _map(self, op: Map, position: dict[str, tuple[int, int]]) -> float | None:
        args = [self.value(a, position) for a in op.args]
        if any(a is None for a in args):
            return None
        import numpy as np

        pairs = zip(args, op.args, strict=True)
        typed = [np.asarray(a, dtype=np.float64 if v.type.dtype.is_float else np.int64) for a, v in pairs]
        if op.args[0].type.dtype.kind == "bool":
            typed[0] = typed[0].astype(bool)
        return functions.TABLE[op.fn].numpy(*typed).item()

    def axes_of(self, value: Value) -> frozenset[str]:
        """Axes whose position the value depends on."""
        op = self.ops.get(value.name)
        match op:
            case Index() | Bound():
                return frozenset({op.axis})
            case Cast():
                return self.axes_of(op.arg)
            case Map():
                return frozenset().union(*(self.axes_of(a) for a in op.args))
            case _:
                return frozenset()

    def read_from(self, value: Value | None) -> frozenset[str]:
        """Axes by whose index a tensor is read for the value (sequence numbers, as a rule)."""
        op = self.ops.get(value.name) if value is not None else None
        match op:
            case Load():
                return frozenset(t.axis for s in op.subscripts for t in s.terms if t.axis)
            case Cast():
                return self.read_from(op.arg)
            case Map():
                return frozenset().union(*(self.read_from(a) for a in op.args))
            case _:
                return frozenset()

    def range_of(
        self, loop_axis: LoopAxis, position: dict[str, tuple[int, int]], whole: dict[str, int]
    ) -> tuple[int, int]:
        """Index range of a loop axis at a block position. Where both ends are read from tensors, as for packed
        sequences, the axis is taken to be shared out evenly over what indexes those tensors; else it is whole."""
        extent = whole[loop_axis.axis.name]
        both = self.read_from(loop_axis.start) & self.read_from(loop_axis.stop)
        if both:
            return 0, -(-extent // max(1, *(whole[a] for a in both)))
        start = self.value(loop_axis.start, position) if loop_axis.start is not None else 0
        stop = self.value(loop_axis.stop, position) if loop_axis.stop is not None else extent
        low = 0 if start is None else max(0, int(start))
        high = extent if stop is None else min(extent, int(stop))
        return low, max(low, high)
