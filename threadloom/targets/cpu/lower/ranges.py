"""The indices of loops and the tiles they are cut into."""

from __future__ import annotations

from threadloom.par.constants import const
from threadloom.par.ops import I64, Operand
from threadloom.targets.cpu.lower.context import Context
from threadloom.targets.cpu.lower.elementwise import materialized
from threadloom.targets.cpu.lower.evaluate import Evaluator
from threadloom.tile.ops import AxisKind, LoopAxis, Value


def scalar(c: Context, value: Value) -> Operand:
    """A rank-0 value, here."""
    return materialized(c.b, Evaluator(c).value(value, c.root()))


def loop_range(c: Context, axis: LoopAxis) -> tuple[Operand, Operand]:
    """The loop's indices: its bounds cut to [0, extent)."""
    b, extent = c.b, c.extents[axis.axis.dim]
    start: Operand = const(I64, 0)
    stop = extent
    if axis.start is not None:
        start = b.max(scalar(c, axis.start), const(I64, 0))
    if axis.stop is not None:
        stop = b.min(scalar(c, axis.stop), extent)
    return start, stop


def tile_extent(c: Context, axis: LoopAxis) -> int:
    return 1 if axis.axis.kind is AxisKind.EACH else max(1, c.plan.sizes[axis.axis.name])


def tile_length(c: Context, axis: LoopAxis, start: Operand, stop: Operand) -> Operand:
    """Positions of the tile that begins at `start`."""
    extent = tile_extent(c, axis)
    if axis.axis.kind is AxisKind.EACH or axis.axis.name in c.plan.full:
        return const(I64, extent)
    return c.b.min(c.b.sub(stop, start), const(I64, extent), name=f"{axis.axis.name}.length")


def tiles_of(c: Context, axis: LoopAxis, start: Operand, stop: Operand) -> Operand:
    b, extent = c.b, tile_extent(c, axis)
    length = b.max(b.sub(stop, start), const(I64, 0))
    return b.udiv(b.add(length, extent - 1), extent)
