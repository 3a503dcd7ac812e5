"""Source positions out of LLVM's debug metadata: `!dbg !25` -> Loc."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from threadloom.source import Loc

_NODE = re.compile(r"^(![0-9]+) = (?:distinct )?!(DI[A-Za-z]+)\((.*)\)$", re.MULTILINE)
_FIELD = re.compile(r'(\w+): ("(?:[^"\\]|\\.)*"|![0-9]+|[-\w]+)')
_WANTED = {"DILocation", "DIFile", "DISubprogram", "DILexicalBlock", "DILexicalBlockFile"}
HEADERS_DIR = str(Path(__file__).resolve().parent.parent / "headers")


@dataclass(frozen=True, slots=True)
class _Node:
    kind: str
    fields: dict[str, str]


class DebugInfo:
    """The debug nodes of one module; `loc` answers by metadata name."""

    def __init__(self, module_text: str):
        self._nodes = {
            name: _Node(kind, dict(_FIELD.findall(fields)))
            for name, kind, fields in _NODE.findall(module_text)
            if kind in _WANTED
        }
        self._known: dict[str, Loc | None] = {}

    def loc(self, node: str) -> Loc | None:
        """The innermost position that is not inside our own headers (an atomicAdd is where the user wrote it)."""
        if node not in self._known:
            self._known[node] = self._find(node)
        return self._known[node]

    def function_loc(self, node: str) -> Loc | None:
        found = self._nodes.get(node)
        if found is None or found.kind != "DISubprogram":
            return None
        file = self._file(node)
        return Loc(file, int(found.fields.get("line", 1))) if file else None

    def _find(self, node: str) -> Loc | None:
        found, first = self._nodes.get(node), None
        while found is not None and found.kind == "DILocation":
            file, line = self._file(found.fields.get("scope", "")), int(found.fields.get("line", 0))
            if file and line:
                loc = Loc(file, line, max(1, int(found.fields.get("column", 1))))
                if not file.startswith(HEADERS_DIR):
                    return loc
                first = first or loc
            found = self._nodes.get(found.fields.get("inlinedAt", ""))
        return first

    def _file(self, scope: str) -> str:
        while (found := self._nodes.get(scope)) is not None:
            if "file" in found.fields and (file := self._nodes.get(found.fields["file"])):
                name = _text(file.fields.get("filename", ""))
                return name if os.path.isabs(name) else os.path.join(_text(file.fields.get("directory", "")), name)
            scope = found.fields.get("scope", "")
        return ""


def _text(quoted: str) -> str:
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), quoted.strip('"'))
