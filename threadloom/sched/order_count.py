"""The size of the search space: how many orders the sTasks of a loop may be issued in."""

from __future__ import annotations

from threadloom.task.ops import TaskGraph

MOST_TASKS = 16  # of a loop that is counted: sets of them are enumerated


def order_count(graph: TaskGraph) -> int:
    """Orders of the sTasks of the busiest loop that respect its dependences (linear extensions, counted exactly)."""
    best = 1
    for loop in graph.loops:
        names = [t.name for t in graph.tasks if t.loop == loop.id]
        if len(names) > MOST_TASKS:
            continue
        need = {n: 0 for n in names}
        for edge in graph.edges:
            if edge.distance == 0 and edge.src in need and edge.dst in need:
                need[edge.dst] |= 1 << names.index(edge.src)
        ways = {0: 1}
        for _ in names:
            following: dict[int, int] = {}
            for done, count in ways.items():
                for at, name in enumerate(names):
                    if not done >> at & 1 and need[name] & ~done == 0:
                        following[done | 1 << at] = following.get(done | 1 << at, 0) + count
            ways = following
        best = max(best, sum(ways.values()))
    return best
