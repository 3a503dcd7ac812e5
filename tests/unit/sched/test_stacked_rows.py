"""Rows of a product along two axes below one another: layouts, plans, code; and one position at a time on cores."""

from __future__ import annotations

import re

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_emit.test_forms import emitted
from tests.unit.cuda_target.test_layouts import places
from threadloom.examples.conv2d import conv2d, inputs, reference
from threadloom.examples.matmul import inputs as matmul_inputs
from threadloom.examples.matmul import matmul
from threadloom.machine.devices import device
from threadloom.sched.one_at_a_time import one_at_a_time
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.search import plan, prepare_graph
from threadloom.sched.simulate_tiles import simulate_tiles
from threadloom.sched.stacked_rows import are_stacked, stacked_pairs
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.layout import accumulator
from threadloom.task.build import build_task_graph
from threadloom.tile.ops import AxisKind


def call(size: int = 14, channels: int = 128):
    shape = {"B": 2, "H": size, "W": size, "C": channels, "F": channels, "R": 3, "S": 3}
    return conv2d.bind(**inputs(np.random.default_rng(0), **shape, dtype=np.float16))


@pytest.mark.parametrize(("above", "m"), [(4, 64), (8, 64), (2, 64), (8, 128), (16, 128), (4, 128)])
def test_rows_of_two_axes_are_the_instructions_rows_one_after_the_other(above: int, m: int):
    plain, stacked = accumulator("j", "n", m, 32), accumulator("j", "n", m, 32, ("i", above))
    rows, both = places(plain, ("j", "n")), places(stacked, ("i", "j", "n"))
    assert rows.keys() == both.keys()
    for at, (row, column) in rows.items():
        assert both[at] == (*divmod(row, m // above), column)


def test_which_extents_make_whole_instructions():
    assert are_stacked(16, 4, 64) and are_stacked(8, 16, 64) and are_stacked(32, 2, 64)
    assert not are_stacked(16, 2, 64) and not are_stacked(64, 1, 64) and not are_stacked(14, 32, 64)
    assert not are_stacked(16, 4, 16), "a line alone is whole instructions"


def test_small_images_fill_instructions_with_several_lines():
    made = call()
    best = plan(made.kernel, made.dims, "h200").best
    tiles = {t.axis: t for t in best.partition.tiles}
    rows = tiles["i"].worker_extent * tiles["j"].worker_extent
    assert tiles["j"].extent in (8, 16) and rows % 64 == 0, "of 64 rows at most 14 were used"


def test_code_of_lines_below_one_another():
    tiles = (AxisTile("i", 8, 4), AxisTile("j", 16, 16), AxisTile("f", 128, 128), AxisTile("c", 64, 64))
    only = Partition(tiles, order=("b", "i", "j", "f"), workers=2, persistent=True)
    made = emitted(call(), only=only)
    assert "descriptor_k_major(smem_x + (worker * 64) * 128)" in made.text, "a worker's part is four lines of 16"
    assert len(re.findall(r"mma_m64n128k16_f16_k_mn\(acc", made.text)) == 1, "one product for all lines"
    (spec,) = [spec for _, spec in made.maps if spec.tensor == "x"]
    assert spec.box == (64, 16, 8, 1), "a box brings all lines of the tile"
    store = made.text[made.text.index("// store_out") :]
    assert "i_mine + 0 + warp_in_group * 1, b_at)" in store, "each warp stores the line of 16 that it holds"
    assert "store_words" not in store, "nothing leaves in pieces of 4 bytes"
    (spec,) = [spec for _, spec in made.maps if spec.tensor == "out"]
    assert spec.box == (64, 16, 1, 1)
    cubin = nvrtc.compile_source(made.text, "sm_90a")
    assert cubin.spill_bytes == 0 and not cubin.serialised


def test_a_plan_with_such_rows_computes_the_convolution():
    shape = {"B": 1, "H": 6, "W": 7, "C": 64, "F": 16, "R": 3, "S": 2}
    given = inputs(np.random.default_rng(1), **shape, dtype=np.float16)
    made = conv2d.bind(**given)
    tiles = (AxisTile("i", 8, 8), AxisTile("j", 8, 8), AxisTile("f", 16, 16), AxisTile("c", 64, 64))
    best = plan(made.kernel, made.dims, "h200", only=Partition(tiles, order=("b", "i", "j", "f"))).best
    start = {t.name: np.array(made.arrays[t.name]) for t in made.kernel.tensors}
    _, found = next(iter(simulate_tiles(best, start, made.scalars, made.dims, device("h200"))))
    assert np.abs(found["out"] - reference(**given)).max() < 0.05


def test_lines_of_eight_leave_two_at_a_time():
    tiles = (AxisTile("i", 8, 8), AxisTile("j", 8, 8), AxisTile("f", 64, 64), AxisTile("c", 64, 64))
    made = emitted(call(7), only=Partition(tiles, order=("b", "i", "j", "f"), persistent=True))
    (spec,) = [spec for _, spec in made.maps if spec.tensor == "out"]
    assert spec.box == (64, 8, 2, 1) and "j_at, i_at + 0 + warp_in_group * 2, b_at)" in made.text


@pytest.mark.parametrize("workers", [2, 3])
def test_roles_fed_by_threads_ask_for_no_more_registers_than_a_block_begins_with(workers: int):
    """With strides threads fill the rows; a third of 512 registers is 170, and a thread gets 168."""
    tiles = (AxisTile("i", 4 * workers, 4), AxisTile("j", 16, 16), AxisTile("f", 64, 64), AxisTile("c", 64, 64))
    given = inputs(np.random.default_rng(0), B=1, H=48, W=32, C=64, F=64, R=3, S=3, dtype=np.float16)
    only = Partition(tiles, order=("b", "i", "j", "f"), workers=workers, persistent=True)
    made = emitted(conv2d.bind(**given, stride=2), only=only)
    budgets = [int(n) for n in re.findall(r"(?:grow|shrink)_registers<(\d+)>", made.text)]
    threads = 128 * (workers + 1)
    assert budgets[0] + workers * budgets[1] <= 65536 // threads // 8 * 8 * (workers + 1)


def test_cores_take_lines_one_at_a_time():
    made = call()
    graph = build_task_graph(made.kernel, "fused")
    assert stacked_pairs(graph) == {"j": "i"}
    narrow = prepare_graph(graph, device("cpu"))
    kinds = {a.name: a.kind for a in narrow.kernel.axes}
    assert kinds["i"] is AxisKind.EACH and kinds["j"] is AxisKind.TILE
    assert {"i" in t.type.axes for t in graph.tiles if "j" in t.type.axes} == {True}
    assert all("i" not in t.type.axes for t in narrow.tiles)
    dtypes = {t.name: t.dtype for t in graph.kernel.tensors}
    assert all(t.dtype is dtypes[t.name] for t in narrow.kernel.tensors), "types are compared by identity"


def test_products_of_one_row_axis_are_not_touched():
    bound = matmul.bind(**matmul_inputs(np.random.default_rng(0), M=64, N=64, K=64, dtype=np.float16))
    graph = build_task_graph(bound.kernel, "fused")
    assert stacked_pairs(graph) == {}


@tl.kernel
def shifted_lines(
    x: tl.Tensor["I", "J", "C", tl.f16], w: tl.Tensor["C", "F", tl.f16], by_line: tl.Const[bool]
) -> tl.Tensor["I", "J", "F", tl.f32]:
    for i, j, f in tl.grid("I", "J", "F"):
        acc = tl.zeros(i, j, f)
        for c in tl.stream("C"):
            acc += tl.dot(x[i, j, c], w[c, f])
        out[i, j, f] = acc + (tl.index(i) if by_line else 1)


@pytest.mark.parametrize("by_line", [False, True])
def test_lines_whose_number_is_read_stay_together(by_line: bool):
    graph = build_task_graph(shifted_lines.tile(by_line=by_line), "fused")
    assert stacked_pairs(graph) == {"j": "i"}
    assert (one_at_a_time(graph) is graph) == by_line
