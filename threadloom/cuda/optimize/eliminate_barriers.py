"""Removes barriers that order nothing between different threads.

    if i1 %first { store %x, ptr (node at %ty) }        if i1 %first { store %x, ptr (node at %ty) }
    barrier threads                                 ->
    store %w, ptr (weight at %ty, %tx)                  store %w, ptr (weight at %ty, %tx)
    barrier threads                                     barrier threads
    %v = load ptr (weight at %ty, %tx)                  %v = load ptr (weight at %ty, %tx)

A barrier goes if no access between it and the barriers before it conflicts with an access between it and the
barriers behind it, other than those of one thread (conflicts.py); loops wrap around (neighbourhood.py). Barriers are
tried in order, each against the kernel as it is then. Two prints on both sides keep their order. Declines with the
first pair that conflicts. Source: PPoPP'23, section 3.1; ours looks no further than the next barriers on either side,
which is enough because those stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from threadloom.cuda.lower.calls import READERS, call_effect
from threadloom.cuda.lower.effects import Access, Kind, Memory, may_alias
from threadloom.cuda.lower.separators import change_where_they_meet, contains_meeting
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.cuda.optimize.affine import Arithmetic
from threadloom.cuda.optimize.conditions import Condition, conditions_of
from threadloom.cuda.optimize.conflicts import Place, Threads, threads_conflict
from threadloom.cuda.optimize.neighbourhood import Neighbourhood, Seen, values_defined_in
from threadloom.par.opcodes import Effect
from threadloom.par.ops import PTR, Barrier, Block, Const, For, Leaf, Level, Module, Parallel, While
from threadloom.par.passes import decline
from threadloom.par.text import print_op


@dataclass(frozen=True, slots=True)
class EliminateBarriers:
    level: Level = Level.THREADS
    name: str = "eliminate-barriers"

    def apply(self, module: Module) -> Module:
        return change_where_they_meet(module, self.level, eliminate)


def eliminate(parallel: Parallel, memory: Memory) -> Parallel:
    facts, kept = Facts(parallel, memory), 0  # barriers from the front that have been tried and stay
    while kept < len(facts.neighbourhood.barriers):
        barrier = facts.neighbourhood.barriers[kept]
        reason = facts.why_needed(barrier)
        if reason is None:
            parallel = replace(parallel, body=without_barrier(parallel.body, barrier))
            facts.rearranged(parallel)
        else:
            decline("barrier is needed", reason, barrier.loc)
            kept += 1
    return parallel


def without_barrier(block: Block, barrier: Barrier) -> Block:
    return expand(block, lambda op: [] if op is barrier else None)


class Facts:
    """What the tests on barriers of one Parallel need."""

    def __init__(self, parallel: Parallel, memory: Memory):
        self.memory = memory
        self.arithmetic = Arithmetic(parallel.body.ops)
        self.leaves = {op.result.name: op for op in walk(parallel.body.ops) if isinstance(op, Leaf) and op.result}
        self.threads = Threads(parallel, Uniformity(parallel, memory).varying_names)
        self._accesses: dict[int, tuple[Access, ...]] = {}
        self._places: dict[tuple[int, Kind], Place] = {}
        self.rearranged(parallel)

    def rearranged(self, parallel: Parallel) -> None:
        """A barrier has gone: other paths, other loop objects, the same leaves and values."""
        self.neighbourhood = Neighbourhood(parallel)
        self.loops = {id(op): op for op in walk(parallel.body.ops) if isinstance(op, For | While)}
        self._changes: dict[frozenset[int], frozenset[str]] = {}
        plain = [op for op in self.loops.values() if not contains_meeting(op, parallel.level)]
        self.many = frozenset(name for op in plain for name in values_defined_in(op))  # several values per interval

    def why_needed(self, barrier: Barrier) -> str | None:
        """A pair of accesses that the barrier orders, in words; None where there is none."""
        before, behind = self.neighbourhood.before(barrier), self.neighbourhood.behind(barrier)
        if any(_prints(seen.leaf, self.memory) for seen in before) and any(
            _prints(seen.leaf, self.memory) for seen in behind
        ):
            return "calls on both sides"
        if self._signals(before, behind) or self._signals(behind, before):
            return "an atomic or a fence on one side publishes the other side's accesses"
        for one, mine in self.accesses(before):
            for other, yours in self.accesses(behind):
                if self.conflict(one, mine, other, yours):
                    return f"`{print_op(one.leaf)}` before and `{print_op(other.leaf)}` behind"
        return None

    def accesses(self, seen: list[Seen]) -> list[tuple[Seen, Access]]:
        """Those that another thread could see."""
        return [(one, access) for one in seen for access in self._visible(one.leaf)]

    def _visible(self, leaf: Leaf) -> tuple[Access, ...]:
        if id(leaf) not in self._accesses:
            found = self.memory.accesses((leaf,))
            self._accesses[id(leaf)] = tuple(one for one in found if not self.memory.is_private_access(one))
        return self._accesses[id(leaf)]

    def _signals(self, one: list[Seen], other: list[Seen]) -> bool:
        """Blocks may talk to each other through `one`, about what `other` does to memory that they share."""
        return any(_synchronizes(seen.leaf, self.memory) for seen in one) and any(
            not self.memory.is_local(access) for seen in other for access in self.memory.accesses((seen.leaf,))
        )

    def conflict(self, one: Seen, mine: Access, other: Seen, yours: Access) -> bool:
        if not (mine.writes or yours.writes):
            return False
        if not may_alias(mine.roots, yours.roots):
            return False
        return threads_conflict(self.place(one, mine), self.place(other, yours), self.threads,
                                self._changed(one.passed | other.passed))  # fmt: skip

    def _changed(self, passed: frozenset[int]) -> frozenset[str]:
        """Values that differ between the two ends of a path around these loops."""
        if passed not in self._changes:
            self._changes[passed] = self.many.union(*(values_defined_in(self.loops[loop]) for loop in passed))
        return self._changes[passed]

    def place(self, seen: Seen, access: Access) -> Place:
        key = (id(seen.leaf), access.kind)
        if key not in self._places:
            pointer = Const(PTR, "null") if access.pointer is None else access.pointer  # an unknown extent
            self._places[key] = Place(access, self.arithmetic.address(pointer), self.conditions(seen))
        return self._places[key]

    def conditions(self, seen: Seen) -> tuple[Condition, ...]:
        found: Iterable[tuple[Condition, ...]] = (
            conditions_of(cond, holds, self.leaves, self.arithmetic, self.threads.ivs) for cond, holds in seen.guards
        )
        return tuple(condition for some in found for condition in some)


def _synchronizes(leaf: Leaf, memory: Memory) -> bool:
    """Orders this thread's accesses against other blocks."""
    if leaf.opcode == "fence":
        return True
    if not (leaf.attrs.volatile or leaf.attrs.ordering):
        return False
    return any(not memory.is_local(access) for access in memory.accesses((leaf,)))


def _prints(leaf: Leaf, memory: Memory) -> bool:
    """Something else than memory that the outside can see, in order."""
    if leaf.opcode != "call":
        return False
    return leaf.attrs.callee in READERS or call_effect(leaf, memory.callee(leaf)) is Effect.CALL
