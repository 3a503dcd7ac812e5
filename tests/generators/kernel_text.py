"""Kernels from text that tests write or make up: the text is registered like a file, so that positions are true."""

from __future__ import annotations

import itertools
import linecache
import textwrap

import threadloom as tl
from threadloom.lang.kernel import Kernel

_count = itertools.count()


def kernel_from_text(text: str, **names: object) -> Kernel:
    """The kernel called `k` (or the last one) that `text` defines; `tl` and `names` can be used in it."""
    text = textwrap.dedent(text).lstrip("\n")
    file = f"<kernel {next(_count)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, object] = {"tl": tl, **names}
    exec(compile(text, file, "exec"), scope)
    found = [v for v in scope.values() if isinstance(v, Kernel)]
    return scope.get("k", found[-1] if found else None)
