"""Puts several sTasks where one was: what every pass that cuts sTasks up ends with."""

from __future__ import annotations

from dataclasses import replace

from threadloom.task.edges import connected
from threadloom.task.ops import STask, TaskGraph


def in_pieces(graph: TaskGraph, parts: dict[str, tuple[STask, ...]]) -> TaskGraph:
    """The graph with the sTasks named in `parts` replaced by their pieces, in order, under the same guards; edges and
    tiles are found anew. The same object where there are none."""
    if not parts:
        return graph
    tasks = [piece for t in graph.tasks for piece in parts.get(t.name, (t,))]
    names = {t.name: [piece.name for piece in parts.get(t.name, (t,))] for t in graph.tasks}
    loops = [replace(x, items=tuple(y for item in x.items for y in names.get(item, [item]))) for x in graph.loops]
    guards = [replace(g, task=piece) for g in graph.guards for piece in names[g.task]]
    return connected(graph.kernel, tasks, loops, guards)
