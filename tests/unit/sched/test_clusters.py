"""Clusters: which loads EUs can do together, what the model expects of it, and that plans of them are proved."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import threadloom as tl
from threadloom.errors import CompileError
from threadloom.machine.devices import device
from threadloom.machine.model import Device, Figure, Rate
from threadloom.sched.check import check
from threadloom.sched.mutate import OPERATORS
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.search import plan
from threadloom.sched.semantics import Trips
from threadloom.sched.simulate_values import simulate_values
from threadloom.sched.survivors import try_mutants
from threadloom.sched.text import parse, print_program

H200 = device("h200")


def with_fast_multicast() -> Device:
    """An H200 whose copy engines take twice what they do from the second-level cache, where it comes by multicast."""
    rates = {u.name: tuple(r for r in u.rates if r.what != "bytes.load.multicast") for u in H200.seus}
    rates["tma"] += (Rate("bytes.load.multicast", Figure(128.0, "a test")),)
    return replace(H200, seus=tuple(replace(u, rates=rates[u.name]) for u in H200.seus))


FAST = with_fast_multicast()
OF_CLUSTERS = {"no-multicast", "own-arrive", "wrong-mask", "multicast-own"}


@tl.kernel
def product(a: tl.Tensor["M", "K", tl.f16], b: tl.Tensor["K", "N", tl.f16]) -> tl.Tensor["M", "N", tl.f16]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = tl.cast(acc, tl.f16)


@tl.kernel
def triangle(a: tl.Tensor["M", "K", tl.f16], b: tl.Tensor["K", "N", tl.f16]) -> tl.Tensor["M", "N", tl.f16]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream(tl.span("K", 0, m.stop)):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = tl.cast(acc, tl.f16)


def partition(cluster: int, group: int = 16, **more) -> Partition:
    tiles = (AxisTile("m", 128, 64), AxisTile("n", 128, 128), AxisTile("k", 64, 64))
    return Partition(tiles, order=("m", "n"), group=group, workers=2, cluster=cluster, persistent=True, **more)


@cache
def planned(cluster: int, group: int = 16, m: int = 4096) -> SProgram:
    dims = {"M": m, "N": 4096, "K": 4096}
    return plan(product.tile(), dims, H200, only=partition(cluster, group)).best


SLOW = pytest.mark.slow
CASES = [(2, 16, "b"), pytest.param(4, 16, "b", marks=SLOW), pytest.param(2, 1, "a", marks=SLOW)]


@pytest.mark.parametrize(("cluster", "group", "shared"), CASES)
def test_what_neighbouring_tiles_share_is_loaded_together(cluster, group, shared):
    """Tiles visited in groups differ in m, others in n."""
    program = planned(cluster, group)
    assert {b.name: b.multicast for b in program.buffers if b.multicast > 1} == {shared: cluster}
    arrivals = {s.name: s.arrivals for s in program.signals if s.name.startswith("empty.")}
    assert arrivals == {f"empty.{x}": 2 * (cluster if x == shared else 1) for x in "ab"}
    assert check(program, H200) == []
    assert parse(print_program(program), program.graph) == program


def test_adversaries_find_nothing():
    for trips in (Trips({0: (1,), 1: (5,)}), Trips({0: (3,), 1: (2, 0, 6)})):
        outcome = simulate_values(planned(2), trips, H200, random_ones=2)
        assert outcome.right, outcome


def test_mistakes_of_clusters_are_refused():
    program = planned(2)
    found = [mutant for name in sorted(OF_CLUSTERS) for mutant in OPERATORS[name](program)]
    report = try_mutants(program, H200, found)
    assert len(report.killed) == len(found) and {m.operator for m in found} == OF_CLUSTERS
    assert [str(k.finding) for k in report.unnamed] == []


@pytest.mark.slow
def test_every_mutant_of_a_cluster_is_refused_or_explained():
    program = planned(2)
    for name, make in OPERATORS.items():
        report = try_mutants(program, H200, list(make(program)))
        assert not report.unexplained and not report.unnamed, name


def test_loops_that_differ_between_tiles_are_not_shared():
    dims = {"M": 4096, "N": 4096, "K": 4096}
    with pytest.raises(CompileError) as refused:
        plan(triangle.tile(), dims, H200, only=partition(2))
    assert "no load in a loop is the same for neighbouring tiles" in str(refused.value)
    whole = plan(triangle.tile(), dims, H200, only=partition(1)).best
    forced = replace(
        whole,
        partition=replace(whole.partition, cluster=2, order=("n", "m")),
        buffers=tuple(replace(b, multicast=2) if b.name == "b" else b for b in whole.buffers),
        signals=tuple(replace(s, arrivals=2 * s.arrivals) if s.name == "empty.b" else s for s in whole.signals),
    )
    assert any("may run loop 1 differently" in str(f) for f in check(forced, H200))


def test_the_model_counts_fewer_bytes_and_whole_clusters():
    """Three tiles of m become four for clusters of two; where multicast is fast, the copy engine is busy for less."""
    dims = {"M": 384, "N": 4096, "K": 4096}
    alone, together = (plan(product.tile(), dims, FAST, only=partition(c)).candidates[0] for c in (1, 2))
    assert (alone.grid.tiles, together.grid.tiles) == (3 * 32, 4 * 32)
    assert together.bounds[1]["resource:tma"] < alone.bounds[1]["resource:tma"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "cluster"), [pytest.param(H200, 1, marks=pytest.mark.slow), (FAST, 2)], ids=["measured", "fast"]
)
def test_the_search_takes_clusters_where_the_model_gains(machine, cluster):
    """On an H200 loads by multicast were measured to be no faster."""
    dims = {"M": 1024, "N": 1024, "K": 1024}
    assert plan(product.tile(), dims, machine).best.partition.cluster == cluster
