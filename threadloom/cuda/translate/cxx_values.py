"""C++ expressions for values of par: text with its precedence and type, so that parentheses and casts are few."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from threadloom.errors import CompileError, slug
from threadloom.par.constants import int_value
from threadloom.par.interp_constants import evaluate, number
from threadloom.par.interp_values import POISON
from threadloom.par.ops import I8, VOID, Array, Const, Float, Int, Ptr, Struct, Type, Vector
from threadloom.source import Loc

UNTRANSLATABLE = slug("cuda-untranslatable", "loom translate cannot write this part of a kernel as C++")

PRIMARY, POSTFIX, UNARY, PRODUCT, SUM, SHIFT, LESS, EQUAL, AND, XOR, OR, BOTH, EITHER, CHOICE = range(16, 2, -1)
_SIGNED = {8: "char", 16: "short", 32: "int", 64: "long", 128: "__int128"}
_UNSIGNED = {8: "unsigned char", 16: "unsigned short", 32: "unsigned", 64: "unsigned long",
             128: "unsigned __int128"}  # fmt: skip
_FLOATS = {"float": "float", "double": "double", "half": "_Float16", "bfloat": "__bf16"}


@dataclass(frozen=True, slots=True)
class Expr:
    """`text` of type `type`; `signed` is how C++ sees an integer. `place` is an lvalue whose address this pointer is,
    `pointee` what it points to. `reads`: depends on memory, so it must not move behind a store."""

    text: str
    precedence: int
    type: Type
    signed: bool = True
    place: str = ""
    pointee: Type | None = None
    reads: bool = False
    of_unsigned: bool = False  # the pointee is unsigned in C++
    small: bool = False  # less than half of its type's range: signed and unsigned are one
    narrow: str = ""  # the same number before it was widened: C++ widens indices itself

    def at(self, precedence: int) -> str:
        return self.text if self.precedence >= precedence else f"({self.text})"


def unsupported(what: str, loc: Loc | None = None) -> CompileError:
    return CompileError(UNTRANSLATABLE, f"{what} cannot be written as C++ yet", loc=loc,
                        try_="loom cc, which compiles it without a detour")  # fmt: skip


def type_text(type_: Type, signed: bool = True) -> str:
    match type_:
        case Int(1):
            return "bool"
        case Int(bits) if bits in _SIGNED:
            return (_SIGNED if signed else _UNSIGNED)[bits]
        case Float(kind) if kind in _FLOATS:
            return _FLOATS[kind]
        case Ptr():
            return "char *"
        case Vector(_, Int(1)):
            return "auto"  # what comparing vectors gives
        case Vector(lanes, element):
            return f"loom::Vector<{type_text(element, signed)}, {lanes}>"
    raise unsupported(f"a value of type {type_!r}")


def pointer_text(pointee: Type | None) -> str:
    """`float *`; to bytes where the pointee is not one of C++'s own types."""
    pointee = innermost(pointee)
    if pointee is None or isinstance(pointee, Struct):
        return "char *"
    if isinstance(pointee, Ptr):
        return "char **"
    return f"{type_text(pointee)} *"


def innermost(type_: Type | None) -> Type | None:
    while isinstance(type_, Array):
        type_ = type_.element
    return type_


def cast(expr: Expr, text: str, type_: Type, signed: bool = True) -> Expr:
    return replace(expr, text=f"({text}){expr.at(UNARY)}", precedence=UNARY, type=type_, signed=signed, place="",
                   pointee=None, of_unsigned=False, narrow="", small=False)  # fmt: skip


def with_sign(expr: Expr, signed: bool) -> Expr:
    """The same bits as a signed or an unsigned number."""
    if expr.type == Int(1) or not isinstance(expr.type, Int) or expr.signed is signed:
        return expr
    if expr.small or expr.text.isdigit():  # what both have
        return replace(expr, signed=signed)
    return cast(expr, type_text(expr.type, signed), expr.type, signed)


def pointer_to(expr: Expr, pointee: Type | None) -> Expr:
    """A pointer whose C++ type is that of `pointee`."""
    if expr.pointee == pointee and pointee is not None:
        return expr
    return replace(cast(expr, pointer_text(pointee), Ptr()), pointee=pointee)


def place_of(expr: Expr, type_: Type) -> str:
    """The lvalue of `type_` to which the pointer `expr` points."""
    place, pointee = expr.place, expr.pointee
    while place and isinstance(pointee, Array) and pointee != type_:
        place, pointee = f"{place}[0]", pointee.element
    if place and pointee == type_:
        return place
    if isinstance(type_, Struct | Array):
        raise unsupported("a structure or array used as one value")
    if expr.pointee == type_:
        return f"*{expr.at(UNARY)}"
    return f"*({pointer_text(type_)}){expr.at(UNARY)}"


def call_text(pointer: Expr | None, name: str, context: Expr, given: Sequence[Expr], result: Type) -> str:
    """A call of a function that stays one: by name, or through a pointer."""
    listed = ", ".join(pointer_to(one, I8).text if isinstance(one.type, Ptr) else one.text for one in given)
    if pointer is not None:
        types = ", ".join(type_text(one.type) for one in given)
        kind = "void" if result == VOID else type_text(result)
        name = f"(({kind} (*)({types})){pointer.at(UNARY)})"
    return f"(loom::context = {pointer_to(context, I8).text}, {name}({listed}))"


# ---------------------------------------------------------------- constants


def literal(const: Const) -> Expr | None:
    """A number, null or nothing in particular; None for addresses and expressions."""
    type_, text = const.type, const.text
    if text in ("poison", "undef", "zeroinitializer", "null"):
        return _zero(type_)
    match type_:
        case Int(1):
            return Expr(text, PRIMARY, type_)
        case Int(bits):
            value = int_value(const)
            return None if value is None else Expr(_integer(value, bits), PRIMARY if value >= 0 else UNARY, type_)
        case Float(kind):
            return _float_literal(text, kind, type_)
        case Vector():
            return _vector_literal(const, type_)
    return None


def _vector_literal(const: Const, type_: Vector) -> Expr:
    value = evaluate(const, lambda _: 0)
    assert isinstance(value, tuple)
    lanes = [0 if lane is POISON else lane for lane in value]
    if isinstance(type_.element, Int):
        half = 1 << (type_.element.bits - 1)
        lanes = [lane - 2 * half if lane >= half else lane for lane in lanes if isinstance(lane, int)]
    if len(set(lanes)) == 1:
        return Expr(f"loom::splat<{type_text(type_)}>({lanes[0]})", POSTFIX, type_)
    return Expr(f"{type_text(type_)}{{{', '.join(map(str, lanes))}}}", POSTFIX, type_)


def _zero(type_: Type) -> Expr:
    match type_:
        case Int(1):
            return Expr("false", PRIMARY, type_)
        case Int():
            return Expr("0", PRIMARY, type_)
        case Float(kind):
            return Expr({"float": "0.0f", "double": "0.0"}.get(kind, f"{type_text(type_)}(0)"), PRIMARY, type_)
        case Ptr():
            return Expr("(char *)nullptr", UNARY, type_, pointee=Int(8))
        case Vector():
            return Expr(f"{type_text(type_)}{{}}", POSTFIX, type_)
    raise unsupported(f"a constant of type {type_!r}")


def _integer(value: int, bits: int) -> str:
    if value == -(1 << (bits - 1)):
        return f"(-{-(value + 1)}{'l' if bits == 64 else ''} - 1)"
    return f"{value}l" if bits == 64 and abs(value) > 0x7FFFFFFF else str(value)


def _float_literal(text: str, kind: str, type_: Type) -> Expr:
    value = number(text, type_)
    assert isinstance(value, float)
    if math.isnan(value):
        return Expr("NAN" if kind == "float" else "(double)NAN", PRIMARY, type_)
    if math.isinf(value):
        inf = "INFINITY" if kind == "float" else "HUGE_VAL"
        return Expr(inf if value > 0 else f"-{inf}", PRIMARY if value > 0 else UNARY, type_)
    shown = _shortest_float(value) if kind == "float" else repr(value)
    if kind not in ("float", "double"):
        return Expr(f"{type_text(type_)}({shown}f)", POSTFIX, type_)
    return Expr(shown + ("f" if kind == "float" else ""), UNARY if shown.startswith("-") else PRIMARY, type_)


def _shortest_float(value: float) -> str:
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if abs(float(text)) < 3.4028236e38 and struct.pack("<f", float(text)) == struct.pack("<f", value):
            return text if any(c in text for c in ".e") else text + ".0"
    return repr(value)
