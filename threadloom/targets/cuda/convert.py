"""Layout conversion: a value in registers of one layout to those of another, through shared memory of the worker.

    before:  t[r] of thread x is element e          after:  t_2[q] of thread y is element e

Two products may make values that elementwise code joins in different layouts (sums over rows of one and over columns of
the other): the value with fewer elements comes to the other's. Its elements lie in scratch in plain rows for a moment;
what stands there for positions beyond the tile is garbage before and after.
"""

from __future__ import annotations

import math

from threadloom.targets.cuda.layout import Layout, Source, coordinate
from threadloom.targets.cuda.registers import Registers, Scope, unroll
from threadloom.tile import ops as tile


def emit_conversion(
    scope: Scope, value: tile.Value, element: str, held: Registers, kind: str, layout: Layout
) -> Registers:
    """Declare registers of `layout` and fill them with `value`, which is in `held`. `element`: C expression of its
    register `i`; `kind`: C type of an element."""
    w, team, axes = scope.writer, scope.team, value.type.axes
    extents = {a: max(held.layout.extent(a), layout.extent(a)) for a in axes}
    size = 8 if kind in ("i64", "double") else 4 if kind != "bool" else 1
    scope.converted_bytes = max(scope.converted_bytes, size * math.prod(extents.values()))
    made = Registers(scope.fresh(value.name), value.type.dtype, layout)
    at = f"smem_converted + worker * converted_bytes + {size} * "
    w.line(f"{kind} {made.name}[{layout.registers}];  // {value.name} in the layout of what it meets")
    w.line(f"{team.sync}  // scratch is free")
    first = _first_replica(held.layout)
    with w.block(f"if ({first})" if first else ""):
        w.line(unroll(held.layout.registers, held.dtype))
        with w.block(f"for (int i = 0; i < {held.layout.registers}; i++)"):
            w.line(f"const {kind} element = {element};")
            w.line(f"write_shared<{size}>({at}({_row_major(held.layout, axes, extents)}), &element);")
    w.line(team.sync)
    w.line(unroll(layout.registers, held.dtype))
    with w.block(f"for (int i = 0; i < {layout.registers}; i++)"):
        w.line(f"read_shared<{size}>(&{made.name}[i], {at}({_row_major(layout, axes, extents)}));")
    return made


def _row_major(layout: Layout, axes: tuple[str, ...], extents: dict[str, int]) -> str:
    """C expression: number of the element that register `i` holds."""
    terms, place = [], 1
    for axis in reversed(axes):
        for part in coordinate(layout, axis, "i"):
            if part != "0":
                terms.append(f"({part}) * {place}" if place > 1 else part)
        place *= extents[axis]
    return " + ".join(terms) or "0"


def _first_replica(layout: Layout) -> str:
    """C condition of the threads that write, where several hold the same; "" where none do."""
    tests = []
    for source, variable in ((Source.LANE, "lane"), (Source.WARP, "warp_in_group")):
        place = 1
        for d in layout.of(source):
            if not d.axis and d.size > 1:
                tests.append(f"{variable} / {place} % {d.size} == 0")
            place *= d.size
    return " && ".join(tests)
