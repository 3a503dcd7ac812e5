"""Names of C++ variables for values of par: the user's where the debug records tell it, else the value's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_DEFINE = re.compile(r'^define [^\n]*@("[^"]+"|[-\w$.]+)\(', re.MULTILINE)
_VALUE = re.compile(r"#dbg_value\([^%\n]*%([\w.]+), (!\d+), !DIExpression\(\)")
_VARIABLE = re.compile(r'^(!\d+) = !DILocalVariable\(name: "([^"]+)"', re.MULTILINE)
_KEYWORDS = frozenset(
    "alignas and asm auto bool break case catch char class const continue default delete do double else enum explicit "
    "export extern false float for friend goto if inline int long namespace new not operator or private protected "
    "public register return short signed sizeof static struct switch template this throw true try typedef typename "
    "union unsigned using virtual void volatile while xor launch again gridDim blockDim loom std main".split()
)
_COPY = re.compile(r"(\.\d+)+$")


def debug_names(device_ir: str) -> dict[str, dict[str, str]]:
    """function -> value -> the variable of the user's that it is."""
    variables = dict(_VARIABLE.findall(device_ir))
    starts = [(match[1].strip('"'), match.start()) for match in _DEFINE.finditer(device_ir)]
    found: dict[str, dict[str, str]] = {}
    for index, (name, start) in enumerate(starts):
        end = starts[index + 1][1] if index + 1 < len(starts) else len(device_ir)
        records = _VALUE.findall(device_ir, start, end)
        found[name] = {_own(value): variables[node] for value, node in records if variables.get(node, "this") != "this"}
    return found


def _own(value: str) -> str:
    """How the parser calls a value without a name."""
    return f"t${value}" if value.isdigit() else value


class Names:
    """Hands out names that are unique in a function."""

    def __init__(self, of_debug: dict[str, str], taken: Iterable[str]):
        self.of_debug = of_debug
        self.taken = {*_KEYWORDS, *taken}

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is named inside is free again behind it."""
        outer = set(self.taken)
        yield
        self.taken = outer

    def is_users(self, value: str) -> bool:
        return value in self.of_debug or _COPY.sub("", value) in self.of_debug

    def take(self, value: str) -> str:
        """A fresh name for the value."""
        base = _COPY.sub("", value)
        wanted = self.of_debug.get(value) or self.of_debug.get(base) or base
        wanted = re.sub(r"\W", "_", wanted.replace("t$", "t")).strip("_") or "value"
        wanted = wanted if not wanted[0].isdigit() else f"v{wanted}"
        name, count = wanted, 1
        while name in self.taken:
            count += 1
            name = f"{wanted}{'' if wanted[-1].isalpha() else '_'}{count}"
        self.taken.add(name)
        return name
