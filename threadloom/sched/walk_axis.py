"""Task graph -> task graph in which one EU walks an axis of the grid, keeping on chip what the axis does not change.

before                                        after
loop 0: b; h; m                               loop 0: b; h; m                one tile of the grid has several h
  items load_q load_c @1 store                  items load_c @1 @2
loop 1 of 0: k                                loop 1 of 0: k                 fills slots that stay until loop 2 is done
  items load_cb load_x dot                      items load_cb
                                              loop 2 of 0: h                 the walk: each h of the tile in turn
                                                items load_q @3 store
                                              loop 3 of 2 like 1: k          goes through the slots again
                                                items load_x dot

Loads whose subscripts do not depend on the axis move out, and rank-0 code with them; a scalar computed from the axis
(the group of a head) counts as independent where it is the same for all indices of a tile, which is evaluated for the
given extents. Keeps: every value. Needs: an EACH axis of the grid that bounds no other axis.
Not handled: vector code and products that the axis does not change (they are done again), TILE axes.
Source: prototype study of a ChunkScan on an H200 (1.85x from tiles kept along heads); the form is ours.
"""

from __future__ import annotations

import math
from dataclasses import replace

from threadloom.sched.sizes import BoundScalars, dim_extent
from threadloom.task.ops import Kind, Loop, STask, TaskGraph
from threadloom.tile.ops import AxisKind, Bound, Index, Load, LoopAxis, Value
from threadloom.tile.uses import operands, results

MOST_INDICES = 4096  # for which scalars are evaluated


def walkable_axes(graph: TaskGraph, dims: dict[str, int]) -> dict[str, int]:
    """EACH axes of the grid that can be walked -> the most indices a tile of the grid may have (a divisor of others
    that it may have, too)."""
    found = {}
    for loop_axis in graph.loops[0].axes:
        axis = loop_axis.axis
        extent = dim_extent(axis.dim, dims)
        if axis.kind is AxisKind.EACH and (loop_axis.start, loop_axis.stop) == (None, None) and extent > 1:
            step = _constant_within(graph, dims, axis.name, extent)
            if step > 1 and not _bounds_another(graph, axis.name, step, dims):
                found[axis.name] = step
    return found


def walk_axis(graph: TaskGraph, axis: str, step: int, dims: dict[str, int]) -> TaskGraph | None:
    """`graph` with the grid's axis `axis` walked, for tiles of `step` indices; None where nothing worth it (a load of
    two axes or more) would stay on chip."""
    free = _independent(graph, axis, _constant_scalars(graph, axis, step, dims))
    outer = graph.loops[0]
    streams = [loop for loop in graph.loops if loop.parent == 0 and _bounds(loop) <= _made_by(graph, free)]
    loads = [t for t in graph.tasks if t.name in free and t.kind is Kind.LOAD]
    fills = {s.id: mine for s in streams if (mine := [t for t in loads if t.loop == s.id])}
    stay = {t.name for t in graph.tasks if t.loop == 0 and t.name in free and t.kind in (Kind.LOAD, Kind.SCALAR)}
    moved = [t for t in graph.tasks if t.name in stay or (t.loop in fills and t in fills[t.loop])]
    if not any(t.kind is Kind.LOAD and len(t.ops[-1].result.type.axes) > 1 for t in moved):
        return None
    olds = [loop.id for loop in graph.loops if loop.id != 0]
    filling = {old: 1 + n for n, old in enumerate(fills)}
    walk = 1 + len(fills)
    new = {0: walk} | {old: walk + 1 + n for n, old in enumerate(olds)}
    home = {t.name: new[t.loop] for t in graph.tasks} | dict.fromkeys(stay, 0)
    home |= {t.name: filling[old] for old, mine in fills.items() for t in mine}

    def items(loop: Loop) -> tuple[str | int, ...]:
        """What is left of a loop's items, by their new names."""
        left = (i for i in loop.items if isinstance(i, int) or home[i] == new[loop.id])
        return tuple(new[i] if isinstance(i, int) else i for i in left)

    walked = next(a.axis for a in outer.axes if a.axis.name == axis)
    first = (i for i in outer.items if i in stay)
    loops = [Loop(0, None, outer.axes, (*first, *filling.values(), walk), (), outer.loc)]
    for old, number in filling.items():
        source = next(loop for loop in graph.loops if loop.id == old)
        loops.append(Loop(number, 0, source.axes, tuple(t.name for t in fills[old]), (), source.loc))
    loops.append(Loop(walk, 0, (LoopAxis(walked),), items(outer), outer.carried, outer.loc))
    for loop in graph.loops[1:]:
        numbers = {"id": new[loop.id], "parent": new[loop.parent], "like": filling.get(loop.id)}
        loops.append(replace(loop, items=items(loop), **numbers))
    tasks = tuple(replace(t, loop=home[t.name]) for t in graph.tasks)
    tiles = tuple(replace(t, carried=None if t.carried is None else new[t.carried]) for t in graph.tiles)
    return replace(graph, tasks=_in_order(tasks, loops), tiles=tiles, loops=tuple(loops))


def _in_order(tasks: tuple[STask, ...], loops: list[Loop]) -> tuple[STask, ...]:
    """The order of the loop list and of the items in each."""
    place = {item: (n, at) for n, loop in enumerate(loops) for at, item in enumerate(loop.items)}
    return tuple(sorted(tasks, key=lambda t: place[t.name]))


def _bounds(loop: Loop) -> set[str]:
    return {v.name for a in loop.axes for v in (a.start, a.stop) if v is not None}


def _made_by(graph: TaskGraph, names: set[str]) -> set[str]:
    """What these tasks compute without reading a tensor, and run-time scalars: how long a loop is at most must be known
    where its tiles are kept."""
    made = {s.name for s in graph.kernel.scalars}
    read: set[str] = set()
    for task in graph.tasks:
        if task.loop == 0 and (read & set(task.reads) or any(isinstance(op, Load) for op in task.ops)):
            read |= set(task.writes)
        elif task.loop == 0 and task.name in names:
            made |= set(task.writes)
    return made


# ---------------------------------------------------------------- what depends on the axis


def _independent(graph: TaskGraph, axis: str, constant: set[str]) -> set[str]:
    """Names of the tasks that the index of `axis` does not change, those of `constant` (values) among them."""
    changed: set[str] = set()  # values
    free: set[str] = set()
    carried = {v.name for loop in graph.loops for quadruple in loop.carried for v in quadruple}
    guarded = {g.task for g in graph.guards}
    for task in graph.tasks:
        depends = axis in task.axes or any(_mentions(op, axis) for op in task.ops)
        depends |= bool(changed & set(task.reads)) or bool(carried & set(task.reads)) or task.name in guarded
        if depends and not (task.kind is Kind.SCALAR and set(task.writes) <= constant):
            changed |= set(task.writes)
        else:
            free.add(task.name)
    return free


def _mentions(op: object, axis: str) -> bool:
    """Whether an operation names the axis: as an index, in a subscript, or as an axis of a value."""
    if isinstance(op, Index | Bound):
        return op.axis == axis
    if isinstance(op, Load) and any(term.axis == axis for s in op.subscripts for term in s.terms):
        return True
    return any(axis in value.type.axes for value in (*operands(op), *results(op)))


def _scalar_values(graph: TaskGraph) -> list[Value]:
    """What the grid body's rank-0 tasks compute without reading a tensor."""
    scalars = [t for t in graph.tasks if t.kind is Kind.SCALAR and t.loop == 0]
    computed = [t for t in scalars if not any(isinstance(op, Load) for op in t.ops)]
    values = {r.name: r for t in computed for op in t.ops for r in results(op) if r.name in t.writes}
    return list(values.values())


def _series(graph: TaskGraph, dims: dict[str, int], axis: str, extent: int) -> dict[str, list[float]]:
    """Scalar -> its value at each index of the axis, of those that depend on nothing else."""
    bounds = BoundScalars(graph, dims)
    found = {}
    for value in _scalar_values(graph) if extent <= MOST_INDICES else ():
        numbers = [bounds.value(value, {axis: (i, i + 1)}) for i in range(extent)]
        if None not in numbers:
            found[value.name] = numbers
    return found


def _constant_within(graph: TaskGraph, dims: dict[str, int], axis: str, extent: int) -> int:
    """The longest tile in all of which the slowest changing scalars of a load stay as they are: the whole axis if none
    changes at all."""
    read = {v for t in graph.tasks if t.kind is Kind.LOAD for v in t.reads}
    steps = []
    for name, numbers in _series(graph, dims, axis, extent).items():
        changes = [i for i in range(1, extent) if numbers[i] != numbers[i - 1]]
        if name in read and changes:
            steps.append(math.gcd(*changes))
    slow = [s for s in steps if s > 1]
    return min(slow, default=extent)


def _constant_scalars(graph: TaskGraph, axis: str, step: int, dims: dict[str, int]) -> set[str]:
    extent = dim_extent(next(a.axis.dim for a in graph.loops[0].axes if a.axis.name == axis), dims)
    series = _series(graph, dims, axis, extent)
    return {
        name
        for name, numbers in series.items()
        if all(len(set(numbers[at : at + step])) == 1 for at in range(0, extent, step))
    }


def _bounds_another(graph: TaskGraph, axis: str, step: int, dims: dict[str, int]) -> bool:
    """Whether a bound of another axis of the grid depends on the axis."""
    free = _independent(graph, axis, _constant_scalars(graph, axis, step, dims))
    made = {v for t in graph.tasks if t.name not in free for v in t.writes}
    return bool(_bounds(graph.loops[0]) & made)
