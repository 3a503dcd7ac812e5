"""The result type of a leaf from its opcode's rule, and sizes of types in memory (the host's data layout)."""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.par.opcodes import Opcode, ResultRule
from threadloom.par.ops import (
    I1,
    PTR,
    VOID,
    Array,
    Attrs,
    Float,
    Int,
    Operand,
    Ptr,
    Struct,
    Type,
    Vector,
)


def result_type(opcode: Opcode, operands: tuple[Operand, ...], attrs: Attrs, written: Type | None) -> Type | None:
    """VOID where there is no result, None where the operands do not fit. `written`: the type the leaf spells out."""
    if opcode.operands >= 0 and len(operands) != opcode.operands:
        return None
    match opcode.rule:
        case ResultRule.SAME:
            return operands[0].type
        case ResultRule.SECOND:
            return operands[1].type
        case ResultRule.BOOL:
            return like(operands[0].type, I1)
        case ResultRule.FREE:
            return written
        case ResultRule.POINTER:
            vectors = [operand.type for operand in operands if isinstance(operand.type, Vector)]
            return Vector(vectors[0].lanes, PTR) if vectors else PTR
        case ResultRule.ELEMENT:
            return operands[0].type.element if isinstance(operands[0].type, Vector) else None
        case ResultRule.SHUFFLE:
            source = operands[0].type
            return Vector(len(attrs.indices), source.element) if isinstance(source, Vector) else None
        case ResultRule.FIELD:
            return field_type(operands[0].type, attrs.indices)
        case ResultRule.CMPXCHG:
            return Struct((operands[1].type, I1))
        case ResultRule.NONE:
            return VOID


def like(shape: Type, element: Int | Float | Ptr) -> Type:
    """`element`, or a vector of it as wide as `shape`."""
    return Vector(shape.lanes, element) if isinstance(shape, Vector) else element


def scalar_of(type_: Type) -> Type:
    return type_.element if isinstance(type_, Vector) else type_


def field_type(aggregate: Type, indices: tuple[int, ...]) -> Type | None:
    """The type that `indices` name inside `aggregate`, or None."""
    for index in indices:
        match aggregate:
            case Struct(fields) if 0 <= index < len(fields):
                aggregate = fields[index]
            case Array(length, element) if 0 <= index < length:
                aggregate = element
            case _:
                return None
    return aggregate


_FLOAT_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "x86_fp80": 10, "fp128": 16}


def stored_bytes(type_: Type) -> int:
    """Bytes that a store of `type_` writes (LLVM's store size): 6 of an i48, 12 of three floats."""
    match type_:
        case Int(bits):
            return (bits + 7) // 8
        case Float("x86_fp80"):
            return 10
        case Vector(lanes, element):
            return (lanes * (element.bits if isinstance(element, Int) else 8 * size_bytes(element)) + 7) // 8
    return size_bytes(type_)


def size_bytes(type_: Type) -> int:
    """Bytes from one element of an array to the next (LLVM's alloc size): 8 of an i48."""
    match type_:
        case Int(bits):
            stored = (bits + 7) // 8
            return _round_up(stored, align_bytes(type_))
        case Float(kind):
            return _round_up(_FLOAT_BYTES[kind], align_bytes(type_))
        case Ptr():
            return 8
        case Vector(lanes, element):
            bits = lanes * (element.bits if isinstance(element, Int) else 8 * size_bytes(element))
            return _round_up((bits + 7) // 8, align_bytes(type_))
        case Array(length, element):
            return length * size_bytes(element)
        case Struct():
            return struct_layout(type_)[1]
    raise InternalError(f"type without a size: {type_!r}")


def align_bytes(type_: Type) -> int:
    """The natural (ABI) alignment on x86-64 and AArch64."""
    match type_:
        case Int(bits):
            return min(16, 1 << max(0, (bits + 7) // 8 - 1).bit_length())
        case Float("x86_fp80" | "fp128"):
            return 16
        case Float(kind):
            return _FLOAT_BYTES[kind]
        case Ptr():
            return 8
        case Vector(lanes, element):
            bits = lanes * (element.bits if isinstance(element, Int) else 8 * size_bytes(element))
            return 1 << max(0, (bits + 7) // 8 - 1).bit_length()
        case Array(_, element):
            return align_bytes(element)
        case Struct(fields, packed):
            return 1 if packed else max((align_bytes(field) for field in fields), default=1)
    raise InternalError(f"type without an alignment: {type_!r}")


def struct_layout(struct: Struct) -> tuple[tuple[int, ...], int]:
    """The byte offset of each field, and the whole size."""
    offsets, end = [], 0
    for field in struct.fields:
        end = end if struct.packed else _round_up(end, align_bytes(field))
        offsets.append(end)
        end += size_bytes(field)
    return tuple(offsets), _round_up(end, align_bytes(struct))


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
