"""`--json FILE`: the machine-readable side of a command.

Every record is an object with a `schema` field, `threadloom.<command>/<version>`; the version changes when a field
changes its meaning or goes. FILE is written whole or not at all; `-` is standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from threadloom.whole_file import write_whole

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
