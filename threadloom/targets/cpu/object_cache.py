"""Compiled objects on disk, by content. Losing an entry, or the whole disk, only costs time.

An entry is the SHA-256 of its payload, then the payload: a torn or damaged file is noticed, ignored and rewritten.
Entries appear by atomic rename. Because entries are code that we will run, the folder must belong to this user and be
closed to others.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import warnings
from pathlib import Path

from threadloom import env

_FORMAT = b"threadloom object 1\n"
_DIGEST_BYTES = 32


def key(*parts: str) -> str:
    """A name for what `parts` determine."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


class ObjectCache:
    """`load` and `store` never raise for what the disk does; trouble is told once, as a warning."""

    def __init__(self, folder: Path | None):
        self.folder = folder
        self._warned = False

    def load(self, name: str) -> bytes | None:
        if self.folder is None:
            return None
        try:
            if not self._is_safe():
                return None
            content = self._path(name).read_bytes()
        except OSError:
            return None
        head = len(_FORMAT) + _DIGEST_BYTES
        payload = content[head:]
        if content[: len(_FORMAT)] != _FORMAT or content[len(_FORMAT) : head] != hashlib.sha256(payload).digest():
            return None
        return payload

    def store(self, name: str, payload: bytes) -> None:
        if self.folder is None:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_safe():
                self._replace(self._path(name), _FORMAT + hashlib.sha256(payload).digest() + payload)
            else:
                self._warn("belongs to another user or is open to others")
        except OSError as error:
            self._warn(error.strerror or str(error))

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name}.object"

    def _is_safe(self) -> bool:
        assert self.folder is not None
        if not hasattr(os, "getuid"):
            return True
        status = self.folder.stat()
        return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

    def _replace(self, path: Path, content: bytes) -> None:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"compiled code is not kept between runs: {self.folder} {why}", RuntimeWarning, stacklevel=4)


_caches: dict[Path | None, ObjectCache] = {}


def default_cache() -> ObjectCache:
    """The cache of the folder that LOOM_CACHE names now."""
    base = env.cache_folder()
    folder = None if base is None else base / "objects"
    return _caches.setdefault(folder, ObjectCache(folder))
