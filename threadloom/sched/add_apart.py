"""Adds a product in vector code where a matrix unit cannot add it in place.

    before:  y = dot(q, state);  state = state' + dot(k, v)         state' = state * decay, in a place of its own
    after:   y = dot(q, state);  p = dot(k, v);  state = state' + p

A matrix unit adds to what the place of its result holds. Where other code still reads the carried value while the
scaled one is made, the two have places of their own (coalesce_accumulators), and the product would be added to the
wrong one. Needs: a task graph. Keeps: meaning, loops, guards. Source: ours.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.sched.coalesce_accumulators import accumulator_of, coalesce_accumulators
from threadloom.sched.drop_copies import drop_copies
from threadloom.sched.pieces import in_pieces
from threadloom.sched.tile_map import TileMap
from threadloom.task.ops import Kind, Method, STask, TaskGraph


def add_apart(graph: TaskGraph) -> TaskGraph:
    """The graph with such products and additions in sTasks of their own; the same object where there are none."""
    places = TileMap(coalesce_accumulators(drop_copies(graph)))
    parts = {}
    for task in graph.tasks:
        added = accumulator_of(task) if task.kind is Kind.DOT else None
        if added is not None and places.of(added) != places.of(task.writes[0]):
            parts[task.name] = _apart(task, added)
    return in_pieces(graph, parts)


def _apart(task: STask, added: str) -> tuple[STask, STask]:
    dot, add = task.ops
    operands = {dot.a.name, dot.b.name}
    product = replace(
        task, name=f"{task.name}_product", ops=(dot,), writes=(dot.result.name,),
        reads=tuple(r for r in task.reads if r != added or r in operands),
    )  # fmt: skip
    conditions = tuple(r for r in task.reads if r != added and r not in operands)
    addition = STask(
        task.name, Kind.VECTOR, (add,), add.result.type.axes, (added, dot.result.name, *conditions), task.writes,
        (Method.VECTOR,), task.loop, task.loc,
    )  # fmt: skip
    return product, addition
