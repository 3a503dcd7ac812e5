"""What bulk copies ask of an access: rows of whole 16 bytes, which begin at multiples of 16 bytes.

Measured on an H200: a copy whose innermost coordinate is no multiple of 16 bytes ends the kernel with "illegal
instruction". So an axis that starts anywhere (a group, a sequence) may be brought along rows only by threads.
"""

from __future__ import annotations

from threadloom.sched.sizes import Sizes
from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import AxisKind, Cast, Const, Load, Store, Subscript, Value

GRANULE_BITS = 128


def has_rows(op: Load | Store, graph: TaskGraph, sizes: Sizes) -> bool:
    """Whether a tile's part of the tensor's last dimension is a row of whole bytes that begins at 16 of them."""
    held = op.result.type if isinstance(op, Load) else op.value.type
    if held.dtype.bits < 8 or not op.subscripts:
        return False
    if not held.axes:
        return True
    innermost = op.subscripts[-1]
    along = [t for t in innermost.terms if t.axis in held.axes and t.coefficient == 1]
    return bool(along) and _starts_aligned(innermost, held.axes, GRANULE_BITS // held.dtype.bits, graph, sizes)


def _starts_aligned(
    subscript: Subscript, axes: tuple[str, ...], granule: int, graph: TaskGraph, sizes: Sizes
) -> bool:
    """Whether the index is a multiple of `granule` elements wherever a tile begins."""
    if subscript.offset % granule:
        return False
    for term in subscript.terms:
        if term.axis not in axes:
            if term.coefficient % granule:
                return False
        elif not _tiles_aligned(term.axis, granule, graph, sizes):
            return False
    return True


def _tiles_aligned(axis: str, granule: int, graph: TaskGraph, sizes: Sizes) -> bool:
    kind = next(a.kind for a in graph.kernel.axes if a.name == axis)
    if kind is AxisKind.WHOLE:
        return True
    starts = [a.start for loop in graph.loops for a in loop.axes if a.axis.name == axis and a.start is not None]
    numbers = [constant(s, graph) for s in starts]
    if any(n is None or n % granule for n in numbers):
        return False
    return sizes.extents[axis] % granule == 0 or (not starts and sizes.whole[axis] <= sizes.extents[axis])


def constant(value: Value, graph: TaskGraph) -> int | None:
    """The number that a scalar always is, None where it is none."""
    made = {op.result.name: op for t in graph.tasks for op in t.ops if hasattr(op, "result")}
    op = made.get(value.name)
    while isinstance(op, Cast):
        op = made.get(op.arg.name)
    return int(op.number) if isinstance(op, Const) else None
