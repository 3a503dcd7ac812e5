"""docs/environment.md lists every environment variable of ours, made from the registry."""

from __future__ import annotations

import re
from pathlib import Path

from threadloom import env

ROOT = Path(__file__).parents[3]
HEAD = """\
# Environment variables

These are all; another one that starts with `LOOM_` is an error, so that a typing mistake is noticed. This page is made
from `threadloom/env.py`; `pytest --update-golden` makes it anew.

| name | default | meaning |
|---|---|---|
"""


def test_page_is_current(golden):
    rows = [f"| `{v.name}` | {f'`{v.default}`' if v.default else ''} | {v.meaning} |\n" for v in env.VARIABLES.values()]
    golden(ROOT / "docs" / "environment.md", HEAD + "".join(rows))


def test_there_are_at_most_ten():
    assert len(env.VARIABLES) <= 10


def test_no_module_reads_another_one():
    """Names in Python code that look like ours are in the registry."""
    for path in sorted((ROOT / "threadloom").rglob("*.py")):
        for name in re.findall(r"environ[^\n]*[\"'](LOOM_[A-Z_]+)[\"']", path.read_text()):
            assert name in env.VARIABLES, f"{path}: {name}"
