"""Ordinary reads of tiles in shared memory into a register layout, through the swizzle where there is one."""

from __future__ import annotations

from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.layout import Layout, Source, coordinate
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared import SharedTile


def emit_read_shared(scope: Scope, shared: SharedTile, held: Registers, slot: str) -> None:
    """Fill `held` from slot `slot` of `shared`. A worker's part of a split axis begins at `Place.offset`."""
    w, layout, vector = scope.writer, held.layout, piece_elems(shared, held.layout)
    w.line("#pragma unroll")
    with w.block(f"for (int i = 0; i < {layout.registers}; i += {vector})"):
        emit_piece(scope, shared, layout, slot, "i", "piece", vector)
        w.line("#pragma unroll")
        w.line(f"for (int e = 0; e < {vector}; e++) {held.name}[i + e] = {c.from_memory(shared.dtype, 'piece[e]')};")


def piece_elems(shared: SharedTile, layout: Layout) -> int:
    """Elements that one access brings: the first register digit, where it runs along the tile's rows."""
    digits = layout.of(Source.REGISTER)
    vector = digits[0].size if digits and digits[0].axis == shared.column_axis and digits[0].stride == 1 else 1
    return vector if vector * shared.dtype.bits // 8 in (1, 2, 4, 8, 16) else 1


def emit_piece(
    scope: Scope, shared: SharedTile, layout: Layout, slot: str, register: str, name: str, vector: int
) -> None:
    """Declare `name` and fetch the elements of registers `register` .. + `vector`; 0 beyond the tile's end."""
    w = scope.writer
    terms, place, tests = [], 1, []
    for axis, extent in reversed(shared.row_axes):
        at = _position(layout, axis, scope, register)
        terms.append(at if place == 1 else f"({at}) * {place}")
        place *= extent
        if layout.extent(axis) > extent:
            tests.append(f"{at} < {extent}" if len(shared.row_axes) > 1 else f"{name}_row < {extent}")
    column = _position(layout, shared.column_axis, scope, register)
    w.line(f"const u32 {name}_row = {' + '.join(terms) or '0'}, {name}_column = {column};")
    if layout.extent(shared.column_axis) > shared.columns:
        tests.append(f"{name}_column < {shared.columns}")
    guard = f"if ({' && '.join(tests)}) " if tests else ""
    w.line(f"{c.memory_type(shared.dtype)} {name}[{vector}]{' = {}' if guard else ''};")
    at = address(shared, slot, f"{name}_row", f"{name}_column")
    w.line(f"{guard}read_shared<{vector * shared.dtype.bits // 8}>({name}, {at});")


def _position(layout: Layout, axis: str, scope: Scope, register: str) -> str:
    threads, registers = coordinate(layout, axis, register)
    offset = scope.places[axis].offset
    return " + ".join(x for x in (offset, threads, registers) if x != "0") or "0"


def address(shared: SharedTile, slot: str, row: str, column: str) -> str:
    size = shared.dtype.bits // 8
    base = shared.base + (f" + {slot} * {shared.bytes_per_slot}" if shared.slots > 1 else "")
    panel = f" + {column} / {shared.panel_columns} * {shared.panel_bytes}" if shared.panels > 1 else ""
    inside = f"{column} % {shared.panel_columns}" if shared.panels > 1 else column
    if not shared.swizzled:
        return f"{base}{panel} + {row} * {shared.row_bytes} + ({inside}) * {size}"
    return f"{base}{panel} + {row} * 128 + (({inside}) * {size} ^ ({row} & 7) * 16)"
