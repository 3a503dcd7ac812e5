"""Products whose second operand is computed from loaded tiles take it for their rows, where rows lie in registers."""

from __future__ import annotations

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_emit import both_computed
from threadloom.examples import attention_backward, flash_attention, matmul, w4_matmul
from threadloom.machine.devices import device
from threadloom.sched.search import prepare_graph
from threadloom.sched.turn_products import turn_products
from threadloom.task.build import build_task_graph
from threadloom.tile.ops import Dot


def graph_of(module):
    name = module.__name__.rpartition(".")[2]
    call = getattr(module, name).bind(**module.inputs(np.random.default_rng(0), **module.SHAPES[0], dtype=np.float16))
    return build_task_graph(call.kernel, "fused")


def operands_of(graph) -> list[tuple[str, str]]:
    return [(op.a.name, op.b.name) for t in graph.tasks for op in t.ops if isinstance(op, Dot)]


def test_dequantised_weights_give_the_rows_on_hopper():
    graph = graph_of(w4_matmul)
    assert operands_of(graph) == [("a", "weights")]
    turned = turn_products(graph, device("h200"))
    assert operands_of(turned) == [("weights", "a")]
    assert [t.writes for t in turned.tasks] == [t.writes for t in graph.tasks] and turned.tiles == graph.tiles
    assert operands_of(prepare_graph(graph, device("h200"))) == [("weights", "a")]


@pytest.mark.parametrize("name", ["a100", "b200", "cpu"])
def test_not_where_units_read_both_or_neither_operand_from_registers(name: str):
    graph = graph_of(w4_matmul)
    assert turn_products(graph, device(name)) is graph


@pytest.mark.parametrize("module", [matmul, flash_attention, attention_backward, both_computed])
def test_other_products_stay_as_they_are(module):
    if module is both_computed:
        graph = build_task_graph(both_computed.bound(16, 64, 256).kernel, "fused")
    else:
        graph = graph_of(module)
    assert turn_products(graph, device("h200")) is graph


@tl.kernel
def two_products(
    a: tl.Tensor["M", "K", tl.f16], b: tl.Tensor["M", "K", tl.f16], w: tl.Tensor["N", "K", tl.i8], both: tl.Const[bool]
) -> tl.outputs(y=tl.Tensor["M", "N", tl.f32], z=tl.Tensor["M", "N", tl.f32]):
    for m, n in tl.grid("M", "N"):
        y_acc, z_acc = tl.zeros(m, n), tl.zeros(m, n)
        for k in tl.stream("K"):
            weights = tl.cast(w[n, k], tl.f16)
            y_acc += tl.dot(a[m, k], weights)
            z_acc += tl.dot(b[m, k], weights if both else tl.cast(w[n, k] + 1, tl.f16))
        y[m, n] = y_acc
        z[m, n] = z_acc


@pytest.mark.parametrize("both", [False, True])
def test_what_two_products_read_does_not_give_the_rows(both: bool):
    graph = build_task_graph(two_products.tile(both=both), "fused")
    first = [a for a, _ in operands_of(turn_products(graph, device("h200")))]
    assert len(first) == 2 and ("a" in first) == ("b" in first) == both
