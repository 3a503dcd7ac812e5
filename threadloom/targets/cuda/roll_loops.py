"""Loops over values that are too wide for registers, not unrolled: such values lie in memory anyway.

    before:  float t[768];                      after:  float t[768];
             #pragma unroll                             #pragma unroll 1
             for (int i = 0; i < 768; i++)              for (int i = 0; i < 768; i++)
               t[i] = sin(x[i]) * s[i / 4];               t[i] = sin(x[i]) * s[i / 4];

Unrolled, such code takes compilers minutes. Slow where a plan has such values, but it runs. Loops that touch what
products are issued with stay unrolled: these are registers while a product runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_REGISTERS = 255  # of a thread
LONG = 32  # trips of a loop, from which on it is not unrolled

DECLARED = re.compile(r"^\s*(float|double|[ui](?:8|16|32|64)|bool) (\w+)\[(\d+)\];", re.M)
ISSUED = re.compile(r"^\s*(?:mma_\w+|pin)\((.*)\);", re.M)
UNROLLED = "#pragma unroll"
LOOP = re.compile(r"\s*for \(int \w+ = 0; \w+ < (\d+);")
WORD = re.compile(r"[A-Za-z_]\w*")


def roll_long_loops(text: str) -> str:
    """`text`, of a whole kernel; as it is where all arrays fit registers."""
    wide = {name for kind, name, count in DECLARED.findall(text) if _registers(kind, int(count)) > MOST_REGISTERS}
    if not wide:
        return text
    kept = {word for arguments in ISSUED.findall(text) for word in WORD.findall(arguments)}
    lines = text.split("\n")
    for at in _loops(lines):
        words = set(WORD.findall("\n".join(lines[at + 1 : _end(lines, at + 1)])))
        if words & wide and not words & kept:
            lines[at] += " 1"
    return "\n".join(lines)


def _registers(kind: str, count: int) -> int:
    return count * (2 if kind in ("double", "i64", "u64") else 1)


def _loops(lines: list[str]) -> Iterator[int]:
    """Where the pragma of a long loop stands."""
    for at, line in enumerate(lines[:-1]):
        found = LOOP.match(lines[at + 1]) if line.strip() == UNROLLED else None
        if found and int(found[1]) >= LONG:
            yield at


def _end(lines: list[str], begin: int) -> int:
    """One past the last line of the loop that begins there."""
    depth = 0
    for at in range(begin, len(lines)):
        depth += lines[at].count("{") - lines[at].count("}")
        if depth <= 0:
            return at + 1
    return len(lines)
