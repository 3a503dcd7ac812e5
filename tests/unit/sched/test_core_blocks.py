"""A core computes whole register blocks: what the model counts for a product, and which tiles that makes it choose."""

from __future__ import annotations

import pytest

from tests.unit.sched import graphs
from threadloom.dtypes import f32
from threadloom.machine import cpu
from threadloom.sched.costs import in_blocks
from threadloom.sched.inter import grid_of
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.search import plan
from threadloom.sched.sizes import BoundScalars, axis_extents, sizes_of
from threadloom.targets.cpu.operands import register_rows
from threadloom.targets.cpu.schedule import target_of

HOSTS = {"avx2": cpu.ZEN2, "avx512": cpu.SAPPHIRE_RAPIDS, "neon": cpu.NEOVERSE_V1}
MATMUL = {"M": 1024, "N": 1024, "K": 1024}


@pytest.mark.parametrize("host", HOSTS)
def test_model_and_generator_choose_the_same_blocks(host: str):
    model = cpu.build(HOSTS[host])
    target = target_of(model)
    for rows in range(1, 400):
        block = register_rows(target, rows, target.vectors)
        assert in_blocks(model, rows) == -(-rows // block) * block, rows


def test_what_a_row_too_many_costs():
    assert [in_blocks(cpu.build(cpu.ZEN2), rows) for rows in (4, 6, 126, 128)] == [4, 6, 126, 132]
    assert in_blocks(cpu.build(cpu.SAPPHIRE_RAPIDS), 128) == 128  # 16 blocks of 8


def test_rows_of_a_product_fill_register_blocks():
    best = plan(graphs.matmul(f32, f32), MATMUL, cpu.build(cpu.ZEN2)).best
    assert best.partition.extent("m") % 6 == 0


def test_rows_whose_columns_are_reduced_fill_vectors():
    """They lie in lanes."""
    best = plan(graphs.attention(), {"B": 1, "H": 8, "S": 1024, "T": 1024}, cpu.build(cpu.ZEN2)).best
    assert best.partition.extent("m") % 16 == 0


def test_the_last_tile_counts_as_what_it_is():
    graph = graphs.matmul(f32, f32)
    whole = axis_extents(graph, {"M": 1000, "N": 1024, "K": 64})
    tiles = tuple(AxisTile(axis, extent, extent) for axis, extent in (("m", 300), ("n", 512), ("k", 64)))
    sizes = sizes_of(graph, Partition(tiles), whole)
    grid = grid_of(graph, sizes, BoundScalars(graph, {"M": 1000, "N": 1024, "K": 64}))
    assert grid.tiles == 8 and sorted(grid.shares) == [(2, pytest.approx(1 / 3)), (6, 1.0)]
    grid = grid_of(graph, sizes, BoundScalars(graph, {"M": 1000, "N": 1024, "K": 64}), granule=16)
    assert sorted(grid.shares) == [(2, pytest.approx(112 / 300)), (6, 1.0)]
