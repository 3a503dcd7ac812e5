"""From tile kernels to sTask-graphs: structure, shapes, work, and equal meaning."""

from __future__ import annotations

import numpy as np
import pytest
from generators.kernel_text import kernel_from_text

import threadloom as tl
from threadloom.examples import flash_attention, matmul, softmax
from threadloom.sched.costs import Work, work_of
from threadloom.sched.sizes import Sizes
from threadloom.task.build import build_task_graph
from threadloom.task.interp import interpret_graph
from threadloom.task.ops import Kind, Method, TaskGraph
from threadloom.task.propagate import axis_extents, propagate


def work(graph: TaskGraph, task: str, tiles: dict[str, int], dims: dict[str, int]) -> Work:
    return work_of(graph.task(task), Sizes(axis_extents(graph, tiles, dims), {}, "", 1), share=False)


def edges(graph: TaskGraph) -> set[tuple[str, str, int]]:
    return {(e.src, e.dst, e.distance) for e in graph.edges}


def test_matmul_graph():
    graph = build_task_graph(matmul.matmul.tile(T=tl.f16))
    assert [t.name for t in graph.tasks] == [
        "vector_acc", "load_bias", "vector_t", "store_out", "load_a", "load_b", "dot_acc"
    ]  # fmt: skip
    assert graph.loops[0].items == ("vector_acc", 1, "load_bias", "vector_t", "store_out")
    assert graph.loops[1].items == ("load_a", "load_b", "dot_acc")
    assert {("load_a", "dot_acc", 0), ("dot_acc", "dot_acc", 1), ("vector_acc", "dot_acc", 0)} <= edges(graph)
    assert ("dot_acc", "vector_t", 0) in edges(graph)
    acc = next(t for t in graph.tiles if t.name == "acc")
    assert acc.carried == 1 and len(acc.values) == 4


def test_accumulation_is_part_of_the_dot():
    graph = build_task_graph(matmul.matmul.tile(T=tl.f16))
    at = {"m": 64, "n": 32, "k": 16}, {"M": 100, "N": 100, "K": 100}
    counted = work(graph, "dot_acc", *at)
    assert (counted.mac_dtype, counted.macs) == ("f16", 64 * 32 * 16)
    assert work(graph, "load_a", *at).load_bytes == 64 * 16 * 2
    assert work(graph, "store_out", *at).store_bytes == 64 * 32 * 2


def test_attention_softmax_is_one_stask_or_its_parts():
    kernel = flash_attention.flash_attention.tile(T=tl.f16, causal=True)
    fused, split = (build_task_graph(kernel, g) for g in ("fused", "split"))
    in_stream = lambda g: [t for t in g.tasks if t.loop == 1 and t.kind is Kind.VECTOR]  # noqa: E731
    assert len(in_stream(fused)) == 1
    assert len(in_stream(split)) == 5  # maximum, factors, exponentials, their sum, rescaling of the accumulator
    counted = work(fused, in_stream(fused)[0].name, {"m": 64, "n": 128}, {"D": 64})
    assert counted.exp == 64 * 128 + 64


def test_a_value_that_skips_a_dot_does_not_make_a_circle():
    """p is used by vector code before and after the dot that depends on it."""
    graph = build_task_graph(flash_attention.flash_attention.tile(T=tl.f32))
    order = {item: at for loop in graph.loops for at, item in enumerate(loop.items)}
    inside = {e for e in graph.edges if e.distance == 0 and graph.task(e.src).loop == graph.task(e.dst).loop}
    late = [e for e in inside if order[e.src] >= order[e.dst]]
    carried = {v.name for loop in graph.loops for c in loop.carried for v in c}
    assert all(e.value in carried for e in late)


@pytest.mark.parametrize("granularity", ["fused", "split"])
@pytest.mark.parametrize("module", [matmul, softmax, flash_attention], ids=lambda m: m.__name__.split(".")[-1])
def test_graph_means_the_same_as_the_kernel(module, granularity):
    kernel = getattr(module, module.__name__.split(".")[-1])
    for shape in module.SHAPES:
        arguments = module.inputs(np.random.default_rng(1), **shape)
        want = kernel.interpret(**arguments, tiles={"m": 13, "n": 11, "k": 9})
        call = kernel.bind(**arguments)
        graph = build_task_graph(call.kernel, granularity)
        interpret_graph(graph, call.arrays, call.scalars, call.dims, {"m": 13, "n": 11, "k": 9})
        np.testing.assert_array_equal(call.arrays["out"], want)


def test_a_sliding_window_has_a_tile_of_two_axes():
    kernel = kernel_from_text("""
        @tl.kernel
        def k(x: tl.Tensor["N", tl.f32], w: tl.Tensor["R", tl.f32]) -> tl.Tensor["N - R + 1", tl.f32]:
            for i in tl.grid("N - R + 1"):
                r = tl.axis("R")
                out[i] = tl.dot(x[i + r], w[r])
    """)
    graph = build_task_graph(kernel.tile())
    shapes = propagate(graph, {"i": 64}, {"R": 5})
    assert shapes["x"] == (64, 5)


def test_which_loads_are_boxes():
    kernel = kernel_from_text("""
        @tl.kernel
        def k(x: tl.Tensor["M", "N", tl.f32], i: tl.Tensor["N", tl.i32]) -> tl.Tensor["N", tl.f32]:
            for b, n in tl.grid(tl.each(4), "N"):
                r = tl.axis(8)
                box = tl.sum(x[b * 8 + r, n + b * 3], r)
                tl.atomic_add(out[n], box + x[3, 2 * n] + tl.sum(x[r + n, n], r) + x[b * 2, i[n]])
    """)
    graph = build_task_graph(kernel.tile())
    bulk = [Method.BULK_COPY in t.methods for t in graph.tasks if t.kind in (Kind.LOAD, Kind.GATHER) and "x" in t.name]
    assert bulk == [True, False, False, False]
