"""Values of many elements are spread over all threads, whichever of their axes are long."""

from __future__ import annotations

import re

import numpy as np
import pytest
from quick import slow

import threadloom as tl
from tests.unit.cuda_emit.test_products import is_right_on_cpu
from tests.unit.cuda_emit.test_random_programs import compiled
from threadloom.targets.cuda.infer import MANY_REGISTERS, Extents, own_layout
from threadloom.targets.cuda.layout import Layout, Source
from threadloom.tile.ops import TileType, Value

rng = np.random.default_rng(0)


def layout(**extents: int) -> Layout:
    value = Value("x", TileType(tuple(extents), tl.f32))
    return own_layout(value, Extents(extents), {})


def threads_along(made: Layout, axis: str) -> int:
    sizes = [d.size for d in made.digits if d.axis == axis and d.source is not Source.REGISTER]
    return int(np.prod(sizes))


def test_an_axis_of_one_position_is_not_spread():
    made = layout(k=256, n=1, m=8)
    assert threads_along(made, "k") == 64 and made.registers == 16


def test_two_axes_are_spread_where_one_is_too_short():
    made = layout(n=64, m=8, w=4)
    assert threads_along(made, "n") * threads_along(made, "m") == 128 and made.registers == 16


def test_a_value_of_few_registers_keeps_its_layout():
    made = layout(n=4, m=8, w=4)
    assert threads_along(made, "n") == 1 and made.registers == 16


@tl.kernel
def least(x: tl.Tensor["K", "N", "M", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        v = tl.full(4.0, m, n)
        for k in tl.stream("K"):
            v = tl.minimum(v, tl.min(x[k, n, m], k))
        out[m, n] = v


def test_columns_of_planes_compile():
    """Found by random programs: each thread had 2048 elements, and compiling took more than a minute."""
    text = compiled(least.bind(rng.standard_normal((300, 3, 1)).astype(np.float32)))
    assert max(map(int, re.findall(r"float \w+\[(\d+)\];", text))) <= MANY_REGISTERS


@pytest.mark.clang
@pytest.mark.parametrize("shape", [slow((300, 3, 1)), (70, 1, 9)])
def test_columns_of_planes_on_the_cpu(shape: tuple[int, ...]):
    assert is_right_on_cpu(least, rng.standard_normal(shape).astype(np.float32))


@tl.kernel
def planes(x: tl.Tensor["N", "M", "W", tl.f32], y: tl.Tensor["N", "M", tl.f32]) -> tl.Tensor["N", "M", "W", tl.f32]:
    for n in tl.grid("N"):
        m, w = tl.axis("M"), tl.axis("W")
        out[n, m, w] = tl.cumsum(x[n, m, w], w) + tl.sum(x[n, m, w], m) * y[n, m]


@pytest.mark.clang
def test_sums_of_planes_on_the_cpu():
    x, y = rng.standard_normal((140, 24, 6)), rng.standard_normal((140, 24))
    assert is_right_on_cpu(planes, x.astype(np.float32), y.astype(np.float32))
