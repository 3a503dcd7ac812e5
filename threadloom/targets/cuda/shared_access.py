"""Ordinary reads of tiles in shared memory into a register layout, through the swizzle where there is one."""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.layout import Source, coordinate
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared import SharedTile


def emit_read_shared(scope: Scope, shared: SharedTile, held: Registers, slot: str) -> None:
    """Fill `held` from slot `slot` of `shared`. A worker's part of a split axis begins at `Place.first`'s offset."""
    if len(shared.row_axes) > 1:
        raise InternalError(f"{shared.base}: reads of tiles with several row axes have no code yet")
    w, layout = scope.writer, held.layout
    kind = c.memory_type(shared.dtype)
    row_axis = shared.row_axes[0][0] if shared.row_axes else ""
    digits = layout.of(Source.REGISTER)
    vector = digits[0].size if digits and digits[0].axis == shared.column_axis and digits[0].stride == 1 else 1
    if vector * shared.dtype.bits // 8 not in (2, 4, 8, 16):
        vector = 1
    w.line("#pragma unroll")
    with w.block(f"for (int i = 0; i < {layout.registers}; i += {vector})"):
        row = _position(layout, row_axis, scope)
        column = _position(layout, shared.column_axis, scope)
        w.line(f"const u32 row = {row}, column = {column};")
        address = _address(shared, slot)
        w.line(f"{kind} piece[{vector}];")
        w.line(f"read_shared<{vector * shared.dtype.bits // 8}>(piece, {address});")
        w.line("#pragma unroll")
        w.line(f"for (int e = 0; e < {vector}; e++) {held.name}[i + e] = {c.from_memory(shared.dtype, 'piece[e]')};")


def _position(layout, axis: str, scope: Scope) -> str:
    if not axis:
        return "0"
    threads, registers = coordinate(layout, axis, "i")
    offset = scope.places[axis].offset
    return " + ".join(x for x in (offset, threads, registers) if x != "0") or "0"


def _address(shared: SharedTile, slot: str) -> str:
    size = shared.dtype.bits // 8
    base = shared.base + (f" + {slot} * {shared.bytes_per_slot}" if shared.slots > 1 else "")
    panel = f" + column / {shared.panel_columns} * {shared.panel_bytes}" if shared.panels > 1 else ""
    inside = f"column % {shared.panel_columns}" if shared.panels > 1 else "column"
    if not shared.swizzled:
        return f"{base}{panel} + row * {shared.row_bytes} + ({inside}) * {size}"
    return f"{base}{panel} + row * 128 + (({inside}) * {size} ^ (row & 7) * 16)"
