"""Axes that `:` and tl.axis take whole have their extents compiled in, zero among them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cpu_run import run_compiled, target_of

import threadloom as tl


@tl.kernel
def without_grid(a: tl.Tensor["M", "K", tl.f32], b: tl.Tensor["K", "N", tl.f32]) -> tl.outputs(
    product=tl.Tensor["M", "N", tl.f32], sums=tl.Tensor["M", tl.f32], running=tl.Tensor["M", "K", tl.f32]
):
    m, n, k = tl.axis("M"), tl.axis("N"), tl.axis("K")
    product[m, n] = tl.dot(a[m, k], b[k, n])
    sums[m] = tl.sum(a[m, k], k)
    running[m, k] = tl.cumsum(a[m, k], k)


@tl.kernel
def streamed(a: tl.Tensor["M", "K", tl.f32], b: tl.Tensor["K", "N", tl.f32]) -> tl.outputs(
    product=tl.Tensor["M", "N", tl.f32], sums=tl.Tensor["M", tl.f32], running=tl.Tensor["M", "K", tl.f32]
):
    m, n = tl.axis("M"), tl.axis("N")
    total, before = tl.zeros(m, n), tl.zeros(m)
    for k in tl.stream("K"):
        total += tl.dot(a[m, k], b[k, n])
        running[m, k] = before + tl.cumsum(a[m, k], k)
        before += tl.sum(a[m, k], k)
    product[m, n] = total
    sums[m] = before


EXTENTS = [e for e in itertools.product((0, 1, 5), (0, 9), (0, 17)) if 0 in e] + [(5, 9, 17)]


@pytest.mark.parametrize("kernel", [without_grid, streamed], ids=lambda k: k.name)
@pytest.mark.parametrize("extents", EXTENTS, ids=str)
def test_extents(kernel: object, extents: tuple[int, int, int]):
    rows, inner, columns = extents
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, inner), np.float32), rng.standard_normal((inner, columns), np.float32)
    product, sums, running = kernel(a, b)
    np.testing.assert_allclose(product, a.astype(float) @ b.astype(float), atol=1e-5)
    np.testing.assert_allclose(sums, a.astype(float).sum(axis=1), atol=1e-5)
    np.testing.assert_allclose(running, a.astype(float).cumsum(axis=1), atol=1e-5)


def test_a_grid_of_no_axes_is_one_tile_for_several_cores_too():
    """Where there are many, one tile's predicted time was taken for all of theirs, and several were started."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 9), np.float32), rng.standard_normal((9, 17), np.float32)
    product, sums, _ = run_compiled(without_grid.bind(a, b), target_of("avx2"))
    np.testing.assert_allclose(product, a.astype(float) @ b, atol=1e-5)
    np.testing.assert_allclose(sums, a.astype(float).sum(axis=1), atol=1e-5)
