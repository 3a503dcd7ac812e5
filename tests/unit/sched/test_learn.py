"""Clocks in some plans correct the model for all: by sTask at every size, else by unit."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.sched import kernels
from threadloom.dtypes import f16
from threadloom.machine.devices import device
from threadloom.sched import tune as tuning
from threadloom.sched.learn import FURTHEST, Lessons, worth_learning
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.profile import expression_key, sizes_key
from threadloom.sched.search import plan
from threadloom.store import Store
from threadloom.task.build import build_task_graph
from threadloom.task.ops import Kind

H200 = device("h200")
KERNEL = kernels.attention.tile(T=f16)
DIMS = {"B": 1, "H": 8, "S": 1024, "L": 1024, "D": 64}
WORKER = "tests.unit.cuda_target.fake_gpu_worker"


def attention(n: int, **more):
    tiles = (AxisTile("m", 128, 64), AxisTile("n", n, n))
    only = Partition(tiles, workers=2, order=("b", "h", "m"), persistent=True)
    return plan(KERNEL, DIMS, H200, granularity="fused", only=only, **more).candidates[0]


def vector_tasks(made):
    return [
        t for t in made.context.graph.tasks if t.kind is Kind.VECTOR and made.placement.units[t.name].seu.name == "vec"
    ]


def times_of(made, tasks, ratio: float) -> list[dict]:
    modelled = replace(made.costs, measured=None, _memo={})
    return [
        {"task": t.name, "expression": expression_key(t), "sizes": sizes_key(t, made.sizes), "unit": "vec",
         "ns": ratio * modelled.of(t).occupancy / H200.clock_ghz.value}
        for t in tasks
    ]  # fmt: skip


@pytest.fixture(scope="module")
def measured():
    return attention(64)


def test_a_ratio_seen_at_one_size_holds_at_others(measured):
    first, *others = vector_tasks(measured)
    assert others, "one sTask has times, others do not"
    lessons = Lessons(H200)
    assert not lessons
    lessons.add(measured, times_of(measured, [first], 2.0))
    plain, learned = attention(128), attention(128, measured=lessons.time)
    for task in (first, *others):  # the others as their unit
        assert learned.costs.of(task).occupancy == pytest.approx(2.0 * plain.costs.of(task).occupancy)
    for task in plain.context.graph.tasks:  # no clock sees asynchronous units
        if task.kind in (Kind.DOT, Kind.LOAD):
            assert learned.costs.of(task) == plain.costs.of(task)
    assert learned.predicted_ns > plain.predicted_ns


def test_times_of_several_plans_meet_in_the_middle(measured):
    task, *_ = vector_tasks(measured)
    lessons = Lessons(H200)
    for ratio in (1.0, 2.25, 100.0):  # what lies too far off is cut
        lessons.add(measured, times_of(measured, [task], ratio))
    assert lessons.time(task, measured.sizes, "vec", 10.0) == pytest.approx(10.0 * (2.25 * FURTHEST) ** (1 / 3))


def test_times_of_other_sizes_or_tasks_teach_nothing(measured):
    (entry, *_) = times_of(measured, vector_tasks(measured), 2.0)
    lessons = Lessons(H200)
    lessons.add(measured, [{**entry, "sizes": "m=1"}, {**entry, "expression": "x"}, {**entry, "ns": 0.0}])
    assert not lessons


def test_products_without_vector_code_in_their_loop_need_no_clocks():
    assert not worth_learning(build_task_graph(kernels.matmul.tile(T=f16), "fused"))
    assert worth_learning(build_task_graph(KERNEL, "fused"))


@pytest.mark.slow
def test_tuning_ranks_the_rest_by_what_it_learned(monkeypatch, tmp_path):
    """Half of the plans run; the fastest with clocks; the others are those of a search with their times."""
    monkeypatch.setenv("FAKE_GPU_LOG", str(tmp_path / "log"))
    outcome = plan(KERNEL, DIMS, H200, breadth=8)
    times = [e for c in outcome.candidates for e in times_of(c, vector_tasks(c), 2.0)]
    monkeypatch.setenv("FAKE_GPU_CLOCKS", json.dumps({"times": times}))
    asked = []

    def watched(*args, **options):
        asked.append(options["measured"])
        return plan(*args, **options)

    monkeypatch.setattr(tuning, "plan", watched)
    with Store(tmp_path) as store:
        found = tuning.tune(KERNEL, DIMS, H200, store, most=8, worker=WORKER, outcome=outcome, limit_s=300.0)
    assert len(asked) == 1 and asked[0] is not None
    task, *_ = vector_tasks(outcome.candidates[0])
    assert asked[0](task, outcome.candidates[0].sizes, "vec", 10.0) == pytest.approx(20.0)
    assert found.measured == 8 and found.skipped == 0
