"""Scalars that loops carry and that loads, bounds and conditions depend on: every role computes them, each stage of a
pipeline at its own time."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from quick import some

import threadloom as tl
from tests.unit.cuda_emit.test_products import compiled, is_right_on_cpu
from tests.unit.cuda_sm80.emulation import run_on_cpu
from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.ops import Issue, SProgram
from threadloom.sched.search import plan
from threadloom.sched.share_scalars import share_scalars
from threadloom.targets.cuda import emit as sm90
from threadloom.targets.cuda.compile import facts_of
from threadloom.targets.cuda.launch import device_tensors
from threadloom.targets.cuda.sm80 import emit as sm80
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


@pytest.mark.slow
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


@pytest.mark.slow
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
def totals(
    first: tl.Tensor["B", "C", tl.f32], x: tl.Tensor["B", "C", "N", tl.f32]
) -> tl.Tensor["B", "C", tl.f32]:
    for b in tl.grid(tl.each("B")):
        for c in tl.stream(tl.each("C")):
            total = first[b, c]
            for n in tl.stream("N"):
                total += tl.sum(x[b, c, n], n)
            out[b, c] = total


def with_the_outer_loop_in_two_stages(program: SProgram) -> SProgram:
    """The store of an iteration after the loop inside the next one has been begun: before it in the next pass."""
    sections = []
    for section in program.sections:
        stores = [i for i in section.instrs if isinstance(i, Issue) and i.task == "store_out"]
        if section.loop == 1 and stores:
            others = tuple(i for i in section.instrs if i not in stores)
            section = replace(section, instrs=(*(replace(i, stage=1) for i in stores), *others))
        sections.append(section)
    loops = tuple(replace(p, stages=2) if p.loop == 1 else p for p in program.loops)
    return replace(program, sections=tuple(sections), loops=loops)


@pytest.mark.clang
@pytest.mark.parametrize("target", some(["h200", "a100"], ["h200"]))
def test_a_run_begins_with_its_own_scalar_where_the_loop_around_it_is_pipelined(target: str):
    """Stages of the outer loop are at different instances: the store still reads what the last run has made when the
    scalar that the next one begins with is known."""
    first, x = rng.standard_normal((2, 5)).astype(np.float32), rng.standard_normal((2, 5, 300)).astype(np.float32)
    call = totals.bind(first, x)
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    program = with_the_outer_loop_in_two_stages(plan(call.kernel, call.dims, target, most=2, splits=False).best)
    assert not check(program, device(target))
    if target == "h200":
        text = sm90.emit(program, facts, call.dims).text
        steady = text[text.index("steady state", text.index("// worker0")) :]
        begun = [m.start() for m in re.finditer(r" total\w* = total\w*;\n *const i32 count", steady)]
        assert begun and steady.index("// store_out") < begun[0] < steady.index("// vector_total")
        return
    arrays = {n: a.copy() for n, a in call.arrays.items()}
    run_on_cpu(sm80.emit(program, facts, call.dims), call.kernel, arrays, call.dims, call.scalars)
    assert np.allclose(arrays["out"], first + x.sum(2), atol=1e-4)
