"""docs/errors.md lists every error that a user can meet, made from the slugs; and every slug has a test."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import threadloom
from threadloom.errors import SLUGS

ROOT = Path(__file__).parents[3]
HEAD = """\
# Errors

Every error that the input can cause, by the name in its brackets: `error[name]`. Each message says what is wrong,
where, why, and what to try. This page is made from the names' registrations; `pytest --update-golden` makes it anew.

| name | meaning |
|---|---|
"""


def registered() -> dict[str, str]:
    """All slugs; they stand beside their checks, so every module must be imported."""
    for module in pkgutil.walk_packages(threadloom.__path__, "threadloom."):
        if not module.name.endswith("__main__") and not module.name.startswith("threadloom.examples"):
            importlib.import_module(module.name)
    return SLUGS


def test_page_is_current(golden):
    rows = [f"| `{name}` | {meaning} |\n" for name, meaning in sorted(registered().items())]
    golden(ROOT / "docs" / "errors.md", HEAD + "".join(rows))


# These can only be met where there is a GPU (or a broken one).
ON_A_GPU = {"gpu-misaligned"}


def test_every_error_has_a_test():
    """By its name, or by the constant that holds it."""
    tests = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("*.py") if p != Path(__file__))
    constants = {}
    for path in (ROOT / "threadloom").rglob("*.py"):
        found = re.findall(r'(\w+) = slug\(\s*"([^"]+)"', path.read_text(encoding="utf-8"))
        constants |= {name: constant for constant, name in found}
    untested = {n for n in registered() if n not in tests and not re.search(rf"\b{constants.get(n, n)}\b", tests)}
    assert untested - ON_A_GPU == set()


def test_slugs_are_names_and_meanings_are_lines():
    for name, meaning in registered().items():
        assert name.replace("-", "").isalnum() and name == name.lower(), name
        assert meaning and "\n" not in meaning and "|" not in meaning, name
