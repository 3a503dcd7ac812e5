"""Grids of uneven tiles: what the busiest EU does, and how many tiles are done from long to short together."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from threadloom.machine.devices import device
from threadloom.sched.candidate import _longest_first_group
from threadloom.sched.inter import Grid, spread
from threadloom.sched.ops import AxisTile, Partition


def dealt_out(times: list[tuple[int, float]], eus: int) -> float:
    """The most cycles of an EU, tile by tile."""
    tiles = [t for n, t in sorted(times, key=lambda x: -x[1]) for _ in range(n)]
    spent = [0.0] * eus
    for number, cycles in enumerate(tiles):
        lap, at = divmod(number, eus)
        spent[at if lap % 2 == 0 else eus - 1 - at] += cycles
    return max(spent)


@pytest.mark.parametrize("seed", range(40))
def test_the_busiest_eu_of_tiles_dealt_to_and_fro(seed: int):
    rng = random.Random(seed)
    eus = rng.choice([1, 2, 7, 132])
    times = [(rng.randint(1, 3 * eus), rng.uniform(1, 9)) for _ in range(rng.randint(2, 9))]
    assert spread(times, eus, dynamic=True) == pytest.approx(dealt_out(times, eus))


class Problem:
    """What `_longest_first_group` asks of a context: chunks of 256 rows, two tiles each, of a state-space model."""

    def __init__(self, moved_bytes: float):
        self.device, self.whole, self.moved_bytes = device("h200"), {"m": 256, "h": 80}, moved_bytes


def test_sections_fit_the_cache_and_give_all_eus_the_same():
    partition = Partition((AxisTile("m", 128, 64),), persistent=True)
    grid = Grid(256, ((128, {1: 1}), (128, {1: 2})), ("m",))
    cache = int(device("h200").fact("l2_bytes", 0))
    for moved in (2 * cache, 17 * cache, 875e6):
        found = _longest_first_group(partition, Problem(moved), grid)
        assert found > 1 and found * moved / 128 <= cache / 2 and 264 % (found * 2) == 0
    assert _longest_first_group(partition, Problem(cache / 4), grid) == 1  # all of it fits
    assert _longest_first_group(replace(partition, persistent=False), Problem(875e6), grid) == 1
    tall = Problem(875e6)
    tall.whole = {"m": 128 * 32}
    assert (
        _longest_first_group(partition, tall, replace(grid, tiles=64 * 32)) == 33
    )  # four rounds: the smallest, if too large
    tall.whole = {"m": 128 * 50}
    assert (
        _longest_first_group(partition, tall, replace(grid, tiles=64 * 50)) == 1
    )  # whole rounds would be more than there are
