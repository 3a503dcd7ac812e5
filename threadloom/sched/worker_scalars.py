"""Loads that only workers can place: those that depend on a scalar that vector code makes of tiles."""

from __future__ import annotations

from threadloom.task.ops import Kind, TaskGraph


def known_to_workers(graph: TaskGraph) -> frozenset[str]:
    """Names of sTasks that depend on such a scalar: by what they read, by a condition, or by a bound of a loop around
    them. The role that feeds a copy engine, or fills operands of products, does not have it."""
    scalars = _worker_scalars(graph)
    if not scalars:
        return frozenset()
    loops = {loop.id: loop for loop in graph.loops}
    ends = ((loop.id, v) for loop in graph.loops for a in loop.axes for v in (a.start, a.stop))
    bounded = {at for at, v in ends if v is not None and v.name in scalars}

    def is_inside(at: int | None) -> bool:
        return at is not None and (at in bounded or is_inside(loops[at].parent))

    return frozenset(t.name for t in graph.tasks if scalars & {*t.reads} or is_inside(t.loop))


def _worker_scalars(graph: TaskGraph) -> frozenset[str]:
    """Scalars that vector code makes, which only workers know."""
    vector = {t.name for t in graph.tasks if t.kind is Kind.VECTOR}
    made = [t for t in graph.tiles if not t.type.axes and vector & {*t.producers}]
    return frozenset(name for t in made for name in (t.name, *t.values))
