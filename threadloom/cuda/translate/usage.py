"""How a kernel uses its values, which says what C++ types their variables should have."""

from __future__ import annotations

from threadloom.cuda.translate.cxx_values import innermost
from threadloom.par.ops import I8, Block, Int, Leaf, Ptr, Struct, Type, Value
from threadloom.par.walk import walk

_VOTES = {"sext": True, "sitofp": True, "sdiv": True, "srem": True, "ashr": True, "zext": False, "uitofp": False,
          "udiv": False, "urem": False, "lshr": False}  # fmt: skip


def signs_in(body: Block) -> dict[str, bool]:
    """Values that are used as signed numbers only, or as unsigned ones only."""
    votes: dict[str, set[bool]] = {}
    for op in walk(body):
        if not isinstance(op, Leaf):
            continue
        vote = _VOTES.get(op.opcode)
        if op.opcode == "icmp" and len(op.attrs.predicate) == 3:
            vote = op.attrs.predicate[0] == "s"
        for operand in op.operands if vote is not None else ():
            if isinstance(operand, Value) and isinstance(operand.type, Int):
                votes.setdefault(operand.name, set()).add(bool(vote))
    return {name: next(iter(found)) for name, found in votes.items() if len(found) == 1}


def pointees_in(body: Block) -> dict[str, Type]:
    """What each pointer is used for first."""
    found: dict[str, Type] = {}
    for op in walk(body):
        if not isinstance(op, Leaf):
            continue
        match op.opcode:
            case "getelementptr" if isinstance(op.operands[0], Value):
                found.setdefault(op.operands[0].name, innermost(op.attrs.source_type) or I8)
            case "load" if isinstance(op.operands[0], Value) and op.result is not None:
                found.setdefault(op.operands[0].name, op.result.type)
            case "store" | "atomicrmw" | "cmpxchg":
                place = op.operands[1] if op.opcode == "store" else op.operands[0]
                stored = op.operands[0] if op.opcode == "store" else op.operands[1]
                if isinstance(place, Value):
                    found.setdefault(place.name, stored.type)
    return {name: type_ for name, type_ in found.items() if not isinstance(type_, Struct | Ptr)} | {
        name: I8 for name, type_ in found.items() if isinstance(type_, Struct | Ptr)
    }
