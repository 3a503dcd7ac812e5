"""x86's matrix unit, AMX: tiles of 16 rows of 64 bytes, products of groups of narrow elements summed in 32 bits.

    C[16 x 16] f32 += A[16 rows x 32 bf16] B[16 pairs of rows x 16 columns]      one instruction, 16 cycles
    C[16 x 16] i32 += A[16 rows x 64 i8]   B[16 groups of four   x 16 columns]   likewise; u8 with u8

A lies in plain rows, the summed axis contiguous; B in groups: the elements (k, n), (k + 1, n) ... of a group lie in 32
bits, 16 or 32 columns a panel. Both are padded with zeros to whole tiles of the summed axis. A block of 2 x 2 result
tiles uses all eight tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.par.ops import I8, I16, I32, Int
from threadloom.targets.cpu.layout import LINE_BYTES, Layout

MATRIX_LANES = 16  # columns of a result tile, and rows
MATRIX_ROWS = 32  # rows of a block of two tiles
ROW_BYTES = 64  # of a tile


@dataclass(frozen=True, slots=True)
class Operands:
    """What one instruction multiplies: `group` elements fill 32 bits."""

    dtype: str
    element: Int  # as it is packed
    group: int
    instruction: str

    @property
    def depth(self) -> int:
        """Elements of a tile's row."""
        return MATRIX_LANES * self.group


OPERANDS = {
    made.dtype: made
    for made in (
        Operands("bf16", I16, 2, "tdpbf16ps"), Operands("i8", I8, 4, "tdpbssd"), Operands("u8", I8, 4, "tdpbuud"),
    )
}  # fmt: skip


def matrix_layout(unit: Operands, role: str, outer: str, width: int, summed: str, depth: int, panel: int) -> Layout:
    """The layout of an operand: "rows" (A), or "groups" (B), whose elements are groups along the summed axis."""
    padded = -(-depth // unit.depth) * unit.depth
    if role == "rows":
        line = LINE_BYTES * 8 // unit.element.bits
        row_elems = padded + (line if padded % (8 * line) == 0 else 0)
        return Layout((outer, summed), (-(-width // MATRIX_ROWS) * MATRIX_ROWS, padded), unit.element, row_elems)
    return Layout((summed, outer), (padded // unit.group, width), I32, panel, panel)
