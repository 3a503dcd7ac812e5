"""What of a kernel gets a place in memory."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_run import plain_schedule

from threadloom.examples.flash_attention import flash_attention
from threadloom.machine.cpu import ZEN2, build
from threadloom.sched.inter import grid_of
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.search import context_of, prepare_graph
from threadloom.sched.sizes import sizes_of
from threadloom.targets.cpu.compile import form_for
from threadloom.targets.cpu.plan import KernelPlan
from threadloom.targets.cpu.planning import plan_kernel
from threadloom.targets.cpu.schedule import AVX2
from threadloom.task.build import build_task_graph


def attention_plan(causal: bool) -> KernelPlan:
    q = np.zeros((1, 2, 128, 64), np.float32)
    call = flash_attention.bind(q, q, q, 0.1, causal=causal)
    schedule = plain_schedule(call.kernel)
    return plan_kernel(schedule, form_for(schedule, call.arrays, call.dims), AVX2)


@pytest.mark.parametrize("causal", [False, True])
def test_scores_and_probabilities_share_the_only_tile_of_their_size(causal: bool):
    """The scaled scores, read once by an exponential that waits for the maxima, are no third tile."""
    made = attention_plan(causal)
    square = {home.buffer for home in made.homes.values() if set(home.layout.axes) == {"m", "n"}}
    assert len(square) == 1


def test_what_is_added_to_a_product_is_kept_in_its_accumulator():
    made = attention_plan(False)
    tiles = {home.buffer for home in made.homes.values() if set(home.layout.axes) == {"m", "d"}}
    assert len(tiles) == 1


def test_a_core_is_charged_for_the_keys_that_a_causal_tile_sees():
    """The last trip of a stream is short: it counts as a part of one."""
    q = np.zeros((1, 1, 512, 64), np.float32)
    kernel = flash_attention.bind(q, q, q, 0.1, causal=True).kernel
    dims = {"B": 1, "H": 1, "HKV": 1, "SQ": 512, "SK": 512, "D": 64}
    context = context_of(prepare_graph(build_task_graph(kernel, "fused"), build(ZEN2)), dims, build(ZEN2))
    tiles = Partition((AxisTile("m", 64, 64), AxisTile("n", 256, 256)), order=("b", "h", "m"))
    grid = grid_of(context.graph, sizes_of(context.graph, tiles, context.whole), context.scalars)
    (loop,) = (loop.id for loop in context.graph.loops if loop.id != 0)
    assert sum(n * trips[loop] for n, trips in grid.classes) == 4 * 1 + 4 * 2
    assert sum(n * trips[loop] for n, trips in grid.parts) == sum(64 * (tile + 1) / 256 for tile in range(8))
