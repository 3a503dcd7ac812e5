"""Families of tests of which the default suite runs one of each kind; the others are marked slow."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def some(values: Iterable[object], quick: Iterable[object]) -> list[object]:
    """`values` for pytest.mark.parametrize, those not among `quick` marked slow."""
    kept = list(quick)
    values = list(values)
    if missing := [value for value in kept if value not in values]:
        raise ValueError(f"{missing} are not among the values")
    return [value if value in kept else _slow(value) for value in values]


def slow(value: object) -> object:
    """One argument of a test, which is marked slow with it."""
    return pytest.param(value, marks=pytest.mark.slow)


def _slow(value: object) -> object:
    parts = value if isinstance(value, tuple) else (value,)
    return pytest.param(*parts, marks=pytest.mark.slow)
