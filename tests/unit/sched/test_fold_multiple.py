"""A multiple of a product's operand that is added to its sum goes through the product (sched/fold_multiple.py)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_sm80.emulation import run_on_cpu
from tests.unit.cuda_sm80.test_on_cpu import generated
from threadloom.examples import chunk_scan as example
from threadloom.machine.devices import device
from threadloom.sched.fold_multiple import fold_multiple
from threadloom.sched.search import graphs_of
from threadloom.tile.interp import interpret
from threadloom.tile.ops import Kernel, Load
from threadloom.tile.uses import walk
from threadloom.tile.verify import verify


@tl.kernel
def banded(
    w: tl.Tensor["L", "L", tl.f16], x: tl.Tensor["L", "P", tl.f16], a: tl.Tensor["L", tl.f32], s: tl.Tensor[1, tl.f16],
    mask: tl.Const[str] = "le", term: tl.Const[str] = "x", until: tl.Const[str] = "tile",
) -> tl.Tensor["L", "P", tl.f16]:  # fmt: skip
    for m, p in tl.grid("L", "P"):
        acc = tl.zeros(m, p)
        for k in tl.stream(tl.span("L", 0, m.stop if until == "tile" else tl.dim("L") if until == "end" else m.start)):
            weights = w[m, k] * tl.exp(a[m] - a[k])
            if mask == "le":
                weights = tl.where(k <= m, weights, 0.0)
            if mask == "lt":
                weights = tl.where(k < m, weights, 0.0)
            if mask == "ge":
                weights = tl.where(k >= m, weights, 0.0)
            if mask == "vector":  # what is masked has no rows
                weights = tl.where(k <= m, tl.exp(a[k]), 0.0)
            acc += tl.dot(tl.cast(weights, tl.f16), x[k, p])
        if term == "x":
            out[m, p] = acc + x[m, p] * s[0]
        if term == "exact":
            out[m, p] = acc + tl.cast(x[m, p], tl.f32) * tl.cast(s[0], tl.f32)
        if term == "next":
            out[m, p] = acc + x[m + 1, p] * s[0]
        if term == "twice":
            out[m, p] = acc + x[m, p] * s[0] + tl.cast(x[m, p], tl.f32)
        if term == "sum":
            out[m, p] = acc * 2.0 + x[m, p] * s[0]


def arguments(L: int = 37, P: int = 24) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    made = {"w": rng.standard_normal((L, L)), "x": rng.standard_normal((L, P)), "s": rng.standard_normal(1)}
    return {n: v.astype(np.float16) for n, v in made.items()} | {"a": np.linspace(0, -3, L).astype(np.float32)}


def loads_of(kernel: Kernel, tensor: str) -> int:
    return sum(isinstance(op, Load) and op.tensor == tensor for op in walk(kernel.body))


@pytest.mark.parametrize("until", ["tile", "end"])
@pytest.mark.parametrize("mask", ["le", "lt", "ge", "vector", "none"])
def test_the_rows_are_loaded_once_and_the_result_is_the_same(mask: str, until: str):
    call = banded.bind(**arguments(), mask=mask, until=until)
    folded = fold_multiple(call.kernel)
    verify(folded)
    assert (loads_of(call.kernel, "x"), loads_of(folded, "x")) == (2, 1)
    results = []
    for kernel in (call.kernel, folded):
        arrays = {n: a.copy() for n, a in call.arrays.items()}
        interpret(kernel, arrays, call.scalars, call.dims, {"m": 16, "k": 8, "p": 24})
        results.append(arrays["out"].astype(np.float64))
    assert np.abs(results[0]).max() > 1
    np.testing.assert_allclose(results[1], results[0], rtol=4e-3, atol=4e-3)
    assert fold_multiple(folded) is folded


@pytest.mark.parametrize(
    "choices",
    [
        dict(until="start"),  # the loop does not meet the tile's own rows
        dict(term="exact"),  # the kernel does not round the multiple
        dict(term="next"),  # other rows
        dict(term="twice"),  # the rows are needed anyway
        dict(term="sum"),  # something is done to the sum first
    ],
)
def test_what_is_left_as_it_is(choices: dict[str, str]):
    kernel = banded.bind(**arguments(), **choices).kernel
    assert fold_multiple(kernel) is kernel


def test_a_gpu_with_a_copy_engine_loads_the_rows_of_a_chunk_scan_once():
    kernel = example.chunk_scan.tile(T=tl.f16)
    for name, loads in (("h200", 1), ("a100", 2), ("cpu", 2)):
        for _, graph in graphs_of(kernel, None, device(name)):
            loaded = [op for t in graph.tasks for op in t.ops if isinstance(op, Load) and op.tensor == "x"]
            assert len(loaded) == loads, name


@pytest.mark.slow
@pytest.mark.clang
@pytest.mark.parametrize("mask", ["le", "none"])
def test_generated_code_adds_the_term_on_the_diagonal_only(mask: str):
    call = banded.bind(**arguments(100, 24), mask=mask, until="end")
    call = replace(call, kernel=fold_multiple(call.kernel))
    wanted = {n: a.copy() for n, a in call.arrays.items()}
    interpret(banded.bind(**arguments(100, 24), mask=mask, until="end").kernel, wanted, call.scalars, call.dims)
    arrays = {n: a.copy() for n, a in call.arrays.items()} | {"out": np.full((100, 24), np.nan, np.float16)}
    run_on_cpu(generated(call), call.kernel, arrays, call.dims, call.scalars)
    np.testing.assert_allclose(arrays["out"].astype(float), wanted["out"].astype(float), rtol=4e-3, atol=2e-2)
