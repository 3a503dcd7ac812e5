"""The device IR of a unit cut into one text per kernel, each whole in itself: for kernels that are compiled one by one.

    define void @k<1>(..) { call @f(), !dbg !7 }             k<1>: @k<1>, @f, @table, !7 and what it names
    define void @k<2>(..) { }  define i32 @f() { @table }  ->  k<2>: @k<2>
    @table = ...  !7 = ...

A file with a thousand instances of a template has a hundred megabytes of IR, of which a program launches a few.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

_NAME = r'@("[^"]*"|[-\w$.]+)'
_SYMBOL = re.compile(_NAME)
_HEAD = re.compile(r'^(?:define|declare)\b[^@\n]*@("[^"]*"|[-\w$.]+)\(', re.MULTILINE)
_COMDAT = re.compile(r',? comdat(?:\(\$(?:"[^"]*"|[-\w$.]+)\))?')
_NOTE = re.compile(rf"\{{ ptr {_NAME}, ptr {_NAME}, ptr {_NAME}, i32 \d+, ptr null \}}")
_NOTE_TYPE = "{ ptr, ptr, ptr, i32, ptr }"  # variable, what its annotation says, file, line
_NODE = re.compile(r"![0-9]+")
_ALWAYS = ("%", "attributes", "!llvm.module.flags", "!llvm.dbg.cu", "target", "source_filename")


@dataclass(frozen=True, slots=True)
class _Parts:
    """Texts of a module by the name of what they define: symbols, metadata nodes, and what every part needs."""

    symbols: dict[str, str]
    nodes: dict[str, str]
    notes: dict[str, tuple[str, tuple[str, ...]]]  # annotation of a variable, and the texts that it names
    common: str


def separate(device_ir: str, kernels: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each kernel's name, and the text of what it needs. LLVM needs no order among symbols."""
    parts = _parts(device_ir)
    common_nodes = _closed(_NODE.findall(parts.common), parts.nodes, _NODE)
    for kernel in kernels:
        symbols = _closed([kernel if kernel in parts.symbols else f'"{kernel}"'], parts.symbols, _SYMBOL)
        notes = [parts.notes[name] for name in symbols if name in parts.notes]
        symbols += (name for name in dict.fromkeys(name for _, named in notes for name in named) if name not in symbols)
        text = "".join(parts.symbols[name] for name in symbols) + _annotations([note for note, _ in notes])
        nodes = _closed(_NODE.findall(text), parts.nodes, _NODE, common_nodes)
        yield kernel, "".join((parts.common, text, *(parts.nodes[name] for name in nodes)))


def _parts(device_ir: str) -> _Parts:
    symbols: dict[str, str] = {}
    nodes: dict[str, str] = {}
    notes: dict[str, tuple[str, tuple[str, ...]]] = {}
    common: list[str] = []
    position = 0
    while position < len(device_ir):
        end = device_ir.find("\n", position) + 1 or len(device_ir)
        first = device_ir[position]
        if first == "d" and (head := _HEAD.match(device_ir, position)):
            if device_ir.startswith("define", position):
                end = device_ir.index("\n}", position) + 3
            symbols[head[1]] = _COMDAT.sub("", device_ir[position : head.end()]) + _body(device_ir[head.end() : end])
        elif first == "@":
            line = _COMDAT.sub("", device_ir[position:end])
            if line.startswith("@llvm.global.annotations"):
                notes = {note[1]: (note[0], (note[2], note[3])) for note in _NOTE.finditer(line)}
            elif not line.startswith("@llvm.") and (name := _SYMBOL.match(line)):
                symbols[name[1]] = line
        elif first == "!" and device_ir[position + 1].isdigit():
            nodes[device_ir[position : device_ir.index(" ", position)]] = device_ir[position:end]
        elif device_ir.startswith(_ALWAYS, position):
            common.append(device_ir[position:end])
        position = end
    return _Parts(symbols, nodes, notes, "".join(common))


def _annotations(notes: list[str]) -> str:
    if not notes:
        return ""
    listed = ", ".join(f"{_NOTE_TYPE} {note}" for note in notes)
    table = f"[{len(notes)} x {_NOTE_TYPE}] [{listed}]"
    return f'@llvm.global.annotations = appending global {table}, section "llvm.metadata"\n'


def _body(text: str) -> str:
    """The rest of a function; its head may name a comdat."""
    head, newline, rest = text.partition("\n")
    return _COMDAT.sub("", head) + newline + rest


def _closed(
    names: Collection[str], texts: dict[str, str], pattern: re.Pattern[str], but: Collection[str] = frozenset()
) -> list[str]:
    """`names` and all that the texts of these name, and so on, in order; nothing of `but`'s first part twice."""
    found = dict.fromkeys(but)
    order = list(but)
    waiting = list(dict.fromkeys(names))
    while waiting:
        name = waiting.pop()
        if name in found or name not in texts:
            continue
        found[name] = None
        order.append(name)
        waiting += pattern.findall(texts[name])
    return order
