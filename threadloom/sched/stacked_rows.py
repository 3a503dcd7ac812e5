"""Rows of a product along two axes: short ones of several positions of the one above below one another.

    acc[i, j, f] += dot(x[i, j, c], w[c, f])      with 4 x 16 positions along i and j: one product of 64 rows

An instruction of a matrix unit takes 64 rows, more than a line of a small image has. Where a tile in shared memory has
the rows of one position of `i` right after those of the one before, products need not know that they are of two axes.
Handled: the last two axes of a first operand that is loaded along its depth, with 8, 16 or 32 positions of the last.
"""

from __future__ import annotations

from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import AxisKind, Dot, Load, Value

SHORT_ROWS = (8, 16, 32)  # whole groups of the eight rows in which shared memory is swizzled, and in which lanes count
MOST_ABOVE = 16


def stacked_axes(op: Dot, operand: Value) -> tuple[str, str] | None:
    """(the axis above, the last one) of an operand's rows, where it has two that the other operand lacks."""
    other = op.b if operand is op.a else op.a
    rows = [x for x in operand.type.axes if x not in op.over]
    free = len(rows) >= 2 and not {*rows[-2:]} & {*other.type.axes}
    return (rows[-2], rows[-1]) if free else None


def stacked_pairs(graph: TaskGraph) -> dict[str, str]:
    """Axis of the grid -> the one above it, where rows of the only product may be of both: its first operand is loaded
    along the depth."""
    dots = [op for t in graph.tasks for op in t.ops if isinstance(op, Dot)]
    tiled = (a for a in graph.loops[0].axes if a.axis.kind is AxisKind.TILE)
    cut = {a.axis.name for a in tiled if (a.start, a.stop) == (None, None)}
    loads = [op for t in graph.tasks for op in t.ops if isinstance(op, Load) and op.subscripts]
    innermost = {op.result.name: {t.axis for t in op.subscripts[-1].terms} for op in loads}
    pairs = {stacked_axes(d, d.a) for d in dots if innermost.get(d.a.name, set()) & {*d.over}}
    if len(dots) != 1 or len(pairs) != 1 or None in pairs:
        return {}
    ((above, last),) = pairs
    return {last: above} if {above, last} <= cut else {}


def are_stacked(each: int, count: int, granule: int) -> bool:
    """Whether `count` times `each` rows are whole instructions, where `each` alone are none."""
    return each in SHORT_ROWS and each < granule and each * count % granule == 0
