"""Ordinary accesses to tiles in shared memory, through the swizzle where there is one: reads into a register layout,
and the filling of a tile by threads where no bulk copy can do it."""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.copy import TensorFacts, element_indices, inside, offset, vector_elems
from threadloom.targets.cuda.layout import Layout, Source, coordinate, rows
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared import SharedTile
from threadloom.tile import ops as tile


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
        w.line(f"{kind} piece[{vector}] = {{}};")
        tests = []
        if layout.extent(shared.column_axis) > shared.columns:
            tests.append(f"column < {shared.columns}")
        if row_axis and layout.extent(row_axis) > shared.true_rows:
            tests.append(f"row < {shared.true_rows}")
        guard = f"if ({' && '.join(tests)}) " if tests else ""
        w.line(f"{guard}read_shared<{vector * shared.dtype.bits // 8}>(piece, {address});")
        w.line("#pragma unroll")
        w.line(f"for (int e = 0; e < {vector}; e++) {held.name}[i + e] = {c.from_memory(shared.dtype, 'piece[e]')};")


def emit_fill_shared(scope: Scope, op: tile.Load, facts: TensorFacts, shared: SharedTile, slot: str) -> None:
    """128 threads load the tile element by element (or in pieces where the tensor allows it) and store it; elements
    outside the tensor, and the padding that products read, become 0. A fence and an arrival must follow."""
    w, bits = scope.writer, shared.dtype.bits
    columns = shared.panels * shared.panel_columns if shared.swizzled else shared.columns
    vector = 128 // bits
    layout = rows(shared.row_axes, shared.column_axis, columns, vector, _lanes(columns, vector))
    kind = c.memory_type(shared.dtype)
    whole = vector_elems(op.subscripts, facts, layout) == vector
    w.line("#pragma unroll 2")
    with w.block(f"for (int i = 0; i < {layout.registers}; i += {vector})"):
        terms, place = [], 1
        for axis, extent in reversed(shared.row_axes):
            own = " + ".join(x for x in coordinate(layout, axis, "i") if x != "0") or "0"
            terms.append(own if place == 1 else f"({own}) * {place}")
            place *= extent
        column = " + ".join(x for x in coordinate(layout, shared.column_axis, "i") if x != "0") or "0"
        w.line(f"const u32 row = {' + '.join(terms) or '0'}, column = {column};")
        w.line(f"{kind} piece[{vector}];")
        if whole:
            indices = element_indices(scope, op.subscripts, layout, "i")
            address = f"&{facts.tensor.name}[{offset(facts.tensor, indices)}]"
            w.line(f"load_vector<16>(piece, {address}, {inside(facts.tensor, indices)});")
        else:
            w.line("#pragma unroll")
            with w.block(f"for (int e = 0; e < {vector}; e++)"):
                indices = element_indices(scope, op.subscripts, layout, "(i + e)")
                element = f"{facts.tensor.name}[{offset(facts.tensor, indices)}]"
                w.line(f"piece[e] = {inside(facts.tensor, indices)} ? {element} : ({kind})0;")
        tests = [f"row < {shared.true_rows}"] if _covered_rows(layout, shared) > shared.true_rows else []
        tests += [f"column < {columns}"] if layout.extent(shared.column_axis) > columns else []
        guard = f"if ({' && '.join(tests)}) " if tests else ""
        w.line(f"{guard}write_shared<16>({_address(shared, slot)}, piece);")


def _lanes(columns: int, vector: int) -> int:
    lanes = 1
    while lanes < 32 and lanes * vector < columns:
        lanes *= 2
    return lanes


def _covered_rows(layout: Layout, shared: SharedTile) -> int:
    covered = 1
    for axis, _ in shared.row_axes:
        covered *= layout.extent(axis)
    return covered


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
