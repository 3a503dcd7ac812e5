"""Show or clear what is stored between runs: compiled code, and tuned plans with their measurements.

Losing compiled code costs a moment at the next call; plans cost the tuning. Only files that threadloom itself writes
are counted and removed, whatever else the folder holds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from threadloom.cli import json_output


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that is stored: the files that `patterns` match, relative to the folder."""

    name: str
    meaning: str
    patterns: tuple[str, ...]

    def files(self, folder: Path) -> Iterator[Path]:
        for pattern in self.patterns:
            yield from (p for p in folder.glob(pattern) if p.is_file() and not p.is_symlink())


KINDS = (
    Kind("code", "compiled code, by content", ("objects/*.object", "objects/.writing-*")),
    Kind("plans", "tuned plans and measurements", ("store.sqlite", "store.sqlite-*", "store.sqlite.bad-*")),
)


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
        files = list(kind.files(folder))
        rows.append({"kind": kind.name, "meaning": kind.meaning, "files": len(files), "bytes": _size_bytes(files)})
        if args.action == "clear":
            for file in files:
                file.unlink(missing_ok=True)
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
        print(f"  {row['kind']:<6} {verb} {row['files']} files, {row['bytes'] / 1e6:.2f} MB ({row['meaning']})")


def _size_bytes(files: list[Path]) -> int:
    total = 0
    for file in files:
        try:
            total += file.stat().st_size
        except FileNotFoundError:  # another process cleared it meanwhile
            continue
    return total
