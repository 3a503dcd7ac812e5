"""Where the work-items of a level meet: barriers of that level, grid barriers, and regions that contain one."""

from __future__ import annotations

from collections.abc import Iterable

from threadloom.cuda.kernel import COLLECTIVES
from threadloom.par.ops import Barrier, For, If, Leaf, Level, Op, While
from threadloom.par.walk import regions

GRID_SYNC = "loom.grid.sync"


def collective_scope(op: Op) -> str:
    """ "warp", "block" or "grid" for a call of a collective, else ""."""
    if isinstance(op, Leaf) and op.opcode == "call" and op.attrs.callee in COLLECTIVES:
        return COLLECTIVES[op.attrs.callee].scope
    return ""


def is_meeting(op: Op, level: Level) -> bool:
    """All work-items of `level` meet at `op` itself."""
    match op:
        case Barrier(scope=scope):
            return scope is level
        case Leaf():
            return level is Level.THREADS and op.attrs.callee == GRID_SYNC
    return False


def contains_meeting(op: Op, level: Level) -> bool:
    """`op` is a meeting point or an If, For or While with one inside."""
    if isinstance(op, For | While | If):
        return any(has_meeting(region.ops, level) for region in regions(op))
    return is_meeting(op, level)


def has_meeting(ops: Iterable[Op], level: Level) -> bool:
    return any(contains_meeting(op, level) for op in ops)
