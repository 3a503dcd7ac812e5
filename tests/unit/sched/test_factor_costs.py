"""What exponentials of a row less a column cost where the code makes them from factors, and what is then simulated."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import threadloom as tl
from threadloom.machine.devices import device
from threadloom.sched.costs import work_of
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.rank import worth_simulating
from threadloom.sched.sizes import axis_extents, sizes_of
from threadloom.task.build import build_task_graph


@tl.kernel
def faded(
    x: tl.Tensor["M", "N", tl.f16], a: tl.Tensor["M", tl.f32], b: tl.Tensor["N", tl.f32]
) -> tl.Tensor["M", "N", tl.f16]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = x[m, n] * tl.exp(a[m] - b[n]) + tl.exp2(x[m, n] - a[m])


def exponentials(rows: int, columns: int, factors: bool) -> float:
    call = faded.bind(np.zeros((256, 256), np.float16), np.zeros(256, np.float32), np.zeros(256, np.float32))
    graph = build_task_graph(call.kernel)
    partition = Partition((AxisTile("m", rows, rows), AxisTile("n", columns, columns)))
    sizes = sizes_of(graph, partition, axis_extents(graph, call.dims))
    return sum(work_of(task, sizes, False, factors).exp for task in graph.tasks)


def test_a_row_less_a_column_takes_one_of_each():
    assert exponentials(64, 128, factors=False) == 2 * 64 * 128
    assert exponentials(64, 128, factors=True) == 64 + 128 + 64 * 128  # the other one needs every element
    assert exponentials(1, 128, factors=True) == 2 * 128  # not worth it


def test_devices_whose_code_does_so_say_so():
    assert device("h200").fact("exponential_factors") and device("a100").fact("exponential_factors")
    assert not device("mi300x").fact("exponential_factors", 0)


def test_the_best_bound_is_simulated_too():
    def made(ns: float, floor: float, workers: int = 2) -> SimpleNamespace:
        return SimpleNamespace(
            predicted_ns=ns, floor_ns=floor, placement=SimpleNamespace(roles=("producer", "worker0")),
            partition=SimpleNamespace(workers=workers),
        )  # fmt: skip

    scheduled = [made(100 + n, 90) for n in range(8)] + [made(110, 40), made(200, 10)]
    assert scheduled[8] in worth_simulating(scheduled) and scheduled[9] not in worth_simulating(scheduled)
    assert len(worth_simulating(scheduled)) == len(worth_simulating(scheduled[:8])) + 1
