"""Calls of the checks that inline_calls.py defines, taken apart again."""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.par.ops import Leaf, Op, Operand

KINDS = ("bounds", "disjoint_read", "disjoint_write", "read", "write")
_KINDS = {f"__loom_check_{kind}": kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Access:
    kind: str  # one of KINDS
    bytes_: int
    call: Leaf  # (block, thread, position, own, address, site, base, extent, quick, more...)
    address: Operand
    site: Operand
    base: Operand
    extent: Operand
    quick: Operand
    more: tuple[Operand, ...]  # whether to watch; the extent where it is proved, the block's start


def access_of(op: Op) -> Access | None:
    """Of an object that is known by name; else None."""
    if not isinstance(op, Leaf) or op.opcode != "call" or op.result is None:
        return None
    name, _, bytes_ = op.attrs.callee.rpartition("_")
    if name not in _KINDS:
        return None
    address, site, base, extent, quick, *more = op.operands[4:]
    return Access(_KINDS[name], int(bytes_), op, address, site, base, extent, quick, tuple(more))
