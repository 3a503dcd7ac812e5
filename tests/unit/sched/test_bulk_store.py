"""Bulk copies cut at the tensor's edges only: a tile that ends inside the tensor may not leave by one.

Found on an H200: rows of one expert of grouped_matmul were overwritten by the last tile of the expert before it.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import threadloom as tl
from benchmarks.gpu_cases import split_sums
from threadloom.examples import w4_matmul
from threadloom.examples.grouped_matmul import grouped_matmul
from threadloom.examples.matmul import matmul
from threadloom.machine.devices import device
from threadloom.sched import placement
from threadloom.sched.ops import Issue
from threadloom.sched.search import plan
from threadloom.sched.simulate_tiles import simulate_tiles
from threadloom.task.ops import Kind, Method

E, M, K, N = 2, 256, 64, 64


def bound_call():
    rng = np.random.default_rng(3)
    a, w = rng.standard_normal((M, K)).astype(np.float16), rng.standard_normal((E, K, N)).astype(np.float16)
    return grouped_matmul.bind(a, w, np.array([0, 100, M], np.int32))


def results(call):
    """(method of the store, the simulated output for some adversaries)"""
    program = plan(call.kernel, call.dims, "h200", most=4).best
    stores = {t.name for t in program.graph.tasks if t.kind is Kind.STORE}
    (method,) = {i.method for s in program.sections for i in s.instrs if isinstance(i, Issue) and i.task in stores}
    start = {t.name: np.array(call.arrays[t.name]) for t in call.kernel.tensors}
    simulated = simulate_tiles(program, start, call.scalars, call.dims, device("h200"))
    return method, [made["out"] for _, made in islice(simulated, 2)]


def test_tiles_between_bounds_leave_element_by_element():
    call = bound_call()
    method, outputs = results(call)
    assert method is Method.LOAD_STORE
    a, w = (call.arrays[x].astype(np.float64) for x in "aw")
    want = np.concatenate([a[:100] @ w[0], a[100:] @ w[1]])
    for out in outputs:
        assert np.abs(out.astype(np.float64) - want).max() < 0.1


def test_the_simulator_sees_a_store_beyond_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(placement, "is_bounded", lambda axis, graph: False)
    method, outputs = results(bound_call())
    assert method is Method.BULK_COPY
    assert all(np.isnan(out[100:].astype(np.float32)).any() for out in outputs)


def test_whole_tiles_still_leave_by_bulk_copies():
    program = plan(matmul.tile(T=tl.f16), {"M": M, "K": K, "N": 256}, "h200", most=4).best
    methods = {i.method for s in program.sections for i in s.instrs if isinstance(i, Issue) and "store" in i.task}
    assert methods == {Method.BULK_COPY}


def loads_of(module, shape: dict[str, int]) -> dict[str, Method]:
    function = getattr(module, module.__name__.rpartition(".")[2])
    call = function.bind(**module.inputs(np.random.default_rng(0), **shape, dtype=np.float16))
    program = plan(call.kernel, call.dims, "h200", most=4).best
    return {i.task: i.method for s in program.sections for i in s.instrs if isinstance(i, Issue) and "load" in i.task}


def test_rows_that_begin_anywhere_are_brought_by_threads():
    """Found on an H200: a box whose innermost coordinate is no multiple of 16 bytes is an illegal instruction."""
    methods = loads_of(split_sums, split_sums.SHAPE)
    assert methods["load_a"] is not Method.BULK_COPY  # a[m, k], k from starts[g]
    assert methods["load_b"] is Method.BULK_COPY  # b[k, n]


def test_columns_are_brought_by_threads_and_half_bytes_where_they_are_not_rows():
    methods = loads_of(w4_matmul, w4_matmul.SHAPE)
    assert methods["load_scales"] is not Method.BULK_COPY
    assert methods["load_w"] is Method.BULK_COPY  # rows of a product in registers: threads read it in pieces
    assert methods["load_a"] is Method.BULK_COPY  # begins at multiples of the group's 128 elements


@tl.kernel
def six_dimensions(
    x: tl.Tensor["A", "B", "C", "E", "M", "N", tl.f32],
) -> tl.Tensor["A", "B", "C", "E", "M", "N", tl.f32]:
    for a, b, c, e, m in tl.grid(tl.each("A"), tl.each("B"), tl.each("C"), tl.each("E"), "M"):
        n = tl.axis("N")
        out[a, b, c, e, m, n] = x[a, b, c, e, m, n] * 2.0


def test_a_tensor_map_has_five_dimensions():
    """Parts of a split reduction over a tensor of five have six: threads load them."""
    dims = {"A": 2, "B": 2, "C": 2, "E": 2, "M": 64, "N": 64}
    program = plan(six_dimensions.tile(), dims, "h200/2").best
    loads = [i for s in program.sections for i in s.instrs if isinstance(i, Issue) and i.task.startswith("load")]
    assert loads and all(i.method is not Method.BULK_COPY for i in loads)
