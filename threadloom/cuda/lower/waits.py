"""Which loops may wait for another thread: their end depends on what others write while they run.

    while () { %v = load volatile i32, ptr %flag; %go = icmp eq i32 %v, 0; condition i1 %go } do () { yield }     # may
    while (%i) { %old = atomicrmw add ptr %sum, ...; %go = icmp slt i32 %i, %n; condition i1 %go, ... } ...       # not

What others write is read by volatile or atomic accesses, or by any in a loop with a fence (which keeps the compiler
from reading it once). Memory of the block counts only where the loop does nothing but read: trees of sums by one warp
are volatile, too. The end depends on a value through arithmetic, control flow and memory. Threads of a loop that waits
must not be parted into loops one after the other, nor run in lock-step: passes that do so ask `waits`.
"""

from __future__ import annotations

from collections.abc import Iterable

from threadloom.cuda.lower.effects import Memory, RootKind
from threadloom.cuda.lower.traverse import value_flow, walk
from threadloom.par.ops import Condition, For, If, Leaf, Op, Operand, Value, While
from threadloom.par.walk import arguments, results


def waits(ops: Iterable[Op], memory: Memory) -> bool:
    """Whether a thread may wait in `ops` for what another one does later."""
    inside = list(walk(ops))
    if not any(map(may_see_others, inside)):
        return False
    return any(isinstance(op, While) and may_wait(op, memory) and not ends_alone(op) for op in inside)


def waits_on_block(ops: Iterable[Op], memory: Memory) -> bool:
    """Whether a thread waits for what one of its own block writes to one place of shared memory."""
    loops = (op for op in walk(ops) if isinstance(op, While) and may_wait(op, memory) and not ends_alone(op))
    reads = ((one, op) for op in loops for one in walk((op,)) if _reads_others(one))
    return any(_is_of_block(one, memory) and _is_one_place(one, op) for one, op in reads)


def _is_one_place(read: Leaf, loop: While) -> bool:
    """Not one element after the other, as in a search."""
    made = {one.result.name: one for one in walk((loop,)) if isinstance(one, Leaf) and one.result is not None}
    varies = {value.name for one in walk((loop,)) for value in (*results(one), *arguments(one))} - set(made)

    def is_same(operand: Operand) -> bool:
        if not isinstance(operand, Value) or operand.name in varies:
            return not isinstance(operand, Value)
        leaf = made.get(operand.name)
        return leaf is None or (leaf.opcode != "load" and all(map(is_same, leaf.operands)))

    return is_same(read.operands[0])


def may_see_others(op: Op) -> bool:
    """Without one of these in it no loop may wait."""
    return _reads_others(op) or _is_fence(op)


def ends_alone(op: While) -> bool:
    """A compare and swap that fails only if somebody else's has succeeded, and then has the new value."""
    inside = list(walk((op,)))
    made = {value.name for one in inside for value in (*results(one), *arguments(one))}
    seen = [one for one in inside if _reads_others(one)]
    return bool(seen) and all(
        one.opcode == "cmpxchg" and isinstance(one.operands[1], Value) and one.operands[1].name in made for one in seen
    )


def may_wait(op: While, memory: Memory) -> bool:
    """Whether another thread could end the loop: its end depends on what others write while it runs."""
    inside = list(walk((op,)))
    fenced = any(map(_is_fence, inside))
    only_reads = not any(isinstance(one, Leaf) and one.opcode in ("store", "call") for one in inside)
    reads = (leaf for leaf in inside if isinstance(leaf, Leaf))
    reads = (leaf for leaf in reads if _reads_others(leaf) or (fenced and leaf.opcode == "load"))
    seen = [leaf for leaf in reads if only_reads or not _is_of_block(leaf, memory)]
    return bool(seen) and _end_depends_on(op, seen)


def _end_depends_on(op: While, seen: list[Leaf]) -> bool:
    """Through values, control flow and memory: what is loaded counts once a value that counts has been stored."""
    inside, counts = list(walk((op,))), {leaf.result.name for leaf in seen if leaf.result is not None}
    stored = False

    def depends(values: Iterable[Operand]) -> bool:
        return any(isinstance(value, Value) and value.name in counts for value in values)

    before = (-1, False)
    while before != (len(counts), stored):
        before = (len(counts), stored)
        for one in inside:
            match one:
                case Leaf():
                    if depends(one.operands) or (stored and one.opcode in ("load", "call")):
                        counts.update(value.name for value in results(one))
                        stored |= one.result is None
                case If() if depends((one.cond,)):
                    counts.update(value.name for value in results(one))
                    stored |= any(isinstance(inner, Leaf) and inner.result is None for inner in walk((one,)))
                case For() if depends((one.lower, one.upper, one.step)):
                    counts.update(value.name for value in (*results(one), *arguments(one)))
                case While() if depends((_condition(one).cond,)):
                    counts.update(value.name for value in (*results(one), *arguments(one)))
        for name, sources in value_flow((op,)).items():
            if depends(sources):
                counts.add(name)
    return depends((_condition(op).cond,))


def _condition(op: While) -> Condition:
    last = op.before.ops[-1]
    assert isinstance(last, Condition)
    return last


def _reads_others(op: Op) -> bool:
    if not isinstance(op, Leaf):
        return False
    reads = op.opcode == "load" and (op.attrs.volatile or op.attrs.ordering)
    return bool(reads) or op.opcode in ("atomicrmw", "cmpxchg")


def _is_fence(op: Op) -> bool:
    return isinstance(op, Leaf) and op.opcode == "fence"


def _is_of_block(op: Leaf, memory: Memory) -> bool:
    return all(root.kind is RootKind.ALLOCA for root in memory.roots(op.operands[0]))
