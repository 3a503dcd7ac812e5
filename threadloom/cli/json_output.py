"""`--json FILE`: the machine-readable side of a command.

Every record is an object with a `schema` field, `threadloom.<command>/<version>`; the version changes when a field
changes its meaning or goes. FILE is written whole or not at all; `-` is standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

# What JSON can hold; Mapping, so that TypedDicts and dicts of narrower values fit.
Json = None | bool | int | float | str | list["Json"] | tuple["Json", ...] | Mapping[str, "Json"]


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="also write the result as JSON (- for standard output)")


def write(args: argparse.Namespace, command: str, version: int, record: Mapping[str, Json]) -> None:
    """Write `record` where `--json` says, if it was given."""
    if args.json is None:
        return
    from threadloom import __version__

    whole = {"schema": f"threadloom.{command}/{version}", "threadloom": __version__, **record}
    text = json.dumps(whole, indent=2, allow_nan=False) + "\n"
    if args.json == "-":
        sys.stdout.write(text)
    else:
        write_whole(Path(args.json), text)


def finite(number: float) -> float | None:
    """JSON has no infinity and no NaN: they become null."""
    import math

    return number if math.isfinite(number) else None


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path` so that a reader, or a full disk, never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
