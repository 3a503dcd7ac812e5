"""Register layouts: which element of a tile stands in which register of which thread.

A layout is a mixed-radix number system. Its digits take their value from the register index, the lane, the warp of the
warpgroup, or the warpgroup, and each digit moves along one axis of the tile by a stride. An element's coordinate along
an axis is the sum of value * stride over the axis' digits. Digits of thread sources that move along no axis mean that
the value is replicated there. Sizes need not be powers of two (wgmma has N = 176), which is why these are digits and
not bits.

Broadcasting and reducing along an axis is dropping that axis' digits: a row statistic of an accumulator has the
accumulator's layout without the column digits, so elementwise code on both needs no data movement.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from threadloom.errors import InternalError
from threadloom.targets.cuda.unsupported import no_code


class Source(StrEnum):
    REGISTER = "register"
    LANE = "lane"
    WARP = "warp"  # within a warpgroup
    GROUP = "group"  # the warpgroup (worker role)


@dataclass(frozen=True, slots=True)
class Digit:
    """`size` values from `source` (least significant digit first), moving `stride` along `axis` ("" none)."""

    source: Source
    size: int
    axis: str
    stride: int


@dataclass(frozen=True, slots=True)
class Layout:
    digits: tuple[Digit, ...]

    @property
    def registers(self) -> int:
        """Registers (elements) a thread holds."""
        count = 1
        for d in self.digits:
            if d.source is Source.REGISTER:
                count *= d.size
        return count

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d.axis for d in self.digits if d.axis))

    def extent(self, axis: str) -> int:
        """How many positions along `axis` the layout covers."""
        return 1 + sum((d.size - 1) * d.stride for d in self.digits if d.axis == axis)

    def of(self, source: Source) -> tuple[Digit, ...]:
        return tuple(d for d in self.digits if d.source is source)

    def without(self, axis: str) -> Layout:
        """The layout of a value that does not have `axis`: its register digits vanish, its thread digits replicate."""
        kept = []
        for d in self.digits:
            if d.axis != axis:
                kept.append(d)
            elif d.source is not Source.REGISTER:
                kept.append(Digit(d.source, d.size, "", 0))
        return Layout(tuple(kept))

    def keeping(self, axes: tuple[str, ...]) -> Layout:
        layout = self
        for axis in self.axes:
            if axis not in axes:
                layout = layout.without(axis)
        return layout

    def renamed(self, old: str, new: str) -> Layout:
        return Layout(tuple(Digit(d.source, d.size, new, d.stride) if d.axis == old else d for d in self.digits))

    def replicas(self, source: Source) -> int:
        """In how many lanes (or warps ...) the same element stands."""
        count = 1
        for d in self.of(source):
            if not d.axis:
                count *= d.size
        return count


def accumulator(m_axis: str, n_axis: str, m: int, n: int, above: tuple[str, int] = ("", 1)) -> Layout:
    """The f32 accumulator of wgmma m64nN (PTX ISA, wgmma register fragments), `m` / 64 of them below each other.

    m: rows of one warpgroup, a multiple of 64; n: columns, a multiple of 8; `above`: an axis and how many positions of
    it the rows have, one after the other, each with m / positions rows along `m_axis`: a multiple of 8.
    """
    if m % 64 or n % 8 or m % (8 * above[1]):
        raise InternalError(f"no accumulator layout for {m} x {n} of {above[1]} parts")

    def rows_of(source: Source, size: int, stride: int) -> list[Digit]:
        each = m // above[1]
        inner = max(1, min(size, each // stride))  # of the digit, within a position of `above`
        outer = Digit(source, size // inner, above[0], max(1, stride // each))
        return [Digit(source, inner, m_axis, stride)] * (inner > 1) + [outer] * (inner < size)

    digits = [
        Digit(Source.REGISTER, 2, n_axis, 1),
        *rows_of(Source.REGISTER, 2, 8),
        Digit(Source.REGISTER, n // 8, n_axis, 8),
    ]
    if m > 64:
        digits += rows_of(Source.REGISTER, m // 64, 64)
    digits += [
        Digit(Source.LANE, 4, n_axis, 2),
        Digit(Source.LANE, 8, m_axis, 1),
        *rows_of(Source.WARP, 4, 16),
    ]
    return Layout(tuple(digits))


def rows(
    row_axes: tuple[tuple[str, int], ...],
    column_axis: str,
    columns: int,
    vector: int,
    lanes_per_row: int,
    warps: int = 4,
    warps_per_row: int = 1,
    all_rows: bool = False,
) -> Layout:
    """A tile for code without matrix products: `lanes_per_row` neighbouring lanes of `warps_per_row` warps share a row
    of `columns` elements in pieces of `vector`; remaining lanes and warps take further rows, then registers do.

    row_axes: ((axis, extent), ...) slowest first; only the fastest is spread over threads, or as many as it takes
    (`all_rows`).
    """
    across = vector * lanes_per_row * warps_per_row
    per_lane = -(-columns // across)
    digits = [Digit(Source.REGISTER, vector, column_axis, 1)]
    if per_lane > 1:
        digits.append(Digit(Source.REGISTER, per_lane, column_axis, across))
    digits.append(Digit(Source.LANE, lanes_per_row, column_axis, vector))
    lanes_left, warps_left = 32 // lanes_per_row, warps // warps_per_row
    for axis, extent in reversed(row_axes):
        lane_rows = min(lanes_left, _power_of_two(extent))
        warp_rows = min(warps_left, _power_of_two(-(-extent // lane_rows)))
        spread = lane_rows * warp_rows
        if axis == row_axes[-1][0] or spread > 1:
            digits += [Digit(Source.LANE, lane_rows, axis, 1), Digit(Source.WARP, warp_rows, axis, lane_rows)]
        if extent > spread or axis != row_axes[-1][0]:
            digits.append(Digit(Source.REGISTER, -(-extent // spread), axis, spread))
        lanes_left, warps_left = (lanes_left // lane_rows, warps_left // warp_rows) if all_rows else (1, 1)
    digits.append(Digit(Source.WARP, warps_per_row, column_axis, vector * lanes_per_row))
    return _padded(Layout(tuple(d for d in digits if d.size > 1 or d.source is Source.REGISTER)), warps)


def _power_of_two(x: int) -> int:
    return 1 << max(0, x - 1).bit_length()


def _padded(layout: Layout, warps: int) -> Layout:
    """Add replicating digits so that lanes number 32 and warps `warps`."""
    digits = list(layout.digits)
    for source, total in ((Source.LANE, 32), (Source.WARP, warps)):
        used = 1
        for d in layout.of(source):
            used *= d.size
        if total % used:
            raise InternalError(f"{used} of {total} {source}s used")
        if used < total:
            digits.append(Digit(source, total // used, "", 0))
    return Layout(tuple(digits))


def uniform(warps: int = 4) -> Layout:
    """A scalar: every thread holds it."""
    return _padded(Layout(()), warps)


def agrees(layout: Layout, of: Layout, axes: tuple[str, ...]) -> bool:
    """Whether each thread holds in `of`, the layout of a value over `axes`, the elements that meet its own in
    `layout`."""
    return all(_moves(layout, source, axes) == _moves(of, source, axes) for source in Source)


def _moves(layout: Layout, source: Source, axes: tuple[str, ...]) -> list[tuple[int, int, str, int]]:
    """(place, size, axis, stride) of the digits along `axes`; registers are counted through, threads have numbers."""
    found: list[tuple[int, int, str, int]] = []
    place = 1
    for d in layout.of(source):
        if d.axis in axes and d.size > 1:
            if found and source is not Source.REGISTER:
                at, size, axis, stride = found[-1]
                if axis == d.axis and at * size == place and stride * size == d.stride:
                    found[-1] = (at, size * d.size, axis, stride)
                    place *= d.size
                    continue
            found.append((0 if source is Source.REGISTER else place, d.size, d.axis, d.stride))
        place *= d.size
    return found


def register_index(layout: Layout, of: Layout, index: str) -> str:
    """C expression: the register of `of` that holds what register `index` of `layout` is combined with.

    `of` must be `layout` without some axes (its register digits are a subsequence of `layout`'s).
    """
    if of.registers == 1:
        return "0"
    source, target = ([d for d in one.of(Source.REGISTER) if d.size > 1] for one in (layout, of))
    if source == target:
        return index
    terms, place, multiple = [], 1, 1
    for d in source:
        if target and d == target[0]:
            target.pop(0)
            term = index if place == 1 else f"{index} / {place}"
            term = f"({term}) % {d.size}" if place * d.size < layout.registers else f"({term})"
            terms.append(term if multiple == 1 else f"{term} * {multiple}")
            multiple *= d.size
        place *= d.size
    if target:
        raise no_code("elementwise code on two tiles", "products want them in different register layouts", None)
    return " + ".join(terms)


def coordinate(layout: Layout, axis: str, index: str) -> tuple[str, str]:
    """C expressions (thread part, register part) whose sum is the position along `axis` of register `index`."""
    variables = {Source.LANE: "lane", Source.WARP: "warp_in_group", Source.GROUP: "group", Source.REGISTER: index}
    parts: dict[bool, list[str]] = {True: [], False: []}
    for source, variable in variables.items():
        place, digits = 1, layout.of(source)
        total = 1
        for d in digits:
            total *= d.size
        for d in digits:
            if d.axis == axis and d.size > 1:
                term = variable if place == 1 else f"{variable} / {place}"
                term = f"({term}) % {d.size}" if place * d.size < total else f"({term})"
                parts[source is Source.REGISTER].append(term if d.stride == 1 else f"{term} * {d.stride}")
            place *= d.size
    return " + ".join(parts[False]) or "0", " + ".join(parts[True]) or "0"
