"""Source positions out of LLVM's debug metadata: `!dbg !25` -> Loc."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from threadloom.source import Loc

_NODE = re.compile(
    r"^(![0-9]+) = (?:distinct )?!(DILocation|DIFile|DISubprogram|DILexicalBlock|DILexicalBlockFile)\((.*)\)$",
    re.MULTILINE,
)
_FIELDS = {
    field: re.compile(rf'(?:^|, ){field}: ("(?:[^"\\]|\\.)*"|![0-9]+|[-\w]+)')
    for field in ("scope", "line", "column", "inlinedAt", "file", "filename", "directory")
}
_PLACE = re.compile(r"(?:line: ([0-9]+))?(?:, column: ([0-9]+))?(?:, )?scope: (![0-9]+)(?:, inlinedAt: (![0-9]+))?")
HEADERS_DIR = str(Path(__file__).resolve().parent.parent / "headers")


class _Node(NamedTuple):  # a module may have a hundred thousand
    kind: str
    text: str

    def get(self, field: str) -> str:
        """The field as it is spelt; empty where it is not there."""
        found = _FIELDS[field].search(self.text)
        return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class DebugLoc(Loc):
    """A position that knows its node: a DILocation, or a function's DISubprogram."""

    node: str = ""


class DebugInfo:
    """The debug nodes of one module; `loc` answers by metadata name. with_nodes: by DebugLocs."""

    def __init__(self, module_text: str, with_nodes: bool = False):
        self._with_nodes = with_nodes
        self._nodes = {name: _Node(kind, text) for name, kind, text in _NODE.findall(module_text)}
        self._known: dict[str, Loc | None] = {}
        self._files: dict[str, str] = {}

    def loc(self, node: str) -> Loc | None:
        """The innermost position that is not inside our own headers (an atomicAdd is where the user wrote it)."""
        if node not in self._known:
            self._known[node] = self._find(node)
        return self._known[node]

    def function_loc(self, node: str) -> Loc | None:
        found = self._nodes.get(node)
        if found is None or found.kind != "DISubprogram":
            return None
        file = self.file_of(node)
        return self._loc(file, int(found.get("line") or 1), 1, node) if file else None

    def _loc(self, file: str, line: int, column: int, node: str) -> Loc:
        return DebugLoc(file, line, column, node=node) if self._with_nodes else Loc(file, line, column)

    def _find(self, node: str) -> Loc | None:
        found, first = self._nodes.get(node), None
        while found is not None and found.kind == "DILocation":
            place = _PLACE.match(found.text)
            if place is None:
                break
            line, column, scope, inlined_at = place.groups()
            file = self.file_of(scope)
            if file and int(line or 0):
                loc = self._loc(file, int(line), max(1, int(column or 1)), node)
                if not file.startswith(HEADERS_DIR):
                    return loc
                first = first or loc
            node = inlined_at or ""
            found = self._nodes.get(node)
        return first

    def file_of(self, scope: str) -> str:
        """The file in which the node `scope` lies; empty where that is not known."""
        if scope not in self._files:
            self._files[scope] = self._find_file(scope)
        return self._files[scope]

    def _find_file(self, scope: str) -> str:
        while (found := self._nodes.get(scope)) is not None:
            if file := self._nodes.get(found.get("file")):
                name = _text(file.get("filename"))
                return name if os.path.isabs(name) else os.path.join(_text(file.get("directory")), name)
            scope = found.get("scope")
        return ""


def _text(quoted: str) -> str:
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), quoted.strip('"'))
