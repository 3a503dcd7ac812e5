"""Compiled code agrees with the float64 reference for every example, at both widths this machine may have."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from cpu_run import WIDTHS, run_compiled, target_of

from threadloom.comparison import compare
from threadloom.tile.ops import Access

FOLDER = Path(importlib.import_module("threadloom.examples").__path__[0])
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if not p.stem.startswith("_"))


def cases() -> list[tuple[str, dict[str, int]]]:
    return [(name, shape) for name in NAMES for shape in importlib.import_module(f"threadloom.examples.{name}").SHAPES]


@pytest.mark.parametrize(("number", "name", "shape"), [(n, *case) for n, case in enumerate(cases())], ids=str)
def test_example(number: int, name: str, shape: dict[str, int]):
    """Half of the cases at each width; test_all_widths has the others."""
    check(name, shape, ("avx512", "avx2")[number % 2])


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "shape"), cases(), ids=str)
def test_all_widths(name: str, shape: dict[str, int], width: str):
    check(name, shape, width)


def check(name: str, shape: dict[str, int], width: str) -> None:
    module = importlib.import_module(f"threadloom.examples.{name}")
    arguments = module.inputs(np.random.default_rng(0), **shape)
    want = module.reference(**arguments)
    want = want if isinstance(want, tuple) else (want,)
    call = getattr(module, name).bind(**arguments)
    got = run_compiled(call, target_of(width), extent=16 if width == "avx2" else 64)
    outputs = [t.name for t in call.kernel.tensors if t.access is not Access.IN]
    found = compare(call.kernel, call.dims, dict(zip(outputs, got, strict=True)), dict(zip(outputs, want, strict=True)))
    assert all(c.holds for c in found), found
