"""Kernels written in the language become proved plans on every device model."""

from __future__ import annotations

import itertools

import pytest
from quick import some

from tests.unit.sched import kernels
from threadloom.dtypes import bf16, f32
from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.coalesce_accumulators import coalesce_accumulators
from threadloom.sched.cut_late_inputs import cut_late_inputs
from threadloom.sched.search import plan
from threadloom.task.build import build_task_graph
from threadloom.task.ops import Kind

HEADS = {"B": 1, "H": 8, "S": 1024, "L": 1024, "D": 64}


QUICK = (False, "mi300x"), (True, "cpu")  # on h200 in many other files


@pytest.mark.parametrize(
    ("causal", "name"), some(itertools.product([False, True], ["h200", "a100", "mi300x", "b200", "cpu"]), QUICK)
)
def test_attention_is_proved(causal, name):
    dtype = f32 if name == "cpu" else bf16
    outcome = plan(kernels.attention.tile(T=dtype, causal=causal), HEADS, name)
    assert check(outcome.best, device(name)) == []
    assert outcome.best.partition.longest_first == causal


@pytest.mark.parametrize("name", ["h100", "cpu"])
def test_rows_are_proved(name):
    outcome = plan(kernels.softmax.tile(T=f32), {"M": 4096, "N": 4096}, name)
    assert check(outcome.best, device(name)) == []


def test_cut_separates_what_waits_for_the_last_product():
    fused = build_task_graph(kernels.attention.tile(T=bf16, causal=False))
    graph = cut_late_inputs(fused)
    late = [t for t in graph.tasks if t.name.endswith("_late")]
    assert len(late) == 1 and late[0].kind is Kind.VECTOR
    needs_product = {e.dst for e in graph.edges if e.distance == 1 and graph.task(e.src).kind is Kind.DOT}
    assert needs_product == {late[0].name}
    assert sum(len(t.ops) for t in graph.tasks) >= sum(len(t.ops) for t in fused.tasks)


def test_coalescing_gives_the_accumulator_one_place():
    graph = coalesce_accumulators(cut_late_inputs(build_task_graph(kernels.attention.tile(T=bf16, causal=False))))
    accumulators = [t for t in graph.tiles if t.type.axes == ("m", "e") and t.carried is not None]
    assert len(accumulators) == 1
    assert len(accumulators[0].producers) == 3


def test_nothing_is_cut_where_nothing_is_late():
    graph = build_task_graph(kernels.softmax.tile(T=f32))
    assert cut_late_inputs(graph) is graph
    assert coalesce_accumulators(graph) is graph


def test_a_value_per_row_does_not_make_tiles_of_many_rows():
    """4096 rows spread over all 132 SMs, although `weight` and `out` lie in a row along M."""
    chosen = plan(kernels.weighted_sums.tile(), {"M": 4096, "N": 32000}, "h200").best
    rows = next(t.extent for t in chosen.partition.tiles if t.axis == "m")
    assert 4096 // rows >= 120
