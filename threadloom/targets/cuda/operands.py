"""What the operations of a task read."""

from __future__ import annotations

from threadloom.targets.cuda.masks import Mask
from threadloom.tile import ops as tile

Elementwise = tile.Map | tile.Cast | tile.Full | tile.Index | tile.Const | tile.Bound | Mask


def read_by(ops: tuple[tile.Op, ...]) -> frozenset[str]:
    return frozenset(v.name for op in ops for v in operands(op))


def operands(op: tile.Op) -> tuple[tile.Value, ...]:
    """The values `op` reads (not its subscripts' tensors)."""
    match op:
        case tile.Map():
            return op.args
        case tile.Cast() | tile.Reduce() | tile.Scan():
            return (op.arg,)
        case tile.Full():
            return (op.value,)
        case tile.Dot():
            return op.a, op.b
        case tile.Store() | tile.AtomicAdd():
            return (op.value, *subscript_values(op.subscripts))
        case tile.Load():
            return subscript_values(op.subscripts)
        case tile.If():
            return (op.cond,)
        case Mask():
            inside = dict(op.chain)
            outside = (v for made in inside.values() for v in operands(made) if v.name not in inside)
            return (op.source, op.fill, *outside)
    return ()


def subscript_values(subscripts: tuple[tile.Subscript, ...]) -> tuple[tile.Value, ...]:
    return tuple(t.value for s in subscripts for t in s.terms if t.value is not None)
