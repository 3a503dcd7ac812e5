"""Which headers of the C++ library a source asks for, by its own text and that of the headers of its project.

Nothing is preprocessed: a header that stands in a branch which is not taken counts as well, and one that a macro names
does not. That is enough for what is compiled ahead (precompiled_prelude.py), since a header of the C++ library may
include any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<([\w./+-]+)>|"([^"\n]+)")', re.MULTILINE)
# What changes the library's headers, where it is defined before they are included.
_CHANGES = re.compile(
    r"#[ \t]*define[ \t]+(?:(?:_GLIBCXX|_LIBCPP|__STDC|_GNU_SOURCE|_XOPEN|_POSIX)\w*|private|protected|class)\b"
)
_MOST_FILES = 50
# Declarations only (not <cassert>, which asks for NDEBUG), and costly to read.
STANDARD = frozenset(
    "algorithm array chrono complex deque fstream functional iomanip iostream iterator list map memory numeric ostream "
    "queue random set sstream stack string thread tuple unordered_map unordered_set utility vector".split()
)


def standard_headers(source: Path, folders: Iterable[Path]) -> tuple[str, ...]:
    """Sorted; none where the source changes what they say."""
    folders = tuple(folders)
    found: set[str] = set()
    open_, seen = [source], {source}
    while open_:
        path = open_.pop()
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        if _CHANGES.search(text):
            return ()
        for standard, own in _INCLUDE.findall(text):
            if standard in STANDARD:
                found.add(standard)
                continue
            near = (path.parent,) if own else ()
            inner = next((p for f in (*near, *folders) if (p := f / (own or standard)).is_file()), None)
            if inner is not None and inner not in seen and len(seen) < _MOST_FILES:
                seen.add(inner)
                open_.append(inner)
    return tuple(sorted(found))
