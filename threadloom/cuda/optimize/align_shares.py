"""Workers take blocks in groups that write whole cache lines, so that no line has two writers.

    parallel blocks (%bx) = 0 to %g schedule(static) { ... store float %sum, ptr (%out + 4 %bx) }
 -> parallel blocks (%bx) = 0 to %g schedule(static, 16) { ... }

Blocks go to workers in contiguous ranges already, so only where two ranges meet can a line be shared. There, the
workers' first and last blocks would take the line from one another. The grain is what makes the blocks' distance in
memory a multiple of a line. It counts only in launches with so many blocks that shares stay even
(targets/cpu/outline.py).

Needs: stores whose address steps by a constant from block to block along x. Declines where that is a multiple of a line
already, or not known. Source: PPoPP'23, section 4 (block scheduling against false sharing).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from threadloom.cuda.kernel import is_kernel
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.traverse import expand
from threadloom.cuda.optimize.affine import Arithmetic
from threadloom.par.ops import Function, Level, Module, Op, Parallel
from threadloom.par.passes import decline, map_functions

LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class AlignShares:
    name: str = "align-shares"

    def apply(self, module: Module) -> Module:
        return map_functions(module, lambda function: _function(function, module) if is_kernel(function) else function)


def _function(function: Function, module: Module) -> Function:
    memory = Memory(function, module)

    def change(op: Op) -> list[Op] | None:
        if not isinstance(op, Parallel) or op.level is not Level.BLOCKS or op.schedule != "static":
            return None
        grain = plan_grain(op, memory)
        if isinstance(grain, str):
            decline("shares not aligned", grain, op.loc)
            return None
        return [replace(op, grain=grain)]

    body = expand(function.body, change)
    return function if body is function.body else replace(function, body=body)


def plan_grain(blocks: Parallel, memory: Memory) -> int | str:
    """Blocks that write whole lines together, or why that is one or unknown."""
    arithmetic, index = Arithmetic(blocks.body.ops), blocks.ivs[-1].name
    grain = 1
    for access in memory.accesses(blocks.body.ops):
        if not access.writes or memory.is_local(access):
            continue
        if access.pointer is None:
            return "a call writes"
        steps = arithmetic.address(access.pointer).flattened().index(1)
        along = {monomial: bytes_ for monomial, bytes_ in steps.terms if index in monomial}
        if set(along) != {(index,)}:
            return "what blocks write is no constant distance apart"
        grain = max(grain, LINE_BYTES // gcd(LINE_BYTES, along[(index,)]))
    return grain if grain > 1 else "blocks write whole cache lines"
