"""Prefix sums, products and extrema along an axis.

Along the vector axis a block of lanes is scanned in log2 steps and takes the carry of the blocks before it; along any
other axis each lane carries its own prefix. From the end, blocks and lanes are visited in reverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadloom.par.constants import const
from threadloom.par.ops import I64, Operand
from threadloom.targets.cpu.lower.context import Point
from threadloom.targets.cpu.lower.elementwise import converted, materialized
from threadloom.targets.cpu.lower.evaluate import widest
from threadloom.targets.cpu.lower.reduce import Reduction, identity
from threadloom.targets.cpu.lower.vectors import first_lanes
from threadloom.tile.ops import Scan

if TYPE_CHECKING:
    from threadloom.targets.cpu.lower.nest import NestEmitter


def emit_scan(nest: NestEmitter, op: Scan, points: list[Point]) -> None:
    for point in points:
        if op.axis == nest.axis:
            _along_lanes(nest, op, point)
        else:
            _along_loop(nest, op, point)


def _operand(nest: NestEmitter, op: Scan, point: Point) -> Operand:
    b = nest.c.b
    value = materialized(b, nest.evaluator.value(op.arg, point))
    if point.vector is not None:
        value = widest(b, value, point.vector.lanes)
    return materialized(b, converted(b, value, op.arg.type.dtype, op.result.type.dtype))


def _along_loop(nest: NestEmitter, op: Scan, point: Point) -> None:
    c, b = nest.c, nest.c.b
    reduction = Reduction(op.fn, op.result.type.dtype)
    lanes = nest.lanes if point.vector is not None else 1
    length = c.ranges[op.axis].length
    with b.loop(const(I64, 0), length, 1, inits=reduction.start(lanes), names=["prefix"], iv=op.axis) as loop:
        index = b.sub(b.sub(length, 1), loop.iv) if op.reverse else loop.iv
        here = Point(b.ops, point, op.axis, index)
        total = reduction.combine(b)(loop.args[0], _operand(nest, op, here))
        nest.define(op.result, total, here)
        loop.yield_(total)


def _along_lanes(nest: NestEmitter, op: Scan, point: Point) -> None:
    c, b, lanes = nest.c, nest.c.b, nest.lanes
    reduction = Reduction(op.fn, op.result.type.dtype)
    length = c.ranges[op.axis].length
    blocks = b.udiv(b.add(length, lanes - 1), lanes)
    with b.loop(const(I64, 0), blocks, 1, inits=reduction.start(1), names=["carry"], iv=f"{op.axis}.block") as loop:
        block = b.sub(b.sub(blocks, 1), loop.iv) if op.reverse else loop.iv
        index = b.mul(block, lanes)
        mask = first_lanes(b, b.sub(length, index), lanes)
        here = Point(b.ops, point, op.axis, index, 0, lanes, mask)
        value = _operand(nest, op, here)
        value = b.select(mask, value, identity(op.fn, value.type, op.result.type.dtype))
        scanned = _scanned(nest, reduction, value, op)
        total = reduction.combine(b)(b.splat(loop.args[0], lanes), scanned)
        nest.define(op.result, total, here)
        loop.yield_(b.extract(total, 0 if op.reverse else lanes - 1))


def _scanned(nest: NestEmitter, reduction: Reduction, value: Operand, op: Scan) -> Operand:
    """Inclusive prefixes of one vector's lanes: shift by 1, 2, 4 ... and combine."""
    b, lanes = nest.c.b, nest.lanes
    neutral = identity(op.fn, value.type, op.result.type.dtype)
    distance = 1
    while distance < lanes:
        if op.reverse:
            picked = [lane + distance if lane + distance < lanes else lanes for lane in range(lanes)]
        else:
            picked = [lane - distance if lane >= distance else lanes for lane in range(lanes)]
        value = reduction.combine(b)(value, b.shuffle(value, neutral, picked))
        distance *= 2
    return value
