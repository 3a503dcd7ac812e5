"""Gives what a loop carries a copy of what it begins with, where that is loaded.

    before:  h = load h0;  loop: h' = f(h)               after:  h = load h0;  c = copy(h);  loop: c' = f(c)

What is carried is updated in place. A place that copies fill is a ring's slot, released and filled again for the next
tile: nothing to work in, and loops inside may not read it. Needs: a task graph. Keeps: meaning, loops, guards.
Source: ours.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.task.edges import connected
from threadloom.task.ops import Guard, Kind, Loop, Method, STask, TaskGraph
from threadloom.tile.ops import Cast, Value


def copy_loaded(graph: TaskGraph) -> TaskGraph:
    """The graph with such copies; the same object where there are none."""
    loaded = {name for t in graph.tasks if t.kind in (Kind.LOAD, Kind.GATHER) for name in t.writes}
    found = {
        (loop.id, init.name): init
        for loop in graph.loops
        for init, *_ in loop.carried
        if init.name in loaded and init.type.axes
    }
    if not found:
        return graph
    copies = {key: Value(f"{init.name}.in_{key[0]}", init.type) for key, init in found.items()}
    tasks, guards = list(graph.tasks), list(graph.guards)
    for (loop, name), value in copies.items():
        task = _copy(graph, found[loop, name], value, loop)
        tasks.insert(1 + max(at for at, t in enumerate(tasks) if name in t.writes), task)
        guards += [Guard(task.name, cond, wanted) for cond, wanted in _common_guards(graph, name)]
    loops = [_begun(loop, copies) for loop in graph.loops]
    return connected(graph.kernel, tasks, loops, guards)


def _name(value: str, loop: int) -> str:
    return f"copy_{value}_{loop}"


def _copy(graph: TaskGraph, init: Value, value: Value, loop: int) -> STask:
    around = next(x for x in graph.loops if x.id == loop).parent
    loc = next(t.loc for t in graph.tasks if init.name in t.writes)
    return STask(
        _name(init.name, loop), Kind.VECTOR, (Cast(value, init, loc),), init.type.axes, (init.name,), (value.name,),
        (Method.VECTOR,), around, loc,
    )  # fmt: skip


def _common_guards(graph: TaskGraph, value: str) -> list[tuple[str, bool]]:
    """The conditions under which the value is made, if all that may make it have the same."""
    makers = [t.name for t in graph.tasks if value in t.writes]
    of = [{(g.cond, g.wanted) for g in graph.guards if g.task == name} for name in makers]
    return sorted(set.intersection(*of))


def _begun(loop: Loop, copies: dict[tuple[int, str], Value]) -> Loop:
    """The loop with the copies that its inner loops begin with before them, and with its own in what it carries."""
    before: dict[str | int, list[str]] = {}
    for at, name in copies:
        before.setdefault(at, []).append(_name(name, at))
    items = [x for item in loop.items for x in (*before.get(item, ()), item)]
    carried = tuple((copies.get((loop.id, init.name), init), *rest) for init, *rest in loop.carried)
    return replace(loop, items=tuple(items), carried=carried)
