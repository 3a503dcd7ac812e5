"""Layout inference: a register layout for every tile value that workers hold.

Products dictate (their accumulators, and their row operand where it is computed); everything else follows, forwards and
backwards through elementwise code and reductions, until nothing changes. What no product reaches gets a layout of its
own: rows over lanes and warps, pieces of 16 bytes along the contiguous axis. Where code joins values of different
layouts, `vector.py` converts (`convert.py`); an operand that two products want in two layouts is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.targets.cuda.dot import DotPlan
from threadloom.targets.cuda.layout import Layout, rows, uniform
from threadloom.targets.cuda.operands import operands, subscript_values
from threadloom.targets.cuda.unsupported import no_code
from threadloom.task.ops import Kind, STask, TaskGraph
from threadloom.tile import ops as tile

MANY_REGISTERS = 128  # of one value in a thread, beyond which threads take parts of more than one axis of rows


@dataclass(frozen=True, slots=True)
class Extents:
    """Elements of one worker's tile along each axis, padded to what instructions need."""

    worker: dict[str, int]
    warps: int = 4  # of a worker

    def of(self, axis: str) -> int:
        return self.worker.get(axis, 1)


def infer_layouts(
    graph: TaskGraph, dots: dict[str, DotPlan], extents: Extents, contiguous: dict[str, str], computed: frozenset[str]
) -> dict[str, Layout]:
    """Value name -> layout. dots: sTask -> plan; contiguous: value of a load or store -> its contiguous axis;
    computed: values made in registers."""
    known: dict[str, Layout] = {}
    for plan in dots.values():
        _settle(known, plan.op.result, plan.result_layout)
        if plan.row_operand.name in computed:
            _settle(known, plan.row_operand, plan.row_operand_layout)
    for name, plan in sorted(dots.items(), key=lambda found: found[1].simt):  # what units make is dearest to move
        for value in added_to(graph.task(name)):
            _offer(known, value, plan.result_layout)
    tasks = [t for t in graph.tasks if t.kind is not Kind.SCALAR]
    _spread(known, graph, tasks, extents)
    while missing := _unplaced(known, tasks):
        value = max(missing, key=lambda v: len(v.type.axes))
        _settle(known, value, own_layout(value, extents, contiguous))
        _spread(known, graph, tasks, extents)
    _agree_in_places(known, graph, dots, computed)
    return known


def added_to(task: STask) -> list[tile.Value]:
    """What a DOT that ends with an addition adds to, and what it makes."""
    sums = [op for op in task.ops if isinstance(op, tile.Map)]
    return [v for op in sums for v in (op.result, *op.args)]


def _agree_in_places(
    known: dict[str, Layout], graph: TaskGraph, dots: dict[str, DotPlan], computed: frozenset[str]
) -> None:
    """One layout for all values of a tile, which are in the same registers one after the other: that of a product's
    result (of a unit's before one by lanes), else that in which a product reads one of them, else of the first value.
    Others are made in their own layout and converted."""
    by_units = sorted(dots.items(), key=lambda found: found[1].simt)
    products = {}
    for name, plan in by_units:
        for value in (plan.op.result, *added_to(graph.task(name))):
            products.setdefault(value.name, plan.result_layout)
    for _, plan in by_units:
        if plan.row_operand.name in computed:
            products.setdefault(plan.row_operand.name, plan.row_operand_layout)
    for place in graph.tiles:
        held = [v for v in place.values if v in known]
        if len({known[v] for v in held}) > 1:
            made = [products[v] for v in products if v in held]
            known.update(dict.fromkeys(held, made[0] if made else known[held[0]]))
    for plan in dots.values():
        name, wanted = plan.row_operand.name, plan.row_operand_layout
        if name in computed and known.get(name, wanted) != wanted:
            raise no_code(name, "it is made in another register layout than the product wants", plan.op.loc)


def _settle(known: dict[str, Layout], value: tile.Value, layout: Layout) -> bool:
    if value.name not in known:
        known[value.name] = layout
        return True
    if known[value.name] != layout:
        raise no_code(f"{value.name}", "products want it in two register layouts", None)
    return False


def _spread(known: dict[str, Layout], graph: TaskGraph, tasks: list[STask], extents: Extents) -> None:
    changed = True
    while changed:
        changed = False
        for loop in graph.loops:
            for quadruple in loop.carried:
                found = next((known[v.name] for v in quadruple if v.name in known), None)
                for value in quadruple if found else ():
                    changed |= _offer(known, value, found)
        for task in tasks:
            for op in task.ops:
                changed |= _through(known, op, extents)


def _offer(known: dict[str, Layout], value: tile.Value, layout: Layout) -> bool:
    if value.name in known:
        return False
    known[value.name] = layout.keeping(value.type.axes)
    return True


def _through(known: dict[str, Layout], op: tile.Op, extents: Extents) -> bool:
    changed = False
    match op:
        case tile.Map() | tile.Cast() | tile.Full():
            args = operands(op)
            if op.result.name in known:
                for arg in args:
                    changed |= _offer(known, arg, known[op.result.name])
            else:
                for arg in args:
                    wanted = {a for a in op.result.type.axes if extents.of(a) > 1}
                    long = {a for a in arg.type.axes if extents.of(a) > 1}
                    if arg.name in known and wanted <= long and (arg.type.axes or not op.result.type.axes):
                        return _offer(known, op.result, known[arg.name])
        case tile.Reduce():
            if op.arg.name in known and op.result.name not in known:
                known[op.result.name] = known[op.arg.name].without(op.axis)
                changed = True
        case tile.Load() if op.result.name in known:
            for index in subscript_values(op.subscripts):
                changed |= _offer(known, index, known[op.result.name])
        case tile.Scan():
            for a, b in ((op.arg, op.result), (op.result, op.arg)):
                if a.name in known:
                    changed |= _offer(known, b, known[a.name])
    return changed


def _unplaced(known: dict[str, Layout], tasks: list[STask]) -> list[tile.Value]:
    found = []
    for task in tasks:
        if task.kind is Kind.DOT:
            continue
        for op in task.ops:
            values = (*operands(op), *((op.result,) if hasattr(op, "result") else ()))
            found += [v for v in values if v.type.axes and v.name not in known]
    return found


def own_layout(value: tile.Value, extents: Extents, contiguous: dict[str, str]) -> Layout:
    axes = value.type.axes
    if not axes:
        return uniform(extents.warps)
    column = contiguous.get(value.name, axes[-1])
    vector = max(1, 128 // value.type.dtype.bits)
    columns = extents.of(column)
    while vector > 1 and columns % vector:
        vector //= 2
    lanes = 1
    while lanes < 32 and lanes * vector < columns:
        lanes *= 2
    others = [(a, extents.of(a)) for a in axes if a != column]
    others.sort(key=lambda other: other[1] > 1)  # the last is spread over threads: not one of a single position
    idle = extents.warps // (1 << (others[-1][1] - 1).bit_length() if others else 1)  # warps without a row of their own
    while idle > 1 and columns < idle * lanes * vector:
        idle //= 2
    idle = max(1, idle) if lanes == 32 else 1
    made = rows(tuple(others), column, columns, vector, lanes, extents.warps, idle)
    if made.registers <= MANY_REGISTERS:
        return made
    return rows(tuple(others), column, columns, vector, lanes, extents.warps, idle, all_rows=True)
