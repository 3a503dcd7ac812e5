"""Moves sTasks that read a carried tile before those that overwrite it.

    before:  v' = f(v), in place;  loop: v' += y;  u' = u + g(v) + z
    after:   u' = u + g(v) + z;  v' = f(v), in place;  loop: v' += y

An sTask of several operations stands where its last one does, which may be behind the next update of what its first one
reads. A loop with loops inside runs its items in order, so the order must be one that values survive. An update in the
opposite branch of the same condition never runs beside its reader, and stays where it is.
Needs: a task graph whose tiles are shared already. Keeps: meaning, loops, guards. Source: ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.sched.pipeline import exclusive
from threadloom.sched.tile_map import TileMap
from threadloom.task.ops import Loop, STask, TaskGraph


@dataclass(frozen=True, slots=True)
class _Item:
    """An sTask, or an inner loop with all that is in it. `updates`: carried tiles that it writes."""

    tasks: tuple[STask, ...]
    reads: frozenset[str]
    writes: frozenset[str]
    updates: frozenset[str]


def read_first(graph: TaskGraph) -> TaskGraph:
    loops = tuple(_ordered(loop, graph) for loop in graph.loops)
    if loops == graph.loops:
        return graph
    place = {item: at for at, item in enumerate(_flat(loops))}
    return replace(graph, loops=loops, tasks=tuple(sorted(graph.tasks, key=lambda t: place[t.name])))


def _flat(loops: tuple[Loop, ...]) -> list[str]:
    """Names of the sTasks in the order of execution."""
    by_id = {loop.id: loop for loop in loops}

    def walk(loop: Loop) -> list[str]:
        return [name for i in loop.items for name in (walk(by_id[i]) if isinstance(i, int) else [i])]

    return walk(by_id[0])


def _ordered(loop: Loop, graph: TaskGraph) -> Loop:
    if not any(isinstance(i, int) for i in loop.items):
        return loop  # `fold.in_order` does it there
    tiles = TileMap(graph)
    items = [_item(i, graph, tiles) for i in loop.items]
    before: dict[int, set[int]] = {at: set() for at in range(len(items))}
    for at, item in enumerate(items):
        for earlier in range(at):
            if _depends(item, items[earlier], graph):
                before[at].add(earlier)
    late = False
    for at, item in enumerate(items):
        for value in item.reads:
            for updater in _updates_between(value, at, items, tiles):
                if not _exclusive(item, items[updater], graph):
                    before[updater].add(at)
                    late = True
    if not late:
        return loop
    order: list[int] = []
    while before:
        free = (at for at, sources in before.items() if not sources & before.keys())
        order.append(next(free, min(before)))
        del before[order[-1]]
    return replace(loop, items=tuple(loop.items[at] for at in order))


def _item(item: str | int, graph: TaskGraph, tiles: TileMap) -> _Item:
    if isinstance(item, str):
        task = graph.task(item)
        return _Item((task,), frozenset(task.reads), frozenset(task.writes), _carried(task.writes, tiles))
    inside = {item}
    for loop in graph.loops:  # parents come first
        if loop.parent in inside:
            inside.add(loop.id)
    tasks = tuple(t for t in graph.tasks if t.loop in inside)
    carried = [values for loop in graph.loops if loop.id in inside for values in loop.carried]
    writes = {name for t in tasks for name in t.writes} | {result.name for *_, result in carried}
    own = writes | {arg.name for _, arg, *_ in carried}
    reads = {name for t in tasks for name in t.reads} | {init.name for init, *_ in carried}
    return _Item(tasks, frozenset(reads - own), frozenset(writes), _carried(writes, tiles))


def _carried(values: tuple[str, ...] | set[str], tiles: TileMap) -> frozenset[str]:
    held = {tiles.of(v) for v in values} - {""}
    return frozenset(name for name in held if tiles.tile(name).carried is not None)


def _depends(item: _Item, earlier: _Item, graph: TaskGraph) -> bool:
    """Whether `item` must stay behind `earlier`: it reads what that makes, or both write a tile or a value."""
    if item.reads & earlier.writes or item.writes & earlier.writes or item.updates & earlier.updates:
        return True
    mine, its = ({t.name for t in one.tasks} for one in (item, earlier))
    return any(e.distance == 0 and e.src in its and e.dst in mine for e in graph.edges)


def _updates_between(value: str, reader: int, items: list[_Item], tiles: TileMap) -> list[int]:
    """Items before `reader` that change the tile of `value` after it was made."""
    tile = tiles.of(value)
    if not tile:
        return []
    made = max((at for at in range(reader) if value in items[at].writes), default=-1)
    return [at for at in range(made + 1, reader) if tile in items[at].updates]


def _exclusive(a: _Item, b: _Item, graph: TaskGraph) -> bool:
    return all(exclusive(x.name, y.name, graph) for x in a.tasks for y in b.tasks)
