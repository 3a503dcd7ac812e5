"""Stores past the caches of one row between pieces of the work on the next.

    for m { for n { p, sum };  for n { store p / sum } }
    ->  for m { for each piece of n { store the piece of row m - 1, where there is one;  p, sum of row m } }
        store the last row

Memory takes such stores slower than a core makes them, and a core that waits for memory computes nothing: a row's
stores in one go are time that is added. Pieces of 8 lines are better than single lines, which mix with the reads, and
than 16 (docs/cpu-target.md). The row's values stay where they are until the piece is stored; one number a row is
carried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from threadloom.par.constants import const, int_value
from threadloom.par.ops import Operand
from threadloom.targets.cpu.fuse import Nest, Path, placed
from threadloom.targets.cpu.layout import LINE_BYTES
from threadloom.targets.cpu.lower.context import Context, Point
from threadloom.targets.cpu.lower.dtypes import register_type
from threadloom.targets.cpu.lower.elementwise import materialized
from threadloom.tile.ops import AtomicAdd, Cast, Load, Map, Op, Scan, Store, Value
from threadloom.tile.uses import operands, results

if TYPE_CHECKING:
    from threadloom.targets.cpu.lower.nest import NestEmitter

PIECE = 8 * LINE_BYTES // 4  # elements


@dataclass(frozen=True, slots=True)
class LateStores:
    """`work`, at `work_at` among the nest's items, and `stores`: its last two loops; `carried`: values of a row that
    the stores need."""

    work: Nest
    work_at: int
    stores: Nest
    carried: tuple[Value, ...]


def plan_late_stores(c: Context, nest: Nest, axis: str | None) -> LateStores | None:
    """None where the nest is not of that form, or what the stores read does not last so long."""
    if axis is None or nest.axis == axis or len(nest.items) < 2 or axis in c.windows or nest.axis in c.windows:
        return None
    loops = [at for at, item in enumerate(nest.items) if isinstance(item, Nest) and item.axis == axis]
    if len(loops) < 2 or loops[-1] != len(nest.items) - 1:
        return None
    work_at = loops[-2]
    work, stores = nest.items[work_at], nest.items[-1]
    length = int_value(c.ranges[axis].length)
    if length is None or length < 2 * PIECE or length % PIECE or PIECE % (4 * c.target.lanes):
        return None
    between = nest.items[work_at + 1 : -1]
    if any(isinstance(item, Nest) for items in (work.items, stores.items, between) for item in items):
        return None
    if not all(isinstance(op, Map | Cast) or _is_past_caches(c, op) for op in stores.items):
        return None
    if any(isinstance(op, Store | AtomicAdd | Scan) for op, _, _ in placed(nest.items[:-1])):
        return None
    needed: dict[str, Value] = {}
    kept: set[str] = set()
    made = {value.name for op in stores.items for value in results(op)}
    read = (value for op in stores.items for value in operands(op) if value.name not in made)
    if any(c.home(value) for op in stores.items for value in results(op)):
        return None
    if not all(_lasts(c, value, nest.axis, axis, needed, kept) for value in read):
        return None
    others = (*nest.items[:work_at], *between)
    changed = {home.buffer for op, _, _ in placed(others) for value in results(op) if (home := c.home(value))}
    return None if changed & kept else LateStores(work, work_at, stores, tuple(needed.values()))


def _is_past_caches(c: Context, op: Op) -> bool:
    return isinstance(op, Store) and op.tensor in c.schedule.nontemporal and c.form.tensor(op.tensor).aligned


def _lasts(c: Context, value: Value, row: str, axis: str, needed: dict[str, Value], kept: set[str]) -> bool:
    """Whether `value` can still be had while the next row is worked on; notes what must be carried (`needed`), and the
    buffers that must not change before (`kept`)."""
    if value.name in c.scalars or not value.type.axes:
        return True
    op = c.definition(value)
    if c.home(value) is not None:
        kept.add(c.home(value).buffer)
        return axis in value.type.axes
    if value.name in c.plan.inline:
        if isinstance(op, Load) and row in value.type.axes and axis not in value.type.axes:
            return False  # would be read before the first row, too
        return all(_lasts(c, operand, row, axis, needed, kept) for operand in operands(op))
    if axis in value.type.axes or value.type.axes != (row,):
        return False
    needed[value.name] = value
    return True


def emit_late_stores(emitter: NestEmitter, nest: Nest, plan: LateStores, point: Point, path: Path) -> None:
    c, b = emitter.c, emitter.c.b
    rows = c.ranges[nest.axis].length
    inits = [const(register_type(value.type.dtype), 0) for value in plan.carried]
    names = [value.name for value in plan.carried]
    at_work, at_stores = (*path, plan.work_at), (*path, len(nest.items) - 1)
    with b.loop(0, rows, 1, inits=inits, names=names, iv=nest.axis) as loop:
        here = Point(b.ops, point, nest.axis, loop.iv)
        last = Point(b.ops, point, nest.axis, b.sub(loop.iv, 1), values=dict(zip(names, loop.args, strict=True)))
        emitter.emit(nest.items[: plan.work_at], [here], path)
        is_later = b.icmp("sgt", loop.iv, 0)

        def store_piece(first: Operand, end: Operand) -> None:
            with b.if_(is_later):
                emitter.part(plan.stores, at_stores, last, first, end, [])

        emitter.in_pieces(plan.work, at_work, here, PIECE, store_piece)
        emitter.emit(nest.items[plan.work_at + 1 : -1], [here], path)
        loop.yield_(*(materialized(b, emitter.evaluator.value(value, here)) for value in plan.carried))
    with b.if_(b.icmp("sgt", rows, 0)):
        values = dict(zip(names, loop.results, strict=True))
        last = Point(b.ops, point, nest.axis, b.sub(rows, 1), values=values)
        emitter.part(plan.stores, at_stores, last, const(rows.type, 0), c.ranges[plan.stores.axis].length, [])
