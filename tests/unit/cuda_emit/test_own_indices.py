"""Gathers of product operands whose indices are computed: who fills the tile computes them, element by element."""

from __future__ import annotations

import numpy as np
import pytest
from quick import some

import threadloom as tl
from tests.unit.cuda_emit.test_products import compiled, is_right_on_cpu
from threadloom.sched.own_indices import own_indices
from threadloom.task.build import build_task_graph
from threadloom.task.ops import Kind

rng = np.random.default_rng(0)


@tl.kernel
def rows_by_index(
    x: tl.Tensor["P", "K", "T"], w: tl.Tensor["K", "N", "T"], at: tl.Tensor["M", tl.i32], v: tl.Tensor["M", "N", "T"]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        k = tl.axis("K")
        row = (at[m] * 3 + 1) % tl.dim("P")
        out[m, n] = tl.dot(x[row, k], w[k, n]) + v[tl.maximum(at[m], 0) % 4, n]


def arguments(dtype: type) -> tuple[np.ndarray, ...]:
    x, w, v = (rng.standard_normal(shape).astype(dtype) for shape in ((9, 24), (24, 16), (37, 16)))
    return x, w, rng.integers(-5, 20, 37).astype(np.int32), v


def test_the_producer_computes_the_rows_that_it_gathers():
    """Elementwise code of the workers reads `at` as well: each role loads it for itself."""
    text = compiled(rows_by_index.bind(*arguments(np.float16)))
    producer = text[text.index("// producer") : text.index("// worker0")]
    fill = producer[producer.index("// gather_x") :]
    assert fill.index("? at[") < fill.index("x[(i64)(") < fill.index("write_shared<16>(smem_x")


def test_what_made_the_indices_goes_where_nothing_else_reads_it():
    @tl.kernel
    def alone(
        x: tl.Tensor["P", "K", tl.f16], w: tl.Tensor["N", "K", tl.f16], at: tl.Tensor["M", tl.i32]
    ) -> tl.Tensor["M", "N", tl.f32]:
        for m, n in tl.grid("M", "N"):
            k = tl.axis("K")
            out[m, n] = tl.dot(x[at[m] + 1, k], w[n, k])

    graph = own_indices(build_task_graph(alone.tile()))
    assert sorted(t.kind for t in graph.tasks) == [Kind.DOT, Kind.GATHER, Kind.LOAD, Kind.STORE]
    assert graph.task("gather_x").reads == ()


@pytest.mark.clang
@pytest.mark.parametrize("dtype", some([np.float16, np.float32], [np.float32]))
def test_gathered_rows_on_the_cpu(dtype: type):
    assert is_right_on_cpu(rows_by_index, *arguments(dtype))


@tl.kernel
def gathered_pieces(
    x: tl.Tensor["P", "K", tl.f16], w: tl.Tensor["K", "N", tl.f16], at: tl.Tensor["M", tl.i32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n)
        for k in tl.stream("K"):
            acc += tl.dot(x[(at[m] * 3 + 1) % tl.dim("P"), k], w[k, n])
        out[m, n] = acc


def test_constants_among_indices_belong_to_each_pass():
    """Found by random programs: what one pass of a loop declared was taken for known in the next."""
    x, w = (rng.standard_normal(shape).astype(np.float16) for shape in ((9, 300), (300, 24)))
    compiled(gathered_pieces.bind(x, w, rng.integers(-5, 20, 37).astype(np.int32)))
