"""Compiled objects on disk, by content. Losing an entry, or the whole disk, only costs time.

An entry is the SHA-256 of its payload, then the payload: a torn or damaged file is noticed, ignored and rewritten.
Entries appear by atomic rename. Because entries are code that we will run, the folder must belong to this user and be
closed to others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
import warnings
from pathlib import Path

from threadloom import env

_FORMAT = b"threadloom object 1\n"
_DIGEST_BYTES = 32
_WRITING = ".writing-"
_TORN_AFTER_SECONDS = 3600
MOST_BYTES = 1 << 30
_STORES_PER_PRUNE = 64


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
        self._stores = 0

    def load(self, name: str) -> bytes | None:
        if self.folder is None:
            return None
        try:
            if not self._is_safe():
                return None
            content = self._path(name).read_bytes()
        except OSError:
            return None
        with contextlib.suppress(OSError):
            os.utime(self._path(name))  # used now: pruned last
        head = len(_FORMAT) + _DIGEST_BYTES
        payload = content[head:]
        if content[: len(_FORMAT)] != _FORMAT or content[len(_FORMAT) : head] != hashlib.sha256(payload).digest():
            return None
        return payload

    def store(self, name: str, payload: bytes) -> None:
        if self.folder is None:
            return
        try:
            env.make_private(self.folder)
            if self._is_safe():
                self._replace(self._path(name), _FORMAT + hashlib.sha256(payload).digest() + payload)
                self._stores += 1
                if self._stores % _STORES_PER_PRUNE == 1:
                    self.prune()
            else:
                self._warn("belongs to another user or is open to others")
        except OSError as error:
            self._warn(error.strerror or str(error))

    def prune(self, most_bytes: int = MOST_BYTES) -> None:
        """Remove the entries that were not used for longest until the rest fits, and what torn writes left."""
        if self.folder is None:
            return
        now, entries = time.time(), []
        for path in self.folder.iterdir():
            try:
                status = path.stat()
            except OSError:  # another process removed it
                continue
            if path.name.startswith(_WRITING) and now - status.st_mtime > _TORN_AFTER_SECONDS:
                path.unlink(missing_ok=True)
            elif path.suffix == ".object":
                entries.append((status.st_mtime, status.st_size, path))
        excess = sum(size for _, size, _ in entries) - most_bytes
        for _, size, path in sorted(entries):
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= size

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
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_WRITING)
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
