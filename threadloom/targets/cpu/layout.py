"""How a tile lies in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from threadloom.dtypes import Dtype
from threadloom.errors import InternalError
from threadloom.par.ops import F32, F64, I8, I32, I64, Type
from threadloom.par.result_types import size_bytes

LINE_BYTES = 64


def kept_type(dtype: Dtype) -> Type:
    """The type in which tiles of `dtype` are kept on chip: narrow floats are widened once, when they are loaded."""
    if dtype.is_float:
        return F64 if dtype.name == "f64" else F32
    return {64: I64, 32: I32}.get(dtype.bits, I8)


@dataclass(frozen=True, slots=True)
class Layout:
    """`axes`, outermost first, with `sizes`; the last is contiguous. With `panel` > 0 the last axis is cut into panels
    of so many elements, and each panel holds all positions of the other axes:

        panel 0: [axes[:-1]][last / panel][panel]  ->  element (k, n) at (n / panel) * K * panel + k * panel + n % panel
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    element: Type
    row_elems: int  # elements from one row to the next: the last size, padded; the panel's width where there are panels
    panel: int = 0

    @property
    def last(self) -> str | None:
        return self.axes[-1] if self.axes else None

    def stride(self, axis: str) -> int:
        """Elements from one index of `axis` (not a panelled last one) to the next."""
        at = self.axes.index(axis)
        if at == len(self.axes) - 1:
            return 1
        return math.prod(self.sizes[at + 1 : -1]) * self.row_elems

    @property
    def panel_elems(self) -> int:
        """Elements from one panel to the next; two lines more where panels would all start in the same cache sets.
        Panels of no whole lines end with two more: whole vectors are stored at their last row."""
        plain = math.prod(self.sizes[:-1]) * self.row_elems
        line = LINE_BYTES // size_bytes(self.element)
        if self.panel % line:
            plain = -(-plain // line) * line + 2 * line
        return plain + 2 * line if self.panel and plain % (8 * line) == 0 else plain

    @property
    def panels(self) -> int:
        return -(-self.sizes[-1] // self.panel) if self.panel else 1

    @property
    def elems(self) -> int:
        return self.panels * self.panel_elems if self.axes else 1

    @property
    def bytes(self) -> int:
        return self.elems * size_bytes(self.element)


def rows(axes: tuple[str, ...], sizes: tuple[int, ...], element: Type, vector_elems: int) -> Layout:
    """Plain rows, padded to whole vectors, and to an odd number of cache lines so that columns do not share sets."""
    if len(axes) != len(sizes):
        raise InternalError(f"{len(axes)} axes with {len(sizes)} sizes")
    if not axes:
        return Layout((), (), element, 1)
    padded = -(-max(1, sizes[-1]) // vector_elems) * vector_elems
    line = LINE_BYTES // size_bytes(element)
    if len(axes) > 1 and padded >= 8 * line and (padded // line) % 2 == 0:
        padded += line
    return Layout(axes, sizes, element, padded)


def panels(axes: tuple[str, ...], sizes: tuple[int, ...], element: Type, panel: int) -> Layout:
    return Layout(axes, sizes, element, panel, panel)
