"""Tokens of the par text form, and the cursor that the parser walks them with."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple, NoReturn

from threadloom.errors import CompileError, slug
from threadloom.source import Loc, excerpt

SYNTAX = slug("par-syntax", "the text is not valid par: a word, bracket, name or type is out of place")

_SPACE = r"(?:[ \t\r\n]+|;[^\n]*)*"
_TOKEN = re.compile(
    rf"""{_SPACE}(?:
        (?P<local>%(?:[-a-zA-Z$._0-9]+|"[^"]*"))
      | (?P<global>@(?:[-a-zA-Z$._0-9]+|"[^"]*"))
      | (?P<metadata>!(?:[-a-zA-Z$._0-9]+)?(?:"[^"]*")?)
      | (?P<string>c?"[^"]*")
      | (?P<number>0x[KLMHR]?[0-9A-Fa-f]+|-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)
      | (?P<word>[a-zA-Z_$.](?:[-a-zA-Z$._0-9])*)
      | (?P<mark>\.\.\.|[-()\[\]{{}}<>,=*:\#]))""",
    re.VERBOSE,
)
_REST = re.compile(_SPACE)
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


class Token(NamedTuple):  # not a dataclass: a kernel has some hundred thousand, and these are made five times faster
    kind: str  # local global metadata string number word mark end
    text: str
    start: int
    line: int


def unquoted(text: str) -> str:
    """The name inside `%name`, `@"a b"` or `"text"`."""
    text = text.lstrip("%@")
    if not text.startswith('"'):
        return text
    raw = re.sub(r"\\([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text[1:-1])
    return raw.encode("latin-1", "ignore").decode("utf-8", "replace") if "\\" in text else raw


class Cursor:
    """A position in the tokens of one text."""

    def __init__(self, source: str, file: str):
        self.source, self.file, self.index = source, file, 0
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", source))]
        self.tokens = self._tokenize()

    def _tokenize(self) -> list[Token]:
        tokens: list[Token] = []
        source, starts, position = self.source, self._line_starts, 0
        line, next_line = 1, starts[1] if len(starts) > 1 else len(source)
        append, make = tokens.append, tuple.__new__  # a text has some hundred thousand tokens
        for match in _TOKEN.finditer(source):
            if match.start() != position:
                break
            kind = match.lastgroup
            start, position = match.span(kind)
            while start >= next_line:
                next_line = starts[line + 1] if line + 1 < len(starts) else len(source) + 1
                line += 1
            append(make(Token, (kind, source[start:position], start, line)))
        rest = _REST.match(source, position)
        position = rest.end() if rest else position
        if position < len(source):
            line = bisect_right(starts, position)
            self._fail_at(position, line, f"unexpected character {source[position]!r}")
        append(Token("end", "end of text", position, len(starts)))
        return tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.index]  # where it counts, methods below say this themselves: a call costs more

    def peek(self, distance: int = 1) -> Token:
        return self.tokens[min(self.index + distance, len(self.tokens) - 1)]

    def at(self, *texts: str) -> bool:
        kind, text, *_ = self.tokens[self.index]
        return text in texts and (kind == "word" or kind == "mark")

    def on_same_line(self) -> bool:
        """Whether the next token stands on the line of the one before it (attributes end with their line)."""
        return self.index > 0 and self.token.line == self.tokens[self.index - 1].line

    def advance(self) -> Token:
        token = self.tokens[self.index]
        self.index += 1
        return token

    def accept(self, *texts: str) -> bool:
        if found := self.at(*texts):
            self.index += 1
        return found

    def expect(self, text: str) -> Token:
        if not self.at(text):
            self.fail(f"expected {text!r} here, found {self.token.text!r}")
        return self.advance()

    def expect_kind(self, kind: str, meaning: str) -> Token:
        if self.token.kind != kind:
            self.fail(f"expected {meaning} here, found {self.token.text!r}")
        return self.advance()

    def integer(self, meaning: str) -> int:
        token = self.expect_kind("number", meaning)
        if not re.fullmatch(r"-?\d+", token.text):
            self.index -= 1
            self.fail(f"expected {meaning} here, found {token.text!r}")
        return int(token.text)

    def one_of(self, choices: tuple[str, ...], meaning: str) -> str:
        if self.token.text not in choices:
            self.fail(f"expected {meaning} (one of: {' '.join(choices)}), found {self.token.text!r}")
        return self.advance().text

    def balanced(self) -> str:
        """The source text of one bracketed group, brackets included; the cursor stands at its opening bracket."""
        first, depth = self.token, []
        while True:
            token = self.advance()
            if token.kind == "end":
                self.index -= 1
                self.fail(f"{first.text!r} of line {first.line} is never closed")
            if token.kind != "mark":
                continue
            if token.text in _CLOSING:
                depth.append(_CLOSING[token.text])
            elif depth and token.text == depth[-1]:
                depth.pop()
                if not depth:
                    return self.source[first.start : token.start + 1]

    def loc(self, token: Token | None = None) -> Loc:
        token = token or self.token
        column = token.start - self._line_starts[token.line - 1] + 1
        return Loc(self.file, token.line, column, column + len(token.text) if token.kind != "end" else 0)

    def fail(self, message: str, token: Token | None = None, try_: str = "") -> NoReturn:
        token = token or self.token
        self._fail_at(token.start, token.line, message, len(token.text) if token.kind != "end" else 1, try_)

    def _fail_at(self, start: int, line: int, message: str, width: int = 1, try_: str = "") -> NoReturn:
        column = start - self._line_starts[line - 1] + 1
        loc = Loc(self.file, line, column, column + width)
        shown = ""
        if not excerpt(loc):  # text that is not a file: show the line ourselves
            text = self.source[self._line_starts[line - 1] :].split("\n", 1)[0]
            shown = f"\n  {line:>4} | {text}\n       | {' ' * (column - 1)}{'^' * width}"
        raise CompileError(SYNTAX, message + shown, try_=try_, loc=loc)
