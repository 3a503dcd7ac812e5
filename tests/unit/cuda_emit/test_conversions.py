"""Values that meet in another register layout than they were made in, and positions of extremes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from generators.tile_programs import program

import threadloom as tl
from benchmarks.gpu_cases import mixed_products
from tests.unit.cuda_emit.test_forms import source_of
from tests.unit.cuda_emit.test_random_programs import on_cpu
from tests.unit.cuda_sm80.emulation import run_on_cpu
from tests.unit.cuda_sm80.test_on_cpu import generated
from threadloom.examples import flash_decoding
from threadloom.examples.retention import retention
from threadloom.targets.cuda import functions, nvrtc, simt
from threadloom.targets.cuda.layout import accumulator, agrees, register_index, rows


@tl.kernel
def nearest(x: tl.Tensor["N", "D", tl.f32], centre: tl.Tensor["K", "D", tl.f32]) -> tl.Tensor["N", tl.i32]:
    for n in tl.grid("N"):
        best, found = tl.full(math.inf, n), tl.zeros(n, dtype=tl.i32)
        for k in tl.stream("K"):
            d = tl.axis("D")
            distance = tl.sum(centre[k, d] * centre[k, d], d) - 2.0 * tl.dot(x[n, :], centre[k, :])
            least, at = tl.min(distance, k), tl.argmin(distance, k)
            found = tl.where(least < best, tl.cast(at, tl.i32), found)
            best = tl.minimum(best, least)
        out[n] = found


@tl.kernel
def extremes(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", tl.i64]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[m] = tl.argmax(x[m, n], n) * 1000 + tl.argmin(tl.abs(x[m, n]), n)


@tl.kernel
def symmetric(a: tl.Tensor["M", "K", tl.f16], b: tl.Tensor["N", "K", tl.f16]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        k = tl.axis("K")
        rows_of = tl.dot(a[m, k], b[n, k])
        columns_of = tl.dot(b[n, k], a[m, k])
        out[m, n] = rows_of + columns_of


GIVEN = {
    "nearest": (nearest, {"x": (70, 7), "centre": (37, 7)}, np.float32),
    "extremes": (extremes, {"x": (33, 1500)}, np.float32),
    "symmetric": (symmetric, {"a": (70, 48), "b": (100, 48)}, np.float16),
}


@pytest.mark.parametrize("name", GIVEN)
def test_the_code_compiles_without_spills(name: str):
    kernel, shapes, dtype = GIVEN[name]
    text = source_of(kernel.bind(**{n: np.zeros(shape, dtype) for n, shape in shapes.items()}))
    assert nvrtc.compile_source(text, "sm_90a").spill_bytes == 0
    assert ("smem_converted" in text) == (name != "extremes")


@pytest.mark.slow
@pytest.mark.clang
def test_the_nearest_of_several_centres():
    rng = np.random.default_rng(0)
    x, centre = rng.standard_normal((70, 7), dtype=np.float32), rng.standard_normal((37, 7), dtype=np.float32)
    wanted = (centre**2).sum(1)[None] - 2 * x @ centre.T
    assert np.array_equal(on_cpu(nearest, np.int32, x=x, centre=centre), wanted.argmin(1))


@pytest.mark.slow
@pytest.mark.clang
@pytest.mark.parametrize("columns", [21, 1500])
def test_positions_of_extremes(columns: int):
    """The first of equal values, the first NaN; rows of a lane's registers, of lanes and of warps."""
    x = np.random.default_rng(1).integers(-9, 9, (33, columns)).astype(np.float32)
    x[3, 5], x[4], x[5] = np.nan, np.inf, -np.inf
    x[7, [4, 8]] = np.nan
    assert np.array_equal(on_cpu(extremes, np.int64, x=x), np.argmax(x, 1) * 1000 + np.argmin(np.abs(x), 1))


@pytest.mark.slow
@pytest.mark.clang
def test_two_products_of_different_orientation():
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((n, 48)).astype(np.float16) for n in (70, 100))
    got = on_cpu(symmetric, np.float32, a=a, b=b)
    assert np.allclose(got, 2 * a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-3, atol=1e-3)


def test_layouts_agree_where_threads_hold_the_same_elements():
    tile = accumulator("m", "n", 64, 32)
    assert agrees(tile, tile.without("n"), ("m",)) and not agrees(tile, accumulator("n", "m", 64, 64), ("m", "n"))
    assert not agrees(tile, rows((), "m", 64, 1, 32), ("m",))  # one register either way, of another row
    assert agrees(tile, rows((), "m", 64, 1, 32), ())


def test_an_operand_that_is_packed_comes_to_the_layout_of_its_product():
    """Keys in tiles of 8 and a product that reads 16 of them: on an H200 registers beyond those 8 were packed."""
    q, v = np.ones((1, 1, 1, 3), np.float16), np.ones((1, 1, 1, 5), np.float16)
    text = source_of(retention.bind(q, q, v, np.zeros(1, np.float32), 1.0))
    assert text.index("// s in the layout of what it meets") < text.index("pack_f16(s_2[2 * i], s_2[2 * i + 1])")
    assert nvrtc.compile_source(text, "sm_90a").spill_bytes == 0


def test_products_of_different_types_that_are_added_in_one_place():
    """One was made in the other's registers, where other elements stand (wrong on an H200)."""
    given = mixed_products.inputs(np.random.default_rng(3), **mixed_products.SHAPES[0], dtype=np.float16)
    text = source_of(mixed_products.mixed_products.bind(**given))
    nvrtc.compile_source(text, "sm_90a")
    first, second = text.split("// vector_first_2_late:")[1].split("// dot_first:")[:2]
    assert "write_shared<4>(smem_converted" in first  # the scaled product comes to where the unit adds
    assert "write_shared<4>(smem_converted" not in second.split("// dot_second")[0]
    assert "in another layout than second" in second


@pytest.mark.slow  # the emulation of a large kernel
def test_what_products_of_different_types_add_up_to():
    given = mixed_products.inputs(np.random.default_rng(3), **mixed_products.SHAPES[0], dtype=np.float16)
    call = mixed_products.mixed_products.bind(**given)
    outs = {name: np.full_like(call.arrays[name], np.nan) for name in ("scaled", "plain")}
    run_on_cpu(generated(call), call.kernel, call.arrays | outs, call.dims, call.scalars)
    for made, wanted in zip(outs.values(), mixed_products.reference(**given), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5)


def test_the_product_with_a_vector_meets_what_lies_in_its_rows():
    """Its columns are one register, which is none of the other's: 1 % of random programs had no code for it."""
    matrix, vector = (simt.layout_of("m", axis, 64, n, tl.f32) for axis, n in (("k", 32), ("", 8)))
    assert agrees(matrix.without("k"), vector, ("m",))
    assert register_index(matrix, vector, "i") == register_index(matrix, matrix.without("k"), "i")
    made = program(4982756897)
    assert source_of(made.kernel.bind(**made.arguments))


def test_a_tile_of_one_row_lies_as_its_rows_do_and_not_as_a_scalar():
    """Of an axis of extent 1 a product still has rows in its registers: sums along them came to the scalar's layout."""
    shape = {"B": 1, "HKV": 1, "G": 1, "S": 2, "D": 8}
    given = flash_decoding.inputs(np.random.default_rng(0), **shape, dtype=np.float16)
    assert "row_sum.1 in the layout of what it meets" not in source_of(flash_decoding.flash_decoding.bind(**given))


def test_the_least_integer_has_no_literal():
    assert functions.literal(-(2**63), tl.i64) == "(-9223372036854775807LL - 1)"
    assert functions.literal(-(2**31), tl.i64) == "-2147483648LL"
