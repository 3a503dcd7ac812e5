"""What of a kernel gets a place in memory."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_run import plain_schedule

from threadloom.examples.flash_attention import flash_attention
from threadloom.targets.cpu.compile import form_for
from threadloom.targets.cpu.plan import KernelPlan
from threadloom.targets.cpu.planning import plan_kernel
from threadloom.targets.cpu.schedule import AVX2


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
