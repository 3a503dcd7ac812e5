"""Loads of u4: two elements to a byte along the last dimension, the low nibble first.

Offsets of the other dimensions count elements (strides in elements; rows begin with a byte, so they are even): the
address of an element is base + offset / 2 and its nibble the offset's last bit. Lanes that are contiguous from an even
element on read half as many bytes as there are lanes; others are gathered byte by byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadloom.par.constants import int_value
from threadloom.par.ops import I8, I16, I64, Operand, Vector
from threadloom.targets.cpu.lower.context import Point
from threadloom.targets.cpu.lower.vectors import both, gather, lane_numbers
from threadloom.targets.cpu.schedule import narrowed_axes
from threadloom.tile.ops import AxisKind

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
        if lanes.contiguous and _starts_even(access, vector):
            return _unpacked(access, first, mask, vector.lanes)
        offsets = b.splat(first, vector.lanes)
        if lanes.stride is not None:
            one = int_value(lanes.stride) == 1
            apart = lane_numbers(vector.lanes)
            offsets = b.add(offsets, apart if one else b.mul(b.splat(lanes.stride, vector.lanes), apart))
        if lanes.offsets is not None:
            offsets = b.add(offsets, lanes.offsets)
        return _picked(access, offsets, mask, vector.lanes)


def _starts_even(access: TensorAccess, vector: Point) -> bool:
    """Whether lane 0 is the low nibble of a byte: tiles and steps are even, and nothing odd is added."""
    c, subscript = access.c, access.op.subscripts[-1]
    if subscript.offset % 2 or vector.lanes % 2 or any(term.value is not None for term in subscript.terms):
        return False
    for term in subscript.terms:
        axis = c.axes[term.axis or ""]
        even_tiles = c.plan.sizes[axis.name] % 2 == 0 and axis.name not in narrowed_axes(c.plan.kernel)
        if axis.name == vector.axis:
            if term.coefficient != 1 or not (axis.kind is AxisKind.WHOLE or even_tiles):
                return False
        elif term.coefficient % 2:
            return False
    return True


def _unpacked(access: TensorAccess, first: Operand, mask: Operand | None, lanes: int) -> Operand:
    """Bytes side by side -> nibbles side by side: a byte widened to 16 bits, its high nibble moved to the upper 8."""
    b, half = access.c.b, lanes // 2
    pointer = b.gep(I8, access.tensor.pointer, b.ashr(first, 1))
    type_ = Vector(half, I8)
    if mask is None:
        bytes_: Operand = b.load(type_, pointer)
    else:
        bytes_ = b.masked_load(type_, pointer, b.shuffle(mask, None, range(0, lanes, 2)))
    wide = b.cast("zext", bytes_, Vector(half, I16))
    high = b.shl(b.lshr(wide, b.const(wide.type, 4)), b.const(wide.type, 8))
    both_halves = b.or_(b.and_(wide, b.const(wide.type, 15)), high)
    nibbles = b.cast("bitcast", both_halves, Vector(lanes, I8))
    return nibbles if mask is None else b.select(mask, nibbles, b.const(nibbles.type, 0))


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
