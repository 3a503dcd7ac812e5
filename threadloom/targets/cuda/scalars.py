"""Which carried scalars every role computes for itself (`carried_scalars.py` writes them), and what waits for them."""

from __future__ import annotations

from threadloom.sched.ops import SProgram
from threadloom.sched.tile_map import TileMap
from threadloom.task.ops import Kind, TaskGraph, Tile
from threadloom.tile.ops import Value
from threadloom.tile.uses import operands


def is_shared_scalar(tile: Tile, graph: TaskGraph) -> bool:
    """Whether the tile is a carried scalar that scalar code alone makes."""
    scalar = all(graph.task(name).kind is Kind.SCALAR for name in tile.producers)
    return not tile.type.axes and tile.carried is not None and scalar


def outlives_its_pass(tile: Tile, program: SProgram) -> bool:
    """Whether vector code of a loop in several stages makes the scalar `tile` for other code: that may stand in a later
    pass, or in another block of this one (what has no instance is skipped)."""
    tasks = {t.name: t for t in program.graph.tasks}
    used = [tasks[name] for name in (*tile.producers, *tile.consumers)]
    bounds = {v.name for loop in program.graph.loops for a in loop.axes for v in (a.start, a.stop) if v is not None}
    if any(t.kind is Kind.SCALAR for t in used) or bounds & {*tile.values}:
        return False
    staged = {p.loop for p in program.loops if p.stages > 1}
    return any(tasks[name].loop in staged for name in tile.producers)


def find_shared_scalars(graph: TaskGraph, tiles: TileMap) -> dict[int, list[tuple[Value, ...]]]:
    """Loop -> (init, argument, next, result) of such scalars that it carries."""
    made: dict[int, list[tuple[Value, ...]]] = {}
    for loop in graph.loops:
        for quadruple in loop.carried:
            name = tiles.of(quadruple[1].name)
            if name and is_shared_scalar(tiles.tile(name), graph):
                made.setdefault(loop.id, []).append(quadruple)
    return made


def find_late_scalars(graph: TaskGraph, shared: dict[int, list[tuple[Value, ...]]]) -> dict[str, int]:
    """Values of scalar code -> the last of the loops beside it whose results it reads."""
    found: dict[str, int] = {}
    for loop in graph.loops:
        inner = [x for x in graph.loops if x.parent == loop.id]
        ends = {q[3].name: x.id for x in inner for q in shared.get(x.id, ())}
        for task in (t for t in graph.tasks if t.loop == loop.id and t.kind is Kind.SCALAR and ends):
            conditions = {g.cond for g in graph.guards if g.task == task.name}
            for op in task.ops:
                waits = [ends[n] for n in {v.name for v in operands(op)} | conditions if n in ends]
                if waits:
                    ends[op.result.name] = found[op.result.name] = max(waits, key=loop.items.index)
    return found
