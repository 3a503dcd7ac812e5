"""The rules of leaves, as data: (which opcodes, condition, message)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from threadloom.par.opcodes import (
    ATOMIC_OPERATIONS,
    CASTS,
    FLOAT_PREDICATES,
    INTEGER_PREDICATES,
    OPCODES,
    ORDERINGS,
    Form,
    ResultRule,
)
from threadloom.par.ops import I1, PTR, VOID, Float, Function, Int, Leaf, Ptr, Type, Vector
from threadloom.par.result_types import field_type, like, result_type, scalar_of, size_bytes

_INTEGER = frozenset({"add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor"})
_FLOAT = frozenset({"fadd", "fsub", "fmul", "fdiv", "frem", "fneg"})

_TWO_ALIKE = (_INTEGER | _FLOAT | {"icmp", "fcmp", "shufflevector"}) - {"fneg"}


@dataclass(frozen=True, slots=True)
class LeafRule:
    opcodes: frozenset[str]
    holds: Callable[[Leaf], bool]
    message: str


def _rule(opcodes: str, holds: Callable[[Leaf], bool], message: str) -> LeafRule:
    return LeafRule(frozenset(opcodes.split()), holds, message)


def _scalar(leaf: Leaf, number: int = 0) -> Type:
    return scalar_of(leaf.operands[number].type)


def _lanes(type_: Type) -> int:
    return type_.lanes if isinstance(type_, Vector) else 0


def _same(leaf: Leaf, first: int = 0, second: int = 1) -> bool:
    return leaf.operands[first].type == leaf.operands[second].type


def _bits(type_: Type) -> int:
    match type_:
        case Int(bits):
            return bits
        case Vector(lanes, element):
            return lanes * _bits(element)
    return 8 * size_bytes(type_)


_CAST_KINDS = {  # opcode -> (operand's kind, result's kind, how the widths compare)
    "trunc": (Int, Int, ">"),
    "zext": (Int, Int, "<"),
    "sext": (Int, Int, "<"),
    "fptrunc": (Float, Float, ">"),
    "fpext": (Float, Float, "<"),
    "fptoui": (Float, Int, ""),
    "fptosi": (Float, Int, ""),
    "uitofp": (Int, Float, ""),
    "sitofp": (Int, Float, ""),
    "ptrtoint": (Ptr, Int, ""),
    "inttoptr": (Int, Ptr, ""),
}


def _cast_fits(leaf: Leaf) -> bool:
    source, target = leaf.operands[0].type, leaf.result.type if leaf.result else VOID
    if target == VOID:
        return False
    if leaf.opcode == "bitcast":
        return _bits(source) == _bits(target) and (scalar_of(source) == PTR) == (scalar_of(target) == PTR)
    from_kind, to_kind, order = _CAST_KINDS[leaf.opcode]
    if not isinstance(scalar_of(source), from_kind) or not isinstance(scalar_of(target), to_kind):
        return False
    widths = _bits(scalar_of(source)), _bits(scalar_of(target))
    ordered = {">": widths[0] > widths[1], "<": widths[0] < widths[1], "": True}[order]
    return ordered and _lanes(source) == _lanes(target)


def _select_fits(leaf: Leaf) -> bool:
    cond = leaf.operands[0].type
    return _same(leaf, 1, 2) and (cond == I1 or cond == like(leaf.operands[1].type, I1))


def _element_fits(leaf: Leaf) -> bool:
    vector = leaf.operands[0].type
    if not isinstance(vector, Vector) or not isinstance(leaf.operands[-1].type, Int):
        return False
    return leaf.opcode == "extractelement" or leaf.operands[1].type == vector.element


def _orderings_known(leaf: Leaf) -> bool:
    words = [word for word in leaf.attrs.ordering.split() if not word.startswith("syncscope(")]
    needed = {"atomicrmw": 1, "cmpxchg": 2, "fence": 1}.get(leaf.opcode)
    return all(word in ORDERINGS for word in words) and (needed is None or len(words) == needed)


def _indices_in_range(leaf: Leaf) -> bool:
    source = leaf.operands[0].type
    return isinstance(source, Vector) and all(-1 <= lane < 2 * source.lanes for lane in leaf.attrs.indices)


_RULES: tuple[LeafRule, ...] = (
    LeafRule(_INTEGER, lambda op: isinstance(_scalar(op), Int), "works on integers"),
    LeafRule(_FLOAT, lambda op: isinstance(_scalar(op), Float), "works on floats"),
    LeafRule(_TWO_ALIKE, _same, "both operands must have one type"),
    _rule("icmp", lambda op: isinstance(_scalar(op), Int | Ptr), "compares integers or pointers"),
    _rule("icmp", lambda op: op.attrs.predicate in INTEGER_PREDICATES, "unknown predicate"),
    _rule("fcmp", lambda op: isinstance(_scalar(op), Float), "compares floats"),
    _rule("fcmp", lambda op: op.attrs.predicate in FLOAT_PREDICATES, "unknown predicate"),
    LeafRule(frozenset(CASTS), _cast_fits, "cannot convert between these types"),
    _rule("load", lambda op: op.operands[0].type == PTR, "loads through a ptr"),
    _rule("store", lambda op: op.operands[1].type == PTR, "stores through a ptr"),
    _rule("atomicrmw cmpxchg", lambda op: op.operands[0].type == PTR, "works through a ptr"),
    _rule("cmpxchg", lambda op: _same(op, 1, 2), "expected and new value must have one type"),
    _rule("atomicrmw", lambda op: op.attrs.predicate in ATOMIC_OPERATIONS, "unknown atomic operation"),
    _rule("load store atomicrmw cmpxchg fence", _orderings_known, "memory orderings missing or unknown"),
    _rule("load store atomicrmw cmpxchg", lambda op: op.attrs.align_bytes & (op.attrs.align_bytes - 1) == 0,
          "an alignment must be a power of two"),
    _rule("getelementptr", lambda op: op.attrs.source_type is not None, "needs its source type"),
    _rule("getelementptr", lambda op: scalar_of(op.operands[0].type) == PTR, "starts from a ptr"),
    _rule("getelementptr", lambda op: all(isinstance(scalar_of(index.type), Int) for index in op.operands[1:]),
          "indices must be integers"),
    _rule("select", _select_fits, "needs an i1 (or a vector of i1) and two values of one type"),
    _rule("extractelement insertelement", _element_fits, "needs a vector, its element and an integer index"),
    _rule("shufflevector", _indices_in_range, "lanes must be those of two vectors, or -1"),
    _rule("extractvalue", lambda op: field_type(op.operands[0].type, op.attrs.indices) is not None, "no such field"),
    _rule("insertvalue", lambda op: field_type(op.operands[0].type, op.attrs.indices) == op.operands[1].type,
          "the field has another type"),
    _rule("call", lambda op: bool(op.attrs.callee) or (bool(op.operands) and op.operands[0].type == PTR),
          "needs a callee, by name or as a ptr"),
)  # fmt: skip


def leaf_problems(leaf: Leaf, functions: Mapping[str, Function]) -> Iterator[str]:
    """Messages of the rules that `leaf` breaks."""
    opcode = OPCODES.get(leaf.opcode)
    if opcode is None:
        yield f"{leaf.opcode} is no opcode"
        return
    if opcode.operands >= 0 and len(leaf.operands) != opcode.operands:
        yield f"{leaf.opcode} takes {opcode.operands} operands, has {len(leaf.operands)}"
        return
    broken = [rule.message for rule in _RULES if leaf.opcode in rule.opcodes and not rule.holds(leaf)]
    yield from (f"{leaf.opcode}: {message}" for message in broken)
    if not broken:
        yield from _result_messages(leaf)
        yield from _attr_messages(leaf)
        yield from _call_messages(leaf, functions)


def _result_messages(leaf: Leaf) -> Iterator[str]:
    opcode = OPCODES[leaf.opcode]
    written = leaf.result.type if leaf.result else VOID
    wanted = result_type(opcode, leaf.operands, leaf.attrs, written)
    if opcode.rule is ResultRule.FREE and leaf.opcode != "call" and written == VOID:
        yield f"{leaf.opcode} needs a result"
    elif wanted != written:
        yield f"{leaf.opcode}: the result's type does not follow from the operands"


def _attr_messages(leaf: Leaf) -> Iterator[str]:
    opcode = OPCODES[leaf.opcode]
    if opcode.form is not Form.CALL:
        for flag in leaf.attrs.flags:
            if flag not in opcode.flags:
                yield f"{leaf.opcode} does not take the flag {flag}"


def _call_messages(leaf: Leaf, functions: Mapping[str, Function]) -> Iterator[str]:
    if leaf.opcode != "call" or not leaf.attrs.callee:
        return
    callee = leaf.attrs.callee
    if leaf.attrs.arg_attrs and len(leaf.attrs.arg_attrs) != len(leaf.operands):
        yield "call: as many argument attributes as arguments are needed"
    if callee.startswith("llvm."):
        return
    function = functions.get(callee)
    if function is None:
        yield f"@{callee} is neither defined nor declared"
        return
    wanted = [param.value.type for param in function.params]
    given = [operand.type for operand in leaf.operands]
    if given[: len(wanted)] != wanted or (len(given) != len(wanted) and not function.variadic):
        yield f"the arguments do not fit @{callee}"
    if (leaf.result.type if leaf.result else VOID) != function.result:
        yield f"the result does not fit @{callee}"
