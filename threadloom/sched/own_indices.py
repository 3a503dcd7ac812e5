"""Lets a gather that brings an operand of a product compute its indices itself, element by element.

    before:  load at -> at;  vector(at) -> row;  gather x[row, k] -> x        after:  gather(at, x) -> x

Threads that fill a tile in shared memory hold other elements than those who compute the indices, and the role that
fills it has no way to exchange them. Index tensors are small and stay in the nearest cache.
Needs: a task graph. Keeps: meaning, loops, guards. Not handled: indices that come from reductions, products or loops.
Source: ours.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.task.edges import connected
from threadloom.task.ops import Kind, STask, TaskGraph
from threadloom.tile.ops import Bound, Cast, Const, DimSize, Full, Index, Load, Map, Op, Value
from threadloom.tile.uses import operands, results

_ELEMENTWISE = (Map, Cast, Full, Index, Const, Bound, DimSize, Load)
_OWN = (Const, Index, Bound, DimSize)  # every sTask has its own


def own_indices(graph: TaskGraph) -> TaskGraph:
    """The graph with such gathers; the same object where there are none."""
    operands_of_products = {v.name for t in graph.tasks if t.kind is Kind.DOT for op in t.ops for v in operands(op)}
    gathers = [t for t in graph.tasks if t.kind is Kind.GATHER and operands_of_products & {*t.writes}]
    made = {t.name: _alone(t, graph) for t in gathers}
    if all(task is None for task in made.values()):
        return graph
    tasks = [made.get(t.name) or t for t in graph.tasks]
    while dead := _unread(tasks, graph):
        tasks = [t for t in tasks if t.name not in dead]
    names = {t.name for t in tasks}
    loops = [replace(x, items=tuple(i for i in x.items if isinstance(i, int) or i in names)) for x in graph.loops]
    guards = [g for g in graph.guards if g.task in names]
    return connected(graph.kernel, tasks, loops, guards)


def _alone(task: STask, graph: TaskGraph) -> STask | None:
    """The gather with all operations that make its indices; None where they cannot be its own."""
    makers: dict[str, list[tuple[STask, Op]]] = {}
    for t in graph.tasks:
        for op in t.ops:
            for value in results(op):
                makers.setdefault(value.name, []).append((t, op))
    guarded = {g.task for g in graph.guards}
    own: dict[str, Op] = {}

    def take(value: Value) -> bool:
        if value.name in own:
            return True
        found = makers.get(value.name, ())
        if not value.type.axes:
            if found and isinstance(found[0][1], _OWN):
                own[value.name] = found[0][1]
            return True  # a scalar: every role has it
        if not found or not isinstance(found[0][1], _ELEMENTWISE) or any(t.name in guarded for t, _ in found):
            return False
        op = found[0][1]
        if not all(map(take, operands(op))):
            return False
        own[value.name] = op
        return True

    (main,) = [op for op in task.ops if isinstance(op, Load) and op.result.name in task.writes]
    if not all(map(take, operands(main))):
        return None
    ops = (*own.values(), main)
    inside = {v.name for op in ops for v in results(op)}
    conditions = {r for r in task.reads if r not in {v.name for op in task.ops for v in operands(op)}}
    made = {name for t in graph.tasks for name in t.writes}
    carried = {v.name for loop in graph.loops for quadruple in loop.carried for v in quadruple}
    reads = {v.name for op in ops for v in operands(op)} - inside
    return replace(task, ops=ops, reads=tuple(sorted((reads & (made | carried)) | conditions)))


def _unread(tasks: list[STask], graph: TaskGraph) -> set[str]:
    """sTasks that make tiles which nothing reads."""
    read = {name for t in tasks for name in t.reads}
    read |= {v.name for loop in graph.loops for quadruple in loop.carried for v in quadruple}
    read |= {v.name for loop in graph.loops for a in loop.axes for v in (a.start, a.stop) if v is not None}
    read |= {g.cond for g in graph.guards}
    pure = (Kind.LOAD, Kind.GATHER, Kind.VECTOR)
    return {t.name for t in tasks if t.kind in pure and not read & {*t.writes}}
