"""Vector loops that may run beyond the end of a ragged tile: into the padding, with whole steps and without a mask.

    for m by 2 vectors below m.length - rest: ...; for the rest by one, masked: ...     ->     for m by 2 vectors: ...

Tiles have room for whole panels. What the lanes there compute from what happens to lie there is never read, so this is
right where nothing outside the tile is touched and no lane meets another one. It saves a second copy of every nest, a
fifth of the code of kernels whose tiles have any length, and costs a vector at the end of a tile.
"""

from __future__ import annotations

from collections.abc import Iterator

from threadloom.targets.cpu.fuse import Item, Nest
from threadloom.targets.cpu.lower.context import Context
from threadloom.targets.cpu.plan import Home
from threadloom.tile.ops import Bound, Cast, Const, DimSize, Full, Index, Load, Map, Reduce, Value
from threadloom.tile.uses import operands, results

WORTH_STEPS = 4  # of a whole tile: in small ones the padding would be much of the work


def runs_into_padding(c: Context, nest: Nest, step: int) -> bool:
    """Whether `nest`, whose axis lies in the lanes, may do `step` positions at a time up to the end or beyond."""
    if nest.axis not in c.plan.sizes or c.plan.sizes[nest.axis] < WORTH_STEPS * step:
        return False
    made: set[str] = set()
    return all(_stays_inside(c, op, nest.axis, step, made) for op in _placed(nest))


def _placed(nest: Nest) -> Iterator[Item]:
    for item in nest.items:
        if isinstance(item, Nest):
            yield from _placed(item)
        else:
            yield item


def _stays_inside(c: Context, op: object, axis: str, step: int, made: set[str]) -> bool:
    """Whether lanes of `op` beyond the tile do no harm; `made`: names of values that were found to be harmless."""
    match op:
        case Const() | Index() | Bound() | DimSize():
            return True
        case Load(result):
            return axis not in result.type.axes
        case Map() | Cast() | Full() | Reduce():
            if isinstance(op, Reduce) and op.axis == axis:
                return False
        case _:
            return False
    for value in results(op):
        if not _has_room(c.home(value), value, axis, step, c.plan.sizes[axis]):
            return False
        made.add(value.name)
    return all(_is_harmless(c, value, axis, step, made) for value in operands(op))


def _is_harmless(c: Context, value: Value, axis: str, step: int, made: set[str]) -> bool:
    """Likewise of reading `value`: from its home, or computed where it is read."""
    if value.name in made or axis not in value.type.axes or value.name in c.known_true:
        return True
    made.add(value.name)
    home = c.home(value)
    if home is not None:
        return _has_room(home, value, axis, step, c.plan.sizes[axis])
    definition = c.plan.definitions.get(value.name)
    return definition is not None and _stays_inside(c, definition, axis, step, made)


def _has_room(home: Home | None, value: Value, axis: str, step: int, size: int) -> bool:
    if home is None or axis not in value.type.axes:
        return True
    layout = home.layout
    if layout.last != axis:
        return False
    return (layout.panels * layout.panel or layout.row_elems) >= -(-size // step) * step
