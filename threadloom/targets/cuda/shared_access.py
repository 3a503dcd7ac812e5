"""Ordinary reads and writes of tiles in shared memory from and to a register layout, through the swizzle where there
is one."""

from __future__ import annotations

from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.layout import Layout, Source, coordinate
from threadloom.targets.cuda.registers import Registers, Scope, unroll
from threadloom.targets.cuda.shared import SharedTile


def emit_read_shared(scope: Scope, shared: SharedTile, held: Registers, slot: str) -> None:
    """Fill `held` from slot `slot` of `shared`. A worker's part of a split axis begins at `Place.offset`."""
    w, layout, vector = scope.writer, held.layout, piece_elems(shared, held.layout)
    w.line(unroll(layout.registers, held.dtype))
    with w.block(f"for (int i = 0; i < {layout.registers}; i += {vector})"):
        emit_piece(scope, shared, layout, slot, "i", "piece", vector)
        w.line("#pragma unroll")
        value = c.from_memory(shared.dtype, "piece[e]")
        if shared.dtype.bits < 8:
            value = c.nibble("piece", "e") if vector > 1 else "piece[0] >> 4 * (piece_column & 1) & 15"
        w.line(f"for (int e = 0; e < {vector}; e++) {held.name}[i + e] = {value};")


def emit_write_shared(scope: Scope, shared: SharedTile, held: Registers, slot: str) -> None:
    """Fill slot `slot` of `shared` from the registers of a worker's threads, which then all see it (and so do products
    and copies that they issue)."""
    w, layout, vector = scope.writer, held.layout, piece_elems(shared, held.layout)
    w.line(unroll(layout.registers, held.dtype))
    with w.block(f"for (int i = 0; i < {layout.registers}; i += {vector})"):
        tests = where(scope, shared, layout, "i", "piece")
        if vector > 1 and shared.dtype.name in c.PAIRED:  # one conversion for two
            w.line(f"u32 piece[{vector // 2}];")
            w.line("#pragma unroll")
            pair = f"{held.name}[i + 2 * e], {held.name}[i + 2 * e + 1]"
            w.line(f"for (int e = 0; e < {vector // 2}; e++) piece[e] = pack_{shared.dtype.name}({pair});")
        else:
            w.line(f"{c.memory_type(shared.dtype)} piece[{vector}];")
            w.line("#pragma unroll")
            w.line(f"for (int e = 0; e < {vector}; e++) piece[e] = {c.to_memory(shared.dtype, f'{held.name}[i + e]')};")
        guard = f"if ({' && '.join(tests)}) " if tests else ""
        at = address(shared, slot, "piece_row", "piece_column")
        w.line(f"{guard}write_shared<{vector * shared.dtype.bits // 8}>({at}, piece);")
    if scope.team.proxies:
        w.line("fence_to_async();")
    w.line(f"{scope.team.sync}  // all of the tile is there")


def first_digit(layout: Layout) -> int:
    """How many registers one after the other hold neighbours."""
    digits = layout.of(Source.REGISTER)
    return digits[0].size if digits else 1


def piece_elems(shared: SharedTile, layout: Layout) -> int:
    """Elements that one access brings: the first register digit, or part of it, where it runs along the tile's rows."""
    digits = layout.of(Source.REGISTER)
    vector = digits[0].size if digits and digits[0].axis == shared.column_axis and digits[0].stride == 1 else 1
    return next(v for v in (16, 8, 4, 2, 1) if vector % v == 0 and v * shared.dtype.bits <= 128)


def emit_piece(
    scope: Scope, shared: SharedTile, layout: Layout, slot: str, register: str, name: str, vector: int
) -> None:
    """Declare `name` and fetch the elements of registers `register` .. + `vector`; 0 beyond the tile's end. Elements of
    4 bits stay two to a byte."""
    w = scope.writer
    tests = where(scope, shared, layout, register, name)
    guard = f"if ({' && '.join(tests)}) " if tests else ""
    bytes_ = max(1, vector * shared.dtype.bits // 8)
    elems = bytes_ if shared.dtype.bits < 8 else vector
    w.line(f"{c.memory_type(shared.dtype)} {name}[{elems}]{' = {}' if guard else ''};")
    at = address(shared, slot, f"{name}_row", f"{name}_column")
    w.line(f"{guard}read_shared<{bytes_}>({name}, {at});")


MATRICES = 8  # elements of a thread in four 8x8 matrices


def in_matrices(scope: Scope, shared: SharedTile, layout: Layout) -> bool:
    """Whether `layout` holds 16-bit elements as 8x8 matrices, those of 16 rows and 16 columns one after the other, all
    of them in the tile: a warp then fetches four at a time."""
    column, row = shared.column_axis, shared.row_axes[-1][0] if shared.row_axes else ""
    registers, lanes = layout.of(Source.REGISTER), layout.of(Source.LANE)
    wanted = [(2, column, 1), (2, row, 8), (4, column, 2), (8, row, 1)]
    found = [(d.size, d.axis, d.stride) for d in (*registers[:2], *lanes)]
    return (
        shared.dtype.bits == 16
        and len(registers) >= 3
        and found == wanted
        and (registers[2].axis, registers[2].stride) == (column, 8)
        and registers[2].size % 2 == 0
        and all(layout.extent(axis) <= extent for axis, extent in shared.row_axes)
        and layout.extent(column) <= shared.columns
        and scope.places[column].offset == "0"
    )


def emit_matrices(scope: Scope, shared: SharedTile, layout: Layout, slot: str, register: str, name: str) -> None:
    """Declare `name` and fetch the elements of registers `register` .. + MATRICES, where `in_matrices`."""
    own = Layout(
        tuple(d for d in layout.digits if d.source is not Source.LANE)
    )  # what lanes add is another matter here
    w, terms, place = scope.writer, [], 1
    for axis, extent in reversed(shared.row_axes):
        at = _position(own, axis, scope, register)
        at = f"{at} + lane % 16" if axis == shared.row_axes[-1][0] else at
        terms.append(at if place == 1 else f"({at}) * {place}")
        place *= extent
    column = f"{_position(own, shared.column_axis, scope, register)} + lane / 16 * 8"
    w.line(f"const u32 {name}_row = {' + '.join(terms)}, {name}_column = {column};")
    w.line(f"{c.memory_type(shared.dtype)} {name}[{MATRICES}];")
    w.line(f"read_matrices({name}, {address(shared, slot, f'{name}_row', f'{name}_column')});")


def where(scope: Scope, shared: SharedTile, layout: Layout, register: str, name: str) -> list[str]:
    """Declare `name`_row and `name`_column of a register's element; tests that it belongs to the tile."""
    terms, place, tests = [], 1, []
    for axis, extent in reversed(shared.row_axes):
        at = _position(layout, axis, scope, register)
        terms.append(at if place == 1 else f"({at}) * {place}")
        place *= extent
        if layout.extent(axis) > extent:
            tests.append(f"{at} < {extent}" if len(shared.row_axes) > 1 else f"{name}_row < {extent}")
    column = _position(layout, shared.column_axis, scope, register)
    scope.writer.line(f"const u32 {name}_row = {' + '.join(terms) or '0'}, {name}_column = {column};")
    if layout.extent(shared.column_axis) > shared.columns:
        tests.append(f"{name}_column < {shared.columns}")
    return tests


def _position(layout: Layout, axis: str, scope: Scope, register: str) -> str:
    threads, registers = coordinate(layout, axis, register)
    offset = scope.places[axis].offset
    return " + ".join(x for x in (offset, threads, registers) if x != "0") or "0"


def address(shared: SharedTile, slot: str, row: str, column: str) -> str:
    base = shared.base + (f" + {slot} * {shared.bytes_per_slot}" if shared.slots > 1 else "")
    panel = f" + {column} / {shared.panel_columns} * {shared.panel_bytes}" if shared.panels > 1 else ""
    inside = f"{column} % {shared.panel_columns}" if shared.panels > 1 else column
    inside = f"({inside}) * {shared.dtype.bits // 8}" if shared.dtype.bits >= 8 else f"({inside}) / 2"
    if shared.short_lines:
        return f"{base}{panel} + {row} * {shared.row_bytes} + ({inside} ^ ({row} / 2 & 3) * 16)"
    if not shared.swizzled:
        return f"{base}{panel} + {row} * {shared.row_bytes} + {inside}"
    return f"{base}{panel} + {row} * 128 + ({inside} ^ ({row} & 7) * 16)"
