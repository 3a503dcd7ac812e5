"""Loads by loaded indices: the same whether lanes turn out to be neighbours, one element, or neither."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads
from threadloom.par.interp import interpret
from threadloom.par.text import parse

KERNEL = Path(__file__).parents[2] / "files" / "cuda_vectorize" / "neighbour_indices.par"
COLUMNS = 7


@pytest.mark.parametrize("n", [3, 12, 21])
@pytest.mark.parametrize("shuffled", [False, True])
def test_guesses_change_nothing(n: int, shuffled: bool) -> None:
    rng = np.random.default_rng(n)
    module = parse(
        KERNEL.read_text().replace("define void", "define exported void").replace("to (i32 4)", "to (i32 1)")
    )
    vectors = VectorizeThreads(width=4, worth_it=1e9).apply(module)
    assert vectors != module
    south = np.minimum(np.arange(COLUMNS) + 1, COLUMNS - 1).astype(np.int32)
    east = np.arange(1, n + 1, dtype=np.int32)
    if shuffled:
        rng.shuffle(south)
        rng.shuffle(east)
    x = rng.standard_normal(n + 2 * COLUMNS).astype(np.float32)
    results = []
    for one in (module, vectors):
        results.append(np.zeros(n, np.float32))
        interpret(one, "image", [x, results[-1], south, east, COLUMNS, n])
    assert np.array_equal(*results)
