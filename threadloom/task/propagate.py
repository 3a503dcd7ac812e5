"""Propagate (PipeThreader, section 4): from the extents of output and stream tiles to the shape of every value.

With named axes the backward walk over the graph is a lookup: a value's shape is the tile extent of each of its axes;
what the paper infers along reads is settled by which axes a load's subscripts name. A WHOLE axis has its dimension's
extent.
"""

from __future__ import annotations

from collections.abc import Mapping

from threadloom.errors import CompileError, slug
from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import AxisKind, Dim
from threadloom.tile.uses import operands, results

NO_EXTENT = slug("no-tile-extent", "tile sizes or dimensions are missing that a kernel's axes need")


def axis_extents(graph: TaskGraph, tile_extents: Mapping[str, int], dims: Mapping[str, int]) -> dict[str, int]:
    """The extent of one tile along each axis: given for TILE axes, the dimension for WHOLE ones, 1 for EACH."""
    extents: dict[str, int] = {}
    missing: list[str] = []
    for axis in graph.kernel.axes:
        match axis.kind:
            case AxisKind.EACH:
                extents[axis.name] = 1
            case AxisKind.TILE if axis.name in tile_extents:
                extents[axis.name] = tile_extents[axis.name]
            case AxisKind.WHOLE if isinstance(axis.dim, int) or axis.dim in dims:
                extents[axis.name] = _extent(axis.dim, dims)
            case _:
                missing.append(axis.name if axis.kind is AxisKind.TILE else str(axis.dim))
    if missing:
        raise CompileError(
            NO_EXTENT, f"kernel {graph.kernel.name}: no extent is given for {', '.join(missing)}", try_="give each one"
        )
    return extents


def _extent(dim: Dim, dims: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else dims[dim]


def propagate(graph: TaskGraph, tile_extents: Mapping[str, int], dims: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shape of every value of the graph."""
    extents = axis_extents(graph, tile_extents, dims)
    values = {v.name: v for t in graph.tasks for op in t.ops for v in (*operands(op), *results(op))}
    values |= {v.name: v for loop in graph.loops for c in loop.carried for v in c}
    return {name: tuple(extents[a] for a in value.type.axes) for name, value in values.items()}
