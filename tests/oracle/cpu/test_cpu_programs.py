"""Random tile programs: compiled code agrees with the float64 meaning for every cut, at both widths."""

from __future__ import annotations

import random

import numpy as np
import pytest
from cpu_run import WIDTHS, run_compiled, target_of
from generators.tile_programs import WIDE, program

import threadloom as tl
from threadloom.comparison import tolerance
from threadloom.tolerance import bound, worst_error

QUICK = 14
QUICK_WIDE = 8  # of the family with integers, u4, and ranges of the grid that come from a tensor
# seed, tiles: programs that once failed, each a kind of fault
KEPT: list[tuple[int, dict[str, int]]] = [
    (10, {"n": 2, "m": 11, "k": 3}),  # a gathered subscript was added before its axis was bound
    (29, {"n": 24, "m": 1}),  # one lane of 16-bit elements: LLVM stored four bytes
    (81, {"n": 8, "m": 1, "k": 2}),
    (1, {}),  # atomic additions have no lanes
]


def check(seed: int, tiles: dict[str, int] | None, width: str) -> None:
    p = program(seed)
    exact = p.kernel.interpret(**p.arguments, exact=True)
    call = p.kernel.bind(**p.arguments)
    got = run_compiled(call, target_of(width), tiles=p.tiles if tiles is None else tiles)[-1]
    allowed = tolerance(call.kernel, call.dims, call.kernel.tensors[-1].dtype, exact)
    assert worst_error(got, exact) <= allowed, p.text


@pytest.mark.parametrize("seed", [*range(QUICK), *range(WIDE, WIDE + QUICK_WIDE)])
def test_programs(seed: int):
    """Alternately as the program is cut, with a cut of its own, and with large tiles."""
    rng = random.Random(seed)
    cuts = (None, {axis: rng.choice((1, 2, 8, 16, 24, 40)) for axis in program(seed).tiles}, {})
    check(seed, cuts[seed % 3], ("avx512", "avx2")[seed % 2])


@pytest.mark.parametrize(("seed", "tiles"), KEPT, ids=str)
def test_programs_that_failed_once(seed: int, tiles: dict[str, int]):
    check(seed, tiles, "avx512")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(QUICK, 300), *range(WIDE + QUICK_WIDE, WIDE + 300)])
@pytest.mark.parametrize("width", WIDTHS)
def test_more_programs(seed: int, width: str):
    check(seed, None, width)


# rows, middle, summed, columns, tile: the first result is rows of the second product, and ends inside a panel
CHAINS = [(2, 72, 8, 64, 8), (3, 100, 20, 64, 2), (7, 100, 16, 64, 24), (20, 72, 100, 64, 8), (1, 40, 8, 8, 1)]


@tl.kernel
def chain(
    a: tl.Tensor["M", "D", tl.f32], b: tl.Tensor["D", "N", tl.f32], c: tl.Tensor["N", "E", tl.f32]
) -> tl.Tensor["M", "E", tl.f32]:
    for m in tl.grid("M"):
        n, e = tl.axis("N"), tl.axis("E")
        middle = tl.dot(a[m, :], b[:, n])
        out[m, e] = tl.dot(middle, c[n, e])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("m", "n", "d", "e", "tile"), CHAINS, ids=str)
def test_products_of_products(m: int, n: int, d: int, e: int, tile: int, width: str):
    """Whole panels are written, so rows of the middle need room for them."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((m, d), (d, n), (n, e)))
    (got,) = run_compiled(chain.bind(a, b, c), target_of(width), tiles={"m": tile})
    want = a.astype(np.float64) @ b @ c
    assert worst_error(got, want) <= bound("f32", n + d, float(np.abs(want).max()))
