"""Loads that a loop or a branch passes on, operands that are made of index values alone, and sums of products that
products of another dtype read: there is code for all of them, and it is right."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_emit.test_products import is_right_on_cpu, numbers
from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.search import plan
from threadloom.targets.cuda.compile import facts_of
from threadloom.targets.cuda.emit_for import emit
from threadloom.targets.cuda.infer import _agree_in_places
from threadloom.targets.cuda.launch import device_tensors
from threadloom.task.build import build_task_graph
from threadloom.task.text import parse_graph, print_graph

FLAGS = np.array([1, 0, 1], bool)


@tl.kernel
def shifted(x: tl.Tensor["L", "C", "T"]) -> tl.Tensor["L", "C", "T"]:
    for c in tl.grid("C"):
        last = tl.zeros(c, dtype=x.dtype)
        for t in tl.stream(tl.each("L")):
            now = x[t, c]
            out[t, c] = now - last
            last = now


@tl.kernel
def two_back(x: tl.Tensor["L", "C", "T"]) -> tl.Tensor["L", "C", "T"]:
    for c in tl.grid("C"):
        last, before = tl.zeros(c, dtype=x.dtype), tl.zeros(c, dtype=x.dtype)
        for t in tl.stream(tl.each("L")):
            now = x[t, c]
            out[t, c] = now - 2 * last + before
            before = last
            last = now


@tl.kernel
def either(
    x: tl.Tensor["B", "M", "K", "T"],
    y: tl.Tensor["B", "M", "K", "T"],
    w: tl.Tensor["K", "N", "T"],
    flag: tl.Tensor["B", tl.bool_],
) -> tl.Tensor["B", "M", "N", tl.f32]:
    for b, m, n in tl.grid(tl.each("B"), "M", "N"):
        acc = tl.zeros(m, n)
        for k in tl.stream("K"):
            if flag[b]:
                t = x[b, m, k]
            else:
                t = y[b, m, k]
            acc += tl.dot(t, w[k, n])
        out[b, m, n] = acc


@tl.kernel
def hadamard(x: tl.Tensor["M", "N", "T"]) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        i, j = tl.axis("N"), tl.axis("N")
        both = i & j
        odd = (both ^ (both >> 2) ^ (both >> 1) ^ (both >> 3)) & 1
        out[m, j] = tl.dot(x[m, i], tl.cast(1 - 2 * odd, x.dtype), over=i)


@tl.kernel
def two_kinds(k: tl.Tensor["C", "D", "T"], v: tl.Tensor["C", "E", tl.f32]) -> tl.Tensor["C", "E", tl.f32]:
    i, j, d = tl.axis("C"), tl.axis("C"), tl.axis("D")
    for e in tl.grid("E"):
        a = tl.where(j < i, tl.dot(k[i, d], k[j, d], over=d), 0.0)
        out[i, e] = tl.dot(a, v[j, e], over=j)


CALLS = {
    "shifted-f32": (shifted, numbers(9, 37, dtype=np.float32)),
    "shifted-f16": (shifted, numbers(9, 128)),
    "two_back-f32": (two_back, numbers(9, 37, dtype=np.float32)),
    "two_back-f16": (two_back, numbers(9, 128)),
    "either-f16": (either, numbers(3, 70, 128), numbers(3, 70, 128), numbers(128, 64), FLAGS),
    "hadamard-f16": (hadamard, numbers(33, 16)),
    "hadamard-f32": (hadamard, numbers(33, 16, dtype=np.float32)),
    "two_kinds": (two_kinds, numbers(16, 64), numbers(16, 64, dtype=np.float32)),
}


@pytest.mark.parametrize("target", ["h200", "a100"])
@pytest.mark.parametrize("name", CALLS)
def test_has_code(name: str, target: str):
    kernel, *arguments = CALLS[name]
    call = kernel.bind(*arguments)
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    program = plan(call.kernel, call.dims, target, most=4, splits=False).best
    assert check(program, device(target)) == []
    assert emit(program, facts, call.dims).text


@pytest.mark.parametrize("name", CALLS)
def test_task_graph_is_read_back(name: str):
    kernel, *arguments = CALLS[name]
    graph = build_task_graph(kernel.bind(*arguments).kernel)
    assert parse_graph(print_graph(graph, locations=True)) == graph


@pytest.mark.clang
@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_is_right_as_sm_80_code(name: str):
    assert is_right_on_cpu(*CALLS[name])


@pytest.mark.parametrize("name", ["shifted-f32", "two_back-f32"])
def test_is_right_on_a_cpu(name: str):
    kernel, *arguments = CALLS[name]
    assert np.allclose(kernel(*arguments), kernel.interpret(*arguments, exact=True), atol=1e-5)


def test_values_of_one_place_lie_as_the_product_that_reads_one_of_them_wants():
    named = lambda name: SimpleNamespace(name=name)  # noqa: E731
    graph = SimpleNamespace(tiles=[SimpleNamespace(values=("t", "t.2"))], task=lambda _: SimpleNamespace(ops=()))
    dot = SimpleNamespace(
        op=SimpleNamespace(result=named("u"), loc=None), result_layout="of u", simt=True, row_operand=named("t.2"),
        row_operand_layout="rows",
    )  # fmt: skip
    known = {"t": "of another product", "t.2": "rows"}
    _agree_in_places(known, graph, {"dot_u": dot}, frozenset({"t.2"}))
    assert known == {"t": "rows", "t.2": "rows"}
