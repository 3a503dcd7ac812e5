"""How warps share products (sm80/mma.py): arrangements, layouts, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from quick import some

import threadloom as tl
from threadloom.examples import flash_attention, matmul
from threadloom.machine.devices import device
from threadloom.sched.search import plan
from threadloom.targets.cuda.compile import facts_of
from threadloom.targets.cuda.launch import device_tensors
from threadloom.targets.cuda.layout import Source
from threadloom.targets.cuda.sm80.emit import emit
from threadloom.targets.cuda.sm80.mma import _arranged, _plan
from threadloom.targets.cuda.sm80.plan import AmperePlan
from threadloom.tile import ops as tile


def problem(call, most: int = 4):
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    aligned = {n: f.aligned for n, f in facts.items()}
    return plan(call.kernel, call.dims, device("a100"), most=most, strides_ok=aligned, splits=False).best, facts


def source_of(call) -> str:
    program, facts = problem(call)
    return emit(program, facts, call.dims).text


def example(module, shape: dict[str, int], dtype: type = np.float16):
    function = getattr(module, module.__name__.rpartition(".")[2])
    return function.bind(**module.inputs(np.random.default_rng(0), **shape, dtype=dtype))


def product(m: int, n: int, dtype) -> tuple[tile.Dot, dict[str, int]]:
    a, b = tile.Value("a", tile.TileType(("m", "k"), dtype)), tile.Value("b", tile.TileType(("k", "n"), dtype))
    result = tile.Value("c", tile.TileType(("m", "n"), tl.f32))
    return tile.Dot(result, a, b, ("k",)), {"m": m, "n": n, "k": 64}


@pytest.mark.parametrize("rows", some([1, 2, 4, 8], [2, 8]))
@pytest.mark.parametrize("splits", [False, True])
def test_the_fragments_of_all_warps_cover_the_tile_once(rows: int, splits: bool):
    op, extents = product(256, 192, tl.f16)
    p = _arranged(_plan(op, extents, frozenset(), {"a": "k", "b": "n"}), rows, splits)
    layout = p.result_layout
    places: dict[tuple[int, int], set[int]] = {}
    for warp in range(8):
        for lane in range(32):
            for register in range(layout.registers):
                at = {"m": 0, "n": 0, "": 0}
                for source, number in ((Source.REGISTER, register), (Source.LANE, lane), (Source.WARP, warp)):
                    for d in layout.of(source):
                        at[d.axis] += number % d.size * d.stride
                        number //= d.size
                places.setdefault((at["m"], at["n"]), set()).add(warp)
    assert len(places) == p.m * p.n and (p.m, p.n) == (256, 192)
    held = 1 if splits else 8 // rows
    assert all(len(warps) == held for warps in places.values())


def test_rows_of_scores_are_not_shared_and_the_second_product_takes_them_from_registers():
    call = example(flash_attention, dict(flash_attention.SHAPE, D=128))
    program, facts = problem(call)
    dots = AmperePlan(program, facts, call.dims).dots
    scores, values = dots["dot_s"], dots["dot_acc"]
    assert not scores.splits_columns and scores.warp_rows == values.warp_rows
    text = emit(program, facts, call.dims).text
    assert "_packed[4 * (i * " in text  # the row operand of the second product
    assert "smem_scratch" not in text  # maxima and sums need the lanes of a quad only


def test_warps_of_a_square_tile_read_little():
    call = example(matmul, {"M": 2048, "K": 512, "N": 2048})
    program, facts = problem(call)
    (p,) = AmperePlan(program, facts, call.dims).dots.values()
    fetched = p.m // p.warp_rows + p.n // p.warp_columns
    best = min(p.m // r + p.n // (8 // r) for r in (1, 2, 4, 8) if p.m % (16 * r) == 0)
    assert p.splits_columns and fetched == best and p.warp_rows * p.warp_columns == 8


def test_products_by_type():
    assert "mma_bf16(" in source_of(matmul.matmul.bind(**_matrices(tl.bf16)))
    assert "mma_" not in source_of(matmul.matmul.bind(**_matrices(tl.f32)))  # exact
    assert "mma_tf32(" in source_of(rounded.bind(*_operands(np.float32)))
    assert "mma_f64(" in source_of(double.bind(*_operands(np.float64)))
    assert "mma_i8_i8(" in source_of(bytes_.bind(*(np.zeros((128, 128), np.int8) for _ in range(2))))


def _matrices(dtype) -> dict[str, object]:
    from threadloom.dtypes import numpy_dtype

    return matmul.inputs(np.random.default_rng(0), 128, 128, 128, dtype=numpy_dtype(dtype))


def _operands(dtype: type) -> list[np.ndarray]:
    return [np.ones((128, 128), dtype) for _ in range(2)]


@tl.kernel
def rounded(a: tl.Tensor["M", "K", tl.f32], b: tl.Tensor["K", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n)
        for k in tl.stream("K"):
            acc += tl.dot(tl.cast(a[m, k], tl.tf32), tl.cast(b[k, n], tl.tf32))
        out[m, n] = acc


@tl.kernel
def double(a: tl.Tensor["M", "K", tl.f64], b: tl.Tensor["K", "N", tl.f64]) -> tl.Tensor["M", "N", tl.f64]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f64)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = acc


@tl.kernel
def bytes_(a: tl.Tensor["M", "K", tl.i8], b: tl.Tensor["N", "K", tl.i8]) -> tl.Tensor["M", "N", tl.i32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.i32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[n, k])
        out[m, n] = acc


def test_names_of_users_do_not_hide_device_functions():
    """An axis called `chunk` has the position `chunk_at`, which a device function is called, too."""
    text = source_of(by_chunks.bind(np.zeros((4, 64, 64), np.float16), np.zeros((64, 64), np.float16)))
    assert "const i32 chunk_at =" not in text and "chunk_at(smem" in text


@tl.kernel
def by_chunks(a: tl.Tensor["C", "M", "K", tl.f16], b: tl.Tensor["K", "N", tl.f16]) -> tl.Tensor["C", "M", "N", tl.f16]:
    for chunk, m, n in tl.grid(tl.each("C"), "M", "N"):
        acc = tl.zeros(m, n)
        for k in tl.stream("K"):
            acc += tl.dot(a[chunk, m, k], b[k, n])
        out[chunk, m, n] = tl.cast(acc, tl.f16)
