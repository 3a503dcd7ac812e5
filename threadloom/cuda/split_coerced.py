"""Structures passed by value, brought back to the fields that the source has, on clang's raw device IR.

    before:  %1 = load <2 x float>, ptr %v              after:  %a = load float, ptr %v
             call @f(<2 x float> %1)                            %b = load float, ptr (%v + 4)
             (in f:) store <2 x float> %0, ptr %p               %1 = <%a, %b>;  call @f(<2 x float> %1)
                                                                (in f:) store float %0[0], ptr %p ...

The host's calling convention packs a float3 into a <2 x float> and a float, an int2 into an i64. Once functions are
inlined nobody needs that, but the packed accesses would decide how variables are split up (sroa), and vectors or
shifted integers would stay all over a kernel, which then does not vectorise. So accesses to memory are made field by
field here, and `cfg/fold_packed.py` takes away the packing that remains between a call and its function.

Changes: loads and stores of vectors; those of integers and pairs that span several fields, of one size, of a local
structure. What a structure's bytes hold stays the same, so the choice of fields concerns speed alone. Keeps:
signatures, volatile and atomic accesses, accesses through other pointers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from threadloom.cuda.cfg.parsing import named_types, parse_type
from threadloom.par.ops import Array, Float, Int, Ptr, Struct, Type, Vector
from threadloom.par.printing import type_text
from threadloom.par.result_types import size_bytes, struct_layout

_NAME = r'%(?:[-\w$.]+|"[^"]*")'
_PACKED = r"<\d+ x \w+>|i\d+|\{ [^{}]* \}"
_LOAD = re.compile(rf"^  (?P<name>{_NAME}) = load (?P<type>{_PACKED}), ptr (?P<at>{_NAME}), align (?P<align>\d+)")
_STORE = re.compile(rf"^  store (?P<type>{_PACKED}) (?P<value>{_NAME}), ptr (?P<at>{_NAME}), align (?P<align>\d+)")
_ALLOCA = re.compile(rf"^  (?P<name>{_NAME}) = alloca (?P<type>[^,]*(?:\{{[^{{}}]*\}}>?)?), align ", re.MULTILINE)
_FIELD = re.compile(
    rf"^  (?P<name>{_NAME}) = getelementptr inbounds (?:nuw )?(?P<type>\{{[^{{}}]*\}}|{_NAME}), "
    rf"ptr (?P<at>{_NAME}), i32 0, i32 (?P<field>\d+)(?:,|$)",
    re.MULTILINE,
)
_COPY = re.compile(
    rf"@llvm\.memcpy\.p0\.p0\.i64\(ptr (?:align \d+ )?(?P<to>{_NAME}), ptr (?:align \d+ )?(?P<of>{_NAME}), i64 \d+, "
)
_FUNCTION = re.compile(r"^define [^\n]*\{\n.*?^\}", re.MULTILINE | re.DOTALL)
_MOST_FIELDS = 64  # of a structure that is looked into; longer ones are passed by address


def split_coerced(device_ir: str) -> str:
    """`device_ir` (raw, semantics restored) with packed accesses to structures made field by field."""
    types = named_types(device_ir)
    return _FUNCTION.sub(lambda match: _Splitter(match[0], types).text(), device_ir)


@dataclass(frozen=True, slots=True)
class _Piece:
    offset: int
    type: Type


@dataclass(slots=True)
class _Splitter:
    """One function's text. `places`: pointer -> (local variable, bytes into it)."""

    source: str
    types: dict[str, Type]
    locals: dict[str, Type] = field(default_factory=dict)
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def text(self) -> str:
        if not re.search(rf"(?:load|store) (?:{_PACKED}) ?", self.source):
            return self.source
        self._find_places()
        return "\n".join(self._line(line) for line in self.source.split("\n"))

    def _find_places(self) -> None:
        for match in _ALLOCA.finditer(self.source):
            self.locals[match["name"]] = parse_type(match["type"], self.types)
            self.places[match["name"]] = match["name"], 0
        for match in _FIELD.finditer(self.source):
            if match["at"] in self.places:
                variable, offset = self.places[match["at"]]
                struct = parse_type(match["type"], self.types)
                if isinstance(struct, Struct):
                    into = struct_layout(struct)[0][int(match["field"])]
                    self.places[match["name"]] = variable, offset + into
        for match in _COPY.finditer(self.source):  # a temporary of the convention's type knows no fields
            ends = match["to"], match["of"]
            if all(end in self.locals for end in ends):
                coarse, fine = sorted(ends, key=lambda end: len(_leaves(self.locals[end])))
                if _stored_bytes(self.locals[coarse]) <= size_bytes(self.locals[fine]):
                    self.locals[coarse] = self.locals[fine]

    def _line(self, line: str) -> str:
        if load := _LOAD.match(line):
            lines = self._load(load)
        elif store := _STORE.match(line):
            lines = self._store(store)
        elif local := _ALLOCA.match(line):
            type_ = self.locals[local["name"]]
            if type_ == parse_type(local["type"], self.types):
                return line
            return line.replace(f"alloca {local['type']},", f"alloca {type_text(type_)},")
        else:
            return line
        debug = re.search(r", !dbg !\d+", line)
        return "\n".join(f"  {text}{debug[0] if debug else ''}" for text in lines) if lines else line

    def _load(self, match: re.Match[str]) -> list[str]:
        whole, at, align = parse_type(match["type"], self.types), match["at"], int(match["align"])
        if not isinstance(whole, Struct):
            return self._loaded(whole, at, 0, align, match["name"])
        lines, packed = [], "poison"
        last = len(whole.fields) - 1
        for index, (part, offset) in enumerate(zip(whole.fields, struct_layout(whole)[0], strict=True)):
            value = self._fresh()
            split = self._loaded(part, at, offset, align, value)
            if not split:
                pointer = self._pointer(at, offset, lines)
                lines.append(f"{value} = load {type_text(part)}, ptr {pointer}, align {_align(align, offset)}")
            lines += split
            name = match["name"] if index == last else self._fresh()
            lines.append(f"{name} = insertvalue {match['type']} {packed}, {type_text(part)} {value}, {index}")
            packed = name
        return lines

    def _loaded(self, whole: Type, at: str, offset: int, align: int, name: str) -> list[str]:
        """Lines that load `whole` in pieces into `name`, none where it is one piece."""
        pieces = self._pieces(whole, at, offset)
        if not pieces:
            return []
        lines: list[str] = []
        lane = _lane(whole, pieces)
        vector = f"<{len(pieces)} x {lane}>"
        packed = "poison"
        for index, piece in enumerate(pieces):
            pointer = self._pointer(at, piece.offset, lines)
            value, kind = self._fresh(), type_text(piece.type)
            lines.append(f"{value} = load {kind}, ptr {pointer}, align {_align(align, piece.offset)}")
            value = self._cast(value, kind, lane, lines)
            is_last = index == len(pieces) - 1 and isinstance(whole, Vector)
            result = name if is_last else self._fresh()
            lines.append(f"{result} = insertelement {vector} {packed}, {lane} {value}, i32 {index}")
            packed = result
        if not isinstance(whole, Vector):
            lines.append(f"{name} = bitcast {vector} {packed} to {type_text(whole)}")
        return lines

    def _store(self, match: re.Match[str]) -> list[str]:
        whole, at, align = parse_type(match["type"], self.types), match["at"], int(match["align"])
        if not isinstance(whole, Struct):
            return self._stored(whole, at, 0, align, match["value"])
        lines: list[str] = []
        for index, (part, offset) in enumerate(zip(whole.fields, struct_layout(whole)[0], strict=True)):
            value = self._fresh()
            lines.append(f"{value} = extractvalue {match['type']} {match['value']}, {index}")
            split = self._stored(part, at, offset, align, value)
            if not split:
                pointer = self._pointer(at, offset, lines)
                lines.append(f"store {type_text(part)} {value}, ptr {pointer}, align {_align(align, offset)}")
            lines += split
        return lines

    def _stored(self, whole: Type, at: str, offset: int, align: int, packed: str) -> list[str]:
        """Lines that store `packed` in pieces, none where it is one piece."""
        pieces = self._pieces(whole, at, offset)
        if not pieces:
            return []
        lines: list[str] = []
        lane = _lane(whole, pieces)
        vector = f"<{len(pieces)} x {lane}>"
        if not isinstance(whole, Vector):
            given, packed = packed, self._fresh()
            lines.append(f"{packed} = bitcast {type_text(whole)} {given} to {vector}")
        for index, piece in enumerate(pieces):
            value, kind = self._fresh(), type_text(piece.type)
            lines.append(f"{value} = extractelement {vector} {packed}, i32 {index}")
            value = self._cast(value, lane, kind, lines)
            pointer = self._pointer(at, piece.offset, lines)
            lines.append(f"store {kind} {value}, ptr {pointer}, align {_align(align, piece.offset)}")
        return lines

    def _pieces(self, whole: Type, at: str, offset: int) -> list[_Piece]:
        """What an access to `whole`, `offset` bytes behind `at`, is made of, from there; [] to leave it."""
        if isinstance(whole, Vector):
            each = size_bytes(whole.element)
            return [_Piece(offset + lane * each, whole.element) for lane in range(whole.lanes)]
        if not isinstance(whole, Int) or at not in self.places:
            return []
        variable, into = self.places[at]
        first, end = into + offset, into + offset + whole.bits // 8
        inside = [leaf for leaf in _leaves(self.locals[variable]) if first <= leaf.offset < end]
        sizes = {size_bytes(leaf.type) for leaf in inside}
        if len(inside) < 2 or len(sizes) > 1 or any(isinstance(leaf.type, Ptr | Vector) for leaf in inside):
            return []
        step = sizes.pop()
        if [leaf.offset for leaf in inside] != list(range(first, end, step)):
            return []
        return [_Piece(leaf.offset - into, leaf.type) for leaf in inside]

    def _cast(self, value: str, kind: str, wanted: str, lines: list[str]) -> str:
        if kind == wanted:
            return value
        cast = self._fresh()
        lines.append(f"{cast} = bitcast {kind} {value} to {wanted}")
        return cast

    def _pointer(self, at: str, offset: int, lines: list[str]) -> str:
        if not offset:
            return at
        pointer = self._fresh()
        lines.append(f"{pointer} = getelementptr inbounds i8, ptr {at}, i64 {offset}")
        return pointer

    def _fresh(self) -> str:
        return f"%loom.field.{next(self.numbers)}"


def _lane(whole: Type, pieces: list[_Piece]) -> str:
    if isinstance(whole, Vector):
        return type_text(whole.element)
    return f"i{8 * size_bytes(pieces[0].type)}"


def _stored_bytes(type_: Type) -> int:
    """Without what alignment adds at the end."""
    match type_:
        case Struct(fields) if fields:
            return struct_layout(type_)[0][-1] + _stored_bytes(fields[-1])
        case Int(bits):
            return (bits + 7) // 8
    return size_bytes(type_)


def _align(whole: int, offset: int) -> int:
    return min(whole, offset & -offset) if offset else whole


def _leaves(type_: Type, offset: int = 0) -> list[_Piece]:
    """The scalars that `type_` consists of; [] where there are too many."""
    match type_:
        case Int() | Float() | Ptr() | Vector():
            return [_Piece(offset, type_)]
        case Array(length, element) if length <= _MOST_FIELDS:
            step = size_bytes(element)
            found = [leaf for index in range(length) for leaf in _leaves(element, offset + index * step)]
        case Struct(fields):
            starts = struct_layout(type_)[0]
            found = [leaf for part, start in zip(fields, starts, strict=True) for leaf in _leaves(part, offset + start)]
        case _:
            return []
    return found if len(found) <= _MOST_FIELDS else []
