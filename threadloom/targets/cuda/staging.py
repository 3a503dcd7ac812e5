"""Results on their way to global memory by bulk stores: packed registers -> boxes in shared memory -> tensor.

Each warp owns its 16 rows: it writes them as boxes of 64, 32 or 16 columns, and one of its lanes issues their stores,
so no barrier wider than a warp is needed. Where the product's rows are the tensor's columns (`across`), a warp owns 16
columns, and its boxes have 64, 32 or 16 rows. Rows may be of two axes: those of one position of the axis above lie
below those of the position before, and where these are but 8, a box has 8 of two positions.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from threadloom.errors import InternalError
from threadloom.targets.cuda.copy import TensorFacts, bulk_axes, order_of_dims, uniform_index
from threadloom.targets.cuda.driver import MapSpec
from threadloom.targets.cuda.layout import Layout, accumulator
from threadloom.targets.cuda.other_axes import with_others
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.tile import ops as tile

BOX_ROWS = 16
WARPS = 4


@dataclass(frozen=True, slots=True)
class Staging:
    """`base`: C name of the address; `rows` and `columns` of the product, of one worker's part of the tile. `row_axis`,
    `column_axis`: of the product; the tensor's rows run along the latter or, `across`, along the former. `above`: a
    further axis of the tile ("": none), each position of which has `each` of the rows."""

    base: str
    row_axis: str
    column_axis: str
    rows: int
    columns: int
    bytes: int  # of shared memory that the worker has for it
    across: bool = False
    above: str = ""
    each: int = 0

    @property
    def box(self) -> dict[str, int]:
        """Positions of a box along the tile's axes."""
        found = {self.row_axis: BOX_ROWS, self.column_axis: self.box_columns}
        if self.above and self.each < BOX_ROWS:
            found |= {self.row_axis: self.each, self.above: BOX_ROWS // self.each}
        return found

    def moved(self, block: int, panel: int) -> dict[str, str]:
        """Axis -> C expression of the first position of this warp's box in the worker's part."""
        row, columns = block * BOX_ROWS * WARPS, str(panel * self.box_columns)
        if not self.above:
            return {self.row_axis: f"{row} + warp_in_group * {BOX_ROWS}", self.column_axis: columns}
        if self.each % (BOX_ROWS * WARPS) == 0:  # all warps at one position
            at, above = f"{row % self.each} + warp_in_group * {BOX_ROWS}", str(row // self.each)
        elif self.each > BOX_ROWS:
            warps = self.each // BOX_ROWS
            at, above = f"warp_in_group % {warps} * {BOX_ROWS}", f"{row // self.each} + warp_in_group / {warps}"
        else:
            at, above = "0", f"{row // self.each} + warp_in_group * {BOX_ROWS // self.each}"
        return {self.row_axis: at, self.above: above, self.column_axis: columns}

    @property
    def box_columns(self) -> int:
        """Columns of the product in a box."""
        found = next((w for w in (64, 32, 16) if self.columns % w == 0), 0)
        if not found:
            raise InternalError(f"{self.base}: {self.columns} columns have no boxes")
        return found

    @property
    def line_bytes(self) -> int:
        """Bytes of a box that are neighbours in the tensor."""
        return 2 * (BOX_ROWS if self.across else self.box_columns)

    @property
    def box_bytes(self) -> int:
        return BOX_ROWS * self.box_columns * 2

    @property
    def blocks(self) -> int:
        """64-row blocks below each other."""
        return self.rows // (BOX_ROWS * WARPS)

    @property
    def boxes(self) -> list[tuple[int, int]]:
        """(block, panel) of a warp's boxes."""
        return [(block, panel) for block in range(self.blocks) for panel in range(self.columns // self.box_columns)]

    def stage(self, packed: str, block: int, panel: int) -> str:
        """C statement that writes a box."""
        name = "stage_box_across" if self.across else "stage_box"
        return f"{name}<{self.box_columns}>({self.address(block, panel)}, {self.source(packed, block, panel)});"

    @property
    def room(self) -> int:
        """How many of a warp's boxes the shared memory holds at once."""
        found = self.bytes // (WARPS * self.box_bytes)
        if not found:
            raise InternalError(f"{self.base}: {self.bytes} bytes hold no box of each warp")
        return found

    @property
    def in_pieces(self) -> bool:
        return self.room < len(self.boxes)

    def source(self, packed: str, block: int, panel: int) -> str:
        """C expression of the first packed register of a box."""
        at = (block * self.columns + panel * self.box_columns) // 4  # a thread has columns / 2 pairs of 2 row halves
        return f"{packed} + {at}" if at else packed

    def address(self, block: int, panel: int) -> str:
        """C expression of the address of this warp's box."""
        at = self.boxes.index((block, panel)) % self.room * WARPS * self.box_bytes
        return (
            f"{self.base} + {at} + warp_in_group * {self.box_bytes}"
            if at
            else f"{self.base} + warp_in_group * {self.box_bytes}"
        )


def staging_of(base: str, layout: Layout, outer: tuple[str, ...], inner: str, bytes_: int) -> Staging | None:
    """How a tile of that layout leaves for a tensor whose rows run along `inner`; None where it is no product's.
    `outer`: the tile's other axes in the tensor's order, one or two."""
    others = [(outer[0], "")] if len(outer) == 1 else [outer[::-1], outer]
    for (axis, above), across in itertools.product(others, (False, True)):
        row, column = (inner, axis) if across else (axis, inner)
        each, n, count = layout.extent(row), layout.extent(column), layout.extent(above) if above else 1
        m = each * count
        if m % (BOX_ROWS * WARPS) or n % 8 or (across and above) or each % 8:
            continue
        forms = [accumulator(row, column, m, n, (above, count) if above else ("", 1))]
        if above and each % (BOX_ROWS * WARPS) == 0:  # a product for each position
            forms.append(with_others(accumulator(row, column, each, n), ((above, count),)))
        if layout in forms and (each >= BOX_ROWS or outer[-1] == row):
            return Staging(base, row, column, m, n, bytes_, across, above, each)
    return None


def emit_stage(scope: Scope, staging: Staging, packed: Registers) -> None:
    """Write this warp's rows from packed registers; nothing where they go in pieces (they do so with the stores)."""
    for block, panel in () if staging.in_pieces else staging.boxes:
        scope.writer.line(staging.stage(packed.name, block, panel))


def store_map(facts: TensorFacts, op: tile.Store, staging: Staging) -> MapSpec:
    axes = bulk_axes(op)
    box, dims = staging.box, order_of_dims(facts)
    return MapSpec(
        facts.tensor.name,
        facts.tensor.dtype.name,
        dims,
        tuple(box.get(axes[d], 1) if axes[d] else 1 for d in dims),
        staging.line_bytes,
    )


def emit_bulk_store(
    scope: Scope, op: tile.Store, facts: TensorFacts, staging: Staging, map_name: str, packed: Registers
) -> None:
    """One lane of each warp issues the stores of the warp's boxes: all at once, or each when its box has room."""
    w = scope.writer

    def store(block: int, panel: int) -> str:
        shift = staging.moved(block, panel)
        coordinates = ", ".join(uniform_index(scope, op.subscripts[d], shift) for d in order_of_dims(facts))
        return f"bulk_store(&{map_name}, {staging.address(block, panel)}, {coordinates});"

    if not staging.in_pieces:
        w.line("__syncwarp();")
        with w.block("if (lane == 0)"):
            for block, panel in staging.boxes:
                w.line(store(block, panel))
            w.line("store_commit();")
        return
    for number, (block, panel) in enumerate(staging.boxes):
        if number >= staging.room:
            w.line(f"if (lane == 0) store_wait_read<{staging.room - 1}>();  // the box's last content has left")
            w.line("__syncwarp();")
        w.line(staging.stage(packed.name, block, panel))
        w.line("fence_to_async();")
        w.line("__syncwarp();")
        with w.block("if (lane == 0)"):
            w.line(store(block, panel))
            w.line("store_commit();")
