"""The thin whole: a graph becomes an sProgram that the checker proves, on a CPU and on a GPU model."""

from __future__ import annotations

import pytest
from quick import some

from tests.unit.sched import graphs
from threadloom.dtypes import f32
from threadloom.machine import cpu
from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.search import plan

MATMUL = {"M": 4096, "N": 4096, "K": 4096}
ATTENTION = {"B": 4, "H": 16, "S": 4096, "T": 4096}


@pytest.mark.parametrize("name", some(["h100", "h200", "a100", "mi300x"], ["a100"]))
@pytest.mark.parametrize(
    ("graph", "dims"), [(graphs.matmul(), MATMUL), (graphs.attention(), ATTENTION)], ids=["matmul", "attention"]
)
def test_plans_are_proved(name, graph, dims):
    outcome = plan(graph, dims, name)
    assert check(outcome.best, device(name)) == []
    assert outcome.best.predicted_ns > 0


@pytest.mark.parametrize("host", [cpu.ZEN2, cpu.SAPPHIRE_RAPIDS, cpu.NEOVERSE_V1], ids=lambda h: h.vendor)
def test_core_plan_spreads_tiles_evenly(host):
    """1000x1003x997 on 2 cores: both get the same number of rows (up to a register block)."""
    model = cpu.build(cpu_with(host, cores=2))
    outcome = plan(graphs.matmul(f32, f32), {"M": 1000, "N": 997, "K": 1003}, model)
    assert check(outcome.best, model) == []
    m, n = (outcome.best.partition.extent(a) for a in "mn")
    tiles = -(-1000 // m) * -(-997 // n)
    assert tiles % 2 == 0
    last = 1000 - (-(-1000 // m) - 1) * m
    assert last > 0.9 * m


def cpu_with(facts, cores):
    from dataclasses import replace

    return replace(facts, cores=cores)
