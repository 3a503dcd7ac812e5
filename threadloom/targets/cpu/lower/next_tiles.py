"""Fetching tensor data while something else is multiplied: a stream's next tiles into L2, the next strip into L1.

Packing reads tensors at the speed of the memory behind L2, which the micro-kernel leaves idle. So every call of it
fetches its share of what the next trip will pack, spread over its loop: of the rows operand, its own rows at the
panel's cache line; of the lanes operand, its own lanes at some positions of the summed axis. Only operands that are
packed inside the stream and lie contiguously in the direction they are packed in take part. Of rows read in place the
next strip is fetched, the same way, and of panels that all cores share the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.par.constants import const, int_value
from threadloom.par.ops import I64, Operand
from threadloom.par.result_types import size_bytes
from threadloom.targets.cpu.choose import unit_axis
from threadloom.targets.cpu.layout import LINE_BYTES
from threadloom.targets.cpu.lower.access import TensorAccess
from threadloom.targets.cpu.lower.context import Context, Point
from threadloom.targets.cpu.lower.evaluate import Evaluator
from threadloom.targets.cpu.lower.tiles import address
from threadloom.targets.cpu.plan import Home, InPlace, Multiply
from threadloom.tile.ops import Load, Value

MOST_LINES = 2  # that one fetch brings: lines come in aligned pairs


@dataclass(frozen=True, slots=True)
class Fetch:
    """Lines at pointer, pointer + stride, ... (bytes), one every 2**shift steps of the sum, into cache `level`."""

    pointer: Operand
    stride_bytes: Operand
    shift: int
    level: int = 2


@dataclass(slots=True)
class NextTiles:
    c: Context
    evaluator: Evaluator
    step: Multiply

    def fetches(self, point: Point) -> list[Fetch]:
        """What the call at the register block `point` (its panel and strip) should fetch."""
        step, made = self.step, []
        along = self._packed_load(step.rows_value, step.rows_operand)
        if along is not None and unit_axis(self.c.form, along.tensor, along.subscripts) == step.sum_axis:
            made += self._rows(along, point)
        across = self._packed_load(step.lanes_value, step.lanes_operand)
        if across is not None and unit_axis(self.c.form, across.tensor, across.subscripts) == step.axis:
            made += self._lanes(across, point)
        if isinstance(step.rows_operand, InPlace):
            made += self._next_strip(step.rows_operand.load, point)
        if isinstance(step.lanes_operand, Home) and step.lanes_operand.buffer in self.c.copies:
            made.append(self._next_panel(step.lanes_operand, point))
        return made

    def _next_panel(self, home: Home, point: Point) -> Fetch:
        """Each strip takes its share of the lines of the panel after this one, in a copy that all cores share."""
        c, b, layout = self.c, self.c.b, home.layout
        line = LINE_BYTES // size_bytes(layout.element)
        strips = max(1, -(-c.plan.sizes[self.step.row_axis] // self.step.row_block))
        each = -(-layout.panel_elems // (line * strips))
        strip = b.udiv(self._index(point, self.step.row_axis), self.step.row_block)
        following = b.gep(layout.element, address(c, home, point), layout.panel_elems)
        first = b.gep(layout.element, following, b.mul(strip, each * line))
        return Fetch(first, const(I64, LINE_BYTES), fetch_shift(c.plan.sizes[self.step.sum_axis], each))

    def _next_strip(self, load: Load, point: Point) -> list[Fetch]:
        """The block of rows after this one: all its lines where rows follow one another without gaps, or the line
        after this one at every position of the sum."""
        step, c = self.step, self.c
        access = TensorAccess(self.evaluator, load)
        stride, along = (access.axis_stride(axis, point.root) for axis in (step.row_axis, step.sum_axis))
        first = Point(point.ops, point, step.sum_axis, const(I64, 0))
        element_bytes = size_bytes(access.element)
        following = c.b.gep(access.element, access.address(first), c.b.mul(stride, step.row_block))
        positions, line = c.plan.sizes[step.sum_axis], LINE_BYTES // element_bytes
        if int_value(stride) == 1:
            return [Fetch(following, c.b.mul(along, element_bytes), 0, 1)]
        if int_value(along) == 1 and int_value(stride) == positions and positions >= line:
            lines = max(1, step.row_block * positions // line)
            return [Fetch(following, const(I64, LINE_BYTES), fetch_shift(positions, lines), 1)]
        return []

    def _packed_load(self, value: Value, source: Home | InPlace) -> Load | None:
        """The load behind an operand that every trip of the innermost stream packs anew."""
        if not isinstance(source, Home) or source.buffer in self.c.copies:
            return None
        if not self.c.streams or value.name not in self.c.plan.inline:
            return None
        op = self.c.plan.definitions[value.name]
        axis = self.c.streams[-1]
        return op if isinstance(op, Load) and axis in op.result.type.axes else None

    def _rows(self, load: Load, point: Point) -> list[Fetch]:
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
        first = b.gep(access.element, self._next(access, point), b.mul(panel, line * each))
        shift = fetch_shift(self.c.plan.sizes[self.step.sum_axis], self.step.row_block)
        return [Fetch(first, self._bytes(access, access.axis_stride(self.step.row_axis, point.root)), shift)]

    def _lanes(self, load: Load, point: Point) -> list[Fetch]:
        """Each strip takes the panel's lanes at its share of the summed positions."""
        access, b = TensorAccess(self.evaluator, load), self.c.b
        block = self.step.row_block
        strips = max(1, -(-self.c.plan.sizes[self.step.row_axis] // block))
        each = max(1, -(-self.c.plan.sizes[self.step.sum_axis] // strips))
        stride = access.axis_stride(self.step.sum_axis, point.root)
        strip = b.udiv(self._index(point, self.step.row_axis), block)
        first = b.gep(access.element, self._next(access, point), b.mul(stride, b.mul(strip, each)))
        return [Fetch(first, self._bytes(access, stride), fetch_shift(self.c.plan.sizes[self.step.sum_axis], each))]

    def _bytes(self, access: TensorAccess, elems: Operand) -> Operand:
        return self.c.b.mul(elems, size_bytes(access.element))

    def _next(self, access: TensorAccess, point: Point) -> Operand:
        """The address at `point` one tile further along the stream, at the first position of the summed axis."""
        first = Point(point.ops, point, self.step.sum_axis, const(I64, 0))
        axis, b = self.c.streams[-1], self.c.b
        extent = self.c.plan.sizes[axis]
        return b.gep(access.element, access.address(first), b.mul(access.axis_stride(axis, point.root), extent))

    def _index(self, point: Point, axis: str) -> Operand:
        found = point.of_axis(axis)
        return found.index if found is not None and found.index is not None else const(I64, 0)


def fetch_shift(positions: int, lines: int) -> int:
    """So that `positions` steps fetch at least `lines` lines."""
    return max(0, (positions // max(1, lines)).bit_length() - 1)
