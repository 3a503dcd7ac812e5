"""A mask on indices works in the place of the product that it selects from, and tiles where it holds leave it out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cpu_run import plain_schedule, run_compiled
from quick import slow

import threadloom as tl
from threadloom.targets.cpu.compile import form_for
from threadloom.targets.cpu.plan import Loop, Loops
from threadloom.targets.cpu.planning import plan_kernel
from threadloom.targets.cpu.schedule import AVX2

M, N, D = 70, 90, 16
TILES = {"m": 32, "n": 32}


def inputs(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@tl.kernel
def masked(
    q: tl.Tensor["M", D, tl.f32], k: tl.Tensor["N", D, tl.f32], v: tl.Tensor["N", D, tl.f32],
    scaled: tl.Const[bool] = False, twice: tl.Const[bool] = False,
) -> tl.outputs(out=tl.Tensor["M", D, tl.f32], sums=tl.Tensor["M", tl.f32]):  # fmt: skip
    for m in tl.grid("M"):
        d = tl.axis(D)
        acc = tl.zeros(m, d)
        top, total = tl.full(-math.inf, m), tl.zeros(m)
        for n in tl.stream("N"):
            s = tl.dot(q[m, :], k[n, :])
            seen = tl.where(n <= m + 20, s * 0.5 if scaled else s, -math.inf)
            new = tl.maximum(top, tl.max(seen, n))
            p = tl.exp(seen - new)
            total += tl.sum(tl.exp(s * 0.1) if twice else p * 0.0, n)
            acc = acc * tl.exp(top - new) + tl.dot(p, v[n, d])
            top = new
        out[m, d] = acc
        sums[m] = total


@pytest.mark.parametrize("options", [{}, {"scaled": True}, {"twice": True}, {"scaled": True, "twice": True}], ids=str)
@pytest.mark.parametrize("shape", [slow((M, N)), (33, 31), slow((1, 1))], ids=str)
def test_masks_are_right(options: dict[str, bool], shape: tuple[int, int]):
    call = masked.bind(*inputs((shape[0], D), (shape[1], D), (shape[1], D)), **options)
    want = masked.interpret(*(call.arrays[name] for name in "qkv"), **options, exact=True)
    for found, expected in zip(run_compiled(call, AVX2, TILES), want, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def masks_of(options: dict[str, bool]) -> tuple[list[bool], int]:
    """(for every nest of the stream whether it is left out where its condition holds, tiles of the scores' size)."""
    call = masked.bind(*inputs((M, D), (N, D), (N, D)), **options)
    schedule = plain_schedule(call.kernel, TILES)
    plan = plan_kernel(schedule, form_for(schedule, call.arrays, call.dims), AVX2)
    (loop,) = (step for step in plan.body.steps if isinstance(step, Loop))
    nests = [step for step in loop.body.steps if isinstance(step, Loops)]
    squares = {home.buffer for home in plan.homes.values() if set(home.layout.axes) == {"m", "n"}}
    rooms = {name for nest in nests for name, home in nest.rooms if set(home.layout.axes) == {"m", "n"}}
    return [nest.masks for nest in nests], len(squares | rooms)


def test_masked_scores_take_the_place_of_the_scores():
    assert masks_of({}) == ([True, False], 1)
    assert masks_of({"scaled": True}) == ([False, False], 1)


def test_scores_that_are_read_again_keep_their_place():
    masks, squares = masks_of({"twice": True})
    assert not any(masks) and squares > 1


@tl.kernel
def summed(q: tl.Tensor["M", D, tl.f32], k: tl.Tensor["N", D, tl.f32], seen: tl.Function) -> tl.Tensor["M", tl.f32]:
    for m in tl.grid("M"):
        total = tl.zeros(m)
        for n in tl.stream("N"):
            s = tl.where(seen(m, n), tl.dot(q[m, :], k[n, :]), 3.0)
            total += tl.sum(s, n) + tl.max(s, n)
        out[m] = total


CONDITIONS = {
    "n <= m + 20": lambda m, n: n <= m + 20,
    "m > n": lambda m, n: m > n,
    "n >= m - 20": lambda m, n: n >= m - 20,
    "m - 20 < n": lambda m, n: m - 20 < n,
    "2 n <= m": lambda m, n: 2 * n <= m,
    "n < 40": lambda m, n: n < 40,
    "m < 40": lambda m, n: m < 40,
}


@pytest.mark.parametrize("seen", CONDITIONS.values(), ids=CONDITIONS)
def test_only_the_part_where_a_mask_may_fail_is_visited(seen):
    arrays = inputs((M, D), (N, D))
    (got,) = run_compiled(summed.bind(*arrays, seen=seen), AVX2, TILES)
    want = summed.interpret(*arrays, seen=seen, exact=True, tiles=TILES)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


@tl.kernel
def read_later(q: tl.Tensor["M", D, tl.f32], k: tl.Tensor["N", D, tl.f32], v: tl.Tensor["N", 64, tl.f32]) -> tl.outputs(
    out=tl.Tensor["M", 64, tl.f32], sums=tl.Tensor["M", tl.f32]
):
    for m in tl.grid("M"):
        d = tl.axis(64)
        acc, total = tl.zeros(m, d), tl.zeros(m)
        for n in tl.stream("N"):
            seen = tl.where(n <= m + 20, tl.dot(q[m, :], k[n, :]), -9.0)
            added = tl.dot(tl.exp(seen - 9.0), v[n, d])
            acc += added
            total += tl.sum(seen * tl.sum(added, d), n)
        out[m, d] = acc
        sums[m] = total


def test_what_takes_a_place_is_kept_while_it_is_read():
    """The exponentials would fit into the place of the scores; the masked scores are there, and read after them."""
    arrays = inputs((M, D), (N, D), (N, 64))
    got = run_compiled(read_later.bind(*arrays), AVX2, {"m": 32, "n": 96})
    for found, want in zip(got, read_later.interpret(*arrays, exact=True, tiles={"m": 32, "n": 96}), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-3)
