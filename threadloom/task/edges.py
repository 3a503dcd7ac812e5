"""Third step of building the sTask-graph: who needs what from whom, and which values share a place."""

from __future__ import annotations

from collections.abc import Iterable

from threadloom.task.flatten import Carried
from threadloom.task.ops import Edge, Guard, Loop, STask, TaskGraph, Tile
from threadloom.tile.ops import Kernel, TileType
from threadloom.tile.uses import operands, results


def connected(kernel: Kernel, tasks: list[STask], loops: list[Loop], guards: list[Guard]) -> TaskGraph:
    """The sTask-graph of these sTasks and loops, with its edges and tiles."""
    return TaskGraph(kernel, tuple(tasks), _edges(tasks, loops), _tiles(tasks, loops), tuple(loops), tuple(guards))


def _edges(tasks: list[STask], loops: list[Loop]) -> tuple[Edge, ...]:
    """An edge for every value that an sTask reads and every sTask that may have made it."""
    makers: dict[str, list[str]] = {}
    for task in tasks:
        for name in task.writes:
            makers.setdefault(name, []).append(task.name)
    carried = {v.name: (role, c) for loop in loops for c in loop.carried for role, v in zip(_ROLES, c, strict=True)}
    edges: dict[tuple[str, str, str, int], Edge] = {}
    for task in tasks:
        for name in task.reads:
            for maker, distance in _sources(name, makers, carried, set()):
                edge = Edge(maker, task.name, name, distance)
                edges[(maker, task.name, name, distance)] = edge
    return tuple(edges.values())


_ROLES = ("init", "arg", "next", "result")


def _sources(
    name: str, makers: dict[str, list[str]], carried: dict[str, tuple[str, Carried]], seen: set[str]
) -> Iterable[tuple[str, int]]:
    """(sTask, distance) of everything that may have made the value: through carried values and loop results."""
    if name in seen:
        return
    seen.add(name)
    for maker in makers.get(name, ()):
        yield maker, 0
    role, (init, _, following, _) = carried.get(name, ("", (None,) * 4))
    if role == "arg":
        for maker, distance in _sources(following.name, makers, carried, seen):
            yield maker, distance + 1
        yield from _sources(init.name, makers, carried, seen)
    elif role == "result":
        yield from _sources(following.name, makers, carried, seen)
        yield from _sources(init.name, makers, carried, seen)  # the loop may run no iteration


def _tiles(tasks: list[STask], loops: list[Loop]) -> tuple[Tile, ...]:
    """One Tile for every value that crosses between sTasks; carried values and their successors share one."""
    types = _types(tasks, loops)
    group = {name: name for name in types}
    outermost: dict[str, int] = {}
    for loop in reversed(loops):  # the outermost loop's id is set last
        for init, arg, following, result in loop.carried:
            for other in (arg, following, result):
                _join(group, init.name, other.name)
            outermost[arg.name] = loop.id
    members: dict[str, list[str]] = {}
    for name in types:
        members.setdefault(_root(group, name), []).append(name)
    crossing = {name for t in tasks for name in (*t.reads, *t.writes)}
    tiles = []
    for root, names in members.items():
        if not crossing & set(names):
            continue
        producers = tuple(t.name for t in tasks if set(t.writes) & set(names))
        consumers = tuple(t.name for t in tasks if set(t.reads) & set(names))
        loops_of = [outermost[n] for n in names if n in outermost]
        carried = min(loops_of) if loops_of else None
        tiles.append(Tile(root, types[root], producers, consumers, carried, tuple(names)))
    return tuple(tiles)


def _types(tasks: list[STask], loops: list[Loop]) -> dict[str, TileType]:
    """Types of all values, in program order."""
    found: dict[str, TileType] = {}
    for task in tasks:
        for op in task.ops:
            found.update((v.name, v.type) for v in (*operands(op), *results(op)))
    for loop in loops:
        found.update((v.name, v.type) for c in loop.carried for v in c)
    return found


def _root(group: dict[str, str], name: str) -> str:
    while group[name] != name:
        name = group[name]
    return name


def _join(group: dict[str, str], a: str, b: str) -> None:
    """Let b's group become part of a's: the initial value names the Tile."""
    a, b = _root(group, a), _root(group, b)
    if a != b:
        group[b] = a
