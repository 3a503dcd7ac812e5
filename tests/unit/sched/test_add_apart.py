"""Products whose accumulator other code still reads are added by vector code (sched/add_apart.py)."""

from __future__ import annotations

import numpy as np

import threadloom as tl
from threadloom.examples.flash_attention import flash_attention
from threadloom.machine.devices import device
from threadloom.sched.add_apart import add_apart
from threadloom.sched.search import prepare_graph
from threadloom.sched.tile_map import TileMap
from threadloom.task.build import build_task_graph
from threadloom.task.interp import interpret_graph
from threadloom.task.ops import Kind
from threadloom.task.verify import verify_graph


@tl.kernel
def fading(
    q: tl.Tensor["C", "L", "D", tl.f32], k: tl.Tensor["C", "L", "D", tl.f32], v: tl.Tensor["C", "L", "E", tl.f32]
) -> tl.Tensor["C", "L", "E", tl.f32]:
    for e in tl.grid("E"):
        d, i, j = tl.axis("D"), tl.axis("L"), tl.axis("L")
        state = tl.zeros(d, e)
        for c in tl.stream(tl.each("C")):
            out[c, i, e] = tl.dot(q[c, i, d], state)
            state = state * 0.5 + tl.dot(k[c, j, d], v[c, j, e])


def test_a_state_read_before_it_fades_gets_its_product_by_vector_code():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((3, 4, n)).astype(np.float32) for n in (5, 5, 6))
    call = fading.bind(q, k, v)
    graph = build_task_graph(call.kernel, "fused")
    (fused,) = [t.name for t in graph.tasks if t.kind is Kind.DOT and len(t.ops) == 2]
    apart = add_apart(graph)
    assert len(apart.task(f"{fused}_product").ops) == 1
    assert apart.task(fused).kind is Kind.VECTOR
    verify_graph(apart)
    interpret_graph(apart, call.arrays, call.scalars, call.dims, {"e": 4})
    np.testing.assert_allclose(call.arrays["out"], fading.interpret(q, k, v), rtol=1e-6)


def test_every_product_that_adds_does_so_in_its_place():
    for name in ("h200", "a100"):
        graph = prepare_graph(build_task_graph(fading.tile()), device(name))
        places = TileMap(graph)
        added = [(t.ops[-1].args, t.writes[0]) for t in graph.tasks if t.kind is Kind.DOT and len(t.ops) == 2]
        assert all(places.of(result) in {places.of(v.name) for v in args} for args, result in added)


def test_products_that_scale_in_place_stay():
    graph = build_task_graph(flash_attention.tile(T=tl.bf16, causal=True), "fused")
    assert add_apart(graph) is graph
