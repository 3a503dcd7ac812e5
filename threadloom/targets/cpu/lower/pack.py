"""Filling a tile's place from another value: copies, constants, and operands packed for products.

Straight: the home's contiguous axis is in vector lanes. Transposed: what is read contiguously is another axis than what
is written contiguously, so square blocks of lanes x lanes go through registers:

    for j by lanes { for k by lanes { rows j .. j+lanes of k lanes -> transpose -> rows k .. k+lanes of j lanes } }

Positions of j beyond the tile repeat the last one (they pad a panel); positions of k beyond it are not written.
Panels narrower than a vector are written a vector at a time all the same, in ascending order: what sticks out of one
row of the panel is overwritten by the next.
"""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.par.constants import const, int_value
from threadloom.par.ops import I64, Operand
from threadloom.targets.cpu.fuse import Item, Nest
from threadloom.targets.cpu.lower.context import Context, Point
from threadloom.targets.cpu.lower.elementwise import materialized
from threadloom.targets.cpu.lower.evaluate import Evaluator, widest
from threadloom.targets.cpu.lower.nest import NestEmitter
from threadloom.targets.cpu.lower.tiles import address
from threadloom.targets.cpu.lower.vectors import first_lanes, transposed
from threadloom.targets.cpu.plan import Home, Pack
from threadloom.tile.ops import Cast, Value


def pack(c: Context, step: Pack) -> None:
    if step.transposed:
        _pack_transposed(c, step)
        return
    panelled = step.home.layout.panel > 0
    _straight(c, step.value, step.home, last_outermost=panelled)


def copy(c: Context, source: Value, target: Value) -> None:
    """target's home <- source; they may be read and written in place, element by element."""
    _straight(c, source, c.plan.homes[target.name], last_outermost=False, type_of=target, unrolls=False)


def fill(c: Context, value: Value, home: Home, number: Operand) -> None:
    name = f"{value.name}.fill"
    c.scalars[name] = number
    _straight(c, Value(name, value.type), home, last_outermost=False, type_of=value, unrolls=False)


def _straight(
    c: Context, source: Value, home: Home, last_outermost: bool, type_of: Value | None = None, unrolls: bool = True
) -> None:
    """Store `source` in `home`. A panelled home is filled panel by panel, so that writes are contiguous."""
    type_ = (type_of or source).type
    target = Value(f"{source.name}.packed", type_)
    op = Cast(target, Value(source.name, source.type))
    axes = home.layout.axes
    order = (axes[-1], *axes[:-1]) if last_outermost and axes else axes
    items: tuple[Item, ...] = (op,)
    for axis in reversed(order):
        items = (Nest(axis, items),)
    outer = c.rooms
    c.rooms = {**outer, target.name: home}
    NestEmitter(c, home.layout.last, unrolls=unrolls).emit(items, [c.root()])
    c.rooms = outer


def _pack_transposed(c: Context, step: Pack) -> None:
    layout = step.home.layout
    written, read = layout.last, step.axis
    if written is None or read not in layout.axes or written == read:
        raise InternalError(f"{step.value.name} is not transposed from {read} to {written}")
    others = [axis for axis in layout.axes if axis not in (written, read)]
    _loops(c, step, others, c.root())


def _loops(c: Context, step: Pack, others: list[str], point: Point) -> None:
    b = c.b
    if others:
        with b.loop(0, c.ranges[others[0]].length, 1, iv=others[0]) as loop:
            _loops(c, step, others[1:], Point(b.ops, point, others[0], loop.iv))
        return
    lanes = c.target.lanes
    written, read = step.home.layout.last or "", step.axis
    width, depth = c.ranges[written].length, c.ranges[read].length
    narrow = step.home.layout.panel if 0 < step.home.layout.panel < lanes else lanes
    with b.loop(0, width, narrow, iv=written) as outer:
        rows = _row_points(c, point, written, outer.iv, width, narrow)
        target = Point(b.ops, point, written, outer.iv)
        known = int_value(depth)
        full_end = const(I64, known - known % lanes) if known is not None else b.and_(depth, -lanes)
        if known is None or known >= lanes:
            with b.loop(0, full_end, lanes, iv=read) as inner:
                _block(c, step, rows, target, inner.iv, None)
        if known is None or known % lanes:
            with b.if_(b.icmp("slt", full_end, depth)):
                _block(c, step, rows, target, full_end, b.sub(depth, full_end))


def _row_points(c: Context, point: Point, axis: str, index: Operand, length: Operand, count: int) -> list[Point]:
    """`count` neighbours along `axis`; those beyond the tile stand at its last position."""
    b = c.b
    known = int_value(length)
    if known is not None and known % count == 0:
        return [Point(b.ops, point, axis, index, offset) for offset in range(count)]
    last = b.sub(length, 1)
    return [Point(b.ops, point, axis, b.min(b.add(index, offset), last)) for offset in range(count)]


def _block(c: Context, step: Pack, rows: list[Point], target: Point, index: Operand, rest: Operand | None) -> None:
    """One square: `rest` positions of the read axis exist (None: all)."""
    b, lanes = c.b, c.target.lanes
    evaluator = Evaluator(c)
    mask = first_lanes(b, rest, lanes) if rest is not None else None
    count = int_value(rest) if rest is not None else None
    vectors = []
    for row in rows:
        at = Point(b.ops, row, step.axis, index, 0, lanes, mask, count)
        vectors.append(widest(b, materialized(b, evaluator.value(step.value, at)), lanes))
    vectors += vectors[-1:] * (lanes - len(vectors))
    for offset, column in enumerate(transposed(b, vectors)):
        at = Point(b.ops, target, step.axis, index, offset)
        pointer = address(c, step.home, at)
        if rest is None:
            b.store(column, pointer)
            continue
        with b.if_(b.icmp("sgt", rest, offset)):
            b.store(column, pointer)
