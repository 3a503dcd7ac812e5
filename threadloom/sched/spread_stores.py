"""Gives a stored value the axes of the indices that place it.

    before:  store out[m, i[n]] = x                      x along m alone
    after:   y = where(i == i, x, x);  store out[m, i[n]] = y      y along m and n

Every position along an axis that the value lacks gets the same; where the axis only counts, code loops over its
positions, but an index along it lies in registers, an element each. Needs: a task graph. Keeps: meaning, loops, guards.
Source: ours.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.dtypes import ALL
from threadloom.sched.pieces import in_pieces
from threadloom.task.ops import Kind, Method, STask, TaskGraph
from threadloom.tile.ops import AtomicAdd, Map, Op, Store, TileType, Value
from threadloom.tile.uses import operands


def spread_stores(graph: TaskGraph) -> TaskGraph:
    """The graph with such values spread; the same object where there are none."""
    parts = {t.name: _spread(t) for t in graph.tasks if t.kind in (Kind.STORE, Kind.ATOMIC)}
    parts = {name: made for name, made in parts.items() if len(made) > 1}
    return in_pieces(graph, parts)


def _spread(task: STask) -> tuple[STask, ...]:
    """Vector code that spreads the values of the task's stores, where any needs it, then the task."""
    own = tuple(op for op in task.ops if not isinstance(op, Store | AtomicAdd))
    made: list[Op] = []
    stores: dict[int, Store | AtomicAdd] = {}
    for number, op in enumerate(task.ops):
        if not isinstance(op, Store | AtomicAdd):
            continue
        value = op.value
        indices = [t.value for s in op.subscripts for t in s.terms if t.value is not None]
        for index in indices:
            if not set(index.type.axes) <= set(value.type.axes):
                made += _with_axes_of(index, value, f"{value.name}.{len(made)}.{task.name}", op)
                value = made[-1].result
        if value is not op.value:
            stores[number] = replace(op, value=value)
    if not stores:
        return (task,)
    results = tuple(op.value.name for op in stores.values())
    inside = {op.result.name for op in (*own, *made)}
    used = {v.name for op in (*own, *made) for v in operands(op)} - inside
    before = STask(
        f"spread_{task.name}", Kind.VECTOR, (*own, *made), stores[min(stores)].value.type.axes,
        tuple(name for name in task.reads if name in used), results, (Method.VECTOR,), task.loop, task.loc,
    )  # fmt: skip
    ops = tuple(stores.get(number, op) for number, op in enumerate(task.ops))
    read = {v.name for op in ops for v in operands(op)}
    asked = {v.name for op in task.ops for v in operands(op)}
    reads = tuple(name for name in task.reads if name in read or name not in asked)
    return before, replace(task, ops=ops, reads=(*reads, *results))


def _with_axes_of(index: Value, value: Value, name: str, op: Store | AtomicAdd) -> list[Op]:
    axes = (*value.type.axes, *(a for a in index.type.axes if a not in value.type.axes))
    same = Value(f"{name}.same", TileType(index.type.axes, ALL["bool"]))
    result = Value(name, TileType(axes, value.type.dtype))
    return [Map(same, "eq", (index, index), op.loc), Map(result, "where", (same, value, value), op.loc)]
