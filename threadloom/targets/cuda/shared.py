"""Tiles in shared memory: the swizzled form that bulk copies write and wgmma reads (see headers/sm90.cuh).

A tile has rows (one or several axes, the last fastest) and one contiguous axis. Rows of 128 bytes make a panel; a
longer contiguous axis takes several panels, each `rows` * 128 bytes, one after the other. A tile that no product reads
is not swizzled and its panels are up to 256 elements wide (the largest box side); each begins where a box may. Of rows
of 64 bytes the four 16-byte chunks may be permuted too, by pairs of rows (`short_lines`).
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.dtypes import Dtype

ROW_BYTES = 128
SHORT_BYTES = 64
ATOM_ROWS = 8  # the swizzle repeats every 8 rows: 1024 bytes
BOX_ALIGN_BYTES = 128  # where the copy engine may put a box


@dataclass(frozen=True, slots=True)
class SharedTile:
    """`base`: C name of the address of slot 0. Extents in elements, already padded to whole panels and atoms."""

    base: str
    dtype: Dtype
    row_axes: tuple[tuple[str, int], ...]
    column_axis: str
    columns: int
    slots: int
    swizzled: bool = True
    short_lines: bool = False  # not swizzled over 128 bytes, but over the 64 of each row

    @property
    def swizzle_bytes(self) -> int:
        return ROW_BYTES if self.swizzled else SHORT_BYTES if self.short_lines else 0

    @property
    def true_rows(self) -> int:
        count = 1
        for _, extent in self.row_axes:
            count *= extent
        return count

    @property
    def rows(self) -> int:
        """Rows of a panel, whole swizzle atoms."""
        return -(-self.true_rows // ATOM_ROWS) * ATOM_ROWS if self.swizzled else self.true_rows

    @property
    def panel_columns(self) -> int:
        return ROW_BYTES * 8 // self.dtype.bits if self.swizzled else min(256, self.columns)

    @property
    def row_bytes(self) -> int:
        return self.panel_columns * self.dtype.bits // 8

    @property
    def box_bytes(self) -> int:
        """Bytes that the boxes of one tile bring."""
        return self.panels * self.true_rows * self.row_bytes

    @property
    def panels(self) -> int:
        return -(-self.columns // self.panel_columns)

    @property
    def panel_bytes(self) -> int:
        return -(-self.rows * self.row_bytes // BOX_ALIGN_BYTES) * BOX_ALIGN_BYTES

    @property
    def bytes_per_slot(self) -> int:
        return self.panels * self.panel_bytes
