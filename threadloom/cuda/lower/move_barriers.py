"""Barrier motion: a barrier goes up or down its block to where the fewest bytes have to be kept across it.

    %x = load float, ptr %p        # read by nobody else           %x = load float, ptr %p
    barrier threads                                                %y = load float, ptr %q
    %y = load float, ptr %q        # written by nobody       ->    %z = fadd float %x, %y
    %z = fadd float %x, %y                                         barrier threads
    store float %z, ptr %s         # read before the barrier       store float %z, ptr %s
    barrier threads                                                barrier threads
    ... uses %z ...

The barrier may pass an operation that has no conflict with what other threads do on its other side, back to the
barriers before it or on to those behind it (conflicts.py, with the hole for the own thread). Of the places that it can
reach in its block it takes the one for which the split that follows keeps the fewest bytes (split_cut.py), by at least
one; it never passes loops and ifs with barriers, calls, atomics or collectives. Barriers are moved one after another.
Needs: conditions around barriers are checked (check_divergence.py). Declines where no other place is better or legal.
Source: PPoPP'23, section 3.1 (a barrier put elsewhere makes the old one redundant); choosing by the cut is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from threadloom.cuda.lower.effects import Memory, is_pure, orders_memory
from threadloom.cuda.lower.separators import change_where_they_meet, collective_scope, contains_meeting
from threadloom.cuda.lower.split import Split
from threadloom.cuda.lower.traverse import walk
from threadloom.cuda.optimize.eliminate_barriers import Facts
from threadloom.cuda.optimize.neighbourhood import Guard, Seen, leaves_with_guards
from threadloom.par.ops import Alloca, Barrier, Block, Condition, Leaf, Level, Module, Op, Parallel, Yield
from threadloom.par.passes import decline
from threadloom.par.result_types import size_bytes
from threadloom.par.walk import with_regions

_EXPANDED_BYTES = 64  # what an array per thread counts as


@dataclass(frozen=True, slots=True)
class MoveBarriers:
    level: Level = Level.THREADS
    most_barriers: int = 16  # a kernel with more would take long to plan
    most_places: int = 16  # in each direction
    name: str = "move-barriers"

    def apply(self, module: Module) -> Module:
        return change_where_they_meet(module, self.level, self._parallel)

    def _parallel(self, parallel: Parallel, memory: Memory) -> Parallel:
        count = len(Facts(parallel, memory).neighbourhood.barriers)
        best = kept_bytes(parallel, memory)
        if best and count > self.most_barriers:
            decline("too many barriers to try places for", f"{count}", parallel.loc)
            return parallel
        for number in range(count if best else 0):
            facts = Facts(parallel, memory)
            barrier = facts.neighbourhood.barriers[number]
            places = legal_places(parallel, barrier, facts, self.most_places)
            if not places:
                decline("no operation beside the barrier may pass it", loc=barrier.loc)
                continue
            tried = [(kept_bytes(moved, memory), moved) for moved in places]
            bytes_, moved = min(tried, key=lambda one: one[0])
            if bytes_ < best:
                best, parallel = bytes_, moved
            else:
                decline("no other place keeps fewer bytes", f"{best} bytes per thread", barrier.loc)
        return parallel


def kept_bytes(parallel: Parallel, memory: Memory) -> int:
    """Bytes per thread that the split keeps, as planned now."""
    plan, crossing = Split(parallel.level).plan(parallel, memory)
    carried = sum(size_bytes(slot.type) for slot in plan.slot_of.values())
    return crossing.kept_bytes + carried + _EXPANDED_BYTES * len(crossing.expanded)


def legal_places(parallel: Parallel, barrier: Barrier, facts: Facts, most: int) -> list[Parallel]:
    """`parallel` with `barrier` at every other place of its block that keeps the order between threads."""
    spot = facts.neighbourhood.spots[id(barrier)]
    ops, at = spot.block.ops, spot.index
    before, behind = facts.neighbourhood.before(barrier), facts.neighbourhood.behind(barrier)
    rest = (*ops[:at], *ops[at + 1 :])
    found = []
    for step, other_side in ((1, before), (-1, behind)):
        place, first = at, len(found)
        while 0 <= (next_ := place if step > 0 else place - 1) < len(rest):
            passed = rest[next_]
            if len(found) - first == most or not _may_pass(passed, spot.guards, other_side, parallel.level, facts):
                break
            place += step
            if _is_stop(passed, facts):
                found.append((*rest[:place], barrier, *rest[place:]))
    return [replace(parallel, body=_with_block(parallel.body, spot.block, Block(moved))) for moved in found]


def _may_pass(op: Op, guards: tuple[Guard, ...], other_side: Sequence[Seen], level: Level, facts: Facts) -> bool:
    """Whether `op` may come into the interval on the barrier's other side."""
    if isinstance(op, Yield | Condition | Alloca | Parallel) or contains_meeting(op, level):
        return False
    inner = [one for one in walk((op,)) if isinstance(one, Leaf)]
    if any(orders_memory(one) or collective_scope(one) or one.attrs.volatile for one in inner):
        return False
    if any(one.opcode == "call" and not is_pure(one, facts.memory.callee(one)) for one in inner):
        return False
    if any(orders_memory(seen.leaf) for seen in other_side):
        return False
    mine = [Seen(leaf, inside, frozenset()) for leaf, inside in leaves_with_guards((op,), guards)]
    return not any(
        facts.conflict(one, access, other, theirs)
        for one, access in facts.accesses(mine)
        for other, theirs in facts.accesses(list(other_side))
    )


def _is_stop(op: Op, facts: Facts) -> bool:
    """Only behind (or before) what is not free to recompute does another place make a difference."""
    return not isinstance(op, Leaf) or op.result is None or not is_pure(op, facts.memory.callee(op)) or _joins(op)


def _joins(op: Leaf) -> bool:
    return len(op.operands) > 1


def _with_block(block: Block, old: Block, new: Block) -> Block:
    if block is old:
        return new
    return Block(tuple(with_regions(op, lambda region: _with_block(region, old, new)) for op in block.ops))
