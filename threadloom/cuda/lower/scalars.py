"""Which operations between barriers can run once, outside the loop over work-items, instead of once per work-item.

    parallel threads (%t) ... {
      %n = load i32, ptr %p          # %p from outside, nothing before it in this interval writes there: scalar
      %m = add i32 %n, 1             # scalar
      barrier threads
      %k = load i32, ptr %p          # scalar: the barrier starts a new interval
      store i32 %t, ptr %q
      %j = load i32, ptr %q          # not scalar: the store before it may touch the same object
      for %i = i32 0 to %m { ... barrier ... }      # bounds scalar: the loop itself can become scalar
    }

Only operations that stand directly in the body, or directly in an If, For or While that contains a barrier, are
classified; such a loop's carried values are scalar while inits and yields are (greatest fixpoint). A scalar operation
moves in front of the loop over work-items that runs the rest of its interval: the lock-step order of parallel
loop-invariant motion (DESIGN.md, "CUDA on the CPU", 3), in which only *earlier* operations can conflict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from threadloom.cuda.lower.effects import Access, Memory, RootKind, conflict, is_pure, orders_memory
from threadloom.cuda.lower.runtime_calls import is_report
from threadloom.cuda.lower.separators import contains_meeting, is_meeting
from threadloom.cuda.lower.traverse import free_values, last_values, walk
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.par.ops import (
    Alloca,
    Barrier,
    Condition,
    For,
    If,
    Leaf,
    Op,
    Operand,
    Parallel,
    Value,
    While,
)
from threadloom.par.walk import regions, results


@dataclass(frozen=True, slots=True)
class _Facts:
    """What of an operation, with its regions, no sweep changes; of one with meetings inside only that."""

    meets: bool
    orders: bool = False
    accesses: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    free: frozenset[str] = frozenset()
    harmless: bool = False


class Scalars:
    """Names of values of `parallel`'s body that are *not* scalar, by a monotone sweep to the fixpoint."""

    def __init__(self, parallel: Parallel, memory: Memory, uniformity: Uniformity):
        self._level, self._memory, self._uniformity = parallel.level, memory, uniformity
        self._per_item = {iv.name for iv in parallel.ivs}
        self._facts: dict[int, _Facts] = {}  # by identity: `parallel` keeps its operations alive
        while self._region(parallel.body.ops):
            pass

    def is_scalar(self, operand: Operand) -> bool:
        return not (isinstance(operand, Value) and operand.name in self._per_item)

    def is_scalar_op(self, op: Op) -> bool:
        """`op`, no barrier inside, runs once. Operations without results have nothing to share and stay."""
        values = results(op)
        if is_report(op):
            return self.is_scalar(op.cond)
        return bool(values) and all(self.is_scalar(value) for value in values) and not isinstance(op, Alloca)

    # ------------------------------------------------------------ sweep

    def _region(self, ops: Iterable[Op]) -> bool:
        changed = False
        earlier: list[Access] = []  # writes of this interval so far
        self._ordered = False  # an atomic or a fence has run: loads stay behind it
        for op in ops:
            facts = self._facts_of(op)
            if facts.meets:
                earlier = []
                self._ordered = False
                changed |= self._meeting(op)
                self._ordered = False
                continue
            unknown = [value for value in results(op) if value.name not in self._per_item]
            if unknown and not self._runs_once(facts, earlier):
                changed |= self._all(unknown)
            self._ordered |= facts.orders
            earlier += facts.writes
        return changed

    def _facts_of(self, op: Op) -> _Facts:
        known = self._facts.get(id(op))
        if known is None:
            if contains_meeting(op, self._level):
                known = _Facts(True)
            else:
                accesses = tuple(self._memory.accesses((op,)))
                known = _Facts(
                    False,
                    any(orders_memory(inner) for inner in walk((op,))),
                    accesses,
                    tuple(access for access in accesses if access.writes),
                    frozenset(free_values((op,))),
                    all(self._harmless(inner) for inner in walk((op,))),
                )
            self._facts[id(op)] = known
        return known

    def _mark(self, value: Value) -> bool:
        new = value.name not in self._per_item
        self._per_item.add(value.name)
        return new

    def _runs_once(self, facts: _Facts, earlier: list[Access]) -> bool:
        if not facts.harmless or not self._per_item.isdisjoint(facts.free):
            return False
        constant = all(root.kind is RootKind.CONSTANT for access in facts.accesses for root in access.roots)
        if self._ordered and not constant:
            return False
        return not any(conflict(access, write) for access in facts.accesses for write in earlier)

    def _harmless(self, op: Op) -> bool:
        match op:
            case Leaf(opcode="load"):
                return self._uniformity.uniform_load(op)
            case Leaf():
                return is_pure(op, self._memory.callee(op))
            case Alloca() | Parallel() | Barrier():
                return False
        return True

    def _meeting(self, op: Op) -> bool:
        match op:
            case For():
                return self._for(op)
            case While():
                return self._while(op)
            case If():
                return self._if(op)
        assert is_meeting(op, self._level)
        return any([self._mark(value) for value in results(op)])

    def _join(self, targets: tuple[Value, ...], *sources: tuple[Operand, ...]) -> bool:
        changed = False
        for values in sources:
            pairs = zip(targets, values, strict=True)
            changed |= any([self._mark(target) for target, value in pairs if not self.is_scalar(value)])
        return changed

    def _all(self, values: Iterable[Value]) -> bool:
        return any([self._mark(value) for value in values])

    def _for(self, op: For) -> bool:
        changed = self._region(op.body.ops)
        changed |= self._join(op.args, op.inits, last_values(op.body)) | self._join(op.results, op.args)
        if not all(self.is_scalar(bound) for bound in (op.lower, op.upper, op.step)):
            changed |= self._all((op.iv, *op.args, *op.results))
        return changed

    def _while(self, op: While) -> bool:
        changed = self._region(op.before.ops) | self._region(op.after.ops)
        condition = op.before.ops[-1]
        assert isinstance(condition, Condition)
        changed |= self._join(op.args, op.inits, last_values(op.after))
        changed |= self._join(op.after_args, condition.values) | self._join(op.results, condition.values)
        if not self.is_scalar(condition.cond):  # work-items leave at different times
            changed |= self._all(op.results)
        return changed

    def _if(self, op: If) -> bool:
        changed = any([self._region(region.ops) for region in regions(op)])
        changed |= self._join(op.results, last_values(op.then), last_values(op.otherwise))
        if not self.is_scalar(op.cond):
            changed |= self._all(op.results)
        return changed
