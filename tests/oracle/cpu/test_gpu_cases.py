"""The cases that `benchmarks/hopper_check.py` runs on a GPU, here on the CPU: their references and inputs are right."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from quick import some

from threadloom.comparison import compare

FOLDER = Path(__file__).parents[3] / "benchmarks" / "gpu_cases"
CASES = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "__init__")


@pytest.mark.parametrize("dtype", some((np.float16, np.float32), (np.float16,)), ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_its_reference(name, dtype):
    module = importlib.import_module(f"benchmarks.gpu_cases.{name}")
    kernel = getattr(module, name)
    for shape in module.SHAPES:
        arguments = module.inputs(np.random.default_rng(5), **shape, dtype=dtype)
        call = kernel.bind(**arguments)
        made = kernel(**arguments), module.reference(**arguments)
        results, wanted = (v if isinstance(v, tuple) else (v,) for v in made)
        names = [t.name for t in call.kernel.tensors if t.access.name != "IN"]
        for found in compare(
            call.kernel, call.dims, dict(zip(names, results, strict=True)), dict(zip(names, wanted, strict=True))
        ):
            assert found.holds, (shape, found)
