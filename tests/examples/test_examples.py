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
from quick import some

from threadloom.comparison import compare
from threadloom.dtypes import ALL, numpy_dtype
from threadloom.lang.bind import Call
from threadloom.tile.ops import Access
from threadloom.tolerance import bound, worst_error

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if not p.stem.startswith("_"))


def cases() -> list[tuple[str, dict[str, int]]]:
    return [(name, shape) for name in NAMES for shape in importlib.import_module(f"threadloom.examples.{name}").SHAPES]


def first_cases() -> list[tuple[str, dict[str, int]]]:
    """Of each example the first; the compiled code of the others is tested in oracle/cpu."""
    return [next(case for case in cases() if case[0] == name) for name in NAMES]


@pytest.mark.parametrize(("name", "shape"), some(cases(), first_cases()), ids=str)
def test_example(name: str, shape: dict[str, int]):
    module = importlib.import_module(f"threadloom.examples.{name}")
    kernel = getattr(module, name)
    rng = np.random.default_rng(0)
    arguments = module.inputs(rng, **shape)
    want = module.reference(**arguments)
    call = kernel.bind(**arguments)
    check(call, kernel(**arguments), want)
    check(call, kernel.interpret(**arguments, tiles=1), want)
    for ours, reference in pairs(kernel.interpret(**arguments, tiles=2, exact=True), want):
        scale = float(np.abs(np.asarray(reference, np.float64)).max(initial=0))
        assert worst_error(ours, reference) <= bound("f64", max(shape.values()), scale)


NARROW = ("chunk_scan", "conv2d", "flash_attention", "matmul", "softmax", "w4_matmul")


@pytest.mark.parametrize("dtype", some(["f16", "bf16"], ["f16"]))
@pytest.mark.parametrize("name", some(NAMES, NARROW))
def test_example_in_narrow_floats(name: str, dtype: str):
    module = importlib.import_module(f"threadloom.examples.{name}")
    arguments = module.inputs(np.random.default_rng(0), **module.SHAPES[0], dtype=numpy_dtype(ALL[dtype]))
    kernel = getattr(module, name)
    check(kernel.bind(**arguments), kernel(**arguments), module.reference(**arguments))


def check(call: Call, got: object, want: object) -> None:
    outputs = [t.name for t in call.kernel.tensors if t.access is not Access.IN]
    ours, references = (dict(zip(outputs, side, strict=True)) for side in zip(*pairs(got, want), strict=True))
    found = compare(call.kernel, call.dims, ours, references)
    assert all(c.holds for c in found), found


def pairs(got: object, want: object) -> list[tuple[np.ndarray, np.ndarray]]:
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    return list(zip(got, want, strict=True))


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
