"""The filling of a tile in shared memory by threads, where no bulk copy can do it (strides, computed indices)."""

from __future__ import annotations

from collections.abc import Mapping

from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.copy import (
    TensorFacts,
    element_indices,
    guarded_element,
    inside,
    offset,
    owner_test,
    vector_elems,
)
from threadloom.targets.cuda.elements import define
from threadloom.targets.cuda.layout import Layout, coordinate, rows
from threadloom.targets.cuda.names import identifier
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared import SharedTile
from threadloom.targets.cuda.shared_access import address
from threadloom.tile import ops as tile


def emit_fill_shared(
    scope: Scope,
    op: tile.Load,
    known: Mapping[str, TensorFacts],
    shared: SharedTile,
    slot: str,
    own: tuple[tile.Op, ...] = (),
) -> None:
    """The threads of a role load the tile element by element (or in pieces where the tensor allows it) and store it;
    elements outside the tensor, and the padding that products read, become 0. A fence and an arrival must follow.
    `known`: facts of all tensors; `own`: what makes indices, done for each element."""
    w, bits, facts, outside = scope.writer, shared.dtype.bits, known[op.tensor], dict(scope.registers)
    columns = shared.panels * shared.panel_columns if shared.swizzled else shared.columns
    vector = 128 // bits
    layout = rows(shared.row_axes, shared.column_axis, columns, vector, _lanes(columns, vector), scope.team.warps)
    kind = c.memory_type(shared.dtype)
    whole = vector_elems(op.subscripts, facts, layout) == vector
    w.line(f"#pragma unroll {2 if whole else 1}")  # single elements are as many loads at once, each with an address
    with w.block(f"for (int i = 0; i < {layout.registers}; i += {vector})"):
        terms, place, tests = [], 1, []
        for axis, extent in reversed(shared.row_axes):
            position = " + ".join(x for x in coordinate(layout, axis, "i") if x != "0") or "0"
            terms.append(position if place == 1 else f"({position}) * {place}")
            place *= extent
            tests += [f"{position} < {extent}"] if layout.extent(axis) > extent else []  # else a row of another index
        column = " + ".join(x for x in coordinate(layout, shared.column_axis, "i") if x != "0") or "0"
        w.line(f"const u32 row = {' + '.join(terms) or '0'}, column = {column};")
        w.line(f"{kind} piece[{vector}];")
        if whole:
            _define_indices(scope, own, known, layout, "i")
            indices = element_indices(scope, op.subscripts, layout, "i")
            source = f"&{identifier(facts.tensor.name)}[{offset(facts.tensor, indices)}]"
            valid = inside(facts.tensor, indices, _valid(scope, op, layout, "i"))
            w.line(f"load_vector<16>(piece, {source}, {valid});")
        else:
            w.line("#pragma unroll")
            with w.block(f"for (int e = 0; e < {vector}; e++)"):
                _define_indices(scope, own, known, layout, "(i + e)")
                indices = element_indices(scope, op.subscripts, layout, "(i + e)")
                element = f"{identifier(facts.tensor.name)}[{offset(facts.tensor, indices)}]"
                valid = inside(facts.tensor, indices, _valid(scope, op, layout, "(i + e)"))
                w.line(f"piece[e] = {valid} ? {element} : ({kind})0;")
        tests += [f"column < {columns}"] if layout.extent(shared.column_axis) > columns else []
        tests += [test] if (test := owner_test(layout)) else []  # of threads that stand at the same place one writes
        guard = f"if ({' && '.join(tests)}) " if tests else ""
        w.line(f"{guard}write_shared<16>({address(shared, slot, 'row', 'column')}, piece);")
    scope.registers = outside  # what the loop declared is gone


def _define_indices(
    scope: Scope, own: tuple[tile.Op, ...], known: Mapping[str, TensorFacts], layout: Layout, register: str
) -> None:
    """Variables for the values of `own` at the element of `register`."""
    for one in own:
        if not isinstance(one, tile.Load):
            define(scope, one, layout, register, as_array=False)
            continue
        tensor, dtype, name = known[one.tensor].tensor, one.result.type.dtype, scope.fresh(one.result.name)
        element = guarded_element(tensor, element_indices(scope, one.subscripts, layout, register))
        scope.writer.line(f"const {c.register_type(dtype)} {name} = {element};")
        scope.registers[one.result.name] = Registers(name, dtype, layout, scalar=True)


def _valid(scope: Scope, op: tile.Load, layout: Layout, register: str) -> list[str]:
    """Tests that an element belongs to its tile: one that ends inside the tensor is filled with zeros, too."""
    tests = []
    for axis in op.result.type.axes:
        place = scope.places[axis]
        if axis in layout.axes and not place.holds(layout.extent(axis)):
            tests.append(f"{scope.index(layout, axis, register)} < {place.end(layout.extent(axis))}")
    return tests


def _lanes(columns: int, vector: int) -> int:
    lanes = 1
    while lanes < 32 and lanes * vector < columns:
        lanes *= 2
    return lanes
