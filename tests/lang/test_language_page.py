"""docs/language.md: its code runs, and it names every operation of the language."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import threadloom as tl
from threadloom.dtypes import ALL
from threadloom.lang import builtins, library

PAGE = Path(__file__).parents[2] / "docs" / "language.md"


def test_code_runs():
    lines = PAGE.read_text(encoding="utf-8").split("\n")
    code, inside = [], False
    for line in lines:  # code keeps its line numbers
        fence = line.startswith("```")
        code.append(line + "\n" if inside and not fence else "\n")
        inside = not inside and line == "```python" if fence else inside
    file = "<docs/language.md>"
    linecache.cache[file] = (0, None, code, file)
    exec(compile("".join(code), file, "exec"), {})


def test_every_operation_is_described():
    words = set(re.findall(r"\w+", PAGE.read_text(encoding="utf-8")))
    homes = {builtins.__name__: builtins, library.__name__: library}
    names = {n for home, m in homes.items() for n, v in vars(m).items() if getattr(v, "__module__", "") == home}
    names = {n for n in names if not n.startswith("_")}
    assert all(hasattr(tl, n) for n in names)
    assert len(names) > 40 and not names - words, names - words
    assert not set(ALL) - {"bool"} - words
