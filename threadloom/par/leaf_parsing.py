"""Parser of types, operands and leaves of the par text form."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from threadloom.par.lexing import Cursor, Token, unquoted
from threadloom.par.opcodes import (
    ATOMIC_OPERATIONS,
    FAST_MATH_FLAGS,
    FLOAT_PREDICATES,
    INTEGER_PREDICATES,
    OPCODES,
    ORDERINGS,
    Form,
)
from threadloom.par.ops import (
    PTR,
    VOID,
    Array,
    Attrs,
    Const,
    Float,
    Int,
    Leaf,
    Operand,
    Struct,
    Type,
    Value,
    Vector,
)
from threadloom.par.result_types import result_type
from threadloom.source import Loc

FLOAT_KINDS = ("half", "bfloat", "float", "double", "x86_fp80", "fp128")
TAIL_WORDS = ("tail", "musttail", "notail")
_WORD_TYPES: dict[str, Type] = {
    "ptr": PTR, "void": VOID, **{kind: Float(kind) for kind in FLOAT_KINDS},
    **{f"i{bits}": Int(bits) for bits in (1, 8, 16, 32, 64)},
}  # fmt: skip


class LeafParser:
    """What one function's text needs: the cursor, the values defined so far, the named types."""

    def __init__(self, cursor: Cursor):
        self.cursor = cursor
        self.values: dict[str, Value] = {}
        self.named_types: dict[str, Type] = {}
        self.result_names: list[Token] = []

    # ------------------------------------------------------------ types and operands

    def text_since(self, first: Token) -> str:
        last = self.cursor.tokens[self.cursor.index - 1]
        return self.cursor.source[first.start : last.start + len(last.text)]

    def type(self) -> Type:
        cursor, token = self.cursor, self.cursor.advance()
        if token.kind == "word":
            if (found := _WORD_TYPES.get(token.text)) is not None:
                return found
            if re.fullmatch(r"i[1-9][0-9]*", token.text):
                return Int(int(token.text[1:]))
        elif token.kind == "local" and token.text in self.named_types:
            return self.named_types[token.text]
        elif token.text == "<":
            if cursor.at("{"):
                cursor.advance()
                fields = self._fields()
                cursor.expect(">")
                return Struct(fields, packed=True)
            return self._vector(token)
        elif token.text == "[":
            length = cursor.integer("a length")
            cursor.expect("x")
            element = self.type()
            cursor.expect("]")
            return Array(length, element)
        elif token.text == "{":
            return Struct(self._fields())
        cursor.fail(f"expected a type here, found {token.text!r}", token)

    def _vector(self, opening: Token) -> Vector:
        lanes = self.cursor.integer("a number of lanes")
        self.cursor.expect("x")
        element = self.type()
        self.cursor.expect(">")
        if isinstance(element, Vector | Array | Struct) or element == VOID:
            self.cursor.fail("a vector holds integers, floats or pointers", opening)
        return Vector(lanes, element)

    def _fields(self) -> tuple[Type, ...]:
        fields: list[Type] = []
        while not self.cursor.accept("}"):
            fields.append(self.type())
            if not self.cursor.at("}"):
                self.cursor.expect(",")
        return tuple(fields)

    def operand(self) -> Operand:
        return self.operand_of(self.type())

    def operand_of(self, type_: Type) -> Operand:
        cursor, token = self.cursor, self.cursor.token
        if token.kind != "local":
            return self.constant(type_)
        cursor.advance()
        name = unquoted(token.text)
        if (value := self.values.get(name)) is None:
            cursor.fail(f"{token.text} is not defined above", token)
        if value.type != type_:
            cursor.fail(f"{token.text} was defined with another type than it has here", token)
        return value

    def constant(self, type_: Type) -> Const:
        cursor, first = self.cursor, self.cursor.token
        if cursor.at("<", "[", "{"):
            return Const(type_, cursor.balanced())
        if first.kind in ("number", "global", "string"):
            return Const(type_, cursor.advance().text)
        if first.kind != "word":
            cursor.fail(f"expected a value here, found {first.text!r}")
        cursor.advance()
        if first.text in ("true", "false", "null", "poison", "undef", "zeroinitializer", "none"):
            return Const(type_, first.text)
        while cursor.token.kind == "word":  # constant expression: getelementptr inbounds (...)
            cursor.advance()
        if not cursor.at("("):
            cursor.fail(f"expected a value here, found {first.text!r}", first)
        cursor.balanced()
        return Const(type_, self.text_since(first))

    def define(self, type_: Type, token: Token | None = None) -> Value:
        token = token or self.cursor.advance()
        name = unquoted(token.text)
        if name in self.values:
            self.cursor.fail(f"{token.text} is defined twice in this function", token)
        self.values[name] = value = Value(name, type_)
        return value

    def results(self, types: Sequence[Type]) -> tuple[Value, ...]:
        names, self.result_names = self.result_names, []
        if len(names) != len(types):
            at = names[0] if names else None
            self.cursor.fail(f"{len(names)} names for {len(types)} results", at)
        return tuple(self.define(type_, name) for type_, name in zip(types, names, strict=True))

    def attribute(self) -> str:
        """One LLVM attribute: `noalias`, `align 64`, `sret({ i32 })`, `"key"="value"`."""
        cursor, first = self.cursor, self.cursor.advance()
        if first.text == "align" and cursor.token.kind == "number":
            return f"align {cursor.advance().text}"
        if first.kind == "string" and cursor.accept("="):
            cursor.expect_kind("string", "the attribute's value")
            return self.text_since(first)
        if cursor.at("("):
            cursor.balanced()
            return self.text_since(first)
        return first.text

    def opt_loc(self) -> Loc | None:
        cursor = self.cursor
        if not (cursor.at("loc") and cursor.peek().text == "("):
            return None
        cursor.advance()
        cursor.advance()
        file = unquoted(cursor.expect_kind("string", "a file name").text)
        cursor.expect(":")
        line = cursor.integer("a line")
        cursor.expect(":")
        column = cursor.integer("a column")
        end = 0
        if cursor.token.kind == "number":  # "-9" after the column
            end = -cursor.integer("an end column")
        cursor.expect(")")
        return Loc(file, line, column, end)

    # ------------------------------------------------------------ leaves

    def leaf(self) -> Leaf:
        cursor, names, first = self.cursor, self.result_names, self.cursor.token
        tail = cursor.advance().text if cursor.at(*TAIL_WORDS) else ""
        opcode = OPCODES.get(cursor.token.text)
        if opcode is None or first.kind != "word":
            cursor.fail(f"no such operation: {first.text!r}", first, _suggest(first.text))
        cursor.advance()
        operands, attrs, written = _PARSERS[opcode.form](self, opcode.name, tail)
        attrs = self._metadata(attrs)
        loc = self.opt_loc()
        self.result_names = names
        type_ = result_type(opcode, operands, attrs, written)
        if type_ is None:
            cursor.fail(f"the operands do not fit {opcode.name}", first)
        types = () if type_ == VOID else (type_,)
        if types and not names:
            cursor.fail("this gives a value, which needs a name (%x = ...)", first)
        result = next(iter(self.results(types)), None)
        return Leaf(opcode.name, operands, result, attrs, loc)

    def flags(self, opcode: str) -> tuple[str, ...]:
        flags = []
        while self.cursor.at(*OPCODES[opcode].flags):
            flags.append(self.cursor.advance().text)
        return tuple(flags)

    def _metadata(self, attrs: Attrs) -> Attrs:
        pairs = []
        while self.cursor.at(",") and self.cursor.peek().kind == "metadata":
            self.cursor.advance()
            kind = self.cursor.advance().text[1:]
            first = self.cursor.advance()
            if self.cursor.at("{") and first.text == "!":
                self.cursor.balanced()
            pairs.append((kind, self.text_since(first)))
        return replace(attrs, metadata=tuple(pairs)) if pairs else attrs

    def typed_list(self) -> tuple[Operand, ...]:
        operands = [self.operand()]
        while self.cursor.at(",") and self.cursor.peek().kind not in ("metadata", "number") and not self._at_align():
            self.cursor.advance()
            operands.append(self.operand())
        return tuple(operands)

    def _at_align(self) -> bool:
        return self.cursor.peek().text == "align"

    def access_tail(self) -> tuple[str, int]:
        cursor, orderings, align = self.cursor, [], 0
        while cursor.at(*ORDERINGS) or (cursor.at("syncscope") and cursor.peek().text == "("):
            if cursor.at("syncscope"):
                orderings.append(self.attribute())
            else:
                orderings.append(cursor.advance().text)
        if cursor.at(",") and self._at_align():
            cursor.advance()
            cursor.advance()
            align = cursor.integer("an alignment in bytes")
        return " ".join(orderings), align


Parsed = tuple[tuple[Operand, ...], Attrs, Type | None]


def _suggest(word: str) -> str:
    known = (*OPCODES, "parallel", "for", "while", "if", "alloca", "barrier", "yield", "condition", "return")
    close = get_close_matches(word, known, 1)
    return f"did you mean {close[0]}?" if close else ""


def _parse_unary(parser: LeafParser, opcode: str, _: str) -> Parsed:
    flags = parser.flags(opcode)
    return (parser.operand(),), Attrs(flags=flags), None


def _parse_binary(parser: LeafParser, opcode: str, _: str) -> Parsed:
    flags = parser.flags(opcode)
    left = parser.operand()
    parser.cursor.expect(",")
    return (left, parser.operand_of(left.type)), Attrs(flags=flags), None


def _parse_compare(parser: LeafParser, opcode: str, _: str) -> Parsed:
    flags = parser.flags(opcode)
    predicates = INTEGER_PREDICATES if opcode == "icmp" else FLOAT_PREDICATES
    predicate = parser.cursor.one_of(predicates, "a predicate")
    operands, _, _ = _parse_binary(parser, opcode, "")
    return operands, Attrs(flags=flags, predicate=predicate), None


def _parse_cast(parser: LeafParser, opcode: str, _: str) -> Parsed:
    flags = parser.flags(opcode)
    operand = parser.operand()
    parser.cursor.expect("to")
    return (operand,), Attrs(flags=flags), parser.type()


def _access_flags(parser: LeafParser, opcode: str) -> tuple[tuple[str, ...], bool]:
    parser.cursor.accept("atomic")
    weak = parser.flags(opcode) if opcode == "cmpxchg" else ()
    volatile = parser.cursor.accept("volatile")
    return weak or parser.flags(opcode), volatile


def _parse_load(parser: LeafParser, opcode: str, _: str) -> Parsed:
    flags, volatile = _access_flags(parser, opcode)
    type_ = parser.type()
    parser.cursor.expect(",")
    pointer = parser.operand()
    ordering, align = parser.access_tail()
    return (pointer,), Attrs(flags=flags, align_bytes=align, ordering=ordering, volatile=volatile), type_


def _parse_store(parser: LeafParser, opcode: str, _: str) -> Parsed:
    flags, volatile = _access_flags(parser, opcode)
    operands = parser.typed_list()
    ordering, align = parser.access_tail()
    return operands, Attrs(flags=flags, align_bytes=align, ordering=ordering, volatile=volatile), None


def _parse_gep(parser: LeafParser, opcode: str, _: str) -> Parsed:
    flags = parser.flags(opcode)
    source = parser.type()
    parser.cursor.expect(",")
    return parser.typed_list(), Attrs(flags=flags, source_type=source), None


def _parse_typed(parser: LeafParser, opcode: str, _: str) -> Parsed:
    flags = parser.flags(opcode)
    return parser.typed_list(), Attrs(flags=flags), None


def _parse_shuffle(parser: LeafParser, opcode: str, _: str) -> Parsed:
    *operands, mask = parser.typed_list()
    if not isinstance(mask, Const) or not isinstance(mask.type, Vector):
        parser.cursor.fail("the last operand of shufflevector must be a constant mask")
    if mask.text == "zeroinitializer":
        lanes = (0,) * mask.type.lanes
    else:
        lanes = tuple(int(lane) if lane not in ("poison", "undef") else -1
                      for lane in re.findall(r"i32 (-?\d+|poison|undef)", mask.text))  # fmt: skip
    return tuple(operands), Attrs(indices=lanes), None


def _parse_indexed(parser: LeafParser, opcode: str, _: str) -> Parsed:
    operands = parser.typed_list()
    indices = []
    while parser.cursor.at(",") and parser.cursor.peek().kind == "number":
        parser.cursor.advance()
        indices.append(parser.cursor.integer("an index"))
    return operands, Attrs(indices=tuple(indices)), None


def _parse_call(parser: LeafParser, opcode: str, tail: str) -> Parsed:
    cursor = parser.cursor
    flags = [tail] if tail else []
    while cursor.at(*FAST_MATH_FLAGS):
        flags.append(cursor.advance().text)
    type_ = parser.type()
    callee, operands, arg_attrs = "", [], []
    if cursor.token.kind == "global":
        callee = unquoted(cursor.advance().text)
    else:
        operands.append(parser.operand_of(PTR))
    cursor.expect("(")
    while not cursor.accept(")"):
        arg_type = parser.type()
        attrs = []
        while cursor.token.kind == "word" and _is_attribute(cursor):
            attrs.append(parser.attribute())
        arg_attrs.append(" ".join(attrs))
        operands.append(parser.operand_of(arg_type))
        if not cursor.at(")"):
            cursor.expect(",")
    while cursor.token.kind in ("word", "string") and not cursor.at("loc") and cursor.on_same_line():
        flags.append(parser.attribute())
    attrs = Attrs(flags=tuple(flags), callee=callee, arg_attrs=tuple(arg_attrs) if any(arg_attrs) else ())
    return tuple(operands), attrs, type_


_CONSTANT_WORDS = (
    "true", "false", "null", "poison", "undef", "zeroinitializer", "none", "splat", "getelementptr", "ptrtoint",
    "inttoptr", "bitcast", "add", "sub", "mul", "xor", "trunc",
)  # fmt: skip


def _is_attribute(cursor: Cursor) -> bool:
    return cursor.token.text not in _CONSTANT_WORDS


def _parse_atomicrmw(parser: LeafParser, opcode: str, _: str) -> Parsed:
    volatile = parser.cursor.accept("volatile")
    operation = parser.cursor.one_of(ATOMIC_OPERATIONS, "an atomic operation")
    operands = parser.typed_list()
    ordering, align = parser.access_tail()
    return operands, Attrs(predicate=operation, align_bytes=align, ordering=ordering, volatile=volatile), None


def _parse_fence(parser: LeafParser, opcode: str, _: str) -> Parsed:
    ordering, _align = parser.access_tail()
    return (), Attrs(ordering=ordering), None


def _parse_bare(parser: LeafParser, opcode: str, _: str) -> Parsed:
    return (), Attrs(), None


_PARSERS: dict[Form, Callable[[LeafParser, str, str], Parsed]] = {
    Form.UNARY: _parse_unary,
    Form.BINARY: _parse_binary,
    Form.COMPARE: _parse_compare,
    Form.CAST: _parse_cast,
    Form.LOAD: _parse_load,
    Form.STORE: _parse_store,
    Form.GEP: _parse_gep,
    Form.TYPED: _parse_typed,
    Form.SHUFFLE: _parse_shuffle,
    Form.INDEXED: _parse_indexed,
    Form.CALL: _parse_call,
    Form.ATOMICRMW: _parse_atomicrmw,
    Form.CMPXCHG: _parse_store,
    Form.FENCE: _parse_fence,
    Form.BARE: _parse_bare,
}
