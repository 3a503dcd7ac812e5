"""Line tables in emitted code, so that a debugger steps through the user's source.

Every function gets a DISubprogram, every instruction the DILocation of the operation that it comes from; an
instruction without one (and LLVM demands one for calls) gets its function's. Variables: debug_variables.py.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from threadloom.source import Loc

if TYPE_CHECKING:
    from threadloom.targets.cpu.emit_module import ModuleText


class DebugLines:
    """The debug metadata of one module; nodes are made when first asked for."""

    kind, optimized = "LineTablesOnly", "true"

    def __init__(self, text: ModuleText):
        self._text = text
        self._files: dict[str, str] = {}
        self._scopes: dict[tuple[str, str], str] = {}
        self._locations: dict[tuple[str, Loc], str] = {}
        self._unit = ""

    def subprogram(self, name: str, loc: Loc | None) -> str:
        """The scope of function `name`, which starts at `loc`."""
        loc = loc or Loc("<generated>", 0)
        file = self._file(loc.file)
        self._make_unit(file)
        types = self._text.new_metadata("!DISubroutineType(types: !{null})")
        return self._text.new_metadata(
            f'distinct !DISubprogram(name: "{_escaped(name)}", scope: {file}, file: {file}, line: {loc.line}, '
            f"type: {types}, scopeLine: {loc.line}, unit: {self._unit}, "
            "spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )

    def users_subprogram(self, name: str, loc: Loc | None) -> str:
        """The scope of a function that has the code of threads (debug_variables.py)."""
        return self.subprogram(name, loc)

    def _make_unit(self, file: str) -> None:
        if not self._unit:
            self._unit = self._text.new_metadata(
                f'distinct !DICompileUnit(language: DW_LANG_C_plus_plus_14, file: {file}, producer: "threadloom", '
                f"isOptimized: {self.optimized}, runtimeVersion: 0, emissionKind: {self.kind}, nameTableKind: None)"
            )

    def location(self, subprogram: str, own_file: str, loc: Loc) -> str:
        """The node of `loc` inside `subprogram`, whose own source file is `own_file`."""
        key = (subprogram, loc)
        if key not in self._locations:
            scope = subprogram if loc.file == own_file else self._scope(subprogram, loc.file)
            node = f"!DILocation(line: {loc.line}, column: {min(loc.column, 65535)}, scope: {scope})"
            self._locations[key] = self._text.new_metadata(node)
        return self._locations[key]

    def named_lines(self) -> list[str]:
        """The named metadata that makes LLVM look at the rest."""
        if not self._unit:
            return []
        version = self._text.new_metadata('!{i32 2, !"Debug Info Version", i32 3}')
        dwarf = self._text.new_metadata('!{i32 7, !"Dwarf Version", i32 4}')
        return [f"!llvm.dbg.cu = !{{{self._unit}}}", f"!llvm.module.flags = !{{{version}, {dwarf}}}"]

    def _scope(self, subprogram: str, file: str) -> str:
        key = (subprogram, file)
        if key not in self._scopes:
            node = f"!DILexicalBlockFile(scope: {subprogram}, file: {self._file(file)}, discriminator: 0)"
            self._scopes[key] = self._text.new_metadata(node)
        return self._scopes[key]

    def _file(self, path: str) -> str:
        if path not in self._files:
            where = PurePath(path)
            folder = str(where.parent) if where.is_absolute() else "."
            name = where.name if where.is_absolute() else path
            node = f'!DIFile(filename: "{_escaped(name)}", directory: "{_escaped(folder)}")'
            self._files[path] = self._text.new_metadata(node)
        return self._files[path]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\5C").replace('"', "\\22")
