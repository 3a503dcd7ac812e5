"""sTask-graphs of kernels with unusual dependences, and the verifier's refusal of wrong graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from generators.kernel_text import kernel_from_text

import threadloom as tl
from threadloom.errors import CompileError
from threadloom.examples import flash_attention, grouped_matmul
from threadloom.task.build import GRANULARITIES, build_task_graph
from threadloom.task.interp import interpret_graph
from threadloom.task.ops import Edge, Guard, Kind, TaskGraph
from threadloom.task.propagate import propagate
from threadloom.task.verify import RULES, verify_graph
from threadloom.tile.ops import Cast

PARAMS = 'x: tl.Tensor["K", "M", tl.f32], y: tl.Tensor["M", "K", tl.f32], flag: tl.Tensor["K", tl.i32], s: tl.i32'


def graph_of(body: str, granularity: str = "fused") -> TaskGraph:
    """The graph of a kernel with the given body in a grid over m; it also has to mean the same as the kernel."""
    lines = "\n".join("        " + line for line in body.strip("\n").split("\n"))
    text = f'@tl.kernel\ndef k({PARAMS}) -> tl.Tensor["M", tl.f32]:\n    for m in tl.grid("M"):\n{lines}\n'
    kernel = kernel_from_text(text)
    rng = np.random.default_rng(0)
    for K in (0, 1, 5):
        x, y = rng.random((K, 7), np.float32), rng.random((7, K), np.float32)
        arguments = {"x": x, "y": y, "flag": rng.integers(0, 3, K).astype(np.int32), "s": 1}
        want = kernel.interpret(**arguments, tiles={"m": 3, "k": 2})
        call = kernel.bind(**arguments)
        for g in GRANULARITIES:
            graph = build_task_graph(call.kernel, g)
            verify_graph(graph)
            interpret_graph(graph, call.arrays, call.scalars, call.dims, {"m": 3, "k": 2})
            np.testing.assert_array_equal(call.arrays["out"], want)
    return build_task_graph(kernel.tile(), granularity)


def distances(graph: TaskGraph, src: str, dst: str) -> set[int]:
    return {e.distance for e in graph.edges if (e.src, e.dst) == (src, dst)}


def test_a_value_used_two_iterations_later():
    graph = graph_of("""
older = tl.zeros(m)
old = tl.zeros(m)
total = tl.zeros(m)
for k in tl.stream(tl.each("K")):
    total += older * x[k, m]
    older = old
    old = tl.exp(x[k, m])
out[m] = total
""")
    copies = [t for t in graph.tasks if t.loop == 1 and "older" in t.writes[0]]
    assert copies or any(e.distance for e in graph.edges)
    assert max(e.distance for e in graph.edges) == 1  # a chain of copies: each step is one iteration


def test_swapped_variables():
    graph_of("""
a = tl.zeros(m)
b = tl.full(1.0, m)
for k in tl.stream(tl.each("K")):
    a, b = b, a + x[k, m]
out[m] = a - b
""")


def test_one_initial_value_for_two_variables():
    graph = graph_of("""
zero = tl.zeros(m)
a = zero
b = zero
for k in tl.stream(tl.each("K")):
    a = a + x[k, m]
    b = tl.maximum(b, x[k, m])
out[m] = a + b + zero
""")
    carried = [t for t in graph.tiles if t.carried is not None]
    assert len(carried) == 2


def test_guarded_tasks_and_the_copy_for_the_other_branch():
    graph = graph_of("""
total = tl.zeros(m)
for k in tl.stream(tl.each("K")):
    if flag[k] > 0:
        total += x[k, m]
out[m] = total
""")
    wanted = {(g.task.split("_")[0], g.wanted) for g in graph.guards}
    assert wanted == {("load", True), ("vector", True), ("vector", False)}
    copy = next(graph.task(g.task) for g in graph.guards if not g.wanted)
    assert all(isinstance(op, Cast) and op.arg.type == op.result.type for op in copy.ops)
    assert all(g.cond in graph.task(g.task).reads for g in graph.guards)


def test_branches_in_branches_with_streams():
    graph_of("""
total = tl.zeros(m)
for k in tl.stream(tl.each("K")):
    if flag[k] > 0:
        if flag[k] > 1:
            for j in tl.stream(tl.each("K")):
                total += x[j, m]
        else:
            total = total * 0.5
    else:
        total -= x[k, m]
out[m] = total
""")


def test_scalar_parameter_as_condition():
    graph_of("""
total = tl.zeros(m)
if s > 0:
    total += y[m, 0]
out[m] = total
""")


def test_a_row_sum_to_a_scalar_stays_vector_code():
    kernel = kernel_from_text("""
        @tl.kernel
        def k(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
            for m in tl.grid(tl.each("M")):
                n = tl.axis("N")
                e = tl.exp(x[m, n])
                out[m, n] = e / (tl.sum(e, n) + 1)
    """)
    graph = build_task_graph(kernel.tile())
    assert [t.kind for t in graph.tasks] == [Kind.LOAD, Kind.VECTOR, Kind.STORE]


def test_nested_streams_carry_through():
    graph = graph_of("""
total = tl.zeros(m)
for j in tl.stream(tl.each("K")):
    for k in tl.stream("K"):
        total += tl.sum(y[m, k], k) * x[j, m]
out[m] = total
""")
    (tile,) = [t for t in graph.tiles if t.carried is not None]
    assert tile.carried == 1 and len(tile.values) == 6
    inner = next(t.name for t in graph.tasks if t.loop == 2 and t.kind is Kind.VECTOR)
    assert 1 in distances(graph, inner, inner)


def test_two_streams_one_after_the_other():
    graph = graph_of("""
total = tl.zeros(m)
for k in tl.stream("K"):
    total += tl.sum(y[m, k], k)
worst = tl.zeros(m)
for k in tl.stream("K"):
    worst = tl.maximum(worst, tl.max(y[m, k] / total, k))
out[m] = worst
""")
    assert len(graph.loops) == 3 and graph.loops[2].parent == 0


def test_grid_bounds_are_scalar_tasks_of_the_grid():
    module = grouped_matmul
    call = module.grouped_matmul.bind(**module.inputs(np.random.default_rng(0), **module.SHAPES[0]))
    graph = build_task_graph(call.kernel)
    bounds = {v.name for a in graph.loops[0].axes for v in (a.start, a.stop) if v is not None}
    writers = {t.name for t in graph.tasks if set(t.writes) & bounds}
    assert len(bounds) == 2 and all(graph.task(w).kind is Kind.SCALAR for w in writers)


def test_missing_extents_are_all_named():
    graph = build_task_graph(flash_attention.flash_attention.tile(T=tl.f32))
    with pytest.raises(CompileError) as error:
        propagate(graph, {"m": 4}, {})
    assert error.value.slug == "no-tile-extent" and "n" in str(error.value) and "D" in str(error.value)


# ---------------------------------------------------------------- the verifier refuses wrong graphs


def mutants(graph: TaskGraph) -> list[tuple[str, TaskGraph]]:
    def task(index: int, **changes: object) -> TaskGraph:
        tasks = list(graph.tasks)
        tasks[index] = replace(tasks[index], **changes)
        return replace(graph, tasks=tuple(tasks))

    vector = next(i for i, t in enumerate(graph.tasks) if t.kind is Kind.VECTOR and t.loop == 1)
    t, edge, loop = graph.tasks[vector], graph.edges[0], graph.loops[1]
    loaded = next(t for t in graph.tasks if t.kind is Kind.LOAD and t.loop == 1)
    escaping = Edge(loaded.name, next(t.name for t in graph.tasks if t.loop == 0), loaded.writes[0])
    swapped = replace(loop, items=tuple(reversed(loop.items)))
    return [
        ("two sTasks are called", task(vector, name=graph.tasks[0].name)),
        ("stands in 0 loops", task(vector, name="stray")),
        ("does not stand in its loop", task(vector, loop=1 - t.loop)),
        ("which it does not list among its reads", task(vector, reads=t.reads[1:])),
        ("does not need it", task(vector, reads=(*t.reads, "acc"))),
        ("does not make it", task(vector, writes=(*t.writes, "acc"))),
        ("and holds a", task(vector, kind=Kind.LOAD)),
        ("before it makes it", task(vector, ops=tuple(reversed(t.ops)))),
        ("which the kernel has not", task(vector, axes=(*t.axes, "zz"))),
        ("no edge says from whom", replace(graph, edges=graph.edges[1:])),
        ("which does not exist", replace(graph, edges=(*graph.edges, Edge("nobody", edge.dst, edge.value)))),
        ("has distance -1", replace(graph, edges=(*graph.edges, replace(edge, distance=-1)))),
        ("has no Tile", replace(graph, tiles=graph.tiles[1:])),
        ("after", replace(graph, loops=(graph.loops[0], swapped))),
        ("through several Tiles", replace(graph, tiles=tuple(replace(t, values=t.values[:2]) for t in graph.tiles))),
        ("anew in each iteration", replace(graph, edges=(*graph.edges, escaping))),
        ("no plain loop", replace(graph, loops=(graph.loops[0], replace(loop, like=0)))),
        ("is guarded by", replace(graph, guards=(Guard(t.name, "no_such_value", True),))),
    ]


def test_verifier_refuses_mutants():
    graph = build_task_graph(flash_attention.flash_attention.tile(T=tl.f32))
    verify_graph(graph)
    assert len(mutants(graph)) > len(RULES)
    for message, mutant in mutants(graph):
        with pytest.raises(CompileError) as error:
            verify_graph(mutant)
            pytest.fail(f"not refused: {message}")
        assert error.value.slug == "invalid-task-graph" and message in str(error.value), message
