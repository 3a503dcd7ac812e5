"""Comparing with float64: which reduction sets the tolerance, and what is too far."""

from __future__ import annotations

import numpy as np
import pytest

from threadloom.cli.inputs import planning_problem
from threadloom.cli.kernel_argument import choose
from threadloom.comparison import compare, longest_reduction


@pytest.mark.parametrize(
    ("example", "shape", "length"),
    [
        ("matmul", {"M": 3, "N": 5, "K": 70}, 70),
        ("softmax", {"M": 3, "N": 5}, 5),
        ("flash_attention", {"SQ": 3, "SK": 5, "D": 64}, 64),
        ("flash_attention", {"SQ": 3, "SK": 500, "D": 64}, 500),
    ],
)
def test_longest_reduction(example, shape, length):
    problem = planning_problem(choose(example, shape), None, "f32")
    assert longest_reduction(problem.kernel, problem.dims) == length


@pytest.mark.parametrize(("off", "holds"), [(0.0, True), (1e-6, True), (1e-4, False), (np.nan, False), (np.inf, False)])
def test_what_is_too_far(off, holds):
    problem = planning_problem(choose("softmax", {"M": 1, "N": 4}), None, "f32")
    want = np.full((1, 4), 0.25)
    got = (want + np.array([off, 0, 0, 0])).astype(np.float32)
    (found,) = compare(problem.kernel, problem.dims, {"out": got}, {"out": want})
    assert found.holds is holds
