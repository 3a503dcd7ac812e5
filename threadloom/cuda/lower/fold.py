"""Folding of conditions that have become known: ifs vanish, logic and selects shrink.

%c = and i1 %a, false; if i1 %c { A } else { B }      ->      B
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.cuda.lower.traverse import last_values, rename, swap, swap_all
from threadloom.par.constants import int_value
from threadloom.par.ops import I1, Block, Condition, Const, If, Leaf, Op, Operand, Value, Yield
from threadloom.par.walk import regions, with_regions

_TRUE, _FALSE = Const(I1, "true"), Const(I1, "false")


def fold_block(block: Block, known: dict[str, Operand]) -> Block:
    """`block` with the values in `known` replaced; `known` grows by what folds (names are unique in a function)."""
    ops: list[Op] = []
    for op in block.ops:
        match op:
            case Leaf(result=Value(type=type_) as result):
                op = rename(op, known)
                value = _logic(op) if type_ == I1 else _chosen(op)
                if value is None:
                    ops.append(op)
                else:
                    known[result.name] = value
            case If():
                ops.extend(_if(op, known))
            case _:
                ops.append(_other(op, known))
    return Block(tuple(ops))


def _other(op: Op, known: dict[str, Operand]) -> Op:
    head = with_regions(op, lambda region: Block(()))
    body = iter([fold_block(region, known) for region in regions(op)])
    return with_regions(rename(head, known), lambda region: next(body))


def _if(op: If, known: dict[str, Operand]) -> list[Op]:
    cond = swap(op.cond, known)
    taken = int_value(cond)
    if taken is None:
        then, otherwise = fold_block(op.then, known), fold_block(op.otherwise, known)
        return [replace(op, cond=cond, then=then, otherwise=otherwise)]
    side = fold_block(op.then if taken else op.otherwise, known)
    for result, value in zip(op.results, swap_all(last_values(side), known), strict=True):
        known[result.name] = value
    return [inner for inner in side.ops if not isinstance(inner, Yield | Condition)]


def _logic(op: Leaf) -> Operand | None:
    """and, or, xor and select on i1 with a known operand."""
    operands = op.operands
    values = [int_value(operand) for operand in operands]
    match op.opcode:
        case "and":
            if 0 in values:
                return _FALSE
            return _other_than(operands, values, 1)
        case "or":
            if 1 in values:
                return _TRUE
            return _other_than(operands, values, 0)
        case "xor" if None not in values:
            return _TRUE if values[0] != values[1] else _FALSE
        case "xor":
            return _other_than(operands, values, 0)
    return _chosen(op)


def _other_than(operands: tuple[Operand, ...], values: list[int | None], neutral: int) -> Operand | None:
    if values[0] == neutral:
        return operands[1]
    return operands[0] if values[1] == neutral else None


def _chosen(op: Leaf) -> Operand | None:
    if op.opcode != "select" or (taken := int_value(op.operands[0])) is None:
        return None
    return op.operands[1] if taken else op.operands[2]
