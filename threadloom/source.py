"""Where a piece of code came from. Every node of every level carries a `Loc`."""

from __future__ import annotations

import linecache
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loc:
    """A position in the user's source; `line` and `column` count from 1, `end_column` is exclusive."""

    file: str
    line: int
    column: int = 1
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def excerpt(loc: Loc) -> str:
    """The source line of `loc` with a caret under it, or "" where the file cannot be read."""
    text = linecache.getline(loc.file, loc.line).rstrip("\n")  # which also knows notebooks and doctests
    if not text:
        return ""
    width = max(1, loc.end_column - loc.column)
    indent = "".join("\t" if c == "\t" else " " for c in text[: loc.column - 1])
    return f"  {loc.line:>4} | {text}\n       | {indent}{'^' * width}"
