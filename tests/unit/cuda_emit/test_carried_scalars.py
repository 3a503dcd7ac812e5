"""Scalars that loops carry and that loads, bounds and conditions depend on: every role computes them, each stage of a
pipeline at its own time."""

from __future__ import annotations

import re

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_emit.test_forms import source_of
from tests.unit.cuda_emit.test_products import compiled, is_right_on_cpu
from threadloom.errors import CompileError
from threadloom.sched.share_scalars import share_scalars
from threadloom.task.build import build_task_graph
from threadloom.task.ops import Kind

rng = np.random.default_rng(0)


@tl.kernel
def pages(
    first: tl.Tensor["B", tl.i32], link: tl.Tensor["P", tl.i32], x: tl.Tensor["P", "M", "K", tl.f16],
    w: tl.Tensor["K", "N", tl.f16], steps: tl.Tensor["S", tl.i8],
) -> tl.Tensor["B", "M", "N", tl.f32]:
    for b, n in tl.grid(tl.each("B"), "N"):
        m, k = tl.axis("M"), tl.axis("K")
        acc = tl.zeros(m, n)
        page = first[b]
        for _ in tl.stream(tl.each("S")):
            acc += tl.dot(x[page, m, k], w[k, n])
            page = link[page]
        out[b, m, n] = acc


def of_pages() -> tuple[np.ndarray, ...]:
    x, w = (rng.standard_normal(shape).astype(np.float16) for shape in ((5, 64, 32), (32, 24)))
    first, link = (rng.integers(0, 5, n).astype(np.int32) for n in (3, 5))
    return first, link, x, w, np.zeros(4, np.int8)


def test_the_producer_follows_the_pages_for_itself():
    text = compiled(pages.bind(*of_pages()))
    producer = text[text.index("// producer") : text.index("// worker0")]
    load = re.search(r"bulk_load\(smem_x.*, (\w+)\);", producer)
    assert load and re.search(rf"i32 {load[1]} = page_\w*stage0;", producer)
    assert re.search(r"page_\w*stage0 = page_\w+;", producer[load.end() :])


@pytest.mark.clang
def test_pages_on_the_cpu():
    assert is_right_on_cpu(pages, *of_pages())


@tl.kernel
def pieces(length: tl.Tensor["B", "S", tl.i32], x: tl.Tensor["N", "D", tl.f32]) -> tl.outputs(
    y=tl.Tensor["B", "S", "D", tl.f32], last=tl.Tensor["B", tl.f32], end=tl.Tensor["B", tl.i32]
):
    for b in tl.grid(tl.each("B")):
        d = tl.axis("D")
        at = 0
        for s in tl.stream(tl.each("S")):
            stop = at + length[b, s]
            acc = tl.zeros(d)
            for n in tl.stream(tl.span("N", at, stop)):
                acc += tl.sum(x[n, d], n)
            y[b, s, d] = acc
            if length[b, s] > 1:
                at = stop
        last[b] = x[at, 0] * 2.0
        end[b] = at + 1


def of_pieces() -> tuple[np.ndarray, ...]:
    return rng.integers(0, 9, (2, 5)).astype(np.int32), rng.standard_normal((40, 32)).astype(np.float32)


def test_bounds_that_follow_from_one_another_compile():
    compiled(pieces.bind(*of_pieces()))


@pytest.mark.clang
def test_bounds_that_follow_from_one_another_on_the_cpu():
    """And what a load after the loop and a store read of it."""
    assert is_right_on_cpu(pieces, *of_pieces())


@tl.kernel
def only_scalars(step: tl.Tensor["B", "C", tl.i32], x: tl.Tensor["N", tl.f32]) -> tl.Tensor["B", tl.f32]:
    for b in tl.grid(tl.each("B")):
        at = 0
        for c in tl.stream(tl.each("C")):
            at = at + step[b, c]
        out[b] = x[at] * 2.0


@pytest.mark.clang
def test_a_loop_of_scalar_code_alone():
    steps = rng.integers(0, 3, (4, 5)).astype(np.int32)
    assert is_right_on_cpu(only_scalars, steps, np.arange(40, dtype=np.float32))


def test_what_only_workers_need_stays_with_their_code():
    @tl.kernel
    def sums(x: tl.Tensor["B", "N", tl.f32]) -> tl.Tensor["B", tl.f32]:
        for b in tl.grid(tl.each("B")):
            total = 0.0
            for n in tl.stream(tl.each("N")):
                total += x[b, n]
            out[b] = total

    graph = build_task_graph(sums.tile())
    assert share_scalars(graph) is graph
    graph = share_scalars(build_task_graph(only_scalars.tile()))
    assert not any(t.kind is Kind.VECTOR and t.loop for t in graph.tasks)


@tl.kernel
def of_tiles(x: tl.Tensor["B", "N", tl.f32], y: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["B", "N", tl.f32]:
    for b in tl.grid(tl.each("B")):
        n = tl.axis("N")
        at = 0
        acc = tl.zeros(n)
        for _ in tl.stream(tl.each("B")):
            acc += y[at, n]
            at = at + tl.cast(tl.sum(acc, n), tl.i32)
        out[b, n] = acc


def of_of_tiles(dtype: type = np.float32) -> tuple[np.ndarray, ...]:
    return np.zeros((4, 64), dtype), rng.integers(-1, 2, (9, 64)).astype(dtype)


def test_what_a_scalar_of_tiles_places_is_loaded_by_those_who_have_it():
    text = compiled(of_tiles.bind(*of_of_tiles()))
    assert "bulk_load" not in text and "load_vector" in text[text.index("// worker0") :]


@pytest.mark.clang
def test_scalars_of_tiles_place_loads_on_the_cpu():
    assert is_right_on_cpu(of_tiles, *of_of_tiles())


@tl.kernel
def operand_of_tiles(
    x: tl.Tensor["P", "M", "K", tl.f16], w: tl.Tensor["K", "N", tl.f16]
) -> tl.Tensor["M", "N", tl.f32]:
    for n in tl.grid("N"):
        m, k = tl.axis("M"), tl.axis("K")
        page = 0
        acc = tl.zeros(m, n)
        for _ in tl.stream(tl.each("P")):
            acc += tl.dot(x[page, m, k], w[k, n])
            page = tl.cast(tl.max(tl.max(acc, m), n), page.dtype)
        out[m, n] = acc


def test_operands_of_products_are_not_placed_by_tiles():
    with pytest.raises(CompileError) as caught:
        source_of(operand_of_tiles.bind(np.zeros((3, 64, 32), np.float16), np.zeros((32, 16), np.float16)))
    assert caught.value.slug == "no-unit-for-task" and "computed of tiles" in caught.value.why
