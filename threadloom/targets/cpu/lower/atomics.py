"""Atomic additions: one element at a time, for other cores may add to the same places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadloom.errors import InternalError
from threadloom.par.ops import I8, I16, Attrs, Int, Operand, Vector
from threadloom.targets.cpu.lower.context import Point
from threadloom.targets.cpu.lower.dtypes import narrow, widen

if TYPE_CHECKING:
    from threadloom.targets.cpu.lower.access import TensorAccess


def atomic_add(access: TensorAccess, value: Operand, point: Point) -> None:
    """Groups with atomics are planned without vector lanes."""
    if isinstance(value.type, Vector) or point.vector is not None:
        raise InternalError("an atomic addition of a vector")
    condition, _ = access.inside(point)
    pointer = access.address(point)
    b = access.c.b
    if condition is None:
        _add(access, pointer, value)
        return
    with b.if_(condition):
        _add(access, pointer, value)


def _add(access: TensorAccess, pointer: Operand, value: Operand) -> None:
    b, dtype = access.c.b, access.tensor.dtype
    if dtype.is_float and dtype.bits < 32:
        _exchange(access, pointer, value)
    else:
        b.atomicrmw("fadd" if dtype.is_float else "add", pointer, value)


def _exchange(access: TensorAccess, pointer: Operand, value: Operand) -> None:
    """Narrow floats: read, add in f32, round, and try again where somebody was faster."""
    b, dtype = access.c.b, access.tensor.dtype
    bits = b.load(_bits_type(access), pointer)
    with b.while_([bits], names=["seen"]) as loop:
        seen = loop.args[0]
        as_memory = b.cast("bitcast", seen, access.element) if access.element != seen.type else seen
        summed = b.fadd(widen(b, as_memory, dtype), value)
        stored = narrow(b, summed, dtype)
        new = b.cast("bitcast", stored, seen.type) if stored.type != seen.type else stored
        pair = b.leaf("cmpxchg", (pointer, seen, new), None, Attrs(ordering="monotonic monotonic"), "exchanged")
        if pair is None:
            raise InternalError("cmpxchg has a result")
        current, done = b.extractvalue(pair, 0), b.extractvalue(pair, 1)
        (again,) = loop.go_on(b.xor(done, True), current)
        loop.yield_(again)


def _bits_type(access: TensorAccess) -> Int:
    return I8 if access.tensor.dtype.bits == 8 else I16
