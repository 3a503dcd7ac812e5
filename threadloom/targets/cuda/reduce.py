"""Reductions and scans of values in registers: in registers first, then over lanes and warps (`across.py`)."""

from __future__ import annotations

from threadloom.targets.cuda import across
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.across import emit_reduce_threads
from threadloom.targets.cuda.convert import emit_conversion
from threadloom.targets.cuda.elements import declare, define, kind_of, note_difference, read
from threadloom.targets.cuda.elementwise import matched, register_loop
from threadloom.targets.cuda.layout import Layout, Source, agrees, register_index
from threadloom.targets.cuda.operands import Elementwise, operands
from threadloom.targets.cuda.registers import Registers, Scope, unroll
from threadloom.tile import ops as tile

POSITIONS = ("argmax", "argmin")


def overwrite_invalid(scope: Scope, held: Registers, axis: str, with_: str) -> None:
    """Give the positions beyond the end of `axis` the value `with_` (they are garbage by definition)."""
    place = scope.places[axis]
    covered = held.layout.extent(axis)
    if axis not in held.layout.axes or place.holds(covered):
        return
    w, end = scope.writer, place.end(covered)
    if covered <= place.extent and scope.assumes(f"{place.first} + {covered} <= {end}"):
        return
    with w.block(f"if ({place.first} + {covered} > {end})"):
        w.line(unroll(held.layout.registers, held.dtype))
        with w.block(f"for (int i = 0; i < {held.layout.registers}; i++)"):
            w.line(f"if ({scope.index(held.layout, axis, 'i')} >= {end}) {held.name}[i] = {with_};")


def emit_reduce(scope: Scope, op: tile.Reduce, chain: list[Elementwise], layouts: dict[str, Layout]) -> None:
    """A reduction, whose result then goes to the layout that its readers want, where that is another."""
    lazy = op.arg.name in scope.in_shared and op.arg.name not in scope.registers
    source = layouts[op.arg.name] if chain or lazy else scope.registers[op.arg.name].layout
    natural, wanted = source.without(op.axis), layouts[op.result.name]
    inputs = [(v, layouts[one.result.name]) for one in chain for v in operands(one)]
    with matched(scope, inputs if chain else [(op.arg, source)]):
        if agrees(wanted, natural, op.result.type.axes):
            reduce_in_place(scope, op, wanted, chain, layouts)
            return
        target = scope.registers.pop(op.result.name, None)
        reduce_in_place(scope, op, natural, chain, layouts)
        held = scope.registers.pop(op.result.name)
        element = f"{held.name}[i]"
        made = emit_conversion(scope, op.result, element, held, kind_of(scope, op.result), wanted)
        if target is not None:
            scope.registers[op.result.name] = target
            target = declare(scope, op.result, wanted)
            scope.writer.line(unroll(wanted.registers, target.dtype))
            scope.writer.line(f"for (int i = 0; i < {wanted.registers}; i++) {target.name}[i] = {made.name}[i];")
        else:
            scope.registers[op.result.name] = made


def reduce_in_place(
    scope: Scope, op: tile.Reduce, layout: Layout, chain: list[Elementwise], layouts: dict[str, Layout]
) -> None:
    """In registers first, then over the lanes that share a row by shuffles, then over warps through shared memory.

    chain: operations that make the operand, element by element in the same loop."""
    lazy = op.arg.name in scope.in_shared and op.arg.name not in scope.registers
    source = layouts[op.arg.name] if chain or lazy else scope.registers[op.arg.name].layout
    dtype = op.result.type.dtype
    if op.fn in POSITIONS:
        position_in_place(scope, op, layout, chain, layouts, source)
        return
    start = c.identity(op.fn, dtype)
    if not chain and not lazy:
        overwrite_invalid(scope, scope.registers[op.arg.name], op.axis, start)
    result = declare(scope, op.result, layout)
    w, n, chains = scope.writer, layout.registers, _chains(source, op.axis)
    parts = result.name
    if chains > 1:
        parts = scope.fresh(f"{result.name}_parts")
        w.line(f"{c.register_type(dtype)} {parts}[{n * chains}];  // {chains} chains a row: additions overlap")
    inner, begins = register_index(source, layout, "i"), _begins_chain(source, op.axis, chains)
    with register_loop(scope, source, chain, (op.arg,)):
        element = f"{parts}[({inner}) * {chains} + i % {chains}]" if chains > 1 else f"{parts}[{inner}]"
        outside = dict(scope.registers)
        for one in chain:
            note_difference(scope, one)
            define(scope, one, layouts[one.result.name], "i", as_array=False)
        value = c.convert(op.arg.type.dtype, dtype, read(scope, op.arg, source, "i"))
        if (chain or lazy) and (test := _invalid(scope, source, op.axis)):
            value = f"({test} ? {start} : {value})"
        total = f"{begins} ? {value} : {c.combine(op.fn, dtype, element, value)}" if begins else value
        w.line(f"{element} = {total};")
        scope.made_here.clear()
        scope.registers.clear()
        scope.registers.update(outside)
    if chains > 1:
        w.line(unroll(n, dtype))
        with w.block(f"for (int r = 0; r < {n}; r++)"):
            total = f"{parts}[{chains} * r]"
            for k in range(1, chains):
                total = c.combine(op.fn, dtype, total, f"{parts}[{chains} * r + {k}]")
            w.line(f"{result.name}[r] = {total};")
    as_wanted = op.result.type.axes and agrees(layouts[op.result.name], layout, layout.axes)
    if as_wanted and op.result.name in scope.in_lanes:
        scope.in_lanes[op.result.name] = source
    else:
        emit_reduce_threads(scope, op, source, result)


def position_in_place(
    scope: Scope,
    op: tile.Reduce,
    layout: Layout,
    chain: list[Elementwise],
    layouts: dict[str, Layout],
    source: Layout,
) -> None:
    """The index along the axis of the first extreme (of NaNs, the first NaN); 0 where the tile is empty. Each thread
    keeps its best value and where it stands; the rest is as in other reductions."""
    result, dtype, w = declare(scope, op.result, layout), op.arg.type.dtype, scope.writer
    best = Registers(scope.fresh(f"{op.arg.name}_{op.fn.removeprefix('arg')}"), dtype, layout)
    of_bools = {"argmax": "any", "argmin": "all"}
    start = c.identity(of_bools[op.fn] if dtype.kind == "bool" else op.fn, dtype)
    w.line(f"{c.register_type(dtype)} {best.name}[{layout.registers}];")
    w.line(unroll(layout.registers, dtype))
    with w.block(f"for (int r = 0; r < {layout.registers}; r++)"):
        w.line(f"{best.name}[r] = {start};")
        w.line(f"{result.name}[r] = {across.NOWHERE};")
    inner = register_index(source, layout, "i")
    with register_loop(scope, source, chain, (op.arg,)):
        outside = dict(scope.registers)
        for one in chain:
            note_difference(scope, one)
            define(scope, one, layouts[one.result.name], "i", as_array=False)
        value, at = read(scope, op.arg, source, "i"), scope.index(source, op.axis, "i")
        test = _invalid(scope, source, op.axis)
        better = across.is_better(op.fn, value, at, f"{best.name}[{inner}]", f"{result.name}[{inner}]")
        with w.block(f"if ({f'!({test}) && ' if test else ''}{better})"):
            w.line(f"{best.name}[{inner}] = {value};")
            w.line(f"{result.name}[{inner}] = {at};")
        scope.made_here.clear()
        scope.registers.clear()
        scope.registers.update(outside)
    across.emit_position_threads(scope, op, source, best, result)


def _invalid(scope: Scope, layout: Layout, axis: str) -> str:
    """C condition that register `i` lies beyond the end of `axis`; "" where none can."""
    place, covered = scope.places[axis], layout.extent(axis)
    if place.holds(covered) or (
        covered <= place.extent and scope.assumes(f"{place.first} + {covered} <= {place.end(covered)}")
    ):
        return ""
    return f"{scope.index(layout, axis, 'i')} >= {place.end(covered)}"


def _chains(layout: Layout, axis: str) -> int:
    """How many independent chains a thread's part of a reduction is split into: elements that are neighbours in
    registers and along the axis go to different ones."""
    digits = layout.of(Source.REGISTER)
    if not digits or digits[0].axis != axis or layout.registers < 16:
        return 1
    return 4 if digits[0].size % 4 == 0 else 2 if digits[0].size % 2 == 0 else 1


def _begins_chain(layout: Layout, axis: str, chains: int) -> str:
    """C condition that register `i` is the first of its chain, which then begins with it; "": each is."""
    tests, place = [], 1
    for at, digit in enumerate(layout.of(Source.REGISTER)):
        value = f"i / {place} % {digit.size}" if place > 1 else f"i % {digit.size}"
        if digit.axis == axis and digit.size > (first := chains if at == 0 else 1):
            tests.append(f"{value} < {first}" if first > 1 else f"{value} == 0")
        place *= digit.size
    return " && ".join(tests)


def emit_scan(scope: Scope, op: tile.Scan, layout: Layout) -> None:
    """Copy the operand, as the result's dtype, and scan it in place."""
    across.sharing_workers(scope, op)  # which no scan has code for
    result = declare(scope, op.result, layout)
    w = scope.writer
    w.line(unroll(layout.registers, result.dtype))
    value = c.convert(op.arg.type.dtype, op.result.type.dtype, read(scope, op.arg, layout, "i"))
    w.line(f"for (int i = 0; i < {layout.registers}; i++) {result.name}[i] = {value};")
    if op.reverse:  # what lies beyond the end comes first
        overwrite_invalid(scope, result, op.axis, c.identity(op.fn, op.result.type.dtype))
    across.emit_scan(scope, op, result)
