"""What PipeThreader (OSDI'25) shows by example, on our models: the running example and the FlashAttention pipeline."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from quick import some

from tests.unit.sched import graphs, kernels
from threadloom.dtypes import bf16, f16
from threadloom.machine.devices import device, with_memory, with_rate
from threadloom.sched import greedy, optimal, search
from threadloom.sched.candidate import Candidate, Rejected, prepare
from threadloom.sched.check import check
from threadloom.sched.mechanism import EU, Plan
from threadloom.sched.ops import AxisTile, Partition

PAPER_SPACE = 37_440  # FlashAttention in the paper: 36 tilings x 1,040 orders


# ---------------------------------------------------------------- the running example: ChunkScan in 1 KiB


def small_device():
    """An H100 whose SM has 1 KiB of shared memory, handed out by 16 bytes, and products of 16 rows."""
    made = with_memory(device("h100"), "smem", 1024)
    facts = dict(made.facts) | {"smem_reserved_bytes": 0, "dot_rows": 16, "panel_row_bytes": 0}
    memories = tuple(replace(m, granule_bytes=16) for m in made.memories)
    return replace(as_in_the_study(made), memories=memories, facts=tuple(facts.items()))


def as_in_the_study(machine):
    """Without bulk stores, whose staging tile the study (and the paper's example) does not have, with register tiles
    that may be renamed over iterations, and 240 registers for each of two workers."""
    facts = {k: v for k, v in machine.facts if k != "register_slots"} | {"worker_regs_2": 240}
    units = tuple(u for u in machine.seus if u.name != "tma.store")
    return replace(machine, seus=units, facts=tuple(facts.items()))


def chunk_scan(m: int, n: int, k: int) -> Candidate | Rejected:
    ((name, graph),) = search.graphs_of(kernels.chunk_scan.tile(T=f16), "fused", small_device())
    context = search.context_of(graph, {"M": 256, "N": 256, "K": 1024}, small_device(), None, name)
    return prepare(Partition(tuple(AxisTile(a, e, e) for a, e in (("m", m), ("n", n), ("k", k)))), context)


def in_order(problem, names: list[str]) -> Plan:
    """The policy of a person: append the sTasks of each iteration in this order."""
    plan = Plan(problem)
    for _ in range(16):
        for name in names:
            plan.append(name, (EU, plan.node(name).seu.name))
    return plan


def test_loading_x_early_is_slower():
    problem = chunk_scan(16, 16, 8).problems[1]
    names = [n.name for n in problem.nodes]
    x = next(n for n in names if n.startswith("load_x"))
    loads = [n for n in names if n.startswith("load") and n != x]
    rest = [n for n in names if not n.startswith("load")]
    late, early = in_order(problem, [*loads, rest[0], x, *rest[1:]]), in_order(problem, [x, *loads, *rest])
    assert late.check_valid() == early.check_valid() == []
    assert late.time < early.time
    assert greedy.schedule(problem).ii <= late.finish().ii


def test_larger_tile_is_rejected_for_memory():
    small, large = chunk_scan(16, 16, 8), chunk_scan(16, 32, 16)
    assert isinstance(small, Candidate)
    assert isinstance(large, Rejected)
    assert large.family == "memory:smem"
    assert "-576 are left" in large.detail  # the loop's buffers take more than the 1024 bytes


# ---------------------------------------------------------------- FlashAttention


def attention(workers: int, n: int, bandwidth: float = 64.0, split: bool = False):
    """The inner loop's problem for 64 rows a worker and n keys a block, at the prototype's rates."""
    machine = as_in_the_study(device("h100"))
    for rate in ("bytes.load", "bytes.load.shared"):
        machine = with_rate(machine, "tma", rate, bandwidth)
    graph = graphs.attention(split=split)
    context = search.context_of(graph, {"B": 4, "H": 16, "S": 4096, "T": 4096}, machine)
    tiles = (AxisTile("m", 64 * workers, 64), AxisTile("n", n, n))
    return prepare(Partition(tiles, order=("b", "h", "m"), workers=workers), context)


def overlap(made, product: str, vector: str) -> int:
    """Cycles per period in which the product of a later block runs on the tensor core beside the vector task."""
    nodes, total = made.problem.nodes, 0
    for v, node in enumerate(nodes):
        if node.task != vector:
            continue
        for p, other in enumerate(nodes):
            if other.task == product:
                total += _common(made, v, p)
    return total


def _common(made, v: int, p: int) -> int:
    def busy(node: int) -> int:
        return max(u.cycles for u in made.problem.nodes[node].uses)

    found = 0
    for later in range(1, 8):  # instance i + later of the product beside instance i of the vector task
        low = max(made.starts[v], made.starts[p] + later * made.ii)
        high = min(made.starts[v] + busy(v), made.starts[p] + later * made.ii + busy(p))
        found += max(0, high - low)
    return found


def perturbed(problem, seed: int, amount: float = 0.3):
    """Every sTask's times multiplied by a random factor within 1 +- amount."""
    rng = random.Random(seed)
    factors = {n.task: 1 + rng.uniform(-amount, amount) for n in problem.nodes}

    def scaled(cycles: int, task: str) -> int:
        return max(1, round(cycles * factors[task]))

    nodes = tuple(
        replace(
            n,
            uses=tuple(replace(u, cycles=scaled(u.cycles, n.task)) for u in n.uses),
            latency=scaled(n.latency, n.task),
        )
        for n in problem.nodes
    )
    arcs = tuple(replace(a, latency=nodes[a.src].latency) for a in problem.arcs)
    return replace(problem, nodes=nodes, arcs=arcs)


@pytest.mark.parametrize(("workers", "n"), [(1, 64), (2, 64), (2, 128)])
def test_greedy_finds_the_flash_attention_3_pipeline(workers, n):
    """QK of the next block runs under the softmax of this one, although nothing names either."""
    made = greedy.schedule(attention(workers, n).problems[1])
    assert made.policy == "greedy"
    assert overlap(made, "qk", "softmax") > 0


def test_the_pipeline_survives_perturbed_times():
    problem = attention(2, 64).problems[1]
    for seed in range(20):
        assert overlap(greedy.schedule(perturbed(problem, seed)), "qk", "softmax") > 0, f"seed {seed}"


@pytest.mark.parametrize(("workers", "n"), [(1, 64), (1, 128), (2, 64), (2, 128), (2, 176), (3, 80)])
def test_optimal_is_no_worse_and_proved(workers, n):
    pytest.importorskip("ortools")
    problem = attention(workers, n).problems[1]
    by_greedy, best = greedy.schedule(problem), optimal.schedule(problem, 30.0)
    assert best.ii <= by_greedy.ii
    assert best.ii >= max(best.bounds[b] for b in best.bounds if b != "proved")
    assert best.bounds["proved"] <= best.ii
    assert best.proven == (best.bounds["proved"] == best.ii)
    assert best.proven


# Initiation intervals of the prototype study (optimum; cycles) where its model and ours count the same work.
STUDY = [
    (1, 128, 28.0, 2352), (2, 64, 28.0, 1184), (2, 128, 28.0, 2352), (2, 176, 28.0, 3232),
    (1, 128, 38.0, 1728), (2, 128, 38.0, 2048), (2, 176, 38.0, 2816),
    (1, 128, 64.0, 1392), (2, 128, 64.0, 2048), (2, 176, 64.0, 2816),
]  # fmt: skip


@pytest.mark.parametrize(("workers", "n", "bandwidth", "cycles"), STUDY)
def test_intervals_of_the_study_are_reproduced(workers, n, bandwidth, cycles):
    pytest.importorskip("ortools")
    best = optimal.schedule(attention(workers, n, bandwidth).problems[1], 4.0)
    assert best.ii == pytest.approx(cycles, rel=0.05)


def test_three_wide_workers_do_not_fit():
    assert attention(3, 128).family == "memory:reg"


@pytest.mark.slow
def test_search_space_stands_beside_the_papers(capsys):
    kernel = kernels.attention.tile(T=bf16, causal=False)
    outcome = search.plan(kernel, {"B": 4, "H": 16, "S": 4096, "L": 4096, "D": 128}, "h100")
    counts = outcome.counts
    with capsys.disabled():
        print(
            f"\nFlashAttention on h100: {counts.partitions} tile choices x {counts.orders} orders = {counts.space} "
            f"sPrograms (paper: {PAPER_SPACE})"
        )
    assert counts.space == counts.partitions * counts.orders > 1000
    assert counts.scheduled <= counts.bounded <= counts.partitions
    assert sum(outcome.reasons.values()) == counts.partitions - counts.scheduled
    assert check(outcome.best, device("h100")) == []


@pytest.mark.parametrize("name", some(["h100", "a100"], ["a100"]))
def test_joint_is_never_behind_tiles_first(name):
    kernel, dims = kernels.chunk_scan.tile(T=f16), {"M": 4096, "N": 4096, "K": 4096}
    joint = search.plan(kernel, dims, name)
    first = search.plan(kernel, dims, name, policy="decoupled")
    assert joint.best.predicted_ns <= first.best.predicted_ns * 1.001
    assert first.counts.scheduled == 1
