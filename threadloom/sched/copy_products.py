"""Gives what a matrix unit makes, and what a loop carries, a copy where a product reads it.

    before:  s = dot(q, k);  y = dot(s, v)               after:  s = dot(q, k);  t = copy(s);  y = dot(t, v)
    before:  y += dot(a, s);  s = exp(b)                 after:  t = copy(s);  y += dot(a, t);  s = exp(b)

A product's result lies where its unit leaves it, in an accumulator's order, and what a loop carries in the registers of
those who make it; an operand has another place and order.
Vector code takes it from one to the other, as it does where there is elementwise code between the two anyway.
Needs: a task graph. Keeps: meaning, loops, guards. Source: ours.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.sched.pieces import in_pieces
from threadloom.sched.tile_map import TileMap
from threadloom.task.ops import Kind, Method, STask, TaskGraph
from threadloom.tile.ops import Cast, Dot, Value


def copy_products(graph: TaskGraph) -> TaskGraph:
    """The graph with such copies; the same object where there are none."""
    places = TileMap(graph)
    made = {places.of(v) for t in graph.tasks if t.kind is Kind.DOT for v in t.writes} - {""}
    made |= {tile.name for tile in graph.tiles if tile.carried is not None}
    parts = {}
    for task in graph.tasks:
        if task.kind is Kind.DOT:
            (dot,) = [op for op in task.ops if isinstance(op, Dot)]
            read = {v.name: v for v in (dot.a, dot.b) if places.of(v.name) in made}
            if read:
                parts[task.name] = _with_copies(task, dot, read)
    return in_pieces(graph, parts)


def _with_copies(task: STask, dot: Dot, read: dict[str, Value]) -> tuple[STask, ...]:
    """The copies of the values `read`, then the task that reads them."""
    copies = {name: Value(f"{name}.for_{task.name}", v.type) for name, v in read.items()}
    before = tuple(
        STask(
            f"copy_{name}_{task.name}", Kind.VECTOR, (Cast(copies[name], v, dot.loc),), v.type.axes, (name,),
            (copies[name].name,), (Method.VECTOR,), task.loop, task.loc,
        )
        for name, v in read.items()
    )  # fmt: skip
    product = replace(dot, a=copies.get(dot.a.name, dot.a), b=copies.get(dot.b.name, dot.b))
    used = {v.name for op in task.ops if op is not dot for v in getattr(op, "args", ())}
    reads = [copies[r].name if r in copies else r for r in task.reads]
    reads += [r for r in task.reads if r in copies and r in used]
    return *before, replace(task, ops=tuple(product if op is dot else op for op in task.ops), reads=tuple(reads))
