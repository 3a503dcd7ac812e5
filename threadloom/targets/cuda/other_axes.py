"""Products over more than rows, columns and depth: one product for each position along the other axes.

    acc[b, m, n] += dot(x[b, m, j, k], y[b, n, j, k])        for b: for j: acc_b[m, n] += x_bj[m, k] * y_bj[n, k]

In registers the positions' parts lie one after the other; in shared memory a part is some whole rows of the tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from threadloom.targets.cuda.layout import Digit, Layout, Source
from threadloom.targets.cuda.registers import Scope
from threadloom.targets.cuda.shared import SharedTile
from threadloom.tile.ops import Value

Others = tuple[tuple[str, int], ...]  # (axis, extent of one worker's part)


def for_each_other(layout: Layout, others: Others, value: Value) -> Layout:
    """`layout`, of one position, for all positions along the axes of `others` that `value` has, the last fastest."""
    return with_others(layout, tuple((axis, extent) for axis, extent in others if axis in value.type.axes))


def with_others(layout: Layout, others: Others) -> Layout:
    """`layout`, of one position, for all positions along the axes of `others`."""
    mine = [(axis, extent) for axis, extent in others if extent > 1]
    return Layout(layout.digits + tuple(Digit(Source.REGISTER, extent, axis, 1) for axis, extent in reversed(mine)))


def register_offset(layout: Layout, others: Others, value: Value, at: dict[str, str]) -> str:
    """C expression of the first register of the part of `value` at `at` (axis -> position), "" for the first part;
    `layout`: of one part."""
    terms, place = [], layout.registers
    for axis, extent in reversed(others):
        if axis in value.type.axes and extent > 1:
            terms.append(f"{at[axis]} * {place}")
            place *= extent
    return " + ".join(terms)


@contextmanager
def each_other(scope: Scope, others: Others, pragma: str = "#pragma unroll") -> Iterator[dict[str, str]]:
    """Loops over all positions, `pragma` before each; axis -> C expression of the position in the worker's part."""
    with ExitStack() as loops:
        at = {}
        for axis, extent in others:
            at[axis] = "0"
            if extent > 1:
                at[axis] = scope.fresh(f"at_{axis}")
                scope.writer.line(pragma)
                head = f"for (int {at[axis]} = 0; {at[axis]} < {extent}; {at[axis]}++)"
                loops.enter_context(scope.writer.block(head))
        yield at


def in_tile(scope: Scope, at: dict[str, str]) -> dict[str, str]:
    """Positions in the EU's tile for those in the worker's part."""
    offsets = {axis: scope.places[axis].offset if axis in scope.places else "0" for axis in at}
    return {axis: x if offsets[axis] == "0" else f"({offsets[axis]} + {x})" for axis, x in at.items()}


def slice_rows(shared: SharedTile, at: dict[str, str]) -> str:
    """C expression of the first row of the tile's part at `at`; "" for the first part."""
    terms, place = [], 1
    for axis, extent in reversed(shared.row_axes):
        if at.get(axis, "0") != "0":
            terms.append(f"{at[axis]} * {place}" if place > 1 else at[axis])
        place *= extent
    return " + ".join(terms)
