"""Operands of products whose summed axis ends inside the tensor: what lies beyond the end becomes 0.

A bulk copy fills with zeros outside of the tensor only. A tile that ends where a sequence, a group or a bound does
brings what follows in memory, which no product may see (it may be NaN). Every worker that reads the tile overwrites the
rest of the last tile, under a branch that is uniform and not taken for the others.
"""

from __future__ import annotations

from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.registers import Scope
from threadloom.targets.cuda.shared import SharedTile
from threadloom.targets.cuda.shared_access import address

THREADS = 128


def emit_zero_tail(scope: Scope, shared: SharedTile, axis: str, slot: str) -> None:
    """Zeros at all positions of `axis` beyond its end, in slot `slot`; the caller's products see them."""
    place = scope.places[axis]
    place = place.whole or place
    covered = shared.columns if axis == shared.column_axis else dict(shared.row_axes)[axis]
    if place.holds(covered):
        return
    end = place.end(covered)
    if covered <= place.extent and scope.assumes(f"{place.first} + {covered} <= {end}"):
        return
    w = scope.writer
    with w.block(f"if ({place.first} + {covered} > {end})"):
        w.line(f"const i32 valid = max({end} - ({place.first}), 0);  // positions of the tile that count")
        _zero_rows(scope, shared, axis, slot) if axis != shared.column_axis else _zero_columns(scope, shared, slot)
        w.line("fence_to_async();")
        w.line(f"group_sync(1 + worker, {THREADS});")


def emit_zeros(scope: Scope, shared: SharedTile, axis: str, slot: str, valid: int) -> None:
    """Zeros at positions of `axis` from `valid` on; a fence and a barrier must follow."""
    with scope.writer.block(""):
        scope.writer.line(f"constexpr i32 valid = {valid};  // positions of the tile that threads write")
        _zero_rows(scope, shared, axis, slot) if axis != shared.column_axis else _zero_columns(scope, shared, slot)


def _zero_rows(scope: Scope, shared: SharedTile, axis: str, slot: str) -> None:
    """Whole rows, 16 bytes at a time where they are that long."""
    w, size = scope.writer, shared.dtype.bits // 8
    columns = shared.panels * shared.panel_columns if shared.swizzled else shared.columns
    bytes_ = next(b for b in (16, 8, 4, 2, 1) if columns * size % b == 0 and b >= size)
    pieces, inner = columns * size // bytes_, 1
    for other, extent in reversed(shared.row_axes):
        if other == axis:
            break
        inner *= extent
    position = f"row / {inner} % {dict(shared.row_axes)[axis]}" if len(shared.row_axes) > 1 else "row"
    kind, elems = c.memory_type(shared.dtype), bytes_ // size
    w.line(f"const {kind} nothing[{elems}] = {{}};")
    with w.block(f"for (i32 i = threadIdx.x % {THREADS}; i < {shared.true_rows * pieces}; i += {THREADS})"):
        w.line(f"const i32 row = i / {pieces}, column = i % {pieces} * {elems};")
        w.line(f"if ({position} >= valid) write_shared<{bytes_}>({address(shared, slot, 'row', 'column')}, nothing);")


def _zero_columns(scope: Scope, shared: SharedTile, slot: str) -> None:
    """The end of each row, element by element."""
    w, kind = scope.writer, c.memory_type(shared.dtype)
    columns = shared.panels * shared.panel_columns if shared.swizzled else shared.columns
    w.line(f"const {kind} nothing[1] = {{}};")
    with w.block(f"for (i32 row = threadIdx.x % {THREADS}; row < {shared.true_rows}; row += {THREADS})"):
        where = address(shared, slot, "row", "column")
        w.line(f"for (i32 column = valid; column < {columns}; column++)")
        w.line(f"  write_shared<{shared.dtype.bits // 8}>({where}, nothing);")
