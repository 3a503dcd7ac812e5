"""C++ source as tokens with positions: enough to find declarations, bodies and launches in text that stays as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<directive>(?<![^\n])[ \t]*\#(?:[^\n\\/]|\\.|\\\n|/(?![/*]))*)
  | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")
  | (?P<char>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?\d(?:'?[\w.]|[eEpP][+-])*)
  | (?P<word>[A-Za-z_$][\w$]*)
  | (?P<punct>::|->|<<<|\S)""",
    re.VERBOSE | re.DOTALL,
)
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # directive string char number word punct
    text: str
    start: int
    end: int


def tokens(source: str) -> list[Token]:
    """The tokens of `source` without comments."""
    found = (Token(match.lastgroup or "", match[0], match.start(), match.end()) for match in _TOKEN.finditer(source))
    return [_named(token) for token in found if token.kind != "comment"]


def _named(token: Token) -> Token:
    """The group `mark` of raw strings is inside `string`."""
    return Token("string", token.text, token.start, token.end) if token.kind == "mark" else token


def closing(toks: list[Token], index: int) -> int:
    """The index of the bracket that closes the one at `index`; len(toks) where there is none."""
    depth = 0
    for at in range(index, len(toks)):
        text = toks[at].text
        if toks[at].kind == "punct" and text in _OPEN:
            depth += 1
        elif toks[at].kind == "punct" and text in _CLOSE:
            depth -= 1
            if depth == 0:
                return at
    return len(toks)


def opening_angle(toks: list[Token], index: int) -> int:
    """The index of the `<` that the `>` at `index` closes, going back; `index` itself where there is none."""
    depth = 0
    for at in range(index, -1, -1):
        text = toks[at].text
        if text == ">":
            depth += 1
        elif text == "<":
            depth -= 1
            if depth == 0:
                return at
        elif text in (";", "{", "}"):
            break
    return index


def closing_angle(toks: list[Token], index: int) -> int:
    """The index of the `>` that closes the `<` at `index`."""
    depth, at = 0, index
    while at < len(toks):
        text = toks[at].text
        if text in _OPEN and toks[at].kind == "punct":
            at = closing(toks, at)
        elif text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return len(toks) - 1


def split_commas(toks: list[Token], start: int, end: int) -> list[tuple[int, int]]:
    """The ranges of the items between `start` and `end` that top-level commas part; template arguments stay whole."""
    items, first, at = [], start, start
    while at < end:
        text = toks[at].text
        if toks[at].kind == "punct" and text in _OPEN:
            at = min(closing(toks, at), end)
        elif text == "<" and at > start and toks[at - 1].kind == "word" and (close := closing_angle(toks, at)) < end:
            at = close
        elif text == ",":
            items.append((first, at))
            first = at + 1
        at += 1
    return [*items, (first, end)] if end > start else []
