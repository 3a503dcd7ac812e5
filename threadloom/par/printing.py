"""Spelling of types, operands and leaves in LLVM's syntax; shared by the par text form and LLVM emission.

A leaf prints as the LLVM instruction it is. Emission passes its own `name_of`, which maps a value to the register
that holds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from threadloom.errors import InternalError
from threadloom.par.opcodes import FAST_MATH_FLAGS, OPCODES, Form
from threadloom.par.ops import Array, Const, Float, Int, Leaf, Operand, Ptr, Struct, Type, Value, Vector, Void

NameOf = Callable[[Value], str]

_PLAIN_NAME = re.compile(r"[-a-zA-Z$._0-9]+")
_BEFORE_CALL = frozenset({"tail", "musttail", "notail"})
_FAST_MATH = frozenset(FAST_MATH_FLAGS)


@lru_cache(maxsize=1 << 12)
def quoted(sigil: str, name: str) -> str:
    """`name` after `%` or `@`, in quotes where LLVM needs them."""
    if _PLAIN_NAME.fullmatch(name):
        return sigil + name
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:02X}" for byte in name.encode()
    )
    return f'{sigil}"{escaped}"'


def value_name(value: Value) -> str:
    return quoted("%", value.name)


@lru_cache(maxsize=1 << 10)
def type_text(type_: Type) -> str:
    match type_:
        case Int(bits):
            return f"i{bits}"
        case Float(kind):
            return kind
        case Ptr():
            return "ptr"
        case Void():
            return "void"
        case Vector(lanes, element):
            return f"<{lanes} x {type_text(element)}>"
        case Array(length, element):
            return f"[{length} x {type_text(element)}]"
        case Struct(fields, packed):
            inner = ", ".join(type_text(field) for field in fields)
            body = f"{{ {inner} }}" if inner else "{}"
            return f"<{body}>" if packed else body
    raise InternalError(f"not a type: {type_!r}")


def operand_text(operand: Operand, name_of: NameOf = value_name) -> str:
    return operand.text if isinstance(operand, Const) else name_of(operand)


def typed(operand: Operand, name_of: NameOf = value_name) -> str:
    return f"{type_text(operand.type)} {operand_text(operand, name_of)}"


def leaf_text(leaf: Leaf, name_of: NameOf = value_name, function_type: str = "") -> str:
    """The instruction without its result; `function_type` replaces a call's result type (variadic callees)."""
    if leaf.opcode == "call":
        text = _call(leaf, name_of, function_type)
    else:
        text = _FORMS[OPCODES[leaf.opcode].form](leaf, name_of)
    return text + "".join(f", !{kind} {node}" for kind, node in leaf.attrs.metadata)


def _result_type(leaf: Leaf) -> str:
    return type_text(leaf.result.type) if leaf.result else "void"


def _head(leaf: Leaf) -> str:
    return " ".join((leaf.opcode, *leaf.attrs.flags))


def _unary(leaf: Leaf, name_of: NameOf) -> str:
    return f"{_head(leaf)} {typed(leaf.operands[0], name_of)}"


def _binary(leaf: Leaf, name_of: NameOf) -> str:
    left, right = leaf.operands
    return f"{_head(leaf)} {typed(left, name_of)}, {operand_text(right, name_of)}"


def _compare(leaf: Leaf, name_of: NameOf) -> str:
    left, right = leaf.operands
    return f"{_head(leaf)} {leaf.attrs.predicate} {typed(left, name_of)}, {operand_text(right, name_of)}"


def _cast(leaf: Leaf, name_of: NameOf) -> str:
    return f"{_head(leaf)} {typed(leaf.operands[0], name_of)} to {_result_type(leaf)}"


def _access_head(leaf: Leaf) -> str:
    words = [leaf.opcode]
    if leaf.attrs.ordering and leaf.opcode in ("load", "store"):
        words.append("atomic")
    if leaf.opcode == "cmpxchg":
        words.extend(leaf.attrs.flags)
    if leaf.attrs.volatile:
        words.append("volatile")
    if leaf.opcode in ("load", "store"):
        words.extend(leaf.attrs.flags)
    return " ".join(words)


def _access_tail(leaf: Leaf) -> str:
    ordering = f" {leaf.attrs.ordering}" if leaf.attrs.ordering else ""
    align = f", align {leaf.attrs.align_bytes}" if leaf.attrs.align_bytes else ""
    return ordering + align


def _load(leaf: Leaf, name_of: NameOf) -> str:
    return f"{_access_head(leaf)} {_result_type(leaf)}, {typed(leaf.operands[0], name_of)}{_access_tail(leaf)}"


def _store(leaf: Leaf, name_of: NameOf) -> str:
    stored = ", ".join(typed(operand, name_of) for operand in leaf.operands)
    return f"{_access_head(leaf)} {stored}{_access_tail(leaf)}"


def _gep(leaf: Leaf, name_of: NameOf) -> str:
    if leaf.attrs.source_type is None:
        raise InternalError(f"getelementptr without source_type: {leaf!r}")
    operands = ", ".join(typed(operand, name_of) for operand in leaf.operands)
    return f"{_head(leaf)} {type_text(leaf.attrs.source_type)}, {operands}"


def _typed(leaf: Leaf, name_of: NameOf) -> str:
    return f"{_head(leaf)} " + ", ".join(typed(operand, name_of) for operand in leaf.operands)


def _shuffle(leaf: Leaf, name_of: NameOf) -> str:
    lanes = ", ".join(f"i32 {lane}" if lane >= 0 else "i32 poison" for lane in leaf.attrs.indices)
    return f"{_typed(leaf, name_of)}, <{len(leaf.attrs.indices)} x i32> <{lanes}>"


def _indexed(leaf: Leaf, name_of: NameOf) -> str:
    return f"{_typed(leaf, name_of)}, " + ", ".join(str(index) for index in leaf.attrs.indices)


def _call(leaf: Leaf, name_of: NameOf, function_type: str = "") -> str:
    before = "".join(f"{flag} " for flag in leaf.attrs.flags if flag in _BEFORE_CALL)
    fast_math = "".join(f"{flag} " for flag in leaf.attrs.flags if flag in _FAST_MATH)
    after = "".join(f" {flag}" for flag in leaf.attrs.flags if flag not in _BEFORE_CALL and flag not in _FAST_MATH)
    callee, args = (quoted("@", leaf.attrs.callee), leaf.operands) if leaf.attrs.callee else (
        operand_text(leaf.operands[0], name_of), leaf.operands[1:])  # fmt: skip
    written = ", ".join(
        " ".join(part for part in (type_text(arg.type), attr, operand_text(arg, name_of)) if part)
        for arg, attr in zip(args, leaf.attrs.arg_attrs or ("",) * len(args), strict=True)
    )
    return f"{before}call {fast_math}{function_type or _result_type(leaf)} {callee}({written}){after}"


def _atomicrmw(leaf: Leaf, name_of: NameOf) -> str:
    operands = ", ".join(typed(operand, name_of) for operand in leaf.operands)
    volatile = "volatile " if leaf.attrs.volatile else ""
    return f"atomicrmw {volatile}{leaf.attrs.predicate} {operands}{_access_tail(leaf)}"


def _fence(leaf: Leaf, name_of: NameOf) -> str:
    return f"fence {leaf.attrs.ordering}"


def _bare(leaf: Leaf, name_of: NameOf) -> str:
    return leaf.opcode


_FORMS: dict[Form, Callable[[Leaf, NameOf], str]] = {
    Form.UNARY: _unary,
    Form.BINARY: _binary,
    Form.COMPARE: _compare,
    Form.CAST: _cast,
    Form.LOAD: _load,
    Form.STORE: _store,
    Form.GEP: _gep,
    Form.TYPED: _typed,
    Form.SHUFFLE: _shuffle,
    Form.INDEXED: _indexed,
    Form.CALL: _call,
    Form.ATOMICRMW: _atomicrmw,
    Form.CMPXCHG: _store,
    Form.FENCE: _fence,
    Form.BARE: _bare,
}
