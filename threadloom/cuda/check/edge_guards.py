"""Guards that all threads of most blocks pass alike, as tests in front of the loop over threads.

    parallel threads (%x) { %i = add %first, %x; %in = icmp slt i32 %i, %n; if i1 %in { A } }
 -> %all = %first + %nx - 1 < %n; where that holds, %in is true for every thread

Each guard is taken to go where more is done. The tests come from the ranges of what is compared (ranges.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from threadloom.cuda.check.ranges import Ranges
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.traverse import walk
from threadloom.par.constants import int_value
from threadloom.par.ops import I1, Const, If, Leaf, Op, Operand, Parallel, Value

_INVERSE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


@dataclass(slots=True)
class Guards:
    known: dict[str, Operand] = field(default_factory=dict)  # the guards' values where all tests hold
    tests: list[Operand] = field(default_factory=list)


def plan_guards(loop: Parallel, ranges: Ranges, editor: Editor) -> Guards:
    guards = Guards()
    leaves = {op.result: op for op in walk(loop.body.ops) if isinstance(op, Leaf) and op.result is not None}
    _plan(loop.body.ops, guards, _Tests(leaves, ranges, editor))
    return guards


def _plan(ops: tuple[Op, ...], guards: Guards, tests: _Tests) -> None:
    for op in ops:
        if not isinstance(op, If) or not isinstance(op.cond, Value):
            continue
        wanted = sum(1 for _ in walk(op.then.ops)) > sum(1 for _ in walk(op.otherwise.ops))
        if op.cond.name not in guards.known:
            found = tests.holds(op.cond, wanted)
            if found is None:
                continue
            guards.known[op.cond.name] = Const(I1, str(wanted).lower())
            guards.tests += found
        taken = int_value(guards.known[op.cond.name])
        _plan((op.then if taken else op.otherwise).ops, guards, tests)


@dataclass(frozen=True, slots=True)
class _Tests:
    leaves: dict[Value, Leaf]
    ranges: Ranges
    editor: Editor

    def holds(self, cond: Operand, wanted: bool) -> list[Operand] | None:
        """What must be true for `cond` to be `wanted` in every thread; None where that cannot be told."""
        leaf = self.leaves.get(cond) if isinstance(cond, Value) else None
        if leaf is None:
            return None
        numbers = [int_value(operand) for operand in leaf.operands]
        match leaf.opcode, wanted:
            case ("xor", _) if numbers[1] in (1, -1):
                return self.holds(leaf.operands[0], not wanted)
            case ("or", False) | ("and", True):
                return self._both(*leaf.operands, wanted)
            case ("select", False) if numbers[1] in (1, -1):
                return self._both(leaf.operands[0], leaf.operands[2], False)
            case ("select", True) if numbers[2] == 0:
                return self._both(leaf.operands[0], leaf.operands[1], True)
            case ("icmp", _):
                return self._compared(leaf, wanted)
        return None

    def _both(self, one: Operand, other: Operand, wanted: bool) -> list[Operand] | None:
        a, b = self.holds(one, wanted), self.holds(other, wanted)
        return None if a is None or b is None else [*a, *b]

    def _compared(self, leaf: Leaf, wanted: bool) -> list[Operand] | None:
        one, other = (self.ranges.of(operand) for operand in leaf.operands)
        if one is None or other is None:
            return None
        predicate = leaf.attrs.predicate
        relation = predicate if predicate in ("eq", "ne") else predicate[1:]
        relation = relation if wanted else _INVERSE[relation]
        tests = []
        if predicate[0] == "u":
            tests = [self.editor.icmp("sge", range_[0], 0, "positive") for range_ in (one, other)]
        match relation:
            case "lt" | "le":
                return [*tests, self.editor.icmp("s" + relation, one[1], other[0], "all")]
            case "gt" | "ge":
                return [*tests, self.editor.icmp("s" + relation, one[0], other[1], "all")]
            case "ne":
                below, above = (self.editor.icmp("slt", a[1], b[0]) for a, b in ((one, other), (other, one)))
                return [*tests, self.editor.or_(below, above, "all")]
        return None
