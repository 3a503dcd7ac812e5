"""Values made of positions: in 32 bits where they fit, computed where they are used, masked without an array."""

from __future__ import annotations

import re

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_emit.test_forms import source_of
from tests.unit.cuda_emit.test_random_programs import on_cpu
from threadloom.targets.cuda.positions import exact_casts, narrow
from threadloom.task.build import build_task_graph
from threadloom.tile import ops as tile
from threadloom.tile.uses import walk


@tl.kernel
def decayed(x: tl.Tensor["M", "N", tl.f32], rate: tl.f32) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        decay = tl.where(n <= m, tl.exp2((m - n) * rate), 0.0)
        out[m, n] = x[m, n] * decay


@tl.kernel
def wide(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", "N", tl.i64]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = (m - n) * 3000000000 + n * n


@pytest.mark.slow
@pytest.mark.clang
def test_masks_of_what_is_computed():
    x = np.random.default_rng(0).standard_normal((37, 70)).astype(np.float32)
    m, n = np.indices(x.shape)
    wanted = x * np.where(n <= m, np.exp2((m - n) * np.float32(-0.125)), 0)
    assert np.allclose(on_cpu(decayed, np.float32, x=x, rate=-0.125), wanted, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.clang
def test_what_does_not_fit_32_bits_is_computed_in_64():
    x = np.zeros((40, 33), np.float32)
    m, n = np.indices(x.shape)
    assert np.array_equal(on_cpu(wide, np.int64, x=x), (m - n) * 3000000000 + n * n)


def test_no_array_of_positions_nor_of_the_masked_factor():
    text = source_of(decayed.bind(np.zeros((256, 256), np.float32), 0.5))
    assert not re.search(r"\bi64 \w+\[\d+\];", text) and "const i32" in text
    assert "decay[" not in text and " ? t_" in text


@tl.kernel
def sums(x: tl.Tensor["M", "N", tl.f32], first: tl.i64) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        near = n - m
        far = near + first
        out[m, n] = x[m, n] * tl.cast(near, tl.f32) + tl.cast(far + m * n, tl.f32)


def test_intervals():
    """A difference of positions fits; a sum with a scalar, or a product of positions, may not."""
    graph = build_task_graph(sums.tile(), "fused")
    ops = max((t.ops for t in graph.tasks), key=len)
    fits = narrow(ops, frozenset())
    integers = [(o.fn, o.result.name in fits) for o in ops if hasattr(o, "fn") and o.result.type.dtype.name == "i64"]
    assert integers == [("mul", True), ("add", True), ("add", False), ("mul", False), ("add", False)]  # n - m first


@tl.kernel
def small_numbers(
    w: tl.Tensor["M", tl.u4], x: tl.Tensor["M", tl.i8], n: tl.Tensor["M", tl.i32], zero: tl.Const[int] = 8
) -> tl.Tensor["M", tl.f32]:
    for m in tl.grid("M"):
        exact = tl.cast(w[m] - zero, tl.f16) + tl.cast(tl.cast(x[m], tl.i32) * 2 + 7, tl.f16)
        inexact = tl.cast(n[m], tl.f16) + tl.cast(tl.cast(x[m], tl.i32) * 2 + 7, tl.bf16)
        out[m] = tl.cast(exact, tl.f32) + tl.cast(inexact, tl.f32)


@pytest.mark.parametrize("zero, count", [(8, 2), (2030, 2), (2050, 1)])
def test_casts_of_small_integers_that_round_nothing(zero: int, count: int):
    kernel = small_numbers.bind(np.zeros(8, np.uint8), np.zeros(16, np.int8), np.zeros(16, np.int32), zero=zero).kernel
    ops = tuple(op for op in walk(kernel.body) if isinstance(op, tile.Map | tile.Cast | tile.Const | tile.Full))
    casts = [op for op in ops if isinstance(op, tile.Cast) and op.result.type.dtype.name in ("f16", "bf16")]
    found = exact_casts(ops)
    assert len([op for op in casts if op.result.name in found]) == count
    assert all(op.result.type.dtype.name == "f16" for op in casts if op.result.name in found)
