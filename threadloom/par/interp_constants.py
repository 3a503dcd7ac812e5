"""The value of a constant in LLVM's spelling: numbers, aggregates, strings, addresses, constant expressions."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from threadloom.errors import InternalError
from threadloom.par.interp_values import POISON, InterpValue, bfloat_from_bits, bitcast, round_float, zero_of
from threadloom.par.leaf_parsing import LeafParser
from threadloom.par.lexing import Cursor, unquoted
from threadloom.par.ops import Array, Const, Float, Int, Ptr, Struct, Type, Vector
from threadloom.par.result_types import size_bytes, struct_layout

AddressOf = Callable[[str], int]  # name of a global or function -> its address


def evaluate(const: Const, address_of: AddressOf, named_types: dict[str, Type] | None = None) -> InterpValue:
    """The value of `const`; undef is zero."""
    parser = _Evaluator(Cursor(const.text, "<constant>"), address_of)
    parser.named_types = named_types or {}
    value = parser.value(const.type)
    if parser.cursor.token.kind != "end":
        parser.cursor.fail("more text after the constant")
    return value


class _Evaluator(LeafParser):
    def __init__(self, cursor: Cursor, address_of: AddressOf):
        super().__init__(cursor)
        self.address_of = address_of

    def value(self, type_: Type) -> InterpValue:
        token = self.cursor.advance()
        match token.text:
            case "zeroinitializer" | "null" | "undef" | "none" | "false":
                return zero_of(type_)
            case "true":
                return 1
            case "poison":
                return (POISON,) * type_.lanes if isinstance(type_, Vector) else POISON
            case "splat":
                element = self._inside_parentheses()
                return (element,) * (type_.lanes if isinstance(type_, Vector) else 1)
            case "<" | "[" | "{":
                return self._aggregate(token.text)
        if token.kind == "number":
            return number(token.text, type_)
        if token.kind == "global":
            return self.address_of(unquoted(token.text))
        if token.kind == "string":
            text = _string_bytes(token.text)
            if not isinstance(type_, Array) or type_.length != len(text):
                self.cursor.fail(f"this string has {len(text)} bytes, its type says otherwise", token)
            return tuple(text)
        return self._expression(token.text, type_)

    def _inside_parentheses(self) -> InterpValue:
        self.cursor.expect("(")
        value = self.value(self.type())
        self.cursor.expect(")")
        return value

    def _aggregate(self, opening: str) -> InterpValue:
        packed = opening == "<" and self.cursor.accept("{")
        closing = {"<": ">", "[": "]", "{": "}"}["{" if packed else opening]
        parts = []
        while not self.cursor.accept(closing):
            parts.append(self.value(self.type()))
            if not self.cursor.at(closing):
                self.cursor.expect(",")
        if packed:
            self.cursor.expect(">")
        return tuple(parts)

    def _expression(self, name: str, type_: Type) -> InterpValue:
        while self.cursor.token.kind == "word":  # inbounds, nuw ...
            self.cursor.advance()
        self.cursor.expect("(")
        if name == "getelementptr":
            return self._address()
        source = self.type()
        value = self.value(source)
        if name in ("ptrtoint", "inttoptr", "bitcast", "trunc", "addrspacecast"):
            self.cursor.expect("to")
            target = self.type()
            self.cursor.expect(")")
            return bitcast(source, target, value) if name == "bitcast" else _cut(value, target)
        self.cursor.expect(",")
        other = self.value(self.type())
        self.cursor.expect(")")
        if name not in ("add", "sub", "mul", "xor") or not isinstance(value, int) or not isinstance(other, int):
            raise InternalError(f"the interpreter does not know the constant expression {name}")
        results = {"add": value + other, "sub": value - other, "mul": value * other, "xor": value ^ other}
        return _cut(results[name], type_)

    def _address(self) -> InterpValue:
        source = self.type()
        self.cursor.expect(",")
        base = self.value(self.type())
        indices = []
        while self.cursor.accept(","):
            index_type = self.type()
            index = self.value(index_type)
            bits = index_type.bits if isinstance(index_type, Int) else 64
            indices.append(index - (1 << bits) if isinstance(index, int) and index >> (bits - 1) else index)
        self.cursor.expect(")")
        return (base + offset_of(source, indices)) % (1 << 64)


def _cut(value: InterpValue, type_: Type) -> InterpValue:
    if not isinstance(value, int):
        return value
    return value % (1 << (type_.bits if isinstance(type_, Int) else 64))


def offset_of(source: Type, indices: list[int]) -> int:
    """Bytes that getelementptr adds; indices are signed."""
    offset = indices[0] * size_bytes(source)
    for index in indices[1:]:
        match source:
            case Array(_, element):
                offset, source = offset + index * size_bytes(element), element
            case Vector(_, element):
                offset, source = offset + index * size_bytes(element), element
            case Struct(fields):
                offset, source = offset + struct_layout(source)[0][index], fields[index]
            case _:
                raise InternalError(f"getelementptr index into {source!r}")
    return offset


def number(text: str, type_: Type) -> InterpValue:
    match type_:
        case Int(bits):
            return int(text) % (1 << bits)
        case Ptr():
            return int(text)
        case Float(kind):
            return _float(text, kind)
    raise InternalError(f"{text} is no value of {type_!r}")


def _float(text: str, kind: str) -> float:
    if text.startswith("0xH"):
        return struct.unpack(">e", bytes.fromhex(text[3:].rjust(4, "0")))[0]
    if text.startswith("0xR"):
        return bfloat_from_bits(int(text[3:], 16))
    if text.startswith(("0xK", "0xL", "0xM")):
        raise InternalError(f"the interpreter has no {kind}")
    if text.startswith("0x"):
        return round_float(struct.unpack(">d", bytes.fromhex(text[2:].rjust(16, "0")))[0], kind)
    return round_float(float(text), kind)


def _string_bytes(text: str) -> bytes:
    """The bytes of c"...", where \\XX is a byte in hexadecimal."""
    raw = text[text.index('"') + 1 : -1].encode()
    return re.sub(rb"\\([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), raw)
