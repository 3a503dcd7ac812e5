"""Puts a barrier where one is missing between two loops that touch the same memory.

    barrier threads                                        barrier threads
    while ... { store float %d, ptr (row at %i) }          while ... { store float %d, ptr (row at %i) }
    while ... { %v = load float, ptr (row at %j) }    ->   barrier threads
                                                           while ... { %v = load float, ptr (row at %j) }

CUDA leaves open what such a race does. On a GPU the warps of a block go through the first loop about equally fast, so
that programs which forgot the barrier give what was meant (Rodinia's heartwall does); here a thread would run both
loops before the next one starts. `loom check` still reports the race: its builds do without this pass.

Only in a block of code that has barriers of its own, so that all threads come by, and only where the accesses of two
threads may meet (conflicts.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.effects import Access, Memory, conflict
from threadloom.cuda.lower.separators import change_where_they_meet, contains_meeting, is_meeting
from threadloom.cuda.lower.waits import waits
from threadloom.cuda.optimize.eliminate_barriers import Facts, without_barrier
from threadloom.par.ops import Barrier, Block, For, Level, Module, Op, Parallel, While
from threadloom.par.walk import with_regions


@dataclass(frozen=True, slots=True)
class OrderLoops:
    level: Level = Level.THREADS
    name: str = "order-loops"

    def apply(self, module: Module) -> Module:
        return change_where_they_meet(module, self.level, self._order)

    def _order(self, parallel: Parallel, memory: Memory) -> Parallel:
        added: list[Barrier] = []
        ordered = replace(parallel, body=self._block(parallel.body, memory, added))
        if not added:
            return parallel
        facts = Facts(ordered, memory)
        for barrier in added:
            if facts.why_needed(barrier) is None:
                ordered = replace(ordered, body=without_barrier(ordered.body, barrier))
                facts.rearranged(ordered)
        return ordered

    def _block(self, block: Block, memory: Memory, added: list[Barrier]) -> Block:
        """`block` with a barrier before each loop that may conflict with a loop since the meeting before it."""
        cooperates = any(is_meeting(op, self.level) for op in block.ops)
        ops: list[Op] = []
        seen: list[Access] = []  # by the loops since the last meeting
        for op in block.ops:
            if contains_meeting(op, self.level):
                seen = []
                ops.append(with_regions(op, lambda region: self._block(region, memory, added)))
                continue
            if cooperates and isinstance(op, For | While) and not waits((op,), memory):
                mine = [one for one in memory.accesses((op,)) if not memory.is_private_access(one)]
                if any(conflict(one, other) for one in seen for other in mine):
                    added.append(Barrier(self.level, op.loc))
                    ops.append(added[-1])
                    seen = []
                seen += mine
            ops.append(op)
        same = len(ops) == len(block.ops) and all(new is old for new, old in zip(ops, block.ops, strict=True))
        return block if same else Block(tuple(ops))

