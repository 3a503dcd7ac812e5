"""Comparisons of a thread's index with what all threads share, as bounds of that index.

    %i = add nsw i32 %first, %x ; icmp slt i32 %i, %n         ->  %x < %n - %first
    %c = select i1 %a, i1 %b, i1 false                         ->  the bounds of %a and of %b

All arithmetic is done in i64, where it cannot overflow; `nsw` says that the original had none either (a sum that
overflows is poison, and a branch on it has no meaning). Sums without that flag give no bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.traverse import walk
from threadloom.cuda.optimize.wrapping import is_whole_sum, never_wraps, widens_whole
from threadloom.par.constants import const, int_value
from threadloom.par.intrinsics import is_speculatable
from threadloom.par.ops import I64, Attrs, Int, Leaf, Operand, Parallel, Value
from threadloom.par.walk import arguments, results

_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_INVERSE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True, slots=True)
class Sum:
    """steps + parts + constant: induction variables and shared values, each with its factor of 1 or -1."""

    steps: tuple[tuple[int, Value], ...] = ()
    parts: tuple[tuple[int, Operand], ...] = ()
    constant: int = 0
    unsigned: bool = False  # the parts are read as unsigned numbers

    def plus(self, other: Sum, sign: int = 1) -> Sum:
        steps = [*self.steps, *((sign * factor, value) for factor, value in other.steps)]
        for factor, value in tuple(steps):
            if (factor, value) in steps and (-factor, value) in steps:
                steps.remove((factor, value))
                steps.remove((-factor, value))
        parts = (*self.parts, *((sign * factor, value) for factor, value in other.parts))
        return Sum(tuple(steps), parts, self.constant + sign * other.constant)


@dataclass(frozen=True, slots=True)
class Bound:
    """`index` `relation` `limit`: lt, le, gt, ge, eq or ne."""

    index: Value
    relation: str
    limit: Sum

    def inverse(self) -> Bound:
        return Bound(self.index, _INVERSE[self.relation], self.limit)


class Bounds:
    """Facts about the body of one loop over threads."""

    def __init__(self, parallel: Parallel):
        self._ivs = {iv.name for iv in parallel.ivs}
        inside = list(walk(parallel.body.ops))
        self.definitions = {op.result.name: op for op in inside if isinstance(op, Leaf) and op.result is not None}
        self._inside = self._ivs | {value.name for op in inside for value in (*results(op), *arguments(op))}
        self._shared: dict[str, bool] = {}

    def leaf(self, operand: Operand) -> Leaf | None:
        return self.definitions.get(operand.name) if isinstance(operand, Value) else None

    def is_shared(self, operand: Operand) -> bool:
        """The same in all threads, and computable before the loop."""
        if not isinstance(operand, Value) or operand.name not in self._inside:
            return True
        if operand.name not in self._shared:
            leaf = self.definitions.get(operand.name)
            self._shared[operand.name] = (
                leaf is not None and is_speculatable(leaf) and all(self.is_shared(other) for other in leaf.operands)
            )
        return self._shared[operand.name]

    def sum(self, operand: Operand) -> Sum | None:
        known = int_value(operand)
        if known is not None:
            return Sum(constant=known)
        if isinstance(operand, Value) and operand.name in self._ivs:
            return Sum(((1, operand),))
        if not isinstance(operand.type, Int):
            return None
        if self.is_shared(operand):
            return Sum(parts=((1, operand),))
        leaf = self.leaf(operand)
        if leaf is None:
            return None
        if is_whole_sum(leaf):
            left, right = (self.sum(side) for side in leaf.operands)
            return None if left is None or right is None else left.plus(right, 1 if leaf.opcode == "add" else -1)
        if widens_whole(leaf):
            return self.sum(leaf.operands[0])
        return None

    def bound(self, left: Operand, predicate: str, right: Operand) -> Bound | None:
        """The comparison as a bound of one induction variable."""
        if predicate.startswith("u"):
            left, right = self._unextended(left), self._unextended(right)
        a, b = self.sum(left), self.sum(right)
        if a is None or b is None or left.type == Int(1):
            return None
        difference = a.plus(b, -1)
        if len(difference.steps) != 1:
            return None
        ((factor, index),) = difference.steps
        relation = predicate if predicate in ("eq", "ne") else predicate[1:]
        if predicate.startswith("u"):
            if factor < 0:  # the index is on the right
                left, a, b, relation = right, b, a, _SWAPPED[relation]
            if not self._is_plain(left) or b.steps or len(b.parts) > 1 or b.constant < 0:
                return None
            limit = Sum((), b.parts, b.constant).plus(Sum((), a.parts, a.constant), -1)
            return Bound(index, relation, replace(limit, unsigned=True))
        if sum(part.type.bits > 32 for _, part in difference.parts) > 1:
            return None  # one may be added without leaving i64 (Outside.number); of two nobody knows
        limit = Sum().plus(Sum((), difference.parts, difference.constant), -factor)
        return Bound(index, relation if factor == 1 else _SWAPPED[relation], limit)

    def _unextended(self, operand: Operand) -> Operand:
        """What is read as unsigned anyway."""
        leaf = self.leaf(operand)
        extends = leaf is not None and leaf.opcode == "zext" and not self.is_shared(operand)
        return leaf.operands[0] if extends and self._is_plain(leaf.operands[0]) else operand

    def _is_plain(self, operand: Operand) -> bool:
        """A sum that does not wrap as an unsigned one: an index, and shared values."""
        if isinstance(operand, Value) and operand.name in self._ivs:
            return True
        leaf = self.leaf(operand)
        if leaf is None or self.is_shared(operand):
            return False
        if leaf.opcode != "add" or not never_wraps(leaf):
            return False
        return all(
            self._is_plain(side) or (int_value(side) or 0) > 0 or (isinstance(side, Value) and self.is_shared(side))
            for side in leaf.operands
        )

    def conjunction(self, cond: Operand, holds: bool = True) -> list[Bound | tuple[Operand, bool]]:
        """What must be true where `cond` is `holds`: bounds, and other conditions with their wanted value, in order."""
        leaf = self.leaf(cond)
        if leaf is not None:
            known = [int_value(operand) for operand in leaf.operands]
            match leaf.opcode, holds:
                case ("xor", _) if 1 in known or -1 in known:
                    return self.conjunction(leaf.operands[0 if known[0] is None else 1], not holds)
                case ("select", True) if known[2] == 0:
                    return self._both(leaf.operands[:2], True)
                case ("select", False) if known[1] is not None and known[1] != 0:
                    return self._both((leaf.operands[0], leaf.operands[2]), False)
                case ("and", True) | ("or", False):
                    return self._both(leaf.operands, holds)
                case ("icmp", _):
                    bound = self.bound(leaf.operands[0], leaf.attrs.predicate, leaf.operands[1])
                    if bound is not None and (bound := bound if holds else bound.inverse()).relation != "ne":
                        return [bound]
        return [(cond, holds)]

    def _both(self, operands: Iterable[Operand], holds: bool) -> list[Bound | tuple[Operand, bool]]:
        return [part for operand in operands for part in self.conjunction(operand, holds)]


class Outside:
    """Computes shared values before the loop: what the body computes of them, once more and without promises."""

    def __init__(self, bounds: Bounds, editor: Editor):
        self._bounds, self._editor = bounds, editor
        self._made: dict[str, Operand] = {}

    def value(self, operand: Operand) -> Operand:
        leaf = self._bounds.leaf(operand)
        if leaf is None or not isinstance(operand, Value):
            return operand
        if operand.name not in self._made:
            operands = tuple(self.value(one) for one in leaf.operands)
            result = self._editor.again(leaf.result)
            attrs = Attrs(predicate=leaf.attrs.predicate, callee=leaf.attrs.callee, source_type=leaf.attrs.source_type)
            self._editor.ops.append(Leaf(leaf.opcode, operands, result, attrs, leaf.loc))
            self._made[operand.name] = result
        return self._made[operand.name]

    def number(self, total: Sum, plus: int = 0) -> Operand:
        """`total` + `plus` in i64. It has no steps; a part of more than 32 bits (at most one) is added last and
        saturates, which no index of 32 bits can tell from the sum."""
        widen = "zext" if total.unsigned else "sext"
        result: Operand = const(I64, total.constant + plus)
        for factor, operand in sorted(total.parts, key=lambda part: part[1].type.bits > 32):
            wide = self._editor.cast(widen, self.value(operand), I64)
            if total.unsigned and operand.type.bits > 32:
                wide = self._editor.min(wide, (1 << 63) - 1, signed=False, name="limit")
            if int_value(result) == 0 and factor == 1:
                result = wide
            elif operand.type.bits > 32:
                base = "sadd.sat" if factor == 1 else "ssub.sat"
                result = self._editor.intrinsic(base, (result, wide), name="limit")
            else:
                result = self._editor.add(wide, result) if factor == 1 else self._editor.sub(result, wide)
        return result
