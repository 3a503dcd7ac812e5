"""Drops sTasks that copy a carried value onto itself.

    before:  if mask: acc' = acc + dot(a, b)   else: acc' = copy(acc)        acc and acc' in one carried tile
    after:   if mask: acc' = acc + dot(a, b)

A condition in the language writes in both branches; in place the other branch has nothing to do, and waiting for the
product before a copy that changes nothing would stall the pipeline. What an inner loop begins with stays where nothing
else makes that value: no loop ends with it. Needs: a task graph. Source: ours.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.sched.tile_map import TileMap
from threadloom.task.ops import Kind, STask, TaskGraph, Tile
from threadloom.tile.ops import Cast


def drop_copies(graph: TaskGraph) -> TaskGraph:
    tiles = TileMap(graph)
    begins = {init.name for loop in graph.loops for init, *_ in loop.carried}
    begins -= {result.name for loop in graph.loops for *_, result in loop.carried}
    gone = {t.name for t in graph.tasks if _is_copy_onto_itself(t, tiles) and not begins & set(t.writes)}
    if not gone:
        return graph
    return replace(
        graph,
        tasks=tuple(t for t in graph.tasks if t.name not in gone),
        edges=tuple(e for e in graph.edges if e.src not in gone and e.dst not in gone),
        tiles=tuple(_without(t, gone) for t in graph.tiles),
        loops=tuple(replace(loop, items=tuple(i for i in loop.items if i not in gone)) for loop in graph.loops),
        guards=tuple(g for g in graph.guards if g.task not in gone),
    )


def _is_copy_onto_itself(task: STask, tiles: TileMap) -> bool:
    if task.kind is not Kind.VECTOR or len(task.ops) != 1 or not isinstance(op := task.ops[0], Cast):
        return False
    place = tiles.of(op.result.name)
    same = place != "" and place == tiles.of(op.arg.name) and op.arg.type == op.result.type
    return same and tiles.tile(place).carried is not None


def _without(tile: Tile, gone: set[str]) -> Tile:
    return replace(
        tile,
        producers=tuple(t for t in tile.producers if t not in gone),
        consumers=tuple(t for t in tile.consumers if t not in gone),
    )
