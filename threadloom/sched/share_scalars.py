"""Makes scalars that other roles need scalar code, which every role computes for itself.

    before:  vector(at.1, step) -> at.2                     a position that a loop carries, computed where workers are
             load x[at.1, ...]                              by the producer, which has no such value
    after:   scalar(at.1, step) -> at.2

Rank-0 code on what a loop carries stands among vector code, since the carried value may come from tiles. Where it does
not (it follows from tensors' elements, indices and constants alone) and a loop's bounds, a condition, a load or other
scalar code depends on it, it is moved into SCALAR sTasks. Scalar code on what a loop made of tiles is the workers' own:
it becomes vector code.
Needs: a task graph. Keeps: meaning, loops, guards. Not handled: scalars that are computed of tiles. Source: ours.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.sched.pieces import in_pieces
from threadloom.task.ops import Kind, Method, STask, TaskGraph
from threadloom.tile.ops import Bound, Cast, Const, DimSize, Index, Load, Map, Op
from threadloom.tile.uses import operands, results

_REPEATED = (Const, Index, Bound, DimSize)  # every sTask has its own
_SHARED = (Kind.SCALAR, Kind.LOAD, Kind.GATHER)  # what other roles than the workers may run


def share_scalars(graph: TaskGraph) -> TaskGraph:
    """The graph with such scalars moved; the same object where there are none."""
    of_tiles, wanted = _of_tiles(graph), _wanted(graph)
    workers_own = {t.name for t in graph.tasks if t.kind is Kind.SCALAR and of_tiles & {*t.writes}}
    graph = _as_vector_code(graph, workers_own)
    wanted -= of_tiles
    parts = {t.name: _parts(t, wanted, graph) for t in graph.tasks if t.kind is Kind.VECTOR}
    parts = {name: made for name, made in parts.items() if made[0].kind is Kind.SCALAR}
    return in_pieces(graph, parts)


def _as_vector_code(graph: TaskGraph, names: set[str]) -> TaskGraph:
    if not names:
        return graph
    made = (replace(t, kind=Kind.VECTOR, methods=(Method.VECTOR,)) if t.name in names else t for t in graph.tasks)
    return replace(graph, tasks=tuple(made))


def _sources(graph: TaskGraph) -> dict[str, set[str]]:
    """Value -> the values that it is made of, directly (through loops, conditions and subscripts as well)."""
    found: dict[str, set[str]] = {}
    for task in graph.tasks:
        conditions = {g.cond for g in graph.guards if g.task == task.name}
        for op in task.ops:
            for made in results(op):
                found.setdefault(made.name, set()).update(conditions | {v.name for v in operands(op)})
    for loop in graph.loops:
        for init, arg, following, result in loop.carried:
            for value in (arg, result):
                found.setdefault(value.name, set()).update({init.name, following.name})
    return found


def _of_tiles(graph: TaskGraph) -> set[str]:
    """Values that something other than scalar code on scalars has a part in."""
    simple = (*_REPEATED, Map, Cast, Load)
    ops = [op for t in graph.tasks for op in t.ops]
    tiles = {v.name for op in ops for v in (*operands(op), *results(op)) if v.type.axes}
    tiles |= {v.name for op in ops if not isinstance(op, simple) for v in results(op)}
    sources, grew = _sources(graph), True
    while grew:
        more = {name for name, made_of in sources.items() if made_of & tiles} - tiles
        tiles |= more
        grew = bool(more)
    return tiles


def _wanted(graph: TaskGraph) -> set[str]:
    """Values that bounds, conditions, loads and scalar code depend on."""
    pending = [v.name for loop in graph.loops for a in loop.axes for v in (a.start, a.stop) if v is not None]
    pending += [g.cond for g in graph.guards]
    pending += [name for t in graph.tasks if t.kind in _SHARED for name in t.reads]
    sources, found = _sources(graph), set()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += sources.get(name, ())
    return found


def _parts(task: STask, wanted: set[str], graph: TaskGraph) -> tuple[STask, ...]:
    """The scalar code of `wanted`, then the rest of the task, if there is any."""
    moved = [op for op in task.ops if not isinstance(op, _REPEATED) and results(op)[0].name in wanted]
    rest = [op for op in task.ops if not isinstance(op, _REPEATED) and op not in moved]
    if not moved:
        return (task,)
    read_elsewhere = {name for t in graph.tasks if t is not task for name in t.reads} | _outside(graph)
    read_elsewhere |= {v.name for op in rest for v in operands(op)}
    made = [op.result.name for op in moved]
    first = replace(
        _piece(task, moved), name=f"{task.name}_scalar", kind=Kind.SCALAR, methods=(Method.SCALAR,), axes=(),
        writes=tuple(name for name in made if name in read_elsewhere),
    )  # fmt: skip
    last = replace(_piece(task, rest), writes=tuple(w for w in task.writes if w not in made))
    return (first, last) if rest else (first,)


def _outside(graph: TaskGraph) -> set[str]:
    """Values that loops and conditions read."""
    found = {v.name for loop in graph.loops for quadruple in loop.carried for v in quadruple}
    found |= {v.name for loop in graph.loops for a in loop.axes for v in (a.start, a.stop) if v is not None}
    return found | {g.cond for g in graph.guards}


def _piece(task: STask, ops: list[Op]) -> STask:
    used = dict.fromkeys(v.name for op in ops for v in operands(op))
    repeated = {r.name: op for op in task.ops if isinstance(op, _REPEATED) for r in results(op)}
    made = {v.name for op in ops for v in results(op)}
    everything = {v.name for op in task.ops for v in results(op)} | set(task.reads)
    reads = {n for n in used if n in everything and n not in made and n not in repeated}
    inside = {v.name for op in task.ops for v in operands(op)}
    reads |= {n for n in task.reads if n not in inside}  # conditions
    return replace(task, ops=(*(repeated[n] for n in used if n in repeated), *ops), reads=tuple(sorted(reads)))
