"""Cuts VECTOR sTasks so that what waits for a matrix unit's result of an earlier iteration does not hold up the rest.

    before:  vector(s[i], acc[i-1]) -> p[i], acc'[i]        one sTask: needs the product of the last iteration
    after:   vector(s[i]) -> p[i], scale[i];  vector_late(acc[i-1], scale[i]) -> acc'[i]

Then the first part can overlap that product. Operations are grouped by the set of such late inputs that they depend on;
the set never shrinks along a path, so the groups can run one after the other.
Needs: a task graph. Keeps: meaning, loops, guards. Not handled: cuts inside a group (granularity "split" of build.py).
Source: ours; PipeThreader takes sTasks as its operator definitions give them.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.sched.pieces import in_pieces
from threadloom.task.ops import Kind, STask, TaskGraph
from threadloom.tile.ops import Bound, Const, DimSize, Index, Op
from threadloom.tile.uses import operands, results

_REPEATED = (Const, Index, Bound, DimSize)  # cheap; every sTask has its own


def cut_late_inputs(graph: TaskGraph) -> TaskGraph:
    """The graph with such sTasks cut; the same object where there are none."""
    parts = {t.name: _parts(t, _late_inputs(t, graph)) for t in graph.tasks if t.kind is Kind.VECTOR}
    parts = {name: made for name, made in parts.items() if len(made) > 1}
    return in_pieces(graph, parts)


def _late_inputs(task: STask, graph: TaskGraph) -> frozenset[str]:
    """Values that a product of an earlier iteration makes."""
    return frozenset(
        e.value for e in graph.edges if e.dst == task.name and e.distance > 0 and graph.task(e.src).kind is Kind.DOT
    )


def _parts(task: STask, late: frozenset[str]) -> tuple[STask, ...]:
    """The task in pieces by the late inputs they depend on, fewest first."""
    if not late:
        return (task,)
    needs: dict[str, frozenset[str]] = {name: frozenset({name}) for name in late}
    groups: dict[frozenset[str], list[Op]] = {}
    for op in task.ops:
        if isinstance(op, _REPEATED):
            continue
        mine = frozenset().union(*(needs.get(v.name, frozenset()) for v in operands(op)))
        for made in results(op):
            needs[made.name] = mine
        groups.setdefault(mine, []).append(op)
    if len(groups) < 2:
        return (task,)
    ordered = sorted(groups.items(), key=lambda g: len(g[0]))
    return tuple(_piece(task, at, ops, groups) for at, (_, ops) in enumerate(ordered))


def _piece(task: STask, at: int, ops: list[Op], groups: dict[frozenset[str], list[Op]]) -> STask:
    repeated = {r.name: op for op in task.ops if isinstance(op, _REPEATED) for r in results(op)}
    used = dict.fromkeys(v.name for op in ops for v in operands(op))
    made = dict.fromkeys(v.name for op in ops for v in results(op))
    elsewhere = {v.name for other in groups.values() if other is not ops for op in other for v in operands(op)}
    inside_task = {v.name for op in task.ops for v in results(op)}
    reads = [n for n in used if n not in made and n not in repeated and (n in task.reads or n in inside_task)]
    writes = [n for n in made if n in task.writes or n in elsewhere]
    axes = dict.fromkeys(a for op in ops for v in (*operands(op), *results(op)) for a in v.type.axes)
    return replace(
        task,
        name=task.name if at == 0 else f"{task.name}_late" if at == 1 else f"{task.name}_late{at}",
        ops=(*(repeated[n] for n in used if n in repeated), *ops),
        axes=tuple(axes),
        reads=tuple(sorted(reads)),
        writes=tuple(writes),
    )
