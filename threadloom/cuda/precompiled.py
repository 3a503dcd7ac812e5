"""Large system headers at the start of a file, compiled once and kept: PyTorch's cost twenty CPU seconds to parse.

What is precompiled is preprocessed text, so that its hash says everything that macros and flags change about it.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

from threadloom import env
from threadloom.cuda.clang import Compiler

_LARGE_BYTES = 4_000_000  # smaller headers are parsed in little time, and a file is ten times their size
_MARKER = re.compile(rb'^# \d+ "((?:[^"\\]|\\.)*)"([ \d]*)$', re.MULTILINE)
_WITH_VALUE = ("-I", "-isystem", "-idirafter", "-iquote")


def leading_headers(preprocessed: bytes, own_folder: bytes) -> tuple[bytes, bytes]:
    """The text of the system headers before the first line of the user's own, and the rest. Line markers tell which is
    which (flag 3: a system header); files under `own_folder` count as system headers."""
    headers: list[bytes] = []
    system, start, position = False, 0, 0
    for marker in _MARKER.finditer(preprocessed):
        piece = preprocessed[position : marker.start()]
        if system:
            headers.append(preprocessed[start : marker.start()])
        elif piece.strip():
            break
        system = b"3" in marker[2].split() or marker[1].startswith(own_folder)
        start, position = marker.span()
    if system:  # nothing of the user's follows
        return b"", preprocessed
    return b"".join(headers), _without_returns(preprocessed[start:])


def _without_returns(rest: bytes) -> bytes:
    """Files that `rest` returns to (flag 2) without having left them were opened before it: they begin anew."""
    depth = 0

    def marker(match: re.Match[bytes]) -> bytes:
        nonlocal depth
        flags = match[2].split()
        depth += (b"1" in flags) - (b"2" in flags)
        if depth >= 0:
            return match[0]
        depth = 0
        return match[0].removesuffix(match[2])

    return _MARKER.sub(marker, rest)


def without_macros(flags: list[str]) -> list[str]:
    """`flags` without those that preprocessed text no longer needs: they would make other headers of equal ones."""
    kept, words = [], iter(flags)
    for word in words:
        if word in _WITH_VALUE:
            next(words)
        elif not word.startswith(("-D", "-U", *_WITH_VALUE)):
            kept.append(word)
    return kept


def use(compiler: Compiler, flags: list[str], text: bytes, own_folder: Path) -> tuple[list[str], bytes]:
    """Flags and text with which clang compiles the preprocessed `text`: what it starts with comes from a precompiled
    header where that is large and there is a cache. `flags` name a language, and no input or output."""
    headers, rest = leading_headers(text, os.fsencode(own_folder))
    base = env.cache_folder()
    if base is None or len(headers) < _LARGE_BYTES:
        return flags, text
    flags = without_macros(flags)
    key = hashlib.sha256(repr((compiler, flags)).encode() + headers).hexdigest()[:32]
    made = base / "precompiled-headers" / f"{key}.pch"
    if not made.exists() and not _compile(compiler, flags, headers, made):
        return flags, text
    return [*flags, "-Xclang", "-include-pch", "-Xclang", str(made)], rest


def _compile(compiler: Compiler, flags: list[str], headers: bytes, made: Path) -> bool:
    """The header's text stays beside it, for clang looks at it again; both are written aside and renamed."""
    env.make_private(made.parent)
    source = made.with_suffix(".headers")
    if not source.exists():
        _replace(source, headers)
    handle, part = tempfile.mkstemp(dir=made.parent, prefix="writing-")
    os.close(handle)
    options = ["-Xclang", "-emit-pch", "-Xclang", "-fno-pch-timestamp"]
    done = compiler.run([*flags, *options, "-c", str(source), "-o", part])
    if done.returncode:
        Path(part).unlink(missing_ok=True)  # clang may have removed it
        return False
    os.replace(part, made)
    return True


def _replace(path: Path, content: bytes) -> None:
    handle, part = tempfile.mkstemp(dir=path.parent, prefix="writing-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(part, path)
