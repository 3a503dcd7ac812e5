"""Where the work-items of a level meet: barriers of that level, grid barriers, and regions that contain one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeGuard

from threadloom.cuda.kernel import COLLECTIVES
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.par.ops import Barrier, For, Function, If, Leaf, Level, Module, Op, Parallel, While
from threadloom.par.passes import map_functions
from threadloom.par.walk import regions

GRID_SYNC = "loom.grid.sync"


def collective_scope(op: Op) -> str:
    """ "warp", "block" or "grid" for a call of a collective, else ""."""
    if isinstance(op, Leaf) and op.opcode == "call" and op.attrs.callee in COLLECTIVES:
        return COLLECTIVES[op.attrs.callee].scope
    return ""


def weight(function: Function) -> int:
    """How much there will be to compile of a kernel: its operations, several times as many where warps meet in it, for
    loops over warps and lanes stand around each part then, and vectors beside them."""
    ops = list(walk(function.body.ops)) if function.body else []
    return len(ops) * (_WARP_WEIGHT if any(collective_scope(op) == "warp" for op in ops) else 1)


_WARP_WEIGHT = 8  # as measured on the reductions of CUDA's samples


def is_meeting(op: Op, level: Level) -> bool:
    """All work-items of `level` meet at `op` itself."""
    if type(op) is Leaf:
        return level is Level.THREADS and op.attrs.callee == GRID_SYNC
    return isinstance(op, Barrier) and op.scope is level


def contains_meeting(op: Op, level: Level) -> bool:
    """`op` is a meeting point or an If, For or While with one inside."""
    if type(op) is not Leaf and isinstance(op, For | While | If):
        return any(has_meeting(region.ops, level) for region in regions(op))
    return is_meeting(op, level)


def has_meeting(ops: Iterable[Op], level: Level) -> bool:
    for op in ops:
        if type(op) is Leaf:  # most are: without a call each
            if level is Level.THREADS and op.attrs.callee == GRID_SYNC:
                return True
        elif contains_meeting(op, level):
            return True
    return False


def meets(op: Op, level: Level) -> TypeGuard[Parallel]:
    """`op` is a loop over the work-items of `level`, and they meet in it."""
    return isinstance(op, Parallel) and op.level is level and has_meeting(op.body.ops, level)


def change_where_they_meet(module: Module, level: Level, change: Callable[[Parallel, Memory], Parallel]) -> Module:
    """`module` with `change(loop, memory of its function)` for each loop over `level` in which work-items meet."""

    def of_function(function: Function) -> Function:
        memory = Memory(function, module)
        changed = expand(function.body, lambda op: [change(op, memory)] if meets(op, level) else None)
        return replace(function, body=changed)

    return map_functions(module, of_function)
