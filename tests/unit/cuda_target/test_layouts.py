"""Register layouts against the PTX ISA's fragments, enumerated thread by thread; shared tiles and staging boxes."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache

import numpy as np
import pytest

from threadloom.dtypes import f16, f32, u4
from threadloom.errors import CompileError, InternalError
from threadloom.targets.cuda.layout import Layout, Source, accumulator, coordinate, register_index, rows, uniform
from threadloom.targets.cuda.other_axes import with_others
from threadloom.targets.cuda.shared import SharedTile
from threadloom.targets.cuda.shared_access import address
from threadloom.targets.cuda.staging import staging_of


def evaluate(expression: str, **values: int) -> int:
    """A C expression of ours: integers, + * / %."""
    return eval(_compiled(expression), {}, values)


@cache
def _compiled(expression: str):
    return compile(expression.replace("/", "//"), expression, "eval")


def places(layout: Layout, axes: tuple[str, ...]) -> dict[tuple[int, int, int], tuple[int, ...]]:
    """(warp, lane, register) -> coordinates, by the expressions that generated code uses."""
    found = {}
    for warp, lane, i in itertools.product(range(4), range(32), range(layout.registers)):
        at = []
        for axis in axes:
            thread, register = coordinate(layout, axis, "i")
            at.append(evaluate(thread, warp_in_group=warp, lane=lane, group=0) + evaluate(register, i=i))
        found[warp, lane, i] = tuple(at)
    return found


@pytest.mark.parametrize(("m", "n"), [(64, 8), (64, 176), (192, 16)])
def test_accumulators_are_wgmmas(m: int, n: int):
    layout = accumulator("m", "n", m, n)
    per_block = n // 2
    for (warp, lane, i), at in places(layout, ("m", "n")).items():
        block, r = divmod(i, per_block)
        row = 64 * block + 16 * warp + lane // 4 + 8 * ((r >> 1) & 1)
        assert at == (row, 8 * (r >> 2) + 2 * (lane & 3) + (r & 1))
    assert Counter(places(layout, ("m", "n")).values()) == Counter(itertools.product(range(m), range(n)))
    assert (layout.extent("m"), layout.extent("n")) == (m, n) and layout.registers == m * n // 128


@pytest.mark.parametrize(("m", "n"), [(32, 8), (64, 12)])
def test_no_accumulator(m: int, n: int):
    with pytest.raises(InternalError):
        accumulator("m", "n", m, n)


@pytest.mark.parametrize(("row_extent", "columns", "vector", "lanes"), [
    (1, 4096, 8, 32), (5, 256, 8, 32), (16, 64, 8, 8), (128, 16, 4, 4), (300, 8, 8, 1), (7, 40, 8, 8),
])  # fmt: skip
def test_rows_cover_every_element(row_extent: int, columns: int, vector: int, lanes: int):
    layout = rows((("m", row_extent),), "n", columns, vector, lanes)
    at = places(layout, ("m", "n"))
    found = Counter(at.values())
    assert set(itertools.product(range(row_extent), range(columns))) <= set(found)
    copies = layout.replicas(Source.LANE) * layout.replicas(Source.WARP)
    assert set(found.values()) == {copies}
    for (warp, lane, i), (_, n) in at.items():  # pieces of neighbours, aligned to their size
        first = at[warp, lane, i - i % vector][1]
        assert n == first + i % vector and first % vector == 0


def test_every_thread_has_every_scalar():
    layout = uniform()
    assert layout.registers == 1 and layout.replicas(Source.LANE) == 32 and layout.replicas(Source.WARP) == 4


def test_a_row_statistic_has_the_accumulators_rows():
    whole = accumulator("m", "n", 128, 64)
    rows_only = whole.without("n")
    assert rows_only.registers == 4 and rows_only.axes == ("m",) and rows_only.replicas(Source.LANE) == 4
    index = register_index(whole, rows_only, "i")
    thread, register = coordinate(rows_only, "m", "i")
    for (warp, lane, i), (m, _) in places(whole, ("m", "n")).items():
        r = evaluate(index, i=i)
        values = dict(warp_in_group=warp, lane=lane, group=0)
        assert evaluate(thread, **values) + evaluate(register, i=r) == m
    assert whole.keeping(("m",)) == rows_only and whole.keeping(("m", "n")) == whole
    assert whole.renamed("n", "k") == accumulator("m", "k", 128, 64)


def test_layouts_that_do_not_fit_are_refused():
    with pytest.raises(CompileError) as caught:
        register_index(accumulator("m", "n", 64, 64), rows((("m", 64),), "n", 64, 8, 8).without("n"), "i")
    assert caught.value.slug == "gpu-no-code"


# ---------------------------------------------------------------- shared memory


def test_shared_tiles_are_panels_of_128_bytes():
    tile = SharedTile("s", f16, (("k", 60),), "n", 128, 3)
    assert (tile.panels, tile.panel_columns, tile.row_bytes) == (2, 64, 128)
    assert tile.rows == 64 and tile.bytes_per_slot == 2 * 64 * 128 and tile.box_bytes == 2 * 60 * 128
    wide = SharedTile("s", f32, (("m", 3),), "n", 512, 1, swizzled=False)
    assert (wide.panels, wide.panel_columns, wide.rows) == (2, 256, 3)
    assert wide.bytes_per_slot == wide.box_bytes == 3 * 512 * 4


def test_short_lines_are_permuted_as_the_copy_engine_does():
    """16-byte chunk c of row r stands at c ^ (r / 2 % 4), by address bits: eight rows read at once meet in no bank."""
    tile = SharedTile("s", u4, (("n", 32),), "k", 128, 2, swizzled=False, short_lines=True)
    assert (tile.swizzle_bytes, tile.row_bytes, tile.bytes_per_slot % 512) == (64, 64, 0)
    text = address(tile, "slot", "row", "column")
    for chunk in range(4):
        at = [evaluate(text, s=0, slot=1, row=r, column=chunk * 32) for r in range(32)]
        assert at == [2048 + 64 * r + 16 * (chunk ^ ((2048 + 64 * r) >> 7 & 3)) for r in range(32)]
        assert all(len({a // 16 % 8 for a in at[first : first + 8]}) == 8 for first in range(0, 32, 8))


# ---------------------------------------------------------------- staging


@pytest.mark.parametrize("inner", ["n", "m"])
@pytest.mark.parametrize(("m", "n", "room"), [(64, 64, 0), (128, 96, 0), (128, 128, 2)])
def test_staging_boxes_hold_every_element_once(m: int, n: int, room: int, inner: str):
    layout = accumulator("m", "n", m, n)
    box = 16 * next(w for w in (64, 32, 16) if n % w == 0) * 2
    staging = staging_of("s", layout, ("nm".replace(inner, ""),), inner, room * 4 * box or m * n * 2)
    assert staging.box_bytes == box and staging.in_pieces == bool(room)
    assert staging.across == (inner == "m") and staging.line_bytes == (32 if inner == "m" else box // 16)
    assert len(staging.boxes) * 4 * box == m * n * 2
    columns = staging.box_columns
    covered = np.zeros((m, n), int)
    at = places(layout, ("m", "n"))
    for block, panel in staging.boxes:
        first = evaluate(staging.source("0", block, panel))  # in pairs of neighbouring columns
        for warp, lane in itertools.product(range(4), range(32)):
            for pair in range(first, first + columns // 4):
                for i in (2 * pair, 2 * pair + 1):
                    row, column = at[warp, lane, i]
                    assert row // 64 == block and row % 64 // 16 == warp and column // columns == panel
                    covered[row, column] += 1
    assert (covered == 1).all()
    boxes = [evaluate(staging.address(*b), s=0, warp_in_group=w) for b in staging.boxes for w in range(4)]
    assert max(boxes) + box <= (room * 4 * box or m * n * 2)
    assert room or len(set(boxes)) == len(boxes)


@pytest.mark.parametrize(("each", "count"), [(8, 8), (8, 16), (16, 4), (16, 8), (32, 2), (32, 4), (64, 4), (128, 2)])
def test_boxes_of_rows_along_two_axes(each: int, count: int):
    """Rows below one another, or a product for each position of the axis above."""
    layout = accumulator("j", "n", each * count, 96, ("i", count))
    if each % 64 == 0:
        layout = with_others(accumulator("j", "n", each, 96), (("i", count),))
    staging = staging_of("s", layout, ("i", "j"), "n", 16384)
    box, at, seen = staging.box, places(layout, ("i", "j", "n")), set()
    assert math.prod(box.values()) * 2 == staging.box_bytes and box["n"] == 32
    for (block, panel), warp in itertools.product(staging.boxes, range(4)):
        first = evaluate(staging.source("0", block, panel))
        moved = {axis: evaluate(text, warp_in_group=warp) for axis, text in staging.moved(block, panel).items()}
        for lane, i in itertools.product(range(32), range(2 * first, 2 * first + 16)):
            i_at, j_at, column = at[warp, lane, i]
            line = (lane // 4) + i // 2 % 2 * 8  # of the box, as stage_box writes them
            above, row = divmod(line, box["j"])
            assert (i_at, j_at) == (moved["i"] + above, moved["j"] + row), "the copy engine takes lines in that order"
            assert moved["n"] <= column < moved["n"] + 32
            seen.add((i_at, j_at, column))
    assert len(seen) == each * count * 96


def test_short_lines_leave_in_the_tensors_order_only():
    """A box takes its lines along the tensor's later dimension first."""
    layout = accumulator("j", "n", 64, 64, ("i", 8))
    assert staging_of("s", layout, ("j", "i"), "n", 8192) is None
    assert staging_of("s", accumulator("j", "n", 64, 64, ("i", 4)), ("j", "i"), "n", 8192).above == "i"


def test_boxes_across_are_swizzled_as_the_copy_engine_does():
    """Element (row, column) of a box of 16 columns lies in 32-byte lines, its 16-byte half exchanged with the other in
    every second group of four lines; stage_box_across, in Python, for one warp."""
    layout = accumulator("n", "m", 64, 64)
    at = places(layout, ("m", "n"))
    box: dict[int, tuple[int, int]] = {}
    for j, matrix in itertools.product(range(4), range(4)):
        for lane in range(32):
            for pair in range(2):  # transposed: register pair of lane l is column l / 4, rows 2 (l % 4) and the next
                row = 16 * j + 8 * (matrix >> 1) + 2 * (lane % 4) + pair
                address = row * 32 + ((matrix & 1) ^ (row >> 2 & 1)) * 16 + lane // 4 * 2
                box[address] = at[0, lane, 2 * (4 * j + matrix) + pair]
    assert len(box) == 64 * 16
    for address, (m, n) in box.items():
        line, half = divmod(address, 32)
        assert m == line and n == ((half // 16) ^ (line // 4 % 2)) * 8 + half % 16 // 2


def test_columns_without_boxes():
    with pytest.raises(InternalError, match="8 columns have no boxes"):
        staging_of("s", accumulator("m", "n", 64, 8), ("m",), "n", 4096).box_columns  # noqa: B018
