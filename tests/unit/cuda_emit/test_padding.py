"""Tiles in shared memory are padded to what products need along their axes; where that does not fit, only those that
products read."""

from __future__ import annotations

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_emit.test_products import is_right_on_cpu, source_of
from tests.unit.cuda_emit.test_random_programs import compiled
from threadloom.targets.cuda import emit_for
from threadloom.targets.cuda.kernel_plan import KernelPlan
from threadloom.targets.cuda.sm80.plan import AmperePlan

rng = np.random.default_rng(0)


@tl.kernel
def beside(
    x: tl.Tensor["N", "M", "W", tl.f32], a: tl.Tensor["N", "K", tl.f32], b: tl.Tensor["K", "M", tl.f32]
) -> tl.Tensor["N", "M", tl.f32]:
    for n, m in tl.grid("N", "M"):
        w = tl.axis("W")
        acc = tl.zeros(n, m)
        for k in tl.stream("K"):
            acc += tl.dot(a[n, k], b[k, m])
        out[n, m] = acc + tl.max(x[n, m, w] * x[n, m, w], w)


def arguments(n: int, m: int, w: int, k: int) -> tuple[np.ndarray, ...]:
    x = rng.standard_normal((n, m, w)).astype(np.float32)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((n, k), (k, m)))
    return x, a, b


def rows(text: str, tile: str) -> str:
    """`64 x 32` of `smem_x = smem + 0;  // 1 slots of 64 x 32 x 40 f32, row`"""
    return next(line for line in text.split("\n") if f" smem_{tile} = " in line).split("slots of ")[1]


def test_tiles_that_no_product_reads_are_not_padded_where_that_does_not_fit(monkeypatch: pytest.MonkeyPatch):
    """Found by random programs: 64 x 32 rows for 64 x 8."""
    call = beside.bind(*arguments(17, 5, 16, 8))
    wide = source_of(call)
    monkeypatch.setattr(emit_for, "most_shared_bytes", lambda device: 128 * 1024)
    narrow = compiled(call)
    assert rows(wide, "x").startswith("64 x 32 x 16 f32") and rows(narrow, "x").startswith("64 x 16 x 16 f32")
    assert rows(wide, "b") == rows(narrow, "b")


@pytest.mark.clang
@pytest.mark.slow
def test_tiles_without_padding_on_the_cpu(monkeypatch: pytest.MonkeyPatch):
    given = arguments(17, 5, 16, 8)
    monkeypatch.setattr(AmperePlan, "padded", without_padding)
    assert is_right_on_cpu(beside, *given)


def without_padding(plan: AmperePlan, axis: str, value: str) -> int:
    plan.pads_all = False
    return KernelPlan.padded(plan, axis, value)
