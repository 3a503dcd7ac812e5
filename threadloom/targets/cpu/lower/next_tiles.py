"""Fetching the tensor data of a stream's next tiles into L2 while this one is multiplied.

Packing reads tensors at the speed of the memory behind L2, which the micro-kernel leaves idle. So every call of it
fetches its share of what the next trip will pack, spread over its loop: of the rows operand, its own rows at the
panel's cache line; of the lanes operand, its own lanes at some positions of the summed axis. Only operands that are
packed inside the stream and lie contiguously in the direction they are packed in take part.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.par.constants import const
from threadloom.par.ops import I64, Operand
from threadloom.par.result_types import size_bytes
from threadloom.targets.cpu.choose import unit_axis
from threadloom.targets.cpu.layout import LINE_BYTES
from threadloom.targets.cpu.lower.access import TensorAccess
from threadloom.targets.cpu.lower.context import Context, Point
from threadloom.targets.cpu.lower.evaluate import Evaluator
from threadloom.targets.cpu.plan import Home, InPlace, Multiply
from threadloom.tile.ops import Load, Value

MOST_LINES = 2  # that one fetch brings: lines come in aligned pairs


@dataclass(frozen=True, slots=True)
class Fetch:
    """Lines at pointer, pointer + stride, ... (bytes)."""

    pointer: Operand
    stride_bytes: Operand


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
        return made

    def _packed_load(self, value: Value, source: Home | InPlace) -> Load | None:
        """The load behind an operand that every trip of the innermost stream packs anew."""
        if not isinstance(source, Home) or not self.c.streams or value.name not in self.c.plan.inline:
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
        return [Fetch(first, self._bytes(access, access.axis_stride(self.step.row_axis, point.root)))]

    def _lanes(self, load: Load, point: Point) -> list[Fetch]:
        """Each strip takes the panel's lanes at its share of the summed positions."""
        access, b = TensorAccess(self.evaluator, load), self.c.b
        block = self.step.row_block
        strips = max(1, -(-self.c.plan.sizes[self.step.row_axis] // block))
        each = max(1, -(-self.c.plan.sizes[self.step.sum_axis] // strips))
        stride = access.axis_stride(self.step.sum_axis, point.root)
        strip = b.udiv(self._index(point, self.step.row_axis), block)
        first = b.gep(access.element, self._next(access, point), b.mul(stride, b.mul(strip, each)))
        return [Fetch(first, self._bytes(access, stride))]

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
