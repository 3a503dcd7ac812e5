"""Turns products around whose second operand is computed from what is loaded: that operand gives the rows then.

    before:  acc[m, n] += dot(a[m, k], f(w[n, k]))         after:  acc[m, n] += dot(f(w[n, k]), a[m, k])

Where matrix units take rows from registers but columns from shared memory only, what threads make of loaded data
(dequantised weights) need not pass through shared memory, with a barrier and fences in each pass. Needs: a task graph.
Keeps: meaning; axes have names, so the result is the same tile. Not turned: products whose first operand is computed
too, and operands that come from products or reductions, whose registers lie as those want them. Source: ours.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.machine.model import Completion, Device
from threadloom.task.edges import connected
from threadloom.task.ops import Kind, STask, TaskGraph
from threadloom.tile.ops import Cast, Const, Dot, Full, Map
from threadloom.tile.uses import operands

LOADS = (Kind.LOAD, Kind.GATHER)
ELEMENTWISE = (Map, Cast, Full, Const)


def turn_products(graph: TaskGraph, device: Device) -> TaskGraph:
    """The graph with such products turned; the same object where there are none, or where the device gains nothing."""
    rows_in_registers = "reg" in str(device.fact("dot_a_space", "")).split()
    by_engine = any(u.completion is Completion.MMA_GROUP for u in device.seus)  # columns lie in shared memory
    if not rows_in_registers or not by_engine:
        return graph
    turned = tuple(_turned(t, graph) for t in graph.tasks)
    return graph if turned == graph.tasks else connected(graph.kernel, list(turned), list(graph.loops), graph.guards)


def _turned(task: STask, graph: TaskGraph) -> STask:
    if task.kind is not Kind.DOT:
        return task
    ops = tuple(replace(o, a=o.b, b=o.a) if isinstance(o, Dot) and _is_better_turned(o, graph) else o for o in task.ops)
    return replace(task, ops=ops)


def _is_better_turned(op: Dot, graph: TaskGraph) -> bool:
    makers_a, makers_b = (_makers(v.name, graph) for v in (op.a, op.b))
    if op.a.type.dtype.bits != 16 or any(t.kind not in LOADS for t in makers_a) or not makers_a:
        return False
    readers = [t for t in graph.tasks if op.b.name in t.reads]
    rows = [x for x in op.b.type.axes if x not in op.over and x not in op.a.type.axes]
    return len(readers) == 1 and len(rows) == 1 and bool(makers_b) and all(_is_of_loads(t, graph) for t in makers_b)


def _makers(value: str, graph: TaskGraph) -> list[STask]:
    return [t for t in graph.tasks if value in t.writes]


def _is_of_loads(task: STask, graph: TaskGraph) -> bool:
    """Whether the task is elementwise code on loaded tiles of its own loop."""
    if task.kind is not Kind.VECTOR or not all(isinstance(o, ELEMENTWISE) for o in task.ops):
        return False
    tiles = {v.name for o in task.ops for v in operands(o) if v.type.axes} & set(task.reads)
    return bool(tiles) and all(
        maker.kind in LOADS and maker.loop == task.loop for name in tiles for maker in _makers(name, graph) or [task]
    )
