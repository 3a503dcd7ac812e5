"""Uneven tiles from long to short, section by section: every tile is done once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.cuda_emit.test_factors import arguments_of_sums, decayed_sums
from tests.unit.cuda_emit.test_random_programs import on_cpu
from threadloom.sched import candidate


@pytest.mark.slow
@pytest.mark.clang
@pytest.mark.parametrize("section", [2, 3])
def test_results_do_not_depend_on_the_section(section: int, monkeypatch: pytest.MonkeyPatch):
    given = arguments_of_sums("gentle", 150)
    given["y"] = np.random.default_rng(2).standard_normal((150, 300)).astype(np.float16)
    monkeypatch.setattr(candidate, "_longest_first_group", lambda *_: section)
    got = on_cpu(decayed_sums, np.float16, **given)
    x, a, b, c, y = (given[n].astype(np.float64) for n in "xabcy")
    weights = np.tril(x * np.exp(a[:, None] - b[None, :]) * c)
    assert np.allclose(got, weights @ y, rtol=1e-2, atol=1e-2)
