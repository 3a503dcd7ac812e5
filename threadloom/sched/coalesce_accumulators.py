"""Lets a product accumulate in the place of its carried result.

    before:  acc' = acc * scale in tile acc';   acc = acc' + dot(p, v) in carried tile acc
    after:   both in carried tile acc

A matrix unit adds to the registers (or memory) it reads, so another tile would cost a copy and twice the room. Done
where the sTask that makes acc' is the only reader of acc in the loop besides the product, and the product is the only
reader of acc'. Needs: a task graph. Source: ours.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.task.ops import Kind, STask, TaskGraph, Tile
from threadloom.tile.ops import Dot, Map


def coalesce_accumulators(graph: TaskGraph) -> TaskGraph:
    tiles = {t.name: t for t in graph.tiles}
    for task in graph.tasks:
        if task.kind is Kind.DOT and (found := accumulator_of(task)) is not None:
            source = next((t for t in tiles.values() if found in (t.name, *t.values)), None)
            target = next((t for t in tiles.values() if set(task.writes) & {t.name, *t.values}), None)
            if source is not None and target is not None and _can_share(source, target, task, graph):
                tiles[target.name] = _joined(target, source)
                del tiles[source.name]
    if len(tiles) == len(graph.tiles):
        return graph
    return replace(graph, tiles=tuple(tiles.values()))


def accumulator_of(task: STask) -> str | None:
    """The value that a DOT's product is added to."""
    if len(task.ops) < 2 or not isinstance(task.ops[0], Dot) or not isinstance(task.ops[-1], Map):
        return None
    others = [a.name for a in task.ops[-1].args if a.name != task.ops[0].result.name]
    return others[0] if task.ops[-1].fn == "add" and len(others) == 1 else None


def _can_share(source: Tile, target: Tile, dot: STask, graph: TaskGraph) -> bool:
    if source == target or source.carried is not None or target.carried is None or source.type != target.type:
        return False
    if source.consumers != (dot.name,) or len(source.producers) != 1:
        return False
    maker = graph.task(source.producers[0])
    inside = [t for t in target.consumers if graph.task(t).loop == dot.loop]
    return maker.loop == dot.loop and all(t in (maker.name, dot.name) for t in inside)


def _joined(target: Tile, source: Tile) -> Tile:
    values = tuple(dict.fromkeys((target.name, *target.values, source.name, *source.values)))
    return replace(
        target,
        producers=tuple(dict.fromkeys((*target.producers, *source.producers))),
        consumers=tuple(dict.fromkeys((*target.consumers, *source.consumers))),
        values=values,
    )
