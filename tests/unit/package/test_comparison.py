"""Comparing with float64: which reduction sets the tolerance, and what is too far."""

from __future__ import annotations

import numpy as np
import pytest

import threadloom as tl
from threadloom.cli.inputs import planning_problem
from threadloom.cli.kernel_argument import choose
from threadloom.comparison import compare, longest_reduction, narrow_sums, roundings, tolerance
from threadloom.tolerance import EPS


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


@pytest.mark.parametrize(
    ("example", "dtype", "rounded"),
    [("matmul", "bf16", []), ("matmul", "f32", []), ("flash_attention", "bf16", ["bf16"]), ("layernorm", "f16", [])],
)
def test_what_a_kernel_rounds_on_the_way(example, dtype, rounded):
    problem = planning_problem(choose(example, {}), dtype, "f32")
    assert [value.name for value in roundings(problem.kernel)] == rounded
    assert narrow_sums(problem.kernel) == []


def test_the_length_of_a_sum_does_not_multiply_the_rounding_of_its_result():
    short, long = (
        tolerance(problem.kernel, problem.dims, tl.bf16, np.ones(1))
        for problem in (planning_problem(choose("matmul", {"K": k}), "bf16", "f32") for k in (16, 16384))
    )
    assert EPS["bf16"] < short < long < 1.1 * EPS["bf16"]


@tl.kernel
def added_in_f16(x: tl.Tensor["M", "N", tl.f16]) -> tl.Tensor["M", tl.f16]:
    for m in tl.grid("M"):
        total = tl.zeros(m, dtype=tl.f16)
        for n in tl.stream(tl.each("N")):
            total += x[m, n]
        out[m] = total


@tl.kernel
def through_f32(x: tl.Tensor["N", tl.f64]) -> tl.Tensor["N", tl.f64]:
    for n in tl.grid("N"):
        out[n] = tl.cast(tl.cast(x[n], tl.f32) * 3.0, tl.f64)


def test_a_kernel_that_sums_in_a_narrow_type_itself_is_measured_by_it():
    call = added_in_f16.bind(np.ones((2, 100), np.float16))
    assert [value.name for value in narrow_sums(call.kernel)] == ["f16"]
    assert tolerance(call.kernel, call.dims, tl.f16, np.ones(2)) > 8 * EPS["f16"] * 10
    call = through_f32.bind(np.ones(3))
    assert 8 * EPS["f32"] <= tolerance(call.kernel, call.dims, tl.f64, np.ones(3)) < 100 * EPS["f32"]
