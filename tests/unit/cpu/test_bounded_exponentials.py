"""exp(x - max of x) is known to be at most 1, and special values still come out as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_run import plain_schedule, run_compiled

import threadloom as tl
from threadloom.par.text import print_module
from threadloom.targets.cpu.compile import form_for, host_target, lower


@tl.kernel
def relative(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        row = x[m, n]
        out[m, n] = tl.exp(row - tl.max(row, n))


@tl.kernel
def relative_to_another(
    x: tl.Tensor["M", "N", tl.f32], y: tl.Tensor["M", "N", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[m, n] = tl.exp(x[m, n] - tl.max(y[m, n], n))


ROWS = np.array(
    [[0, -1, -80, -87, -88, -104, -1e30, -np.inf], [1e30, 1e30, 88, 0, -0.0, -1e30, 3e38, -3e38],
     [-np.inf] * 8, [np.inf, 0, 1, 2, 3, 4, 5, 6], [np.nan, 0, 1, 2, 3, 4, 5, 6]], np.float32
)  # fmt: skip


@pytest.mark.parametrize("width", [8, 7, 1])
def test_special_values(width: int):
    x = np.ascontiguousarray(ROWS[:, :width])
    (got,) = run_compiled(relative.bind(x), host_target())
    with np.errstate(all="ignore"):
        want = np.exp(x - x.max(axis=1, keepdims=True))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.all(got[want == 0] == 0)  # below the normal numbers AVX-512 is right, and others make 0
    assert np.allclose(got, want, rtol=4e-7, equal_nan=True, atol=1.2e-38)


def test_no_bound_where_the_maximum_is_of_something_else():
    """exp overflows to infinity there."""
    x, y = np.full((2, 16), 100, np.float32), np.zeros((2, 16), np.float32)
    (got,) = run_compiled(relative_to_another.bind(x, y), host_target())
    assert np.all(np.isinf(got))


def test_the_upper_limit_is_left_out():
    def comparisons(call) -> int:
        schedule = plain_schedule(call.kernel)
        target = host_target()
        return print_module(lower(schedule, form_for(schedule, call.arrays, call.dims), target)[1]).count("fcmp")

    if host_target().avx512:
        pytest.skip("AVX-512 has an instruction for exponents, without limits")
    x = np.zeros((2, 16), np.float32)
    assert comparisons(relative.bind(x)) < comparisons(relative_to_another.bind(x, x))
