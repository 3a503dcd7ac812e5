"""Reading and writing tiles that live on chip, at a point of a loop nest."""

from __future__ import annotations

from threadloom.dtypes import Dtype
from threadloom.errors import InternalError
from threadloom.par.constants import vector_const
from threadloom.par.ops import I1, I64, Operand, Vector
from threadloom.par.result_types import size_bytes
from threadloom.targets.cpu.layout import Layout
from threadloom.targets.cpu.lower.context import Context, Point
from threadloom.targets.cpu.lower.dtypes import element_of, kept_memory_type, shaped
from threadloom.targets.cpu.lower.vectors import gather, scatter
from threadloom.targets.cpu.plan import Home


def address(c: Context, home: Home, point: Point) -> Operand:
    """The address of the element (the first lane) at `point`; kept at every level of the nest."""
    key = f"{home.buffer} {home.layout.axes}"
    if key in point.addresses:
        return point.addresses[key]
    if point.parent is None:
        return c.memory[home.buffer]
    base = address(c, home, point.parent)
    if point.axis not in home.layout.axes:
        return base
    with c.at(point) as b:
        element = home.layout.element
        variable, fixed = _offsets(c, home.layout, point)
        made = b.gep(element, base, variable)
        made = b.gep(element, made, fixed)
    point.addresses[key] = made
    return made


def _offsets(c: Context, layout: Layout, point: Point) -> tuple[Operand, int]:
    """Elements to `point` along its axis, as a register and a constant."""
    if point.axis is None or point.index is None:
        raise InternalError("a point without an axis has no offset")
    b = c.b
    if point.axis != layout.last:
        stride = layout.stride(point.axis)
        return b.mul(point.index, stride), point.offset * stride
    if not layout.panel:
        return point.index, point.offset
    panel = b.udiv(point.index, layout.panel)
    within = b.urem(point.index, layout.panel)
    start = b.add(b.mul(panel, layout.panel_elems), within)
    # Copies lie in the same panel as the first, or whole panels apart: steps and panels divide one another.
    return start, point.offset // layout.panel * layout.panel_elems + point.offset % layout.panel


def load_tile(c: Context, home: Home, dtype: Dtype, point: Point) -> Operand:
    """The kept value at `point`: a vector along its vector axis where the value has that axis, else a scalar."""
    vector = point.vector
    memory = kept_memory_type(dtype)
    with c.at(point) as b:
        where = address(c, home, point)
        if vector is None or vector.axis not in home.layout.axes:
            loaded: Operand = b.load(memory, where)
        elif home.layout.last == vector.axis:
            loaded = b.load(Vector(vector.lanes, memory), where)
        else:
            loaded = _gather(c, home.layout, where, vector)
        return b.cast("trunc", loaded, shaped(I1, loaded.type)) if dtype.kind == "bool" else loaded


def store_tile(c: Context, home: Home, dtype: Dtype, point: Point, value: Operand) -> None:
    """Whole vectors are stored also where some lanes do not exist: rows have room for them."""
    vector = point.vector
    memory = kept_memory_type(dtype)
    with c.at(point) as b:
        where = address(c, home, point)
        if dtype.kind == "bool":
            value = b.cast(
                "zext", value, Vector(value.type.lanes, memory) if isinstance(value.type, Vector) else memory
            )
        if vector is None or vector.axis not in home.layout.axes or home.layout.last == vector.axis:
            b.store(value, where)
        else:
            _scatter(c, home.layout, where, vector, value)


def lane_offsets(layout: Layout, vector: Point) -> list[int]:
    stride = layout.stride(vector.axis or "")
    return [lane * stride for lane in range(vector.lanes)]


def _gather(c: Context, layout: Layout, where: Operand, vector: Point) -> Operand:
    """Lanes along an axis that is not contiguous; only those that exist are touched."""
    b = c.b
    type_ = Vector(vector.lanes, element_of(layout.element))
    pointers = b.gep(layout.element, where, vector_const(I64, lane_offsets(layout, vector)))
    return gather(b, type_, pointers, vector.mask, b.const(type_, 0))


def _scatter(c: Context, layout: Layout, where: Operand, vector: Point, value: Operand) -> None:
    pointers = c.b.gep(layout.element, where, vector_const(I64, lane_offsets(layout, vector)))
    scatter(c.b, value, pointers, vector.mask)


def bytes_of(home: Home) -> int:
    return home.layout.elems * size_bytes(home.layout.element)
