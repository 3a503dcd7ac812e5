"""Results on their way to global memory by bulk stores: packed registers -> boxes in shared memory -> tensor.

Each warp owns its 16 rows: it writes them as boxes of 64, 32 or 16 columns, and one of its lanes issues their stores,
so no barrier wider than a warp is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.errors import InternalError
from threadloom.targets.cuda.copy import TensorFacts, bulk_axes, order_of_dims, uniform_index
from threadloom.targets.cuda.driver import MapSpec
from threadloom.targets.cuda.layout import Layout
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.tile import ops as tile

BOX_ROWS = 16
WARPS = 4


@dataclass(frozen=True, slots=True)
class Staging:
    """`base`: C name of the address; rows and columns of one worker's part of the tile."""

    base: str
    row_axis: str
    column_axis: str
    rows: int
    columns: int

    @property
    def box_columns(self) -> int:
        found = next((w for w in (64, 32, 16) if self.columns % w == 0), 0)
        if not found:
            raise InternalError(f"{self.base}: {self.columns} columns have no boxes")
        return found

    @property
    def box_bytes(self) -> int:
        return BOX_ROWS * self.box_columns * 2

    @property
    def blocks(self) -> int:
        """64-row blocks below each other, and boxes beside each other, as (rows, columns)."""
        return self.rows // (BOX_ROWS * WARPS)

    def box(self, block: int, panel: int) -> str:
        """C expression of the address of this warp's box."""
        at = (block * (self.columns // self.box_columns) + panel) * WARPS * self.box_bytes
        return (
            f"{self.base} + {at} + warp_in_group * {self.box_bytes}"
            if at
            else f"{self.base} + warp_in_group * {self.box_bytes}"
        )


def staging_of(base: str, layout: Layout, row_axis: str, column_axis: str) -> Staging:
    return Staging(base, row_axis, column_axis, layout.extent(row_axis), layout.extent(column_axis))


def emit_stage(scope: Scope, staging: Staging, packed: Registers) -> None:
    """Write this warp's rows from packed registers."""
    per_block = staging.columns  # elements of a thread: columns / 2 pairs of 2 row halves
    for block in range(staging.blocks):
        for panel in range(staging.columns // staging.box_columns):
            at = (block * per_block + panel * staging.box_columns) // 4
            source = f"{packed.name} + {at}" if at else packed.name
            scope.writer.line(f"stage_box<{staging.box_columns}>({staging.box(block, panel)}, {source});")


def store_map(facts: TensorFacts, op: tile.Store, staging: Staging) -> MapSpec:
    axes = bulk_axes(op)
    box = {staging.row_axis: BOX_ROWS, staging.column_axis: staging.box_columns}
    dims = order_of_dims(facts)
    return MapSpec(
        facts.tensor.name,
        facts.tensor.dtype.name,
        dims,
        tuple(box.get(axes[d], 1) if axes[d] else 1 for d in dims),
        2 * staging.box_columns,
    )


def emit_bulk_store(scope: Scope, op: tile.Store, facts: TensorFacts, staging: Staging, map_name: str) -> None:
    """One lane of each warp issues the stores of the warp's boxes and commits them as one group."""
    w = scope.writer
    w.line("__syncwarp();")
    with w.block("if (lane == 0)"):
        for block in range(staging.blocks):
            for panel in range(staging.columns // staging.box_columns):
                row = f"{block * BOX_ROWS * WARPS} + warp_in_group * {BOX_ROWS}"
                shift = {staging.row_axis: row, staging.column_axis: str(panel * staging.box_columns)}
                coordinates = ", ".join(uniform_index(scope, op.subscripts[d], shift) for d in order_of_dims(facts))
                w.line(f"bulk_store(&{map_name}, {staging.box(block, panel)}, {coordinates});")
        w.line("store_commit();")
