"""The order in which tiles are visited where data says how many of them there are."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tests.unit.sched import kernels
from threadloom.dtypes import f16
from threadloom.examples.grouped_matmul import grouped_matmul, inputs
from threadloom.machine.devices import device
from threadloom.sched.partition import GROUPED_TILES, partitions
from threadloom.sched.sizes import axis_extents
from threadloom.task.build import build_task_graph

H200 = device("h200")
BLOCKS, EXPERTS, ROWS, COLUMNS, TRUE_ROWS = 132, 32, 64, 16, 2  # tiles of 128 x 256 of 8192 rows in 32 groups of 256


def test_tiles_of_groups_are_visited_row_by_row():
    given = inputs(np.random.default_rng(0), **{"E": 4, "M": 64, "K": 64, "N": 64}, dtype=np.float16)
    call = grouped_matmul.bind(**given)
    for kernel, dims, group in (
        (call.kernel, call.dims, 1),
        (kernels.matmul.tile(T=f16), {"M": 512, "N": 512, "K": 512}, GROUPED_TILES),
    ):
        graph = build_task_graph(kernel, "fused")
        found = {p.group for p in partitions(graph, axis_extents(graph, dims), H200)}
        assert found == {group}, kernel.name


def test_so_every_multiprocessor_has_its_share():
    """Numbers of the tiles that there are, by the walk's formulas (targets/cuda/places.py)."""
    plane = ROWS * COLUMNS
    by_rows = [e * plane + m * COLUMNS + n for e in range(EXPERTS) for m in range(TRUE_ROWS) for n in range(COLUMNS)]
    grouped = [
        e * plane + n * GROUPED_TILES + m for e in range(EXPERTS) for m in range(TRUE_ROWS) for n in range(COLUMNS)
    ]
    shares = Counter(tile % BLOCKS for tile in by_rows)
    assert len(shares) == BLOCKS and max(shares.values()) <= 9
    assert len({tile % BLOCKS for tile in grouped}) == BLOCKS // 2
