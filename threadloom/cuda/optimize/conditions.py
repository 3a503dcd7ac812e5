"""What is known of the thread that runs an operation, from the ifs around it: `tx == 0`, `ty < 8`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from threadloom.cuda.kernel import MOST_BLOCK_THREADS
from threadloom.cuda.optimize.affine import Arithmetic, Polynomial, plus
from threadloom.cuda.optimize.wrapping import COUNTING_BITS, counts
from threadloom.par.ops import Leaf, Operand, Value

_NEGATED = {"eq": "ne", "ne": "eq", "slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt",
            "ult": "uge", "uge": "ult", "ugt": "ule", "ule": "ugt"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """`difference` RELATION 0 in whole numbers, with relation eq, ne, lt, le, gt, ge."""

    difference: Polynomial
    relation: str


def conditions_of(
    cond: Operand, holds: bool, leaves: dict[str, Leaf], arithmetic: Arithmetic, indices: Collection[str]
) -> tuple[Condition, ...]:
    """Facts that follow from `cond` being `holds`; what is not a comparison of integers says nothing.

    `indices`: names of thread indices, which are 0 or more and few.
    """
    leaf = leaves.get(cond.name) if isinstance(cond, Value) else None
    if leaf is None:
        return ()
    if (leaf.opcode == "and" and holds) or (leaf.opcode == "or" and not holds):
        parts = leaf.operands
    elif leaf.opcode == "select" and holds and _is_false(leaf.operands[2]):  # a && b
        parts = leaf.operands[:2]
    else:
        return _compared(leaf, holds, arithmetic, indices) if leaf.opcode == "icmp" else ()
    return tuple(c for one in parts for c in conditions_of(one, holds, leaves, arithmetic, indices))


def _compared(leaf: Leaf, holds: bool, arithmetic: Arithmetic, indices: Collection[str]) -> tuple[Condition, ...]:
    if not counts(type_ := leaf.operands[0].type):
        return ()
    predicate = leaf.attrs.predicate if holds else _NEGATED[leaf.attrs.predicate]
    left, right = (arithmetic.of(operand) for operand in leaf.operands)
    if type_.bits > COUNTING_BITS:  # a difference may have wrapped in 32 bits before
        sure = _is_small(left, indices) and _is_small(right, indices)
    elif predicate.startswith("u"):  # the smaller side is then not below 0 either
        sure = _is_small(right if predicate in ("ult", "ule") else left, indices)
    else:
        sure = True
    relation = predicate if predicate in ("eq", "ne") else predicate[1:]
    return (Condition(plus(left, right, -1), relation),) if sure else ()


def _is_small(number: Polynomial, indices: Collection[str]) -> bool:
    """Neither below 0 nor above what 31 bits hold, whatever the indices are."""
    most = sum(factor * MOST_BLOCK_THREADS ** len(monomial) for monomial, factor in number.terms)
    return all(factor > 0 for _, factor in number.terms) and number.atoms() <= set(indices) and most < 1 << 31


def _is_false(operand: Operand) -> bool:
    return not isinstance(operand, Value) and operand.text == "false"
