"""Writing readable source text: lines, blocks, notes. The only place where indentation is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Writer:
    """Collects lines; `indent` spaces per block."""

    def __init__(self, indent: int = 2):
        self._lines: list[str] = []
        self._indent = indent
        self._depth = 0

    def line(self, text: str = "") -> None:
        self._lines.append(" " * (self._indent * self._depth) + text if text else "")

    def line_once(self, text: str) -> None:
        """`text`, unless the last line is it already (comments aside)."""
        if not self._lines or self._lines[-1].strip().split("  //")[0] != text:
            self.line(text)

    def lines(self, text: str) -> None:
        for one in text.splitlines():
            self.line(one)

    def note(self, text: str) -> None:
        """A comment line."""
        self.line(f"// {text}")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """`head {` ... `tail`."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self.line(tail)

    def mark(self) -> int:
        """The place of the next line, for `insert`."""
        return len(self._lines)

    def insert(self, mark: int, text: str) -> None:
        """A line at the place `mark`, as deep as the writer is now."""
        self._lines.insert(mark, " " * (self._indent * self._depth) + text)

    def written(self, mark: int, end: int) -> list[str]:
        """The lines from the place `mark` to before `end`, as `insert` at the same depth takes them."""
        return [line.removeprefix(" " * (self._indent * self._depth)) for line in self._lines[mark:end]]

    def cut(self, mark: int) -> None:
        """Forget everything from the place `mark` on."""
        del self._lines[mark:]

    def replace(self, mark: int, text: str) -> None:
        """Another text for the line at the place `mark`, as deep as the writer is now."""
        self._lines[mark] = " " * (self._indent * self._depth) + text

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
