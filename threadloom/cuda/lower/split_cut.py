"""Which values cross from one segment to another, and where each private allocation lives.

    A: %x = load a; %y = load b                      keep %x and %y (8 bytes per work-item),
       %p = fmul %x, %x; %q = fmul %y, %y      ->    recompute %p, %q and %d behind the barrier
       %d = fsub %x, %y                              (keeping %p, %q, %d would be 12 bytes)
    barrier
    B: uses %p, %q, %d

Sources of the cut are values that cannot be recomputed later: loads (memory may have changed), atomics, calls,
results of ifs and loops, and values whose recomputation would cost more than `max_recompute` simple operations.
Source: PPoPP'23, section 3.2 (fission with a minimum cut).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from threadloom.cuda.lower.cut import minimum_cut
from threadloom.cuda.lower.effects import Memory, RootKind, is_pure
from threadloom.cuda.lower.split_plan import Segment, Slot, SplitPlan
from threadloom.cuda.lower.traverse import free_values, walk
from threadloom.par.ops import PTR, Alloca, Leaf, Op, Operand, Value
from threadloom.par.result_types import size_bytes
from threadloom.par.walk import operands, results

_COST = {"fdiv": 8, "udiv": 12, "sdiv": 12, "urem": 12, "srem": 12, "frem": 20, "call": 16}


@dataclass(frozen=True, slots=True)
class Crossing:
    """What the split keeps: `kept` values in slots, `expanded` allocas per work-item, `sunk` ones by segment number."""

    kept: dict[str, Slot]
    expanded: tuple[Alloca, ...]
    sunk: dict[int, tuple[Alloca, ...]]
    definition: dict[str, tuple[Segment, Op]]

    @property
    def kept_bytes(self) -> int:
        return sum(size_bytes(slot.type) for slot in self.kept.values())


def plan_crossing(plan: SplitPlan, memory: Memory, max_recompute: int, minimum: bool = True) -> Crossing:
    """`minimum`: by the minimum cut; else every value that crosses is kept."""
    definition = {value.name: (segment, op) for segment in plan.segments for op in segment.ops for value in results(op)}
    expanded, sunk = _place_allocas(plan, memory, definition)
    crossing = {
        name
        for segment in plan.segments
        for name in needed(segment)
        if name in definition and definition[name][0] is not segment and not isinstance(definition[name][1], Alloca)
    }
    kept = _Cut(definition, memory, plan.unstable, max_recompute).kept(crossing) if minimum else crossing
    slots = {name: Slot(name, _value(definition, name).type) for name in sorted(kept)}
    return Crossing(slots, expanded, sunk, definition)


def needed(segment: Segment) -> dict[str, Value]:
    """Values that the segment reads and does not define, in order of first use."""
    found = free_values(segment.ops)
    own = {value.name for op in segment.ops for value in results(op)}
    ends: list[Operand | None] = [keep.value for keep in segment.keeps] + [mask.cond for mask in segment.masks]
    for operand in ends:
        if isinstance(operand, Value) and operand.name not in own:
            found.setdefault(operand.name, operand)
    return found


def _value(definition: dict[str, tuple[Segment, Op]], name: str) -> Value:
    return next(value for value in results(definition[name][1]) if value.name == name)


@dataclass(frozen=True, slots=True)
class _Cut:
    definition: dict[str, tuple[Segment, Op]]
    memory: Memory
    unstable: frozenset[str]
    max_recompute: int

    def kept(self, crossing: set[str]) -> frozenset[str]:
        """The cut over all values that some crossing value is computed from."""
        weights: dict[str, int] = {}
        inputs: dict[str, tuple[str, ...]] = {}
        sources: list[str] = []
        costs: dict[str, int] = {}
        for name in self._in_order(crossing):
            op = self.definition[name][1]
            weights[name] = size_bytes(_value(self.definition, name).type)
            inputs[name] = tuple(self._inputs(op))
            costs[name] = _own_cost(op) + sum(costs.get(operand, 0) for operand in set(inputs[name]))
            if not self._recomputable(op) or costs[name] > self.max_recompute:
                sources.append(name)
                costs[name] = 1  # from here on it is a load
        return minimum_cut(weights, inputs, sources, crossing)

    def _inputs(self, op: Op) -> Iterator[str]:
        for operand in operands(op):
            made = self.definition.get(operand.name) if isinstance(operand, Value) else None
            if made is not None and not isinstance(made[1], Alloca):
                yield operand.name

    def _in_order(self, crossing: set[str]) -> Iterator[str]:
        """Crossing values and all they can be computed from, operands first (definitions are in that order)."""
        wanted, queue = set(crossing), list(crossing)
        while queue:
            op = self.definition[queue.pop()][1]
            for name in self._inputs(op) if self._recomputable(op) else ():
                if name not in wanted:
                    wanted.add(name)
                    queue.append(name)
        return (name for name in self.definition if name in wanted)

    def _recomputable(self, op: Op) -> bool:
        if not isinstance(op, Leaf) or not is_pure(op, self.memory.callee(op)):
            return False
        return not any(isinstance(operand, Value) and operand.name in self.unstable for operand in op.operands)


def _own_cost(op: Op) -> int:
    return _COST.get(op.opcode, 1) if isinstance(op, Leaf) else 1


# ---------------------------------------------------------------- private allocations


def _place_allocas(plan: SplitPlan, memory: Memory, definition: dict[str, tuple[Segment, Op]]
                   ) -> tuple[tuple[Alloca, ...], dict[int, tuple[Alloca, ...]]]:  # fmt: skip
    """An allocation that one segment alone touches stays private there, unless a loop of barriers keeps it alive."""
    allocas = {name: (home, op) for name, (home, op) in definition.items() if isinstance(op, Alloca)}
    users: dict[str, set[int]] = {name: set() for name in allocas}
    for segment in plan.segments:
        for root in _touched(segment, memory):
            if root in users:
                users[root].add(segment.number)
    expanded: list[Alloca] = []
    sunk: dict[int, tuple[Alloca, ...]] = {}
    for name, (home, op) in allocas.items():
        escaped = any(root.escaped for root in memory.roots(op.result))
        if not users[name]:
            continue
        only = plan.segments[min(users[name])]
        if len(users[name]) > 1 or escaped or only.loops != home.loops:
            expanded.append(op)
        else:
            sunk[only.number] = (*sunk.get(only.number, ()), op)
    return tuple(expanded), sunk


def _touched(segment: Segment, memory: Memory) -> Iterator[str]:
    used = [operand for op in walk(segment.ops) for operand in operands(op)]
    used += [keep.value for keep in segment.keeps]
    for operand in used:
        if operand.type == PTR:
            yield from (root.name for root in memory.roots(operand) if root.kind is RootKind.ALLOCA)
