"""Reads one section out of ELF objects and of the members of archives."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")


def section(data: bytes, name: str) -> bytes | None:
    """The contents of section `name` of the 64-bit little-endian ELF file `data`; None where there is none."""
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    header = _ELF_HEADER.unpack_from(data)
    offset, size, count, names_index = header[6], header[11], header[12], header[13]
    headers = [_SECTION_HEADER.unpack_from(data, offset + index * size) for index in range(count)]
    if not headers:
        return None
    names = headers[names_index]
    for one in headers:
        start = names[4] + one[0]
        if data[start : data.index(b"\0", start)].decode("latin-1") == name:
            return data[one[4] : one[4] + one[5]]
    return None


def members(path: Path) -> Iterator[bytes]:
    """The object itself, or the objects in an archive."""
    data = path.read_bytes()
    if not data.startswith(b"!<arch>\n"):
        yield data
        return
    position = 8
    while position + 60 <= len(data):
        name, size = data[position : position + 16].rstrip(), int(data[position + 48 : position + 58])
        if name not in (b"/", b"//", b"/SYM64/"):
            yield data[position + 60 : position + 60 + size]
        position += 60 + size + size % 2
