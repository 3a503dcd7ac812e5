"""From a function object to its syntax tree with true lines and columns.

The whole file is parsed (not the dedented function), so every node keeps the position that an editor shows; files
come from linecache, which also knows notebooks and doctests.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from threadloom.errors import CompileError, slug
from threadloom.source import Loc

NO_SOURCE = slug("no-source", "the source text of a kernel or helper function cannot be found")


@dataclass(frozen=True, slots=True)
class Origin:
    """A function's tree, its file and the names it can see."""

    file: str
    node: ast.FunctionDef | ast.Lambda
    lines: tuple[str, ...]
    names: dict[str, object]

    def loc(self, node: ast.AST) -> Loc:
        """Where `node` stands; ast counts columns in UTF-8 bytes from 0, a Loc in characters from 1."""
        line = self.lines[node.lineno - 1] if node.lineno <= len(self.lines) else ""
        column = _characters(line, node.col_offset)
        one_line = node.end_lineno == node.lineno
        end = _characters(line, node.end_col_offset) if one_line else len(line.rstrip())
        return Loc(self.file, node.lineno, column + 1, end + 1)


def _characters(line: str, utf8_bytes: int) -> int:
    if line.isascii():
        return utf8_bytes
    return len(line.encode()[:utf8_bytes].decode(errors="ignore"))


@lru_cache(maxsize=64)
def _parse_file(file: str, lines: tuple[str, ...]) -> ast.Module:
    return ast.parse("".join(lines), file)


def find_source(function: Callable[..., object]) -> Origin:
    code = function.__code__
    file = inspect.getsourcefile(function) or code.co_filename
    lines = tuple(linecache.getlines(file, function.__globals__))
    try:
        node = _matching_node(_parse_file(file, lines), function)
    except SyntaxError:
        node = None
    if node is None:  # no such file, or it was edited since it was imported
        raise CompileError(
            NO_SOURCE,
            f"the source of {function.__qualname__} cannot be found in {file}",
            why="a kernel is compiled from its text",
            try_="define it in a file or notebook cell, not through exec or a REPL without history",
        )
    return Origin(file, node, lines, visible_names(function))


def _matching_node(tree: ast.Module, function: Callable[..., object]) -> ast.FunctionDef | ast.Lambda | None:
    code = function.__code__
    wanted = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno and _parameters(node) == wanted:
                return node
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
            found += [node] if _parameters(node) == wanted else []
    return found[0] if len(found) == 1 else None  # two alike on one line: cannot tell which


def _parameters(node: ast.FunctionDef | ast.Lambda) -> tuple[str, ...]:
    return tuple(a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])


def visible_names(function: Callable[..., object]) -> dict[str, object]:
    """The globals and closure variables that the function sees now."""
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet; reading it is then an unknown name
    return names
