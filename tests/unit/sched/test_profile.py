"""The profiler: sTasks alone, timed, stored, and used in place of the model's times."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.sched import kernels
from threadloom.dtypes import f16, f32
from threadloom.errors import CompileError
from threadloom.machine.devices import device
from threadloom.sched.costs import Traits, model_cycles, work_of
from threadloom.sched.isolate import isolated
from threadloom.sched.profile import expression_key, measure_tasks, sizes_key, stored_times
from threadloom.sched.profiled import profiled_plan, read_times, times_of_records
from threadloom.sched.reuse import device_key
from threadloom.sched.search import plan
from threadloom.sched.sizes import axis_extents, sizes_of
from threadloom.sched.timeline_measured import ClockRecord
from threadloom.store import Store
from threadloom.task.ops import Kind
from threadloom.tile.interp import interpret
from threadloom.tile.verify import verify

HOST = device("cpu")
DIMS = {"M": 48, "N": 64, "K": 40}


@pytest.fixture(scope="module")
def candidate():
    return plan(kernels.matmul.tile(T=f32), DIMS, HOST).candidates[0]


def test_isolated_product_is_the_product(candidate):
    task = next(t for t in candidate.context.graph.tasks if t.kind is Kind.DOT)
    kernel = isolated(task, candidate.sizes, 2)
    verify(kernel)
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.standard_normal(t.dims).astype(np.float32) for t in kernel.tensors}
    a, b, acc = (arrays[n].astype(np.float64) for n in ("x_a", "x_b", "x_acc_1"))
    interpret(kernel, arrays, {}, {}, None, False)
    np.testing.assert_allclose(arrays["x_acc_2"], acc + a @ b, rtol=1e-4, atol=1e-4)


def test_loads_and_stores_are_not_isolated(candidate):
    for task in candidate.context.graph.tasks:
        if task.kind in (Kind.LOAD, Kind.STORE):
            assert isolated(task, candidate.sizes, 2) is None


def test_measured_times_replace_the_models(candidate, tmp_path):
    graph = candidate.context.graph
    with Store(tmp_path) as store:
        found = measure_tasks(graph, candidate.placement, candidate.sizes, HOST, store)
        assert found and all(ns > 0 for ns in found.values())
        dot = next(t for t in graph.tasks if t.kind is Kind.DOT)
        times = stored_times(store, HOST)
        unit = candidate.placement.units[dot.name].seu.name
        assert times(dot, candidate.sizes, unit) == found[dot.name]
        assert times(dot, candidate.sizes, "other") is None
        kernel = kernels.matmul.tile(T=f32)
        again = plan(kernel, DIMS, HOST, measured=times, only=candidate.partition)
    cycles = again.candidates[0].costs.of(dot).occupancy
    assert cycles == pytest.approx(found[dot.name] * HOST.clock_ghz.value)


def test_keys_tell_expressions_and_sizes_apart(candidate):
    tasks = candidate.context.graph.tasks
    assert len({expression_key(t) for t in tasks}) == len(tasks)
    dot = next(t for t in tasks if t.kind is Kind.DOT)
    assert sizes_key(dot, candidate.sizes) == ",".join(
        f"{a}={candidate.sizes.extents[a]}" for a in sorted(("m", "n", "k"))
    )


@pytest.mark.parametrize("name", ["h100", "a100", "mi300x", "b200", "cpu"])
def test_model_time_grows_with_the_work(name):
    machine = device(name)
    context = plan(kernels.matmul.tile(T=f32), {"M": 512, "N": 512, "K": 512}, machine).candidates[0]
    for task in context.context.graph.tasks:
        if task.kind is Kind.SCALAR:
            continue
        unit = context.placement.units[task.name]
        whole = work_of(task, context.sizes, share=False)
        assert model_cycles(task, machine, unit.seu, unit.method, whole, Traits()).occupancy >= 1
        part = work_of(task, context.sizes, share=True)
        assert part.macs <= whole.macs and part.load_bytes <= whole.load_bytes


def test_every_figure_of_a_model_has_a_source():
    for name in ("h100", "h200", "a100", "b200", "mi300x", "cpu"):
        machine = device(name)
        figures = [machine.clock_ghz, machine.dram_bytes_per_s]
        figures += [m.capacity_bytes for m in machine.memories]
        figures += [m.bytes_per_cycle for m in machine.memories if m.bytes_per_cycle is not None]
        for seu in machine.seus:
            figures += [seu.latency_cycles, seu.issue_cycles, *(r.per_cycle for r in seu.rates)]
        assert all(f.source.strip() for f in figures), name
        assert all(f.value >= 0 for f in figures), name


def test_the_profiler_overrules_the_model(tmp_path):
    """Times are kept that make the model's second choice by far the fastest: it is then the plan."""
    kernel, dims = kernels.matmul.tile(T=f32), {"M": 256, "N": 256, "K": 256}
    first, second = plan(kernel, dims, HOST).candidates[:2]
    with Store(tmp_path) as store:
        for made, ns in ((first, 1e6), (second, 1e3)):
            for task in made.context.graph.tasks:
                key = device_key(HOST), expression_key(task), sizes_key(task, made.sizes)
                store.add_task_time(*key, made.placement.units[task.name].seu.name, ns)
        outcome, costs = profiled_plan(kernel, dims, HOST, store, most=2)
    assert outcome.best.partition == second.partition and len(outcome.candidates) == 2
    assert {c.measured_cycles for c in costs} == {1e3 * HOST.clock_ghz.value}
    assert any(c.model_cycles != c.measured_cycles for c in costs)


@pytest.mark.slow
def test_clocks_of_a_gpu_become_times_that_plans_use(tmp_path):
    """Two passes of the softmax of attention, 1000 and 1200 cycles: 1100 is what its next plan reckons with."""
    kernel, dims, machine = kernels.attention.tile(T=f16), {"B": 1, "H": 1, "S": 512, "L": 512, "D": 64}, device("h200")
    program = plan(kernel, dims, machine).best
    (loop, role, position, name) = next(
        (s.loop, s.role, at, i.task)
        for s in program.sections for at, i in enumerate(s.instrs)
        if getattr(i, "seu", "") == "vec" and program.graph.task(i.task).kind is Kind.VECTOR and s.loop
    )  # fmt: skip
    records = [ClockRecord(role, loop, position, i, 5000.0 * i, 5000.0 * i + 1000 + 200 * i) for i in range(2)]
    made = times_of_records(program, dims, machine, records)
    assert [t["task"] for t in made["times"]] == [name]
    with Store(tmp_path) as store:
        assert read_times(json.dumps(made), machine, store, "x.json") == 1
        again = plan(kernel, dims, machine, measured=stored_times(store, machine), only=program.partition)
        (other,) = [read_error(json.dumps(made | {"device": "a100"}), store)]
        assert "a100" in other
        assert "no sTask times" in read_error("{}", store) and "no sTask times" in read_error("[1", store)
    alike = next(c for c in again.candidates if c.context.graph == program.graph)  # others cut tasks another way
    assert alike.costs.of(program.graph.task(name)).occupancy == pytest.approx(1100)


def read_error(text: str, store: Store) -> str:
    with pytest.raises(CompileError) as error:
        read_times(text, device("h200"), store, "x.json")
    assert error.value.slug == "bad-task-times"
    return str(error.value)


def test_a_share_of_a_task_is_not_the_whole_of_it(candidate):
    graph, whole = candidate.context.graph, axis_extents(candidate.context.graph, DIMS)
    tiles = tuple(replace(t, worker_extent=t.extent // 2) if t.axis == "m" else t for t in candidate.partition.tiles)
    halves = sizes_of(graph, replace(candidate.partition, tiles=tiles, workers=2), whole)
    dot = next(t for t in graph.tasks if t.kind is Kind.DOT)
    assert sizes_key(dot, halves) != sizes_key(dot, candidate.sizes)
