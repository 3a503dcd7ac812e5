"""Show or clear what is stored between runs: compiled code, and tuned plans with their measurements.

Losing compiled code costs a moment at the next call; plans cost the tuning. Only what threadloom itself writes is
counted and removed, whatever else the folder holds.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path

from threadloom.cli import json_output


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that is stored: the files and folders that `patterns` match, relative to the cache folder."""

    name: str
    meaning: str
    patterns: tuple[str, ...]

    def entries(self, folder: Path) -> list[Path]:
        return [path for pattern in self.patterns for path in folder.glob(pattern)]


KINDS = (
    Kind("code", "compiled code, by content", ("objects/*.object", "objects/.writing-*")),
    Kind("plans", "tuned plans and measurements", ("store.sqlite", "store.sqlite-*", "store.sqlite.bad-*")),
    Kind("cuda", "the CUDA runtime, CUDA roots, emitted CUDA kernels and PyTorch extensions",
         ("cuda-runtime/*", "cuda-home/*", "cuda-programs/*", "torch-extensions/*", "precompiled-headers/*")),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("show", "clear"), default="show", help="default: show")
    parser.add_argument("--kind", choices=[k.name for k in KINDS], help="only this kind (default: all)")
    json_output.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from threadloom import env

    folder = env.cache_folder()
    kinds = [k for k in KINDS if args.kind in (None, k.name)]
    rows = []
    for kind in kinds if folder is not None else ():
        entries = kind.entries(folder)
        size_bytes = sum(map(_size_bytes, entries))
        rows.append({"kind": kind.name, "meaning": kind.meaning, "entries": len(entries), "bytes": size_bytes})
        if args.action == "clear":
            for entry in entries:
                _remove(entry)
    mode = f"{folder.stat().st_mode & 0o777:04o}" if folder is not None and folder.exists() else None
    record = {"folder": str(folder) if folder else None, "mode": mode, "action": args.action, "stored": rows}
    json_output.write(args, "cache", 1, record)
    if args.json != "-":
        _print(args.action, folder, mode, rows)
    return 0


def _print(action: str, folder: Path | None, mode: str | None, rows: list[dict[str, str | int]]) -> None:
    if folder is None:
        print("nothing is kept between runs: LOOM_CACHE=off")
        return
    print(f"{folder}" + (f", mode {mode}" if mode else ", not made yet"))
    verb = "removed" if action == "clear" else "holds"
    for row in rows:
        print(f"  {row['kind']:<6} {verb} {row['entries']} entries, {row['bytes'] / 1e6:.2f} MB ({row['meaning']})")


def _size_bytes(entry: Path) -> int:
    """Bytes of a file, or of all files in a folder; links count nothing, and so does what another process removes."""
    if entry.is_symlink():
        return 0
    if entry.is_dir():
        return sum(map(_size_bytes, entry.iterdir()))
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return 0


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
