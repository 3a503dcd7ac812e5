"""Lets a vector sTask write its result over an operand that nobody needs afterwards.

    before:  e = exp2(s - top) in tile e, last use of tile s          after: both in tile s, one place

Registers are what limits attention tiles: two score tiles of 64x128 f32 take half of a warpgroup's. Done where both
tiles have the same axes and dtype and live within one loop, and every other reader of the operand is done before the
sTask can start (a chain of dependences leads from it to the sTask).
Needs: a task graph. Source: ours; FlashAttention-3 does it by hand.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.task.ops import Kind, STask, TaskGraph, Tile
from threadloom.tile.ops import Dot


def coalesce_in_place(graph: TaskGraph) -> TaskGraph:
    tiles = {t.name: t for t in graph.tiles}
    for task in graph.tasks:
        if task.kind is Kind.VECTOR:
            for result in [t for t in tiles.values() if t.producers and t.producers[0] == task.name]:
                operand = next((t for t in tiles.values() if _can_share(t, result, task, graph)), None)
                if operand is not None:
                    kept, gone = (result, operand) if result.carried is not None else (operand, result)
                    tiles[kept.name] = _joined(kept, gone, operand, result)
                    del tiles[gone.name]
    return graph if len(tiles) == len(graph.tiles) else replace(graph, tiles=tuple(tiles.values()))


def _can_share(operand: Tile, result: Tile, task: STask, graph: TaskGraph) -> bool:
    if operand == result or operand.carried is not None:
        return False
    if result.carried is None and result.producers != (task.name,):
        return False
    if result.carried is not None and not _is_initial(result, task, graph):
        return False
    if operand.type.dtype != result.type.dtype or set(operand.type.axes) != set(result.type.axes):
        return False
    if not operand.type.axes or task.name not in operand.consumers or not operand.producers:
        return False
    touched = (*operand.producers, *operand.consumers, *(result.consumers if result.carried is None else ()))
    if any(graph.task(t).loop != task.loop for t in touched):
        return False
    if any(graph.task(t).kind in (Kind.LOAD, Kind.GATHER) for t in operand.producers):
        return False  # a loaded tile lies in memory that the copy engine fills ahead
    if any(graph.task(t).kind is Kind.DOT for t in operand.producers):
        if not is_row_operand(result, graph):
            return False  # it has to go to shared memory
        if not _by_the_same_unit(operand, result, graph):
            return False  # its registers are in another order
    same_instance = all(e.distance == 0 for e in graph.edges if e.value in (operand.name, *operand.values))
    others = [t for t in operand.consumers if t != task.name]
    return same_instance and all(_leads_to(other, task.name, graph) for other in others)


def is_row_operand(tile: Tile, graph: TaskGraph) -> bool:
    """Whether products read the tile, if at all, only as their left operand and with the same axes as depth: such a
    tile can be in registers in the order in which a matrix unit makes and takes rows."""
    dots = [op for t in graph.tasks if t.name in tile.consumers for op in t.ops if isinstance(op, Dot)]
    return all(op.b.name not in tile.values for op in dots) and len({frozenset(op.over) for op in dots}) <= 1


def _by_the_same_unit(operand: Tile, result: Tile, graph: TaskGraph) -> bool:
    """Whether the products that make the operand are of the dtypes of those that read the result."""
    made = [op for name in operand.producers for op in graph.task(name).ops if isinstance(op, Dot)]
    read = [op for name in result.consumers for op in graph.task(name).ops if isinstance(op, Dot)]
    read = [op for op in read if op.a.name in result.values or op.b.name in result.values]
    return all(one.a.type.dtype is other.a.type.dtype for one in made for other in read)


def _is_initial(result: Tile, task: STask, graph: TaskGraph) -> bool:
    """Whether the task makes the value that a loop beside it starts from."""
    parents = {loop.id: loop.parent for loop in graph.loops}
    return parents.get(result.carried) == task.loop


def _leads_to(src: str, dst: str, graph: TaskGraph) -> bool:
    """Whether a chain of dependences of one iteration leads from src to dst."""
    reached, frontier = {src}, [src]
    while frontier:
        at = frontier.pop()
        for edge in graph.edges:
            if edge.src == at and edge.distance == 0 and edge.dst not in reached:
                reached.add(edge.dst)
                frontier.append(edge.dst)
    return dst in reached


def _joined(kept: Tile, gone: Tile, operand: Tile, result: Tile) -> Tile:
    return replace(
        kept,
        producers=tuple(dict.fromkeys((*operand.producers, *result.producers))),
        consumers=tuple(dict.fromkeys((*operand.consumers, *result.consumers))),
        values=tuple(dict.fromkeys((kept.name, *kept.values, gone.name, *gone.values))),
    )
