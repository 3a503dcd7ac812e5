"""Tiles that the next block reads: which lines are asked for, and of which loads none."""

from __future__ import annotations

import numpy as np
import pytest

from threadloom.cuda.lower.prefetch_blocks import PrefetchBlocks
from threadloom.par.interp import interpret
from threadloom.par.passes import run_passes
from threadloom.par.text import parse, print_module

ROWS, COLUMNS, STEP = 8, 16, 12

KERNEL = """
define exported void @k(ptr noalias %in, ptr noalias %out, i32 %n, i32 %by.max, i32 %bx.max) {{
  call void @base(ptr %in)
  parallel blocks (%by, %bx) = (i32 0, i32 0) to (i32 %by.max, i32 %bx.max) {{
    parallel threads (%z, %y, %x) = (i32 0, i32 0, i32 0) to (i32 1, i32 {rows}, i32 {columns}) {{
      %first = mul i32 %by, {rows}
      %row = add i32 %first, %y
      %start = mul i32 %bx, 12
      %column = {column}
      %line = mul i32 %row, {pitch}
      %at = add i32 %line, %column
      %in.range = icmp slt i32 %column, %n
      if i1 %in.range {{
        %p = getelementptr float, ptr {array}, i32 %at
        %v = load float, ptr %p
        %beside = add i32 %at, {offset}
        %p2 = getelementptr float, ptr {array}, i32 %beside
        %v2 = load float, ptr %p2
        %sum = fadd float %v, %v2
        %wide = sext i32 %at to i64
        %q = getelementptr float, ptr %out, i64 %wide
        store float %sum, ptr %q
        yield
      }} else {{
        yield
      }}
    }}
  }}
  return
}}
declare void @base(ptr)
"""


def make(**parts: str | int):
    usual = {
        "rows": ROWS,
        "columns": COLUMNS,
        "column": "add i32 %start, %x",
        "pitch": "%n",
        "array": "%in",
        "offset": 1,
    }
    return parse(KERNEL.format(**usual | {"array": "%in"} | parts))


def run(module, n: int, asked: list[int] | None = None) -> np.ndarray:
    array, out, base = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32), []
    text = print_module(module)
    if asked is not None:
        text = text.replace("@llvm.prefetch.p0", "@asked")
    given = {"base": lambda p: base.append(p), "asked": lambda p, *_: asked.append(p - base[0])}
    interpret(parse(text), "k", [array, out, n, 2, 3], externals=given)
    return out


def test_the_last_element_of_each_row_of_the_next_tile() -> None:
    module = make()
    after = run_passes(module, [PrefetchBlocks()]).module
    asked: list[int] = []
    assert np.array_equal(run(module, 40), run(after, 40, asked))
    expected = [4 * (40 * (by * ROWS + row) + STEP * (bx + 1) + COLUMNS - 1)
                for by in range(2) for bx in range(3) for row in range(ROWS)]  # fmt: skip
    assert asked == expected  # once, though the second load reads the same lines
    text = print_module(after)
    assert text.index("parallel threads") < text.index("llvm.prefetch.p0")  # this block's rows have been read then


def test_two_lines_of_a_row() -> None:
    asked: list[int] = []
    run(PrefetchBlocks().apply(make(columns=32)), 40, asked)
    assert asked[:2] == [4 * (STEP + 31), 4 * (STEP + 15)]


@pytest.mark.parametrize(
    "parts",
    [
        {"pitch": 64},  # rows that follow one another closely
        {"column": "mul i32 %x, 3"},  # not contiguous
        {"column": "add i32 0, %x"},  # the same for every block
        {"column": "call i32 @llvm.smax.i32(i32 %start, i32 %x)"},
        {"rows": 2},
        {"columns": 128},
        {"rows": "%bx.max"},
    ],
    ids=str,
)
def test_what_is_left_to_the_processor(parts: dict) -> None:
    module = make(**parts)
    assert run_passes(module, [PrefetchBlocks()]).module == module


def test_arrays_of_the_block_are_not_asked_for() -> None:
    usual = {"rows": ROWS, "columns": COLUMNS, "column": "add i32 %start, %x", "pitch": "%n", "offset": 1}
    text = KERNEL.format(**usual, array="%tile")
    tile = "    %tile = alloca shared [4096 x float], i64 1, align 64\n"
    module = parse(text.replace("    parallel threads", tile + "    parallel threads"))
    assert PrefetchBlocks().apply(module) == module


def test_too_many_tiles() -> None:
    (step,) = run_passes(make(offset=1000), [PrefetchBlocks(most_tiles=1)]).steps
    assert [one.reason for one in step.declined] == ["next block's tile not prefetched"]
    assert step.changed


FLAT = """
define exported void @k(ptr noalias %in, ptr noalias %out, i32 %n, i32 %by.max, i32 %bx.max) {{
  call void @base(ptr %in)
  %lines = mul i32 %n, {rows}
  parallel blocks (%bx) = (i32 0) to (i32 %bx.max) {{
    parallel threads (%z, %y, %x) = (i32 0, i32 0, i32 0) to (i32 1, i32 1, i32 {columns}) {{
      %down = mul i32 %lines, %bx
      %right = mul i32 %bx, {columns}
      %corner = add i32 {corner}, %right
      %column = add i32 %corner, %x
      %end = while (%row = i32 0) {{
        %more = icmp slt i32 %row, {trips}
        condition i1 %more, i32 %row
      }} do (%row.1) {{
        %line = mul i32 %n, %row.1
        %at = add i32 %column, %line
        %p = getelementptr float, ptr %in, i32 %at
        %v = load float, ptr %p
        %q = getelementptr float, ptr %out, i32 %at
        store float %v, ptr %q
        %next = add nsw i32 %row.1, 1
        yield i32 %next
      }}
    }}
  }}
  return
}}
declare void @base(ptr)
"""


def test_rows_that_each_thread_goes_through() -> None:
    """On a diagonal the next tile lies in other rows: all of its lines; along a row only those that are new."""
    for corner, first in (("%down", True), ("0", False)):
        module = parse(FLAT.format(rows=ROWS, columns=COLUMNS, trips=ROWS, corner=corner))
        after = PrefetchBlocks().apply(module)
        asked: list[int] = []
        assert np.array_equal(run(module, 40), run(after, 40, asked))
        down = ROWS * 40 if first else 0
        starts = [down * (bx + 1) + COLUMNS * (bx + 1) + 40 * row for bx in range(3) for row in range(ROWS)]
        assert asked == [4 * (start + at) for start in starts for at in ((COLUMNS - 1, 0) if first else (COLUMNS - 1,))]


@pytest.mark.parametrize("trips", ["%n", "3", "33"])
def test_loops_of_few_many_or_unknown_rows_are_left(trips: str) -> None:
    module = parse(FLAT.format(rows=ROWS, columns=COLUMNS, trips=trips, corner="%down"))
    assert PrefetchBlocks().apply(module) == module
