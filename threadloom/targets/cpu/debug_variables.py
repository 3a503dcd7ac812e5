"""Debug metadata with the user's variables, made of the nodes that clang gave to the device code.

    call @loom.debug.frame(ptr %record, 48, 45, 80)
 -> %debug.home = alloca ptr                                                           # once, at the function's start
    #dbg_declare(ptr %debug.home, !i, !DIExpression(DW_OP_deref, DW_OP_plus_uconst, 48), !place)
    store ptr %record, ptr %debug.home                                                 # at the call

Each function that has code of the user's gets a copy of the kernel's DISubprogram, and copies of the scopes, places and
variables in it; types and inlined functions are shared. Before the first call `home` is null, so that a debugger says
that it cannot reach a variable which has no value yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from threadloom.par.constants import int_value
from threadloom.par.ops import Function, Leaf
from threadloom.source import Loc
from threadloom.targets.cpu.debug_lines import DebugLines

if TYPE_CHECKING:
    from threadloom.targets.cpu.emit_function import FunctionEmitter
    from threadloom.targets.cpu.emit_module import ModuleText

CALLS = ("loom.debug.frame", "loom.debug.shared")
_INDICES = (("threadIdx", "uint3"), ("blockIdx", "uint3"), ("blockDim", "dim3"), ("gridDim", "dim3"))
_INDEX_BYTES = 12
_REFERENCE = re.compile(r'"(?:[^"\\]|\\.)*"|!\d+')
_SCOPE = re.compile(r"\bscope: (!\d+)")
_INLINED_AT = re.compile(r"\binlinedAt: (!\d+)")
_RETAINED = re.compile(r", (?:retainedNodes|declaration): !\d+")


def is_users(function: Function) -> bool:
    """Whether the function that is emitted for `function` is the user's own, not what launches or hands out work."""
    ops = function.body.ops if function.body else ()
    return any(isinstance(op, Leaf) and op.attrs.callee in CALLS for op in ops)


class DebugVariables(DebugLines):
    kind, optimized = "FullDebug", "false"

    def __init__(self, text: ModuleText, nodes: Mapping[str, str]):
        super().__init__(text)
        self._nodes = nodes
        self._imported: dict[str, str] = {}
        self._copies: dict[tuple[str, str], str] = {}  # (function's own node, node inside it) -> the copy
        self._source: dict[str, str] = {}  # function's own node -> the DISubprogram that it is a copy of
        self._homes: dict[tuple[int, str], str] = {}
        self._pending: list[str] = []

    # ------------------------------------------------------------ functions and places

    def subprogram(self, name: str, loc: Loc | None) -> str:
        """None: what hands out work is not the user's."""
        return ""

    def users_subprogram(self, name: str, loc: Loc | None) -> str:
        source = getattr(loc, "node", "")
        if not self._nodes.get(source, "").startswith("distinct !DISubprogram("):
            return ""
        self._make_unit(self._file(loc.file))
        own = self._text.reserve_metadata()
        self._source[own] = source
        self._text.set_metadata(own, self._translated(_RETAINED.sub("", self._nodes[source])))
        self._import_pending()
        return own

    def location(self, subprogram: str, own_file: str, loc: Loc) -> str:
        node = getattr(loc, "node", "")
        if node in self._nodes and self._root(node) == self._source.get(subprogram) != node:
            return self._copied(subprogram, node)
        return super().location(subprogram, own_file, Loc(loc.file, loc.line, loc.column))

    def _root(self, node: str) -> str:
        """The DISubprogram whose code the place `node` is, after inlining."""
        while (at := _INLINED_AT.search(self._nodes[node])) is not None:
            node = at[1]
        while (scope := _SCOPE.search(self._nodes.get(node, ""))) and "!DISubprogram(" not in self._nodes[node]:
            node = scope[1]
        return node

    def _copied(self, own: str, node: str) -> str:
        """The place, scope or variable `node` in the function whose own node is `own`."""
        if node == self._source[own]:
            return own
        if (own, node) not in self._copies:
            text = self._nodes[node]
            outer = _INLINED_AT.search(text) or _SCOPE.search(text)
            copy = self._copied(own, outer[1])
            before, after = text[: outer.start(1)], text[outer.end(1) :]
            made = self._translated(before) + copy + self._translated(after)
            self._copies[own, node] = self._text.new_metadata(made)
            self._import_pending()
        return self._copies[own, node]

    # ------------------------------------------------------------ what all functions share

    def _node(self, name: str) -> str:
        """The node in our module that stands for clang's `name`; its text is made by _import_pending."""
        if self._nodes.get(name, "").startswith("distinct !DICompileUnit("):
            return self._unit
        if name not in self._imported:
            self._imported[name] = self._text.reserve_metadata()
            self._pending.append(name)
        return self._imported[name]

    def _translated(self, text: str) -> str:
        return _REFERENCE.sub(lambda match: match[0] if match[0][0] == '"' else self._node(match[0]), text)

    def _import_pending(self) -> None:
        while self._pending:
            name = self._pending.pop()
            text = self._nodes[name]
            if "!DISubprogram(" in text:
                text = _RETAINED.sub("", text)
            self._text.set_metadata(self._imported[name], self._translated(text))

    # ------------------------------------------------------------ variables

    def call(self, emitter: FunctionEmitter, leaf: Leaf) -> None:
        """Emit one of CALLS."""
        pointer, *numbers = leaf.operands
        values = [int_value(number) or 0 for number in numbers]
        key = emitter.subprogram, leaf.attrs.callee + str(values)
        if key not in self._homes:
            self._homes[key] = home = self._home(emitter)
            if emitter.subprogram in self._source:
                declare = self._shared if leaf.attrs.callee == CALLS[1] else self._frame
                declare(emitter, home, values)
        emitter.line(f"store ptr {emitter.of(pointer)}, ptr {self._homes[key]}, align 8")

    def _home(self, emitter: FunctionEmitter) -> str:
        home = f"%{emitter.fresh('debug.home')}"
        emitter.entry_allocas.append(f"  {home} = alloca ptr, align 8")
        emitter.entry_stores.append(f"  store ptr null, ptr {home}, align 8")
        return home

    def _frame(self, emitter: FunctionEmitter, home: str, numbers: list[int]) -> None:
        own = emitter.subprogram
        start = self._start(own)
        for index, (name, type_) in enumerate(_INDICES):
            variable = self._local(own, f'name: "{name}", type: {self._index_type(type_)}')
            self._declare(emitter, home, variable, start, index * _INDEX_BYTES)
        for offset, variable, place in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
            if self._root(f"!{place}") != self._source[own]:
                continue
            inlined = _INLINED_AT.search(self._nodes[f"!{place}"])
            node = self._node(f"!{variable}") if inlined else self._copied(own, f"!{variable}")
            self._declare(emitter, home, node, self._copied(own, f"!{place}"), offset)
            self._import_pending()

    def _shared(self, emitter: FunctionEmitter, home: str, numbers: list[int]) -> None:
        text = self._nodes[f"!{numbers[0]}"]
        fields = re.findall(r'\b(?:name: "[^"]*"|file: !\d+|line: \d+|type: !\d+)', text)
        variable = self._local(emitter.subprogram, ", ".join(self._translated(field) for field in fields))
        self._import_pending()
        self._declare(emitter, home, variable, self._start(emitter.subprogram), 0)

    def _start(self, own: str) -> str:
        line = re.search(r"\bline: (\d+)", self._nodes[self._source[own]])
        return self._text.shared_metadata(f"!DILocation(line: {line[1] if line else 0}, scope: {own})")

    def _local(self, own: str, fields: str) -> str:
        return self._text.new_metadata(f"!DILocalVariable(scope: {own}, {fields})")

    def _declare(self, emitter: FunctionEmitter, home: str, variable: str, place: str, offset_bytes: int) -> None:
        offset = f", DW_OP_plus_uconst, {offset_bytes}" if offset_bytes else ""
        emitter.entry_stores.append(
            f"    #dbg_declare(ptr {home}, {variable}, !DIExpression(DW_OP_deref{offset}), {place})"
        )

    def _index_type(self, name: str) -> str:
        """`struct name { unsigned x, y, z; }`"""
        number = self._text.shared_metadata('!DIBasicType(name: "unsigned int", size: 32, encoding: DW_ATE_unsigned)')
        members = []
        for index, axis in enumerate("xyz"):
            fields = f'name: "{axis}", baseType: {number}, size: 32, offset: {32 * index}'
            members.append(self._text.shared_metadata(f"!DIDerivedType(tag: DW_TAG_member, {fields})"))
        elements = self._text.shared_metadata(f"!{{{', '.join(members)}}}")
        fields = f'name: "{name}", size: {8 * _INDEX_BYTES}, elements: {elements}'
        return self._text.shared_metadata(f"!DICompositeType(tag: DW_TAG_structure_type, {fields})")
