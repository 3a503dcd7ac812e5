"""Constants in LLVM's spelling from Python numbers and back, and integer folding."""

from __future__ import annotations

import struct
from functools import lru_cache

from threadloom.errors import InternalError
from threadloom.par.ops import I1, Const, Float, Int, Operand, Type, Vector
from threadloom.par.printing import type_text

Number = int | float | bool


def const(type_: Type, value: Number) -> Const:
    """A scalar constant, or a splat where `type_` is a vector."""
    if type(value) is int and type(type_) is Int:
        return _int_const(type_.bits, value)
    match type_:
        case Int(bits):
            return Const(type_, int_text(int(value), bits))
        case Float(kind):
            return Const(type_, float_text(float(value), kind))
        case Vector(_, element) if value == 0 and not _is_negative_zero(value):
            return Const(type_, "zeroinitializer")
        case Vector(_, element):
            return Const(type_, f"splat ({type_text(element)} {const(element, value).text})")
    raise InternalError(f"no numeric constant of type {type_!r}")


@lru_cache(maxsize=1 << 12)
def _int_const(bits: int, value: int) -> Const:
    return Const(Int(bits), int_text(value, bits))


def vector_const(element: Int | Float, values: list[Number]) -> Const:
    lanes = ", ".join(f"{type_text(element)} {const(element, value).text}" for value in values)
    return Const(Vector(len(values), element), f"<{lanes}>")


def int_text(value: int, bits: int) -> str:
    """LLVM prints integers signed, and i1 as a word."""
    if bits == 1:
        return "true" if value & 1 else "false"
    return str(wrap_signed(value, bits))


def float_text(value: float, kind: str) -> str:
    """Decimal where that is exact and short, else the bit pattern; half and bfloat always by bits (0xH, 0xR)."""
    if kind == "half":
        return f"0xH{int.from_bytes(struct.pack('>e', value)):04X}"
    if kind == "bfloat":
        return f"0xR{_bfloat_bits(value):04X}"
    if kind == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0] if abs(value) != float("inf") else value
    elif kind != "double":
        raise InternalError(f"no numeric constants of type {kind}")
    text = f"{value:.6e}"
    if value == value and abs(value) != float("inf") and float(text) == value:
        return text
    return f"0x{int.from_bytes(struct.pack('>d', value)):016X}"


def _bfloat_bits(value: float) -> int:
    """Round to nearest even; NaN stays NaN."""
    bits = int.from_bytes(struct.pack(">f", value))
    if value != value:
        return (bits >> 16) | 0x40
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def _is_negative_zero(value: Number) -> bool:
    return isinstance(value, float) and str(value) == "-0.0"


def wrap_signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def int_value(operand: Operand) -> int | None:
    """The signed value of an integer constant (i1: 0 or 1), or None for anything else."""
    if not isinstance(operand, Const) or not isinstance(operand.type, Int):
        return None
    return _int_of_text(operand.text, operand.type.bits)


@lru_cache(maxsize=4096)
def _int_of_text(text: str, bits: int) -> int | None:
    if text in ("true", "false", "zeroinitializer"):
        return int(text == "true")
    try:
        return wrap_signed(int(text), bits)
    except ValueError:  # poison, undef, constant expressions
        return None


def fold_binary(opcode: str, left: Operand, right: Operand) -> Operand | None:
    """The value of an integer operation that is known or an identity; None where it must be computed.

    Division by zero and shifts by the width or more are left alone (trap and poison). Overflow under nuw or nsw
    wraps here, which is one of the values poison may take.
    """
    if not isinstance(left.type, Int):
        return None
    bits, x, y = left.type.bits, int_value(left), int_value(right)
    if x is not None and y is not None and (value := _fold_known(opcode, x, y, bits)) is not None:
        return const(left.type, value)
    if y == 0 and opcode in ("add", "sub", "or", "xor", "shl", "lshr", "ashr"):
        return left
    if y == 1 and bits > 1 and opcode in ("mul", "udiv", "sdiv"):
        return left
    if x == 0 and opcode in ("add", "or", "xor"):
        return right
    if x == 1 and bits > 1 and opcode == "mul":
        return right
    if 0 in (x, y) and opcode in ("mul", "and"):
        return const(left.type, 0)
    if y == 1 and bits > 1 and opcode == "urem":
        return const(left.type, 0)
    return None


def _fold_known(opcode: str, x: int, y: int, bits: int) -> int | None:
    unsigned_x, unsigned_y = x % (1 << bits), y % (1 << bits)
    match opcode:
        case "add":
            return x + y
        case "sub":
            return x - y
        case "mul":
            return x * y
        case "and":
            return x & y
        case "or":
            return x | y
        case "xor":
            return x ^ y
        case "shl" if unsigned_y < bits:
            return x << unsigned_y
        case "lshr" if unsigned_y < bits:
            return unsigned_x >> unsigned_y
        case "ashr" if unsigned_y < bits:
            return x >> unsigned_y
        case "udiv" if y:
            return unsigned_x // unsigned_y
        case "urem" if y:
            return unsigned_x % unsigned_y
        case "sdiv" if y and y != -1 and bits > 1:
            return _truncated_quotient(x, y)
        case "srem" if y and y != -1 and bits > 1:
            return x - y * _truncated_quotient(x, y)
    return None


def _truncated_quotient(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def fold_icmp(predicate: str, left: Operand, right: Operand) -> Const | None:
    x, y = int_value(left), int_value(right)
    if x is None or y is None or not isinstance(left.type, Int):
        return None
    modulus = 1 << left.type.bits
    if predicate.startswith("u"):
        x, y = x % modulus, y % modulus
    elif left.type.bits == 1:  # signed i1: true is -1
        x, y = -x, -y
    known = {"eq": x == y, "ne": x != y, "gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y}
    return const(I1, known[predicate if predicate in ("eq", "ne") else predicate[1:]])


def fold_cast(opcode: str, value: Operand, target: Type) -> Const | None:
    """trunc, zext or sext of an integer constant; None for anything else."""
    number = int_value(value)
    if number is None or not isinstance(target, Int) or opcode not in ("trunc", "zext", "sext"):
        return None
    assert isinstance(value.type, Int)
    signed = -number if value.type.bits == 1 else number  # signed i1: true is -1
    return const(target, number % (1 << value.type.bits) if opcode == "zext" else signed)
