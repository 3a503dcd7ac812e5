"""The common instructions of LLVM assembly, read by one pattern each; parsing.py reads all others, token by token.

    `  %sum = add nsw i32 %a, 5, !dbg !7`  ->  Leaf("add", (%a, 5), %sum, flags=("nsw",), loc of !7)

Nine of ten lines of a kernel are such, and are read ten times as fast this way: a large kernel has a hundred thousand
tokens. A line of any other form is left to the parser: no pattern matches, and `read` returns None.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from threadloom.cuda.cfg.ops import Branch, Jump, Phi
from threadloom.par.lexing import unquoted
from threadloom.par.opcodes import FLOAT_PREDICATES, INTEGER_PREDICATES, OPCODES, Form
from threadloom.par.ops import I1, NO_ATTRS, PTR, VOID, Attrs, Const, Leaf, Operand, Type, Value
from threadloom.par.result_types import result_type

if TYPE_CHECKING:
    from threadloom.cuda.cfg.parsing import LlvmParser

_NAME = r'%(?:[-\w$.]+|"[^"]*")'
_NUMBER = r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|0x[KLMHR]?[0-9A-Fa-f]+"
_WORD = r"(?:true|false|null|poison|undef|zeroinitializer)(?![-\w$.])"
_OPERAND = rf"({_NAME}|{_NUMBER}|@[-\w$.]+|{_WORD})"
_SCALAR = r"(?:ptr|i[1-9][0-9]*|half|bfloat|float|double)"
_TYPE = rf"({_SCALAR}|<[0-9]+ x {_SCALAR}>)"
_FLAGS = r"((?:[a-z]+ )*?)"

_LINE = re.compile(rf"  (?:({_NAME}) = )?([a-z]+) (.*)")
_METADATA = re.compile(r"(?:dbg (![0-9]+))?(?:(?:, !)?[-\w.]+ ![0-9]+)*")
_FORMS = {
    Form.UNARY: rf"{_FLAGS}{_TYPE} {_OPERAND}",
    Form.BINARY: rf"{_FLAGS}{_TYPE} {_OPERAND}, {_OPERAND}",
    Form.COMPARE: rf"{_FLAGS}([a-z]+) {_TYPE} {_OPERAND}, {_OPERAND}",
    Form.CAST: rf"{_FLAGS}{_TYPE} {_OPERAND} to {_TYPE}",
    Form.LOAD: rf"{_TYPE}, ptr {_OPERAND}, align ([0-9]+)",
    Form.STORE: rf"{_TYPE} {_OPERAND}, ptr {_OPERAND}, align ([0-9]+)",
    Form.GEP: rf"{_FLAGS}({_SCALAR}|\[[^(),]*\]|{_NAME}), ptr {_OPERAND}, {_TYPE} {_OPERAND}(?:, {_TYPE} {_OPERAND})?",
    Form.TYPED: rf"{_FLAGS}{_TYPE} {_OPERAND}, {_TYPE} {_OPERAND}, {_TYPE} {_OPERAND}",
}
_PATTERNS = {form: re.compile(pattern) for form, pattern in _FORMS.items()}
_PREDICATES = {"icmp": frozenset(INTEGER_PREDICATES), "fcmp": frozenset(FLOAT_PREDICATES)}
_ARM = rf"\[ {_OPERAND}, ({_NAME}) \]"
_ARMS = re.compile(_ARM)
_PHI = re.compile(rf"{_FLAGS}{_TYPE} (\[ (?:{_OPERAND}), {_NAME} \](?:, \[ (?:{_OPERAND}), {_NAME} \])*)")
_BRANCH = re.compile(rf"i1 {_OPERAND}, label ({_NAME}), label ({_NAME})")
_JUMP = re.compile(rf"label ({_NAME})")


class CommonLines:
    """Reads lines of the function that `parser` is reading, whose values and types it shares."""

    def __init__(self, parser: LlvmParser):
        self.parser = parser
        self._types: dict[str, Type] = {}
        self._attrs: dict[object, Attrs] = {}

    def read(self, line: str) -> Leaf | Phi | Jump | Branch | None:
        """The instruction of one line, its metadata but for the place ignored."""
        line, _, metadata = line.partition(", !")
        found, attached = _LINE.fullmatch(line), _METADATA.fullmatch(metadata)
        if found is None or attached is None:
            return None
        (name, word, rest), node = found.groups(), attached[1]
        if word == "br":
            return self._branch(rest, node)
        if word == "phi":
            return self._phi(name, rest, node)
        opcode = OPCODES.get(word)
        pattern = _PATTERNS.get(opcode.form) if opcode else None
        parts = pattern.fullmatch(rest) if pattern else None
        if opcode is None or parts is None:
            return None
        read = self._parts(opcode.form, word, parts.groups())
        if read is None:
            return None
        operands, attrs, written = read
        type_ = result_type(opcode, operands, attrs, written)
        if type_ is None or (type_ == VOID) != (name is None):
            return None
        result = self._define(name, type_) if name else None
        return Leaf(word, operands, result, attrs, self._loc(node))

    def _parts(
        self, form: Form, word: str, parts: tuple[str | None, ...]
    ) -> tuple[tuple[Operand, ...], Attrs, Type | None] | None:
        of = self._operand
        match form, parts:
            case Form.LOAD, (type_, pointer, align):
                return (of("ptr", pointer),), self._known_attrs("", align=align), self._type(type_)
            case Form.STORE, (type_, value, pointer, align):
                return (of(type_, value), of("ptr", pointer)), self._known_attrs("", align=align), None
        flags, *rest = parts
        if flags and not set(flags.split()) <= set(OPCODES[word].flags):
            return None
        match form, rest:
            case Form.UNARY, (type_, value):
                return (of(type_, value),), self._known_attrs(flags), None
            case Form.BINARY, (type_, left, right):
                return (of(type_, left), of(type_, right)), self._known_attrs(flags), None
            case Form.COMPARE, (predicate, type_, left, right) if predicate in _PREDICATES[word]:
                return (of(type_, left), of(type_, right)), self._known_attrs(flags, predicate=predicate), None
            case Form.CAST, (type_, value, target):
                return (of(type_, value),), self._known_attrs(flags), self._type(target)
            case Form.GEP, (source, base, type_, index, second_type, second):
                indices = (of(type_, index),) if second is None else (of(type_, index), of(second_type, second))
                return (of("ptr", base), *indices), self._known_attrs(flags, source=source), None
            case Form.TYPED, (a, first, b, second, c, third) if word == "select":
                return (of(a, first), of(b, second), of(c, third)), self._known_attrs(flags), None
        return None

    def _known_attrs(self, flags: str | None, predicate: str = "", source: str = "", align: str | None = "0") -> Attrs:
        key = flags, predicate, source, align
        if (attrs := self._attrs.get(key)) is None:
            element = self._type(source) if source else None
            attrs = Attrs(tuple((flags or "").split()), predicate, element, int(align or 0))
            self._attrs[key] = attrs = NO_ATTRS if attrs == NO_ATTRS else attrs
        return attrs

    def _phi(self, name: str, rest: str, node: str | None) -> Phi | None:
        parts = _PHI.fullmatch(rest)
        if parts is None:
            return None
        _, type_, arms = parts.groups()[:3]
        incoming = {unquoted(label): self._operand(type_, value) for value, label in _ARMS.findall(arms)}
        return Phi(self._define(name, self._type(type_)), tuple(incoming.items()), self._loc(node))

    def _branch(self, rest: str, node: str | None) -> Jump | Branch | None:
        if parts := _JUMP.fullmatch(rest):
            return Jump(unquoted(parts[1]), self._loc(node))
        parts = _BRANCH.fullmatch(rest)
        if parts is None:
            return None
        cond, then, otherwise = self._operand("i1", parts[1]), unquoted(parts[2]), unquoted(parts[3])
        loc = self._loc(node)
        return Jump(then, loc) if then == otherwise else Branch(cond, then, otherwise, loc)

    def _loc(self, node: str | None):
        return self.parser.debug.loc(node or "")

    def _type(self, text: str) -> Type:
        if (type_ := self._types.get(text)) is None:
            self._types[text] = type_ = self.parser.type_of(text)
        return type_

    def _operand(self, type_text: str | None, text: str | None) -> Operand:
        type_ = PTR if type_text == "ptr" else I1 if type_text == "i1" else self._type(type_text)
        if text[0] != "%":
            return Const(type_, text)
        return self.parser.used(text, type_)

    def _define(self, text: str, type_: Type) -> Value:
        return self.parser.defined_as(text, type_)
