"""What `loom bench rodinia` and `loom bench ablation` share: options, names of pairs, and a record that grows."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from threadloom.bench.suites.rodinia_pairs import PAIRS, Pair
from threadloom.cli import UsageError, json_output
from threadloom.cli.numbers import at_least


def add_suite_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--path", type=Path, metavar="CHECKOUT", help="a checkout of Rodinia, which is only read")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="folder for copies (default: a temporary one)")
    parser.add_argument("--jobs", type=at_least(1), default=1, help="builds at a time (default 1)")
    parser.add_argument("--only", default="", metavar="NAMES", help="these pairs, with commas (default: all)")
    parser.add_argument("--rounds", type=at_least(0), default=5, help="runs of a program (default 5); 0: only build")
    json_output.add_json_argument(parser)


def pairs_named(only: str) -> list[Pair]:
    """The pairs of the comma-separated `only`; all of them where it is empty."""
    names = [name for name in only.split(",") if name]
    known = {pair.name: pair for pair in PAIRS}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"no pair is called {unknown[0]}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(PAIRS)


def earlier_record(path: str | None) -> dict:
    """What `--json` names, if there is such a file."""
    place = Path(path) if path and path != "-" else None
    return json.loads(place.read_text()) if place is not None and place.exists() else {}
