"""Loads of u4: two elements to a byte along the last dimension, the low nibble first.

Offsets of the other dimensions count elements (strides in elements), so the address of an element is base + offset / 2
and its nibble the offset's last bit. Lanes that are contiguous read half as many bytes as there are lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadloom.par.constants import int_value
from threadloom.par.ops import I8, I64, Operand, Vector
from threadloom.targets.cpu.lower.context import Point
from threadloom.targets.cpu.lower.vectors import both, gather, lane_numbers

if TYPE_CHECKING:
    from threadloom.targets.cpu.lower.access import TensorAccess


def load_nibbles(access: TensorAccess, point: Point) -> Operand:
    """u4 values at `point`, in i8."""
    c = access.c
    with c.at(point) as b:
        vector = point.vector
        condition, mask = access.inside(point)
        first = _offset(access, point)
        lanes = access.lanes(point, vector) if vector is not None else None
        if vector is None or lanes is None or (lanes.stride is None and lanes.offsets is None):
            pointer = b.gep(I8, access.tensor.pointer, b.ashr(first, 1))
            if condition is not None:
                pointer = b.select(condition, pointer, c.zeros())
            byte = b.load(I8, pointer)
            shift = b.cast("trunc", b.shl(b.and_(first, 1), 2), I8)
            return b.and_(b.lshr(byte, shift), 15)
        mask = both(b, vector.mask, mask)
        if condition is not None:
            mask = both(b, mask, b.splat(condition, vector.lanes))
        offsets = b.splat(first, vector.lanes)
        if lanes.stride is not None:
            one = int_value(lanes.stride) == 1
            apart = lane_numbers(vector.lanes)
            offsets = b.add(offsets, apart if one else b.mul(b.splat(lanes.stride, vector.lanes), apart))
        if lanes.offsets is not None:
            offsets = b.add(offsets, lanes.offsets)
        return _picked(access, offsets, mask, vector.lanes)


def _picked(access: TensorAccess, offsets: Operand, mask: Operand | None, lanes: int) -> Operand:
    b = access.c.b
    wide = Vector(lanes, I64)
    bytes_type = Vector(lanes, I8)
    pointers = b.gep(I8, access.tensor.pointer, b.ashr(offsets, b.const(wide, 1)))
    bytes_ = gather(b, bytes_type, pointers, mask, b.const(bytes_type, 0))
    shifts = b.cast("trunc", b.shl(b.and_(offsets, b.const(wide, 1)), b.const(wide, 2)), bytes_type)
    return b.and_(b.lshr(bytes_, shifts), b.const(bytes_type, 15))


def _offset(access: TensorAccess, point: Point) -> Operand:
    """Elements from the tensor's start to lane 0 at `point`: the address, were an element a byte."""
    b = access.c.b
    at = b.cast("ptrtoint", access.address(point), I64)
    return b.sub(at, b.cast("ptrtoint", access.tensor.pointer, I64))
