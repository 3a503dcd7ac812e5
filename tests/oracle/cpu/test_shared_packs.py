"""Operands packed once before the grid: the same numbers as packing in every tile, and only where that is the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cpu_run import plain_schedule, run_compiled
from generators.tile_programs import WIDE, program
from quick import some

import threadloom as tl
from threadloom.bench.kernels import product
from threadloom.examples.conv2d import SHAPES, conv2d, inputs
from threadloom.machine.cpu import ZEN2, build
from threadloom.sched.search import plan
from threadloom.targets.cpu.compile import cpu_schedule, form_for, host_target
from threadloom.targets.cpu.planning import plan_kernel
from threadloom.targets.cpu.schedule import AVX2, AVX512, NEON, Target
from threadloom.tile.ops import Access


@tl.kernel
def batched(a: tl.Tensor["B", "M", "K", "T"], b: tl.Tensor["B", "K", "N", "T"]) -> tl.Tensor["B", "M", "N", "T"]:
    for i in tl.grid(tl.each("B")):
        for m, n in tl.grid("M", "N"):
            acc = tl.zeros(m, n, dtype=tl.f32)
            for k in tl.stream("K"):
                acc += tl.dot(a[i, m, k], b[i, k, n])
            out[i, m, n] = acc


@tl.kernel
def triangle(a: tl.Tensor["M", "K", tl.f32], b: tl.Tensor["K", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream(tl.span("K", 0, m.stop)):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = acc


def inputs_of(call) -> frozenset[str]:
    return frozenset(t.name for t in call.kernel.tensors if t.access is Access.IN)


def shared_tensors(call, **tiles: int) -> list[str]:
    schedule = plain_schedule(call.kernel, tiles, shared=inputs_of(call))
    made = plan_kernel(schedule, form_for(schedule, call.arrays, call.dims), host_target())
    return sorted(step.pack.value.name for step in made.shared)


def both_ways(call, **tiles: int) -> tuple[np.ndarray, np.ndarray]:
    target = host_target()
    alone = run_compiled(call, target, tiles)[-1].copy()
    return alone, run_compiled(call, target, tiles, shared=inputs_of(call))[-1].copy()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("m", "n", "k"), some([(1, 1, 1), (67, 131, 70), (40, 300, 33), (5, 7, 0), (0, 3, 4)], [(67, 131, 70), (5, 7, 0)])
)
def test_products_of_any_size(m: int, n: int, k: int, dtype: str):
    import ml_dtypes

    rng, made = np.random.default_rng(0), getattr(ml_dtypes, dtype, dtype)
    a, b = (rng.standard_normal(shape).astype(made) for shape in ((m, k), (k, n)))
    alone, shared = both_ways(product.bind(a, b), m=24, n=80, k=32)
    assert np.array_equal(alone, shared)


@pytest.mark.parametrize(
    ("m", "n", "k"), some([(67, 131, 70), (130, 300, 257), (14, 32, 16), (15, 33, 17)], [(67, 131, 70), (14, 32, 16)])
)
@pytest.mark.parametrize("target", [NEON, AVX2, replace(AVX512, avx512=False)], ids=["4 lanes", "8 lanes", "16 lanes"])
def test_register_blocks_of_every_machine(target: Target, m: int, n: int, k: int):
    """Vectors of other widths than the host's are cut or joined by LLVM: slow, with the same result."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    call = product.bind(a, b)
    for shared in (frozenset(), inputs_of(call)):
        (got,) = run_compiled(call, target, {"m": 56, "n": 96, "k": 64}, shared=shared)
        assert np.allclose(got, a.astype(np.float64) @ b, atol=1e-4)


def test_transposed_operands():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((70, 67)).astype("f4").T, rng.standard_normal((131, 70)).astype("f4").T
    alone, shared = both_ways(product.bind(a, b), m=24, n=80, k=32)
    assert np.array_equal(alone, shared)
    assert np.allclose(shared, a @ b, atol=1e-4)


def test_both_operands_are_packed_once():
    a, b = np.ones((200, 300), np.float32), np.ones((300, 260), np.float32)
    assert shared_tensors(product.bind(a, b), m=96, n=128, k=64) == ["a", "b"]


def test_a_copy_for_every_batch():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 70, 40)).astype("f4"), rng.standard_normal((3, 40, 90)).astype("f4")
    alone, shared = both_ways(batched.bind(a, b), m=24, n=48, k=32)
    assert np.array_equal(alone, shared)
    assert np.allclose(shared, a @ b, atol=1e-4)


def test_no_copies_where_a_stream_ends_early():
    """Its tiles are not those of the whole dimension."""
    a, b = np.ones((200, 300), np.float32), np.ones((300, 260), np.float32)
    call = triangle.bind(a, b)
    assert shared_tensors(call, m=96, n=128, k=64) == []
    alone, shared = both_ways(call, m=24, n=80, k=32)
    assert np.array_equal(alone, shared)


def test_convolution():
    call = conv2d.bind(**inputs(np.random.default_rng(0), **SHAPES[0]))
    alone, shared = both_ways(call)
    assert np.array_equal(alone, shared)


@pytest.mark.parametrize("seed", some([*range(12), *range(WIDE, WIDE + 6)], [*range(6), *range(WIDE, WIDE + 3)]))
def test_random_programs(seed: int):
    p = program(seed)
    alone, shared = both_ways(p.kernel.bind(**p.arguments), **p.tiles)
    assert np.array_equal(alone, shared, equal_nan=alone.dtype.kind == "f"), p.text


def test_the_plan_asks_for_it_where_tiles_share_an_operand():
    """b is read by every tile of rows; a is not shared where one tile has all columns."""
    kernel = product.bind(np.ones((8, 8), np.float32), np.ones((8, 8), np.float32)).kernel
    made = cpu_schedule(plan(kernel, {"M": 4096, "N": 256, "K": 1024}, build(ZEN2)).best)
    tiles = dict(made.extents)
    wanted = {"b"} if tiles["m"] < 4096 else set()
    wanted |= {"a"} if tiles["n"] < 256 else set()
    assert made.shared == wanted != set()
