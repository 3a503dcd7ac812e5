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


@tl.kernel
def quantised(x: tl.Tensor["M", "N", tl.f32], scale: tl.Tensor["M", tl.f32]) -> tl.Tensor["M", "N", tl.u4]:
    for m in tl.grid("M"):
        out[m, :] = tl.cast(tl.minimum(tl.maximum(tl.round(x[m, :] / scale[m]), 0.0), 15.0), tl.u4)


@tl.kernel
def halves(x: tl.Tensor["N", tl.f32], y: tl.Tensor["N", tl.i32]) -> tl.outputs(
    exact=tl.Tensor["N", tl.i8], sums=tl.Tensor["N", tl.i32], other=tl.Tensor["N", tl.i64]
):
    for n in tl.grid("N"):
        exact[n] = tl.cast(tl.maximum(x[n], 0.0), tl.i8)
        sums[n] = y[n] + tl.cast(x[n] * 3.0, tl.i32) - tl.cast(tl.exp(x[n]), tl.i32)
        other[n] = y[n] * 2


def test_a_float_beside_a_boundary_makes_the_next_integer():
    """Of halves times a scale, divided by it, f32 makes halves, and float64 what lies beside them."""
    scale = (0.1 + np.arange(64) / 70).astype(np.float32)
    x = np.repeat(3 * scale[:, None], 256, axis=1)
    x[:, 7] = (np.arange(64) % 15 + 0.5) * scale
    want = quantised.interpret(x, scale, exact=True)
    got = quantised(x, scale)
    call = quantised.bind(x, scale)
    (found,) = compare(call.kernel, call.dims, {"out": got}, {"out": want})
    assert (found.error, found.bound, found.holds) == (1.0, 1.0, True)


@pytest.mark.parametrize(("off", "elements"), [(2, 1), (1, 40), (8, 1)])
def test_a_wrong_quantiser_is_wrong(off, elements):
    x, scale = np.random.default_rng(0).random((4, 256), np.float32), np.full(4, 0.1, np.float32)
    want = quantised.interpret(x, scale, exact=True)
    call = quantised.bind(x, scale)
    wrong = want.astype(np.uint8)
    wrong.flat[:elements] = (wrong.flat[:elements] + off) % 16
    packed = wrong[..., ::2] | wrong[..., 1::2] << 4
    (found,) = compare(call.kernel, call.dims, {"out": packed}, {"out": want})
    assert not found.holds


def test_how_far_integers_may_be_off():
    call = halves.bind(np.zeros(4, np.float32), np.zeros(4, np.int32))
    found = {t: tolerance(call.kernel, call.dims, t, np.ones(4)) for t in (tl.i8, tl.i32, tl.i64)}
    assert found == {tl.i8: 0.0, tl.i32: 2.0, tl.i64: 0.0}
