"""Outputs of u4, two elements to a byte: whole bytes, halves that other tiles or cores write, and odd ends."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_run import run_compiled

import threadloom as tl
from threadloom.arrays import unpack_u4
from threadloom.errors import CompileError
from threadloom.targets.cpu.schedule import AVX2, Target


@tl.kernel
def narrowed(x: tl.Tensor["M", "N", tl.i32]) -> tl.Tensor["M", "N", tl.u4]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = tl.cast(x[m, n] * 3, tl.u4)


@tl.kernel
def turned(x: tl.Tensor["M", "N", tl.i32]) -> tl.Tensor["N", "M", tl.u4]:
    for m, n in tl.grid("M", "N"):
        out[n, m] = tl.cast(x[m, n], tl.u4)


@tl.kernel
def moved_by_one(x: tl.Tensor["M", "N", tl.u4]) -> tl.Tensor["M", "N", tl.u4]:
    for m, n in tl.grid("M", "N"):
        out[m, n + 1] = x[m, n] + 1


@tl.kernel
def row_sums(x: tl.Tensor["M", "N", tl.u4]) -> tl.Tensor["M", tl.u4]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[m] = tl.cast(tl.sum(tl.cast(x[m, n], tl.i32), n), tl.u4)


@tl.kernel
def quantised(x: tl.Tensor["M", "N", tl.f32]) -> tl.outputs(q=tl.Tensor["M", "N", tl.u4], scale=tl.Tensor["M", tl.f32]):
    for m in tl.grid("M"):
        n = tl.axis("N")
        q[m, n] = tl.cast(x[m, n] * 2 + 8.5, tl.u4)
        scale[m] = tl.max(tl.abs(x[m, n]), n) * 0.125


KERNELS = {kernel.name: kernel for kernel in (narrowed, turned, moved_by_one, row_sums, quantised)}
WIDE = Target(64, 16, 6, 2, 10, 32 << 10, 512 << 10)  # 16 lanes, which this machine's compiler may cut in two
TARGETS = {"8 lanes": AVX2, "16 lanes": WIDE}
RNG = np.random.default_rng(3)


def given(name: str, m: int, n: int) -> np.ndarray:
    if name == "quantised":
        return RNG.standard_normal((m, n)).astype(np.float32)
    if name in ("moved_by_one", "row_sums"):
        return RNG.integers(0, 256, (m, -(-n // 2)), np.uint8)
    return RNG.integers(-1000, 1000, (m, n), np.int32)


@pytest.mark.parametrize(
    ("target", "size"), [("8 lanes", (5, 64)), ("8 lanes", (7, 37)), ("8 lanes", (33, 1)), ("16 lanes", (7, 37))]
)
@pytest.mark.parametrize("name", KERNELS)
def test_compiled_code_writes_what_the_definition_writes(name: str, target: str, size: tuple[int, int]):
    """Tiles of 32 and of 5 elements: bytes lie whole in one tile, or their halves in two."""
    x = given(name, *size)
    want = KERNELS[name].interpret(x=x)
    for extent in (32, 5):
        got = run_compiled(KERNELS[name].bind(x=x), TARGETS[target], extent=extent)
        for mine, theirs in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
            if name == "moved_by_one":  # nothing writes the first column
                mine, theirs = (unpack_u4(a, 2 * a.shape[1])[:, 1:] for a in (mine, theirs))
            np.testing.assert_array_equal(mine, theirs)


def test_a_call_leaves_the_rest_of_an_array_as_it_was():
    x = np.arange(15, dtype=np.int32).reshape(3, 5)
    whole = np.full((3, 8), 0xEE, np.uint8)
    narrowed(x, out=whole[:, 2:5])
    assert (whole[:, [0, 1, 5, 6, 7]] == 0xEE).all()
    np.testing.assert_array_equal(unpack_u4(whole[:, 2:5], 6), np.pad(3 * x % 16, ((0, 0), (0, 1))))


def test_bytes_that_do_not_lie_side_by_side_are_refused():
    with pytest.raises(CompileError) as caught:
        narrowed(np.zeros((3, 6), np.int32), out=np.zeros((3, 6), np.uint8)[:, ::2])
    assert caught.value.slug == "odd-strides"
