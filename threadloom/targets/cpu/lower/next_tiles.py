"""Fetching tensor data while something else is multiplied, as the plan's decisions `prefetch` say (ahead.py).

Packing reads tensors at the speed of the memory behind L2, which the micro-kernel leaves idle. So every call of it
fetches its share of what the next trip will pack, spread over its loop: of the rows operand, its own rows at the
panel's cache line; of the lanes operand, its own lanes at some positions of the summed axis. Only operands that are
packed inside the stream and lie contiguously in the direction they are packed in take part. Of rows read in place a
strip is fetched, the same way, and of panels that all cores share a panel.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.par.constants import const, int_value
from threadloom.par.ops import I64, Operand
from threadloom.par.result_types import size_bytes
from threadloom.targets.cpu.ahead import walks_of
from threadloom.targets.cpu.layout import LINE_BYTES
from threadloom.targets.cpu.lower.access import TensorAccess
from threadloom.targets.cpu.lower.context import Context, Point
from threadloom.targets.cpu.lower.evaluate import Evaluator
from threadloom.targets.cpu.lower.tiles import address
from threadloom.targets.cpu.plan import Home, Multiply
from threadloom.targets.cpu.schedule import Ahead
from threadloom.tile.ops import Load

MOST_LINES = 2  # that one fetch brings: lines come in aligned pairs


@dataclass(frozen=True, slots=True)
class Fetch:
    """Lines at pointer, pointer + stride, ... (bytes), one every 2**shift steps of the sum, into cache `level`."""

    pointer: Operand
    stride_bytes: Operand
    shift: int
    level: int


@dataclass(slots=True)
class NextTiles:
    c: Context
    evaluator: Evaluator
    step: Multiply

    def fetches(self, point: Point) -> list[Fetch]:
        """What the call at the register block `point` (its panel and strip) should fetch."""
        streams = self.c.streams
        walks = walks_of(self.step, self.c.plan, self.c.form, streams[-1] if streams else None)
        made: list[Fetch] = []
        for load, fetch in (
            (walks.tile_rows, self._rows),
            (walks.tile_lanes, self._lanes),
            (walks.strip, self._next_strip),
            (walks.panel, self._next_panel),
        ):
            ahead = self.c.schedule.ahead(load.tensor) if load is not None else None
            if load is not None and ahead is not None:
                made += fetch(load, point, ahead)
        return made

    def _next_panel(self, load: Load, point: Point, ahead: Ahead) -> list[Fetch]:
        """Each strip takes its share of the lines of a panel after this one, in a copy that all cores share."""
        home = self.step.lanes_operand
        if not isinstance(home, Home):
            return []
        c, b, layout = self.c, self.c.b, home.layout
        line = LINE_BYTES // size_bytes(layout.element)
        strips = max(1, -(-c.plan.sizes[self.step.row_axis] // self.step.row_block))
        each = -(-layout.panel_elems // (line * strips))
        strip = b.udiv(self._index(point, self.step.row_axis), self.step.row_block)
        following = b.gep(layout.element, address(c, home, point), ahead.distance * layout.panel_elems)
        first = b.gep(layout.element, following, b.mul(strip, each * line))
        return [Fetch(first, const(I64, LINE_BYTES), fetch_shift(c.plan.sizes[self.step.sum_axis], each), ahead.level)]

    def _next_strip(self, load: Load, point: Point, ahead: Ahead) -> list[Fetch]:
        """A block of rows after this one: all its lines where rows follow one another without gaps, or the line
        after this one at every position of the sum."""
        step, c = self.step, self.c
        access = TensorAccess(self.evaluator, load)
        stride, along = (access.axis_stride(axis, point.root) for axis in (step.row_axis, step.sum_axis))
        first = Point(point.ops, point, step.sum_axis, const(I64, 0))
        element_bytes = size_bytes(access.element)
        rows = ahead.distance * step.row_block
        following = c.b.gep(access.element, access.address(first), c.b.mul(stride, rows))
        positions, line = c.plan.sizes[step.sum_axis], LINE_BYTES // element_bytes
        if int_value(stride) == 1:
            return [Fetch(following, c.b.mul(along, element_bytes), 0, ahead.level)]
        lines = max(1, step.row_block * positions // line)
        return [Fetch(following, const(I64, LINE_BYTES), fetch_shift(positions, lines), ahead.level)]

    def _rows(self, load: Load, point: Point, ahead: Ahead) -> list[Fetch]:
        """Each panel takes its own line or two of every row."""
        access, b = TensorAccess(self.evaluator, load), self.c.b
        line = LINE_BYTES // size_bytes(access.element)
        width = self.step.vectors * self.c.target.lanes
        panels = max(1, -(-self.c.plan.sizes[self.step.axis] // width))
        lines = -(-self.c.plan.sizes[self.step.sum_axis] // line)
        each = max(1, -(-lines // panels))
        if each > MOST_LINES:
            return []
        panel = b.udiv(self._index(point, self.step.axis), width)
        first = b.gep(access.element, self._next(access, point, ahead), b.mul(panel, line * each))
        shift = fetch_shift(self.c.plan.sizes[self.step.sum_axis], self.step.row_block)
        stride = self._bytes(access, access.axis_stride(self.step.row_axis, point.root))
        return [Fetch(first, stride, shift, ahead.level)]

    def _lanes(self, load: Load, point: Point, ahead: Ahead) -> list[Fetch]:
        """Each strip takes the panel's lanes at its share of the summed positions."""
        access, b = TensorAccess(self.evaluator, load), self.c.b
        block = self.step.row_block
        strips = max(1, -(-self.c.plan.sizes[self.step.row_axis] // block))
        each = max(1, -(-self.c.plan.sizes[self.step.sum_axis] // strips))
        stride = access.axis_stride(self.step.sum_axis, point.root)
        strip = b.udiv(self._index(point, self.step.row_axis), block)
        first = b.gep(access.element, self._next(access, point, ahead), b.mul(stride, b.mul(strip, each)))
        shift = fetch_shift(self.c.plan.sizes[self.step.sum_axis], each)
        return [Fetch(first, self._bytes(access, stride), shift, ahead.level)]

    def _bytes(self, access: TensorAccess, elems: Operand) -> Operand:
        return self.c.b.mul(elems, size_bytes(access.element))

    def _next(self, access: TensorAccess, point: Point, ahead: Ahead) -> Operand:
        """The address at `point` so many tiles further along the stream, at the first position of the summed axis."""
        first = Point(point.ops, point, self.step.sum_axis, const(I64, 0))
        axis, b = self.c.streams[-1], self.c.b
        extent = ahead.distance * self.c.plan.sizes[axis]
        return b.gep(access.element, access.address(first), b.mul(access.axis_stride(axis, point.root), extent))

    def _index(self, point: Point, axis: str) -> Operand:
        found = point.of_axis(axis)
        return found.index if found is not None and found.index is not None else const(I64, 0)


def fetch_shift(positions: int, lines: int) -> int:
    """So that `positions` steps fetch at least `lines` lines."""
    return max(0, (positions // max(1, lines)).bit_length() - 1)
