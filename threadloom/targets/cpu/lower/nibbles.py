"""Loads and stores of u4: two elements to a byte along the last dimension, the low nibble first.

Offsets of the other dimensions count elements (strides in elements; rows begin with a byte, so they are even): the
address of an element is base + offset / 2 and its nibble the offset's last bit. Lanes that are contiguous from an even
element on read half as many bytes as there are lanes; others are gathered byte by byte.

    store of lanes 0 1 2 3 ...   ->  bytes 0|1<<4, 2|3<<4 ... where both halves of a byte are written
                                 ->  else, one element after the other: byte &= other half; byte |= element

The second form changes bytes by atomic operations, since another core may write the other half. The half byte after an
odd row is cleared before the launch (compile.py: clear_accumulated).
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from threadloom.par.constants import int_value
from threadloom.par.ops import I8, I16, I64, Operand, Vector
from threadloom.targets.cpu.lower.context import Point
from threadloom.targets.cpu.lower.elementwise import Register, materialized
from threadloom.targets.cpu.lower.masked_loads import masked_load
from threadloom.targets.cpu.lower.vectors import both, gather, lane_numbers
from threadloom.targets.cpu.schedule import narrowed_axes
from threadloom.tile.ops import AxisKind

if TYPE_CHECKING:
    from threadloom.targets.cpu.lower.access import Lanes, TensorAccess


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
        return _picked(access, _lane_offsets(access, first, lanes, vector.lanes), mask, vector.lanes)


def store_nibbles(access: TensorAccess, value: Register, point: Point) -> None:
    """Write u4 values, at places inside the tensor only."""
    c = access.c
    with c.at(point) as b:
        vector = point.vector
        condition, mask = access.inside(point)
        first = _offset(access, point)
        made = materialized(b, value)
        lanes = access.lanes(point, vector) if vector is not None else None
        if vector is None or lanes is None or (lanes.stride is None and lanes.offsets is None):
            _put(access, first, made, condition)
            return
        if not isinstance(made.type, Vector):
            made = b.splat(made, vector.lanes)
        if vector.count == 1 and mask is None and lanes.offsets is None:
            _put(access, first, b.extract(made, 0), condition)
            return
        mask = both(b, vector.mask, mask)
        if condition is not None:
            mask = both(b, mask, b.splat(condition, vector.lanes))
        if not (lanes.contiguous and _starts_even(access, vector)):
            _put_each(access, _lane_offsets(access, first, lanes, vector.lanes), made, mask)
            return
        if mask is None:
            _store_packed(access, first, made, None)
            return
        pairs = b.shuffle(mask, None, [lane ^ 1 for lane in range(vector.lanes)])
        whole = b.and_(mask, pairs)
        _store_packed(access, first, made, whole)
        alone = b.and_(mask, b.xor(pairs, b.const(pairs.type, 1)))
        with b.if_(b.reduce("or", alone)):
            _put_each(access, _lane_offsets(access, first, lanes, vector.lanes), made, alone)


def _lane_offsets(access: TensorAccess, first: Operand, lanes: Lanes, count: int) -> Operand:
    """Elements from the tensor's start to each lane."""
    b = access.c.b
    offsets: Operand = b.splat(first, count)
    if lanes.stride is not None:
        apart = lane_numbers(count)
        one = int_value(lanes.stride) == 1
        offsets = b.add(offsets, apart if one else b.mul(b.splat(lanes.stride, count), apart))
    return offsets if lanes.offsets is None else b.add(offsets, lanes.offsets)


def _store_packed(access: TensorAccess, first: Operand, made: Operand, mask: Operand | None) -> None:
    """Lanes from an even element on, side by side; `mask` is equal for both halves of a byte."""
    b = access.c.b
    half = made.type.lanes // 2
    wide = b.cast("bitcast", made, Vector(half, I16))  # an element in each byte, the earlier one in the lower
    bytes_ = b.cast("trunc", b.or_(wide, b.lshr(wide, b.const(wide.type, 4))), Vector(half, I8))
    pointer = b.gep(I8, access.tensor.pointer, b.ashr(first, 1))
    if mask is None:
        b.store(bytes_, pointer)
    else:
        b.masked_store(bytes_, pointer, b.shuffle(mask, None, range(0, 2 * half, 2)))


def _put(access: TensorAccess, offset: Operand, element: Operand, condition: Operand | None) -> None:
    """One element: its half of the byte cleared, then set."""
    b = access.c.b
    with ExitStack() as stack:
        if condition is not None:
            stack.enter_context(b.if_(condition))
        pointer = b.gep(I8, access.tensor.pointer, b.ashr(offset, 1))
        shift = b.cast("trunc", b.shl(b.and_(offset, 1), 2), I8)
        b.atomicrmw("and", pointer, b.lshr(b.const(I8, -16), shift))  # 0xf0 keeps the high half, 0x0f the low one
        b.atomicrmw("or", pointer, b.shl(element, shift))


def _put_each(access: TensorAccess, offsets: Operand, made: Operand, mask: Operand | None) -> None:
    b, count = access.c.b, made.type.lanes
    with b.loop(0, count, 1, iv="lane") as lane:
        condition = None if mask is None else b.extract(mask, lane.iv)
        _put(access, b.extract(offsets, lane.iv), b.extract(made, lane.iv), condition)


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
        bytes_ = masked_load(access.c, type_, pointer, b.shuffle(mask, None, range(0, lanes, 2)))
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
