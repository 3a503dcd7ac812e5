"""What LLVM assembly says that no leaf carries."""

from __future__ import annotations

import re

_HINT_LINES = re.compile(
    r"^ +(?:#dbg_[^\n]*|(?:tail )?call void @llvm\.(?:assume|lifetime|invariant|experimental\.noalias)[^\n]*)\n",
    re.MULTILINE,
)
_UNREAD_METADATA = re.compile(r", !(?!dbg )[-\w.]+ ![0-9]+(?=[,\n])")  # tbaa, loop hints
_CALL_GROUP = re.compile(r" #\d+(?=,|$)", re.MULTILINE)
_VARIADIC_TYPE = re.compile(r"(\bcall [^@\n%]*?) \([^()\n]*\.\.\.\) (?=[@%])")
_RETURN_ATTRS = re.compile(
    r"(\bcall (?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc) )*)"
    r"((?:(?:noundef|signext|zeroext|nonnull|noalias|inreg|align \d+|(?:dereferenceable|dereferenceable_or_null|range|"
    r"nofpclass)\([^)]*\)) )+)"
)


def without_hints(source: str) -> str:
    """Drop what no leaf carries: debug records, assumptions, lifetimes, all metadata but places, groups and result
    attributes of calls."""
    source = _HINT_LINES.sub("", source)
    source = _UNREAD_METADATA.sub("", source)
    source = _CALL_GROUP.sub("", source)
    source = _VARIADIC_TYPE.sub(r"\1 ", source)
    source = re.sub(r"\binrange\([^)]*\) ", "", source)
    return _RETURN_ATTRS.sub(r"\1", source)
