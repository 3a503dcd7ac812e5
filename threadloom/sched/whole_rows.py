"""Products whose rows must stay whole: a reduction or another product needs all of a row where it was computed.

Warps can share the columns of any other product. Here only rows can be shared, so a device on which several warps work
on one tile (fact `whole_rows`: the rows that all of them together hold) wants at least so many rows.
"""

from __future__ import annotations

from threadloom.task.ops import Kind, TaskGraph
from threadloom.tile.ops import Dot, Reduce, Scan, Value
from threadloom.tile.uses import results


def whole_row_axes(graph: TaskGraph) -> frozenset[str]:
    """Row axes of products whose column axis is reduced, scanned, or summed by a product of computed rows."""
    ops = [op for t in graph.tasks for op in t.ops]
    dots = [op for op in ops if isinstance(op, Dot) and len(op.over) == 1]
    vector = [t for t in graph.tasks if t.kind is Kind.VECTOR]
    computed = {v.name for t in vector for op in t.ops for v in results(op)}
    needed = {op.axis for op in ops if isinstance(op, Reduce | Scan)}
    needed |= {d.over[0] for d in dots if {d.a.name, d.b.name} & computed}
    found: set[str] = set()
    for d in dots:
        rows, columns = (d.b, d.a) if d.b.name in computed and d.a.name not in computed else (d.a, d.b)
        if any(axis in needed for axis in _free(columns, rows, d)):
            found |= set(_free(rows, columns, d))
    return frozenset(found)


def _free(own: Value, other: Value, dot: Dot) -> tuple[str, ...]:
    return tuple(x for x in own.type.axes if x not in dot.over and x not in other.type.axes)
