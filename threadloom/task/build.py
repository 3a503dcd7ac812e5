"""From a tile kernel to its sTask-graph (PipeThreader, section 4).

    tile                                      task
    nested grids around one body              loop 0 over all their axes
    stream                                    a loop; a grid that is not alone in its parent likewise
    load, store, dot, atomic add              an sTask each
    acc.2 = acc.1 + dot(a, b), carried        one DOT (dot, add): accumulating costs nothing on a matrix unit
    elementwise, reduce, scan, cast, full     VECTOR sTasks: connected pieces, as large as can run without waiting
                                              for something that waits for them (convex)
    rank-0 code on scalars                    SCALAR sTasks
    if                                        guards on the sTasks of both branches, which write the same values

Needs: a verified kernel (it is canonicalized here). `granularity` "split" cuts VECTOR sTasks further, at reductions and
where the iteration space changes; how fine is best is for the scheduler to find out. Differs from the paper, where
sTasks come from TVM-like operator definitions: here from one kernel's text, with loops, bounds and conditions.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.task.cluster import cluster
from threadloom.task.edges import connected
from threadloom.task.flatten import flatten
from threadloom.task.ops import Guard, Loop, STask, TaskGraph
from threadloom.tile.canonicalize import canonicalize
from threadloom.tile.ops import Kernel

GRANULARITIES = ("fused", "split")


def build_task_graph(kernel: Kernel, granularity: str = "fused") -> TaskGraph:
    kernel = canonicalize(kernel)
    bodies = flatten(kernel)
    tasks: list[STask] = []
    loops: list[Loop] = []
    guards: list[Guard] = []
    for body in bodies:
        made = cluster(body, bodies, granularity, taken={t.name for t in tasks})
        tasks += [m.task for m in made if m.task is not None]
        guards += [Guard(m.task.name, cond, wanted) for m in made if m.task is not None for cond, wanted in m.guards]
        items = tuple(m.loop if m.task is None else m.task.name for m in made)
        loops.append(Loop(body.id, body.parent, body.axes, items, body.carried, body.loc))
    tasks = [_without_scalars(t, kernel) for t in tasks]
    return connected(kernel, tasks, loops, guards)


def _without_scalars(task: STask, kernel: Kernel) -> STask:
    parameters = {s.name for s in kernel.scalars}
    return replace(task, reads=tuple(r for r in task.reads if r not in parameters))
