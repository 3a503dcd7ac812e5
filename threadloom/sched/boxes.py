"""What bulk copies ask of an access: rows of whole 16 bytes, which begin at multiples of 16 bytes.

Measured on an H200: a copy whose innermost coordinate is no multiple of 16 bytes ends the kernel with "illegal
instruction". So an axis that starts anywhere (a group, a sequence) may be brought along rows only by threads.
"""

from __future__ import annotations

from threadloom.sched.sizes import Sizes
from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import AxisKind, Cast, Const, Load, Map, Op, Store, Subscript, Value

GRANULE_BITS = 128


def has_rows(op: Load | Store, graph: TaskGraph, sizes: Sizes) -> bool:
    """Whether a tile's part of the tensor's last dimension is a row of whole bytes that begins at 16 of them."""
    held = op.result.type if isinstance(op, Load) else op.value.type
    if not op.subscripts or (held.dtype.bits < 8 and isinstance(op, Store)):
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
    if not all(is_multiple(s, granule, graph) for s in starts):
        return False
    return sizes.extents[axis] % granule == 0 or (not starts and sizes.whole[axis] <= sizes.extents[axis])


def is_multiple(value: Value, number: int, graph: TaskGraph) -> bool:
    """Whether an integer scalar is a multiple of `number` by how it is computed."""
    made = _scalars(graph)

    def multiple(of: Value) -> bool:
        match made.get(of.name):
            case Const() as op:
                return op.number % number == 0
            case Cast() as op:
                return multiple(op.arg)
            case Map(fn="mul", args=args):
                return any(map(multiple, args))
            case Map(fn="add" | "sub" | "maximum" | "minimum", args=args):
                return all(map(multiple, args))
        return False

    return multiple(value)


def in_whole_tiles(axis: str, extent: int, graph: TaskGraph) -> bool:
    """Whether every range of the axis begins and ends at multiples of a tile, by how its bounds are computed, or at the
    tensor's end: no tile then has positions behind the range's end but inside the tensor."""
    bounds = [v for loop in graph.loops for a in loop.axes if a.axis.name == axis for v in (a.start, a.stop)]
    return all(v is None or is_multiple(v, extent, graph) for v in bounds)


def _scalars(graph: TaskGraph) -> dict[str, Op]:
    return {op.result.name: op for t in graph.tasks for op in t.ops if hasattr(op, "result")}
