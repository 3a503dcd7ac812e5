"""Conditions on indices that hold for a whole tile: the nest is built twice, and the quick one runs where they do.

    s = where(n <= m + shift, s, -inf)
    ->  if (last n of the tile) <= (first m of the tile) + shift: { nest without the condition } else { nest }

Where `s` is a product that nothing else reads, the `where` is a nest of its own that works in place, on the part of
the tile where the condition may fail: so blocks of causal attention below the diagonal pay nothing for the mask, and
those on it for a triangle's worth of keys. Only comparisons of sums of indices and scalars that a `where` of the nest
reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.par.constants import const, int_value
from threadloom.par.ops import I64, Operand
from threadloom.targets.cpu.fuse import placed
from threadloom.targets.cpu.lower.context import Context, Window
from threadloom.targets.cpu.lower.evaluate import Evaluator
from threadloom.targets.cpu.plan import Loops
from threadloom.tile.ops import Cast, Index, Map, Op, Value
from threadloom.tile.uses import operands, results

_RELATIONS = {"lt": (1, -1), "le": (1, 0), "gt": (-1, -1), "ge": (-1, 0)}  # sign of the difference, its largest value


@dataclass(frozen=True, slots=True)
class Affine:
    """scalar + sum of factor * position in the current tile."""

    factors: tuple[tuple[str, int], ...]
    scalar: Operand


@dataclass(frozen=True, slots=True)
class Test:
    """scalar + sum of factor * position <= limit."""

    factors: dict[str, int]
    scalar: Operand
    limit: int

    def largest(self, c: Context, without: str = "") -> Operand:
        """The left side's largest value in the tile, at position 0 of the axis `without`."""
        found = self.scalar
        for axis, factor in self.factors.items():
            if factor > 0 and axis != without:
                found = c.b.add(found, c.b.mul(c.b.sub(c.ranges[axis].length, 1), factor))
        return found


def failing_part(c: Context, step: Loops) -> dict[str, Window] | None:
    """Of a nest that masks in place: an axis not in lanes, and its positions where the condition may fail."""
    (where,) = (op for op, _, _ in placed(step.items))
    test = _test(c, c.plan.definitions[where.args[0].name])
    if test is None:
        return None
    b = c.b
    for axis, factor in test.factors.items():
        if axis == step.axis or factor not in (1, -1):
            continue
        length = c.ranges[axis].length
        rest = b.sub(test.largest(c, without=axis), test.limit)
        if factor == 1:  # holds up to position -rest
            return {axis: Window(b.min(b.max(b.sub(1, rest), 0), length), 1, length)}
        return {axis: Window(const(I64, 0), 1, b.min(b.max(rest, 0), length))}  # holds from position rest on
    return None


def split_condition(c: Context, step: Loops) -> tuple[Operand, frozenset[str]] | None:
    """(i1: all conditions hold all over the tile, their names), built here; None where there are none."""
    ops = [op for op, _, _ in placed(step.items)]
    if any(not value.type.axes for op in ops for value in results(op)):
        return None  # scalars made in a branch would have to be carried out of it
    names: dict[str, Operand] = {}
    for op in _conditions(c, ops):
        if op.result.name not in names and (holds := _holds(c, op)) is not None:
            names[op.result.name] = holds
    everywhere: Operand | None = None
    for holds in names.values():
        everywhere = holds if everywhere is None else c.b.and_(everywhere, holds)
    if everywhere is None or int_value(everywhere) is not None:
        return None
    return everywhere, frozenset(names)


def _conditions(c: Context, ops: list[Op]) -> list[Map]:
    """Comparisons computed in place that a `where` among `ops`, or behind them, selects by."""
    found: list[Map] = []
    pending, seen = list(ops), set()
    while pending:
        op = pending.pop(0)
        if isinstance(op, Map) and op.fn == "where":
            condition = c.plan.definitions.get(op.args[0].name)
            if isinstance(condition, Map) and condition.fn in _RELATIONS and condition.result.name in c.plan.inline:
                found.append(condition)
        for value in operands(op):
            if value.name in c.plan.inline and value.name not in seen:
                seen.add(value.name)
                pending.append(c.plan.definitions[value.name])
    return found


def _holds(c: Context, op: Map) -> Operand | None:
    test = _test(c, op)
    return None if test is None else c.b.icmp("sle", test.largest(c), const(I64, test.limit))


def _test(c: Context, op: Map) -> Test | None:
    left, right = (_affine(c, arg) for arg in op.args)
    if left is None or right is None:
        return None
    sign, limit = _RELATIONS[op.fn]
    factors = {axis: sign * factor for axis, factor in left.factors}
    for axis, factor in right.factors:
        factors[axis] = factors.get(axis, 0) - sign * factor
    return Test(factors, c.b.mul(c.b.sub(left.scalar, right.scalar), sign), limit)


def _affine(c: Context, value: Value) -> Affine | None:
    if not value.type.dtype.is_integer or value.type.dtype.bits < 32:
        return None
    if not value.type.axes:
        found = Evaluator(c).index(value, c.root())
        return Affine((), found) if not hasattr(found, "step") else None
    op = c.plan.definitions.get(value.name)
    match op:
        case Index(_, axis):
            return Affine(((axis, 1),), c.ranges[axis].start)
        case Cast(_, arg) if arg.type.dtype.bits <= value.type.dtype.bits:
            return _affine(c, arg)
        case Map(_, "add" | "sub" | "mul" as fn, (x, y)):
            left, right = _affine(c, x), _affine(c, y)
            return _combined(c, fn, left, right) if left is not None and right is not None else None
    return None


def _combined(c: Context, fn: str, left: Affine, right: Affine) -> Affine | None:
    b = c.b
    if fn == "mul":
        if right.factors:
            left, right = right, left
        known = int_value(right.scalar)
        if right.factors or known is None:
            return None
        return Affine(tuple((axis, f * known) for axis, f in left.factors), b.mul(left.scalar, known))
    sign = 1 if fn == "add" else -1
    factors = dict(left.factors)
    for axis, factor in right.factors:
        factors[axis] = factors.get(axis, 0) + sign * factor
    scalar = b.add(left.scalar, right.scalar) if sign > 0 else b.sub(left.scalar, right.scalar)
    return Affine(tuple(factors.items()), scalar)
