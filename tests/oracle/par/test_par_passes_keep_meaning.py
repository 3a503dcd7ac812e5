"""canonicalize on random programs: the interpreter gives the same before and after."""

import numpy as np
import pytest
from property.par.par_programs import CELLS, random_module

from threadloom.par.canonicalize import Canonicalize
from threadloom.par.interp import interpret
from threadloom.par.passes import run_passes

BLOCKS = 2


def run(module, seed):
    source = np.random.default_rng(seed).integers(-(2**62), 2**62, CELLS + 8)
    out = np.zeros((BLOCKS, 2 * CELLS), np.int64)
    outcome = interpret(module, "f", [out, source, BLOCKS, 77, 1.5])
    return out, outcome.findings


@pytest.mark.parametrize("seed", range(12))
def test_canonicalize_keeps_the_meaning(seed):
    seen = []

    def compare(name, before, after):
        seen.append(name)
        assert np.array_equal(run(before, seed)[0], run(after, seed)[0]), name
        assert run(after, seed)[1] == (), name

    run_passes(random_module(seed, 16), [Canonicalize()], hook=compare)
    assert seen  # something changed
