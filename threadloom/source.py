"""Where a piece of code came from. Every node of every level carries a `Loc`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Loc:
    """A position in the user's source; `line` and `column` count from 1, `end_column` is exclusive."""

    file: str
    line: int
    column: int = 1
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@lru_cache(maxsize=64)
def _lines(file: str) -> tuple[str, ...]:
    try:
        return tuple(Path(file).read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return ()


def excerpt(loc: Loc) -> str:
    """The source line of `loc` with a caret under it, or "" where the file cannot be read."""
    lines = _lines(loc.file)
    if not 1 <= loc.line <= len(lines):
        return ""
    text = lines[loc.line - 1].expandtabs(4)
    width = max(1, loc.end_column - loc.column)
    return f"  {loc.line:>4} | {text}\n       | {' ' * (loc.column - 1)}{'^' * width}"
