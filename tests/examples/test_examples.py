"""Every example agrees with its float64 reference, with whole and with ragged tiles."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from threadloom.dtypes import ALL, numpy_dtype
from threadloom.tolerance import bound, worst_error

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if not p.stem.startswith("_"))


def cases() -> list[tuple[str, dict[str, int]]]:
    return [(name, shape) for name in NAMES for shape in importlib.import_module(f"threadloom.examples.{name}").SHAPES]


@pytest.mark.parametrize(("name", "shape"), cases(), ids=str)
def test_example(name: str, shape: dict[str, int]):
    module = importlib.import_module(f"threadloom.examples.{name}")
    kernel = getattr(module, name)
    rng = np.random.default_rng(0)
    arguments = module.inputs(rng, **shape)
    want = module.reference(**arguments)
    check(kernel(**arguments), want, shape)
    check(kernel.interpret(**arguments, tiles=1), want, shape)
    check(kernel.interpret(**arguments, tiles=2, exact=True), want, shape, "f64")


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_example_in_narrow_floats(name: str, dtype: str):
    module = importlib.import_module(f"threadloom.examples.{name}")
    shape = module.SHAPES[0]
    arguments = module.inputs(np.random.default_rng(0), **shape, dtype=numpy_dtype(ALL[dtype]))
    check(getattr(module, name)(**arguments), module.reference(**arguments), shape, dtype)


def check(got: object, want: object, shape: dict[str, int], dtype: str = "") -> None:
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    for ours, reference in zip(got, want, strict=True):
        name = dtype or next(t.name for t in ALL.values() if numpy_dtype(t) == ours.dtype)
        scale = float(np.abs(np.asarray(reference, np.float64)).max(initial=0))
        assert worst_error(ours, reference) <= bound(name, max(shape.values()), scale)


@pytest.mark.parametrize(("name", "limit"), [("matmul", 12), ("flash_attention", 40)])
def test_kernels_are_short(name: str, limit: int):
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    kernel = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    assert kernel.end_lineno - kernel.decorator_list[0].lineno + 1 <= limit


def test_an_example_runs_by_itself():
    done = subprocess.run(
        [sys.executable, FOLDER / "softmax.py"], capture_output=True, text=True, timeout=120, check=True
    )
    assert re.search(r"largest error against float64 \d\.\d\de-\d\d", done.stdout)
