"""Takes the upper of two axes of a product's rows one position at a time, where units do not want both at once.

    before:  grid i, j, f:       acc[i, j, f] += dot(x[i, j, c], w[c, f])        tiles of several i
    after:   grid each i, j, f:  acc[j, f] += dot(x[j, c], w[c, f])              for each i

A matrix unit fills its rows with positions of both (stacked_rows.py); a core's registers take a few rows, and every
further axis of a tile is a loop around the product (measured on two busy cores, CPU time: convolutions take 1.3 to 1.5
times as long with tiles of several i). Needs: a task graph. Keeps: meaning. Not handled: code that
reads positions along the axis, or sums along it. Source: ours.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from threadloom.sched.stacked_rows import stacked_pairs
from threadloom.task.edges import connected
from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import Axis, AxisKind, Bound, Dot, Index, Reduce, Scan, Value

T = TypeVar("T")


def one_at_a_time(graph: TaskGraph) -> TaskGraph:
    """The graph with such axes taken so; the same object where there are none."""
    for above in stacked_pairs(graph).values():
        if not _is_read(above, graph):
            parts = (graph.kernel, list(graph.tasks), list(graph.loops), list(graph.guards))
            graph = connected(*(_without(part, above) for part in parts))
    return graph


def _is_read(axis: str, graph: TaskGraph) -> bool:
    ops = [op for task in graph.tasks for op in task.ops]
    along = any(op.axis == axis for op in ops if isinstance(op, Index | Bound | Reduce | Scan))
    return along or any(axis in op.over for op in ops if isinstance(op, Dot))


def _without(part: T, axis: str) -> T:
    """`part` with tiles that lack the axis, which is an index; what does not change is the same object."""
    made: Any = part
    if isinstance(part, Value):
        kept = tuple(a for a in part.type.axes if a != axis)
        made = part if kept == part.type.axes else replace(part, type=replace(part.type, axes=kept))
    elif isinstance(part, Axis):
        made = replace(part, kind=AxisKind.EACH) if part.name == axis else part
    elif isinstance(part, tuple | list):
        each = [_without(x, axis) for x in part]
        made = part if all(a is b for a, b in zip(each, part, strict=True)) else type(part)(each)
    elif is_dataclass(part):
        each_field = {f.name: getattr(part, f.name) for f in fields(part) if f.init}
        changed = {name: new for name, old in each_field.items() if (new := _without(old, axis)) is not old}
        made = replace(part, **changed) if changed else part
    return made
