"""The filling of a tile in shared memory by asynchronous copies (cp.async) of 16, 8 or 4 bytes."""

from __future__ import annotations

from functools import reduce

from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.copy import TensorFacts, dim_name, element_indices, offset, owner_test, vector_elems
from threadloom.targets.cuda.layout import Digit, Layout, Source, coordinate, rows
from threadloom.targets.cuda.names import identifier
from threadloom.targets.cuda.registers import Scope
from threadloom.targets.cuda.shared import SharedTile
from threadloom.targets.cuda.shared_access import address
from threadloom.tile import ops as tile

CHUNK_BITS = 128


def copied_elems(op: tile.Load, facts: TensorFacts, shared: SharedTile, rows_begin: bool) -> int:
    """Elements that one copy brings; 0 where none can: rows that are not aligned, of elements below 4 bytes.

    rows_begin: whether the tile's rows begin at multiples of 16 bytes from the tensor's."""
    whole = CHUNK_BITS // shared.dtype.bits
    if shared.dtype.bits >= 8 and rows_begin and vector_elems(op.subscripts, facts, _layout(shared, whole, 8)) == whole:
        return whole
    return 1 if shared.dtype.bits >= 32 else 0


def emit_async_fill(
    scope: Scope, op: tile.Load, facts: TensorFacts, shared: SharedTile, slot: str, elems: int
) -> None:
    """Each thread issues its copies of `elems` elements; what lies outside the tensor or the tile, and the padding that
    products read, becomes 0. A commit, a wait and a barrier must follow."""
    w, bytes_each = scope.writer, shared.dtype.bits // 8
    columns = shared.panels * shared.panel_columns if shared.swizzled else shared.columns
    layout = _layout(shared, elems, scope.team.warps)
    name, kind = identifier(facts.tensor.name), c.memory_type(facts.tensor.dtype)
    first, moved = scope.fresh(f"{name}_from"), [_moved(s, layout) for s in op.subscripts]
    # one address for all copies of a thread: the compiler would else keep one for each over the whole loop
    w.line(f"const {kind}* {first} = {name} + {offset(facts.tensor, _first(scope, op, layout))};")
    w.line(_unrolling(layout.registers // elems))
    with w.block(f"for (int i = 0; i < {layout.registers}; i += {elems})"):
        terms, place, belongs = [], 1, []
        for axis, extent in reversed(shared.row_axes):
            own = _position(layout, axis)
            terms.append(own if place == 1 else f"({own}) * {place}")
            place *= extent
            belongs += [f"{own} < {extent}"] if layout.extent(axis) > extent else []
        column = _position(layout, shared.column_axis)
        belongs += [f"{column} < {columns}"] if layout.extent(shared.column_axis) > columns else []
        w.line(f"const u32 row = {' + '.join(terms) or '0'}, column = {column};")
        indices = element_indices(scope, op.subscripts, layout, "i")
        tests = belongs + _inside(scope, op, facts, layout, indices, shared.column_axis)
        limits = _limits(scope, op, facts, layout, indices, shared.column_axis)
        from_ = first + "".join(f" + (i64)({x}) * {name}_stride{d}" for d, x in enumerate(moved) if x != "0")
        mine = [test] if (test := owner_test(layout)) else []  # of threads that stand at the same place one copies
        guard = f"if ({' && '.join(mine + belongs)}) " if mine + belongs else ""
        to = address(shared, slot, "row", "column")
        if elems == 1 or _ends_with_chunks(scope, op, facts, shared.column_axis, elems):
            inside = " && ".join(tests + [f"{x} < {end}" for end, x in limits])
            w.line(f"{guard}copy_async_if<{elems * bytes_each}>({to}, {from_}, {inside});")
            return
        left = reduce(lambda a, b: f"min({a}, {b})", [f"{end} - (i32)({x})" for end, x in limits])
        held = f"min(max({left}, 0), {elems})"
        w.line(f"const i32 valid = {' && '.join(tests)} ? {held} : 0;" if tests else f"const i32 valid = {held};")
        w.line(f"const void* from = valid ? {from_} : {name};")
        w.line(f"{guard}copy_async<{elems * bytes_each}>({to}, from, valid * {bytes_each});")


def _unrolling(copies: int) -> str:
    """All of a few copies, else a few at a time: more cost registers (attention of depth 128 spilled with 6)."""
    step = max(n for n in (1, 2, 3, 4) if copies % n == 0)
    return "#pragma unroll" if copies <= 5 else f"#pragma unroll {step if step > 1 else 4}"


def _layout(shared: SharedTile, elems: int, warps: int) -> Layout:
    """Neighbouring lanes copy neighbouring pieces: of one panel's row where the tile has panels."""
    if shared.swizzled and len(shared.row_axes) == 1:
        return _by_panels(shared, elems, warps)
    columns = shared.panels * shared.panel_columns if shared.swizzled else shared.columns
    lanes = 1
    while lanes < 32 and lanes * elems < columns:
        lanes *= 2
    return rows(shared.row_axes, shared.column_axis, columns, elems, lanes, warps)


def _by_panels(shared: SharedTile, elems: int, warps: int) -> Layout:
    """Lanes, then warps, then registers take the pieces of a row, the rows of a panel, the panels."""
    (axis, count), column = shared.row_axes[0], shared.column_axis
    digits = [Digit(Source.REGISTER, elems, column, 1)]
    lanes, spare = shared.panel_columns // elems, warps
    per_warp = min(32 // lanes, _power_of_two(count))
    digits += [Digit(Source.LANE, lanes, column, elems), Digit(Source.LANE, per_warp, axis, 1)]
    if 32 // lanes > per_warp:
        digits.append(Digit(Source.LANE, 32 // lanes // per_warp, "", 0))
    by_rows = min(spare, _power_of_two(-(-count // per_warp)))
    by_panels = min(spare // by_rows, _power_of_two(shared.panels))
    digits += [Digit(Source.WARP, by_rows, axis, per_warp), Digit(Source.WARP, by_panels, column, shared.panel_columns)]
    if spare > by_rows * by_panels:
        digits.append(Digit(Source.WARP, spare // (by_rows * by_panels), "", 0))
    for size, axis_, stride in (
        (-(-count // (per_warp * by_rows)), axis, per_warp * by_rows),
        (-(-shared.panels // by_panels), column, by_panels * shared.panel_columns),
    ):
        digits += [Digit(Source.REGISTER, size, axis_, stride)] if size > 1 else []
    return Layout(tuple(d for d in digits if d.size > 1 or d.source is Source.REGISTER))


def _power_of_two(x: int) -> int:
    """The least that is no smaller."""
    return 1 << max(0, x - 1).bit_length()


def _first(scope: Scope, op: tile.Load, layout: Layout) -> list[str]:
    """C expression of the index along each dimension of the thread's first element."""
    out = []
    for s in op.subscripts:
        terms = [str(s.offset)] if s.offset else []
        for t in s.terms:
            if t.value is not None:
                text = scope.scalar(t.value.name)
            else:
                thread = coordinate(layout, t.axis, "i")[0] if t.axis in layout.axes else "0"
                text = " + ".join(x for x in (scope.places[t.axis].first, thread) if x != "0") or "0"
            terms += [] if text == "0" else [text if t.coefficient == 1 else f"{t.coefficient} * ({text})"]
        out.append(" + ".join(terms) or "0")
    return out


def _moved(subscript: tile.Subscript, layout: Layout) -> str:
    """C expression of how far register `i` is from the thread's first one along a dimension."""
    terms = []
    for t in subscript.terms:
        text = coordinate(layout, t.axis, "i")[1] if t.axis in layout.axes else "0"
        terms += [] if text == "0" else [text if t.coefficient == 1 else f"{t.coefficient} * ({text})"]
    return " + ".join(terms) or "0"


def _position(layout: Layout, axis: str) -> str:
    return " + ".join(x for x in coordinate(layout, axis, "i") if x != "0") or "0"


def _inside(
    scope: Scope, op: tile.Load, facts: TensorFacts, layout: Layout, indices: list[str], column: str
) -> list[str]:
    """Tests that a chunk's row lies in the tensor and in the tile; the contiguous dimension apart."""
    tests, tested = [], list(zip(indices, map(dim_name, facts.tensor.dims), strict=True))
    for d, (x, dim) in enumerate(zip(indices, facts.tensor.dims, strict=True)):
        if x != "0" and not _is_column(op, d, column):
            tests.append(f"(u32)({x}) < (u32){dim_name(dim)}")
        elif x != "0" and (len(op.subscripts[d].terms) > 1 or op.subscripts[d].offset):
            tests.append(f"({x}) >= 0")
    for axis in op.result.type.axes:
        place = scope.places[axis]
        if axis != column and axis in layout.axes and not place.holds(layout.extent(axis)):
            limit = scope.index(layout, axis, "i"), place.end(layout.extent(axis))
            if limit not in tested:
                tests.append(f"{limit[0]} < {limit[1]}")
    return tests


def _ends_with_chunks(scope: Scope, op: tile.Load, facts: TensorFacts, column: str, elems: int) -> bool:
    """Whether nothing that ends along the tile's columns cuts a chunk: the tensor is aligned, and tiles are of whole
    chunks and end with it."""
    place = scope.places[column]
    dims = [dim_name(dim) for d, dim in enumerate(facts.tensor.dims) if _is_column(op, d, column)]
    return place.full or (place.stop in dims and place.extent % elems == 0)


def _limits(
    scope: Scope, op: tile.Load, facts: TensorFacts, layout: Layout, indices: list[str], column: str
) -> list[tuple[str, str]]:
    """C expressions (end, index of the chunk's first element) for what ends along the tile's columns."""
    limits = [
        (dim_name(dim), x)
        for d, (x, dim) in enumerate(zip(indices, facts.tensor.dims, strict=True))
        if _is_column(op, d, column)
    ]
    place = scope.places[column]
    if not place.holds(layout.extent(column)):
        limits.append((place.end(layout.extent(column)), scope.index(layout, column, "i")))
    return list(dict.fromkeys(limits))


def _is_column(op: tile.Load, d: int, column: str) -> bool:
    """Whether dimension `d` of the tensor is where the tile's columns run."""
    return any(t.axis == column for t in op.subscripts[d].terms)
