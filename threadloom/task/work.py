"""What one instance of an sTask does, counted: the numbers that machine models turn into time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from threadloom.task.ops import STask
from threadloom.tile.functions import TABLE, Cost
from threadloom.tile.ops import AtomicAdd, Cast, Dot, Full, Load, Map, Op, Reduce, Scan, Store, Value
from threadloom.tile.uses import operands, results

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Count:
    """`what`: a dtype's name (macs) or a cost class (elementwise)."""

    what: str
    count: int


@dataclass(frozen=True, slots=True)
class Work:
    """Per instance of the sTask. `macs` by operand dtype; `elementwise` by cost class; `reduced` elements that enter
    reductions and scans (each also one `alu` or `fma`); bytes moved from and to tensors in device memory."""

    macs: tuple[Count, ...] = ()
    elementwise: tuple[Count, ...] = ()
    reduced: int = 0
    bytes_loaded: int = 0
    bytes_stored: int = 0

    def mac(self, dtype: str) -> int:
        return sum(c.count for c in self.macs if c.what == dtype)

    def of(self, cost: str) -> int:
        return sum(c.count for c in self.elementwise if c.what == cost)


def work(task: STask, shapes: Shapes) -> Work:
    macs: dict[str, int] = {}
    elementwise: dict[str, int] = {}
    reduced = loaded = stored = 0
    for op in task.ops[:1] if _accumulates(task) else task.ops:
        match op:
            case Dot():
                dtype = op.a.type.dtype.name
                macs[dtype] = macs.get(dtype, 0) + _dot_macs(op, shapes)
            case Load():
                loaded += op.result.type.dtype.bytes_for(_loaded_elems(op, shapes))
            case Store() | AtomicAdd():
                stored += op.value.type.dtype.bytes_for(_stored_elems(op, shapes))
            case Reduce() | Scan():
                count = _elems(op.arg, shapes)
                reduced += count
                _add(elementwise, _reduction_cost(op), count)
            case Cast() if op.result.type.dtype is op.arg.type.dtype:
                pass  # a copy: nothing but the bytes, and not even those where both live in one Tile
            case Map() | Cast() if not _is_uniform(op):
                _add(elementwise, _cost(op), _elems(op.result, shapes))
            case Full():
                _add(elementwise, Cost.ALU, _elems(op.result, shapes))
    return Work(_counts(macs), _counts(elementwise), reduced, loaded, stored)


def _accumulates(task: STask) -> bool:
    """A dot with the addition to its accumulator: the matrix unit adds for free."""
    return isinstance(task.ops[0], Dot)


def _add(counts: dict[str, int], what: str, count: int) -> None:
    counts[what] = counts.get(what, 0) + count


def _counts(counts: dict[str, int]) -> tuple[Count, ...]:
    return tuple(Count(what, count) for what, count in counts.items() if count)


def _cost(op: Map | Cast) -> str:
    return TABLE[op.fn].cost if isinstance(op, Map) else Cost.CVT


def _reduction_cost(op: Reduce | Scan) -> str:
    return Cost.FMA if op.fn in ("sum", "prod") else Cost.ALU


def _is_uniform(op: Op) -> bool:
    return not any(v.type.axes for v in (*results(op), *operands(op)))


def _elems(value: Value, shapes: Shapes) -> int:
    return math.prod(shapes[value.name])


def _extents(values: tuple[Value, ...], shapes: Shapes) -> dict[str, int]:
    return {axis: n for v in values for axis, n in zip(v.type.axes, shapes[v.name], strict=True)}


def _dot_macs(op: Dot, shapes: Shapes) -> int:
    return math.prod(_extents((op.a, op.b), shapes).values())


def _loaded_elems(op: Load, shapes: Shapes) -> int:
    """Distinct elements of the tensor: a window that slides (x[i + r]) covers less than the tile it fills."""
    tile = _elems(op.result, shapes)
    extents = _extents((op.result,), shapes)
    box = 1
    for subscript in op.subscripts:
        if any(t.value is not None and t.value.type.axes for t in subscript.terms):
            return tile  # gathered
        reach = [abs(t.coefficient) * (extents.get(t.axis, 1) - 1) for t in subscript.terms if t.axis is not None]
        box *= sum(reach) + 1
    return min(tile, box)


def _stored_elems(op: Store | AtomicAdd, shapes: Shapes) -> int:
    """Elements of the stored tile (a value of fewer axes is repeated; those axes are counted once: their extent is
    not a value's)."""
    return math.prod(_extents((op.value, *(v for v in operands(op))), shapes).values())
