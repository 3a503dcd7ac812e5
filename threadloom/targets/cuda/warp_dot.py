"""Products of few columns by warps (mma.sync): rows in registers, columns in shared memory along the depth.

    wgmma m64n16: rows in registers        ->        in each warp: ldmatrix of the columns; mma.sync m16n8, twice

wgmma brings in the rows of registers as slowly for 16 columns as for 64, and what makes the next rows has to wait for
it; a warp's own product is done when its results are read. Rows and results lie in the same registers both ways, so
layouts and plans stay as they are, and waits for groups are not written (`DotPlan.in_flight`).
Measured on an H200: 4-bit weights and one row took 30.5 us with wgmma, 19.7 us with no product at all.
Handled: 16-bit operands and one product (no other axes), whose columns the workers do not share.
"""

from __future__ import annotations

from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.shared import SharedTile
from threadloom.tile.ops import Value

MOST_COLUMNS = 32
DEPTH = 16  # of one instruction


def by_warps(row: Value, column: Value, columns: int, along_depth: bool) -> bool:
    """Whether warps do a product whose rows are in registers; `along_depth`: the column operand lies along it."""
    dtype = row.type.dtype
    return columns <= MOST_COLUMNS and along_depth and dtype == column.type.dtype and dtype.name in ("f16", "bf16")


def emit_warp_dot(
    scope: Scope, size: tuple[int, int, int], row: Registers, column: SharedTile, result: Registers, slot: str,
    adds: bool,
) -> None:  # fmt: skip
    """result (+)= row * column, of `size` (rows, columns, depth) of one worker; `slot`: C expression of the column
    operand's."""
    w, (m, n, k) = scope.writer, size
    if not adds:
        w.line("#pragma unroll")
        w.line(f"for (int i = 0; i < {m * n // 128}; i++) {result.name}[i] = 0;")
    tile = f"{column.base} + {slot} * {column.bytes_per_slot}" if column.slots > 1 else column.base
    panel, steps = f"k / {column.panel_columns // DEPTH} * {column.panel_bytes}", column.panel_columns // DEPTH
    at = f"{tile} + {panel}" if column.panels > 1 else tile
    w.line("#pragma unroll")
    with w.block(f"for (int k = 0; k < {k // DEPTH}; k++)"):
        w.line(f"u32 columns[{n // 4}];")
        w.line(f"load_columns<{n}>(columns, {at}, k % {steps});")
        for block in range(m // 64):
            to = f"{result.name} + {block * n // 2}" if block else result.name
            a = f"{row.name} + {block * k // 4} + 4 * k" if block else f"{row.name} + 4 * k"
            w.line(f"mma_warp_{row.dtype.name}<{n}>({to}, {a}, columns);")
