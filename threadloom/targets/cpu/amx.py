"""x86's matrix unit, AMX: tiles of 16 rows of 64 bytes, products of pairs of bf16 summed in f32.

    C[16 x 16] f32 += A[16 rows x 32 bf16] B[16 pairs of rows x 16 columns]      one instruction, 16 cycles

A lies in plain rows, the summed axis contiguous; B in pairs: element (k, n) beside element (k + 1, n), 16 or 32
columns a panel. Both are padded with zeros to whole tiles of the summed axis. A block of 2 x 2 result tiles uses all
eight tiles.
"""

from __future__ import annotations

from threadloom.par.ops import I16, I32
from threadloom.targets.cpu.layout import Layout

MATRIX_LANES = 16  # columns of a result tile, and rows
MATRIX_ROWS = 32  # rows of a block of two tiles
DEPTH = 32  # bf16 elements of a tile's row
LINE_ELEMS = 32  # bf16 elements of a cache line


def matrix_layout(role: str, outer: str, width: int, summed: str, depth: int, panel: int) -> Layout:
    """The layout of an operand: "rows" (A) of bf16, or "pairs" (B), whose elements are pairs along the summed axis."""
    padded = -(-depth // DEPTH) * DEPTH
    if role == "rows":
        row_elems = padded + (LINE_ELEMS if padded % (8 * LINE_ELEMS) == 0 else 0)
        return Layout((outer, summed), (-(-width // MATRIX_ROWS) * MATRIX_ROWS, padded), I16, row_elems)
    return Layout((summed, outer), (padded // 2, width), I32, panel, panel)
