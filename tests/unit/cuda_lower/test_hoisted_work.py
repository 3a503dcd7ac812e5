"""The paper's normalize: hoisting makes O(n^2) work O(n), counted in the interpreter's steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from threadloom.cuda.optimize.hoist_invariant import HoistInvariant
from threadloom.par.interp import Interpreter
from threadloom.par.ops import Level, Module
from threadloom.par.text import parse

NORMALIZE = Path(__file__).parents[2] / "files" / "cuda_optimize" / "normalize.par"


def _steps(module: Module, n: int) -> tuple[int, np.ndarray]:
    x, out = np.arange(1, n + 1, dtype=np.float32), np.zeros(n, np.float32)
    interpreter = Interpreter(module, {}, (), 1 << 30)
    interpreter.run("normalize", [out, x, n, n // 32])
    return interpreter.steps, out


def test_the_sum_is_computed_once_instead_of_once_per_thread() -> None:
    before = parse(NORMALIZE.read_text(), "normalize.par")
    after = HoistInvariant(Level.BLOCKS).apply(HoistInvariant(Level.THREADS).apply(before))
    counted = {n: (_steps(before, n), _steps(after, n)) for n in (64, 128, 256)}
    for (_, left), (_, right) in counted.values():
        assert np.array_equal(left, right)
    (old, new), (old_twice, new_twice), (old_4, new_4) = (tuple(side[0] for side in counted[n]) for n in counted)
    assert old_4 - old_twice > 3.5 * (old_twice - old)  # quadratic
    assert abs((new_4 - new_twice) - 2 * (new_twice - new)) <= 2  # linear
