"""What is known of the thread that runs an operation, from the ifs around it: `tx == 0`, `ty < 8`."""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.cuda.optimize.affine import Arithmetic, Polynomial, plus
from threadloom.par.ops import Leaf, Operand, Value

_NEGATED = {"eq": "ne", "ne": "eq", "slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt",
            "ult": "uge", "uge": "ult", "ugt": "ule", "ule": "ugt"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """`difference` RELATION 0, with relation eq, ne, lt, le, gt, ge (signed; unsigned ones only of known sign)."""

    difference: Polynomial
    relation: str


def conditions_of(cond: Operand, holds: bool, leaves: dict[str, Leaf], arithmetic: Arithmetic) -> tuple[Condition, ...]:
    """Facts that follow from `cond` being `holds`; what is not a comparison of integers says nothing."""
    leaf = leaves.get(cond.name) if isinstance(cond, Value) else None
    if leaf is None:
        return ()
    if (leaf.opcode == "and" and holds) or (leaf.opcode == "or" and not holds):
        return tuple(c for operand in leaf.operands for c in conditions_of(operand, holds, leaves, arithmetic))
    if leaf.opcode == "select" and holds and _is_false(leaf.operands[2]):  # a && b
        return tuple(c for operand in leaf.operands[:2] for c in conditions_of(operand, True, leaves, arithmetic))
    if leaf.opcode != "icmp" or getattr(leaf.operands[0].type, "bits", 0) < 32:
        return ()
    predicate = leaf.attrs.predicate if holds else _NEGATED[leaf.attrs.predicate]
    relation = predicate if predicate in ("eq", "ne") else predicate[1:]
    return (Condition(plus(arithmetic.of(leaf.operands[0]), arithmetic.of(leaf.operands[1]), -1), relation),)


def _is_false(operand: Operand) -> bool:
    return not isinstance(operand, Value) and operand.text == "false"
