"""Loops that may go from the last tile to the first."""

from __future__ import annotations

from dataclasses import replace

import pytest

import threadloom as tl
from threadloom.examples.flash_attention import flash_attention
from threadloom.examples.matmul import matmul
from threadloom.sched.backwards import backwards_loops
from threadloom.sched.search import plan
from threadloom.sched.text import parse, print_program
from threadloom.targets.cuda.compile import DeviceTensor, facts_of, packed
from threadloom.targets.cuda.emit import emit
from threadloom.task.build import build_task_graph

DIMS = {"B": 4, "H": 16, "HKV": 16, "SQ": 2048, "SK": 2048, "D": 128}


@tl.kernel
def last_seen(x: tl.Tensor["M", "N", tl.f32], ends: tl.i32) -> tl.Tensor["M", tl.f32]:
    """A recurrence: what is carried forgets by halves."""
    for m in tl.grid("M"):
        acc = tl.zeros(m)
        for n in tl.stream(tl.span("N", 0, ends)):
            acc = acc * 0.5 + tl.sum(x[m, n], n)
        out[m] = acc


def graph_of(kernel) -> object:
    return build_task_graph(kernel, "fused")


def test_a_causal_softmax_may_go_backwards_a_recurrence_may_not():
    assert backwards_loops(graph_of(flash_attention.tile(T=tl.bf16, causal=True))) == {1}
    assert not backwards_loops(graph_of(last_seen.tile()))


def test_loops_over_all_of_an_axis_have_no_reason_to():
    assert not backwards_loops(graph_of(flash_attention.tile(T=tl.bf16, causal=False)))
    assert not backwards_loops(graph_of(matmul.tile(T=tl.bf16)))


@pytest.mark.slow
def test_the_search_offers_both_ways_behind_one_another():
    found = plan(flash_attention.tile(T=tl.bf16, causal=True), DIMS, "h200")
    assert not found.best.partition.backwards
    tiles = [c.partition.tiles for c in found.candidates if not c.partition.backwards]
    turned = [c.partition for c in found.candidates if c.partition.backwards]
    assert turned and all(p.tiles in tiles for p in turned)


@pytest.fixture(scope="module")
def program():
    kernel = flash_attention.tile(T=tl.bf16, causal=True)
    best = plan(kernel, DIMS, "h200", most=1).best
    made = plan(kernel, DIMS, "h200", only=replace(best.partition, backwards=True)).best
    assert made.partition.backwards
    return made


@pytest.mark.slow
def test_its_text_says_so(program):
    assert "backwards" in print_program(program).splitlines()[1]
    assert parse(print_program(program), program.graph) == program


def test_all_roles_count_tiles_from_the_last(program):
    kernel = program.graph.kernel
    shapes = {t.name: tuple(DIMS[d] for d in t.dims) for t in kernel.tensors}
    facts = {t.name: facts_of(t, DeviceTensor(1024, shapes[t.name], packed(shapes[t.name]))) for t in kernel.tensors}
    text = emit(program, facts, DIMS).text
    starts = [line for line in text.splitlines() if "const i32 n_at" in line]
    assert starts and all("count_2 - 1 - (" in line for line in starts)
    assert text.index("first tiles with masks") < text.index("tiles without masks")
