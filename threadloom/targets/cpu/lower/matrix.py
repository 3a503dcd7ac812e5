"""Products on the matrix unit: packing its operands, the tile micro-kernel, and the loops around it (see ../amx.py)."""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.par.builder import Builder
from threadloom.par.constants import const, int_value
from threadloom.par.ops import I1, I8, I32, I64, PTR, VOID, Array, Attrs, Const, Operand, Vector
from threadloom.targets.cpu.amx import MATRIX_LANES, ROW_BYTES, Operands
from threadloom.targets.cpu.lower.access import TensorAccess
from threadloom.targets.cpu.lower.context import Context, Point
from threadloom.targets.cpu.lower.dot import ProductEmitter
from threadloom.targets.cpu.lower.dtypes import narrow
from threadloom.targets.cpu.lower.elementwise import materialized
from threadloom.targets.cpu.lower.evaluate import Evaluator, widest
from threadloom.targets.cpu.lower.tiles import address
from threadloom.targets.cpu.lower.vectors import first_lanes, transposed
from threadloom.targets.cpu.plan import Home, Pack
from threadloom.tile.ops import Load

TILES = "loom.tiles"  # the configuration: palette 1, eight tiles of 16 rows of 64 bytes


# ---------------------------------------------------------------- packing


def pack_for_matrix(c: Context, step: Pack) -> None:
    """Operand tiles in the unit's own dtype, zero where the summed axis ends inside a tile. Always read along the axis
    that is contiguous at the source; groups along the summed axis are transposed as 32-bit elements."""
    if step.matrix == "rows":
        (_rows_along_sum if step.transposed else _rows_across)(c, step)
    else:
        (_transposed_groups if step.transposed else _interleaved_groups)(c, step)


def _narrowed(c: Context, step: Pack, point: Point) -> Operand:
    """The elements at `point` as the unit takes them: lanes of i16 (bits of bf16) or i8, zero where there are none."""
    b = c.b
    load = c.plan.definitions.get(step.value.name)
    if isinstance(load, Load) and step.value.name in c.plan.inline and load.result.type.dtype.name == "bf16":
        # bits as they lie in memory; what is masked comes as zeros already
        return widest(b, TensorAccess(Evaluator(c), load).load_memory(point), c.target.lanes)
    value = widest(b, materialized(b, Evaluator(c).value(step.value, point)), c.target.lanes)
    if _unit(step).element == I8:
        bits = b.cast("trunc", value, Vector(c.target.lanes, I8))  # widened bytes, as they were
    else:
        bits = narrow(b, value, step.value.type.dtype, c.target.native_bf16)
    return b.select(point.mask, bits, b.const(bits.type, 0)) if point.mask is not None else bits


def _unit(step: Pack) -> Operands:
    if step.unit is None:
        raise InternalError(f"no unit is known for the operand {step.value.name}")
    return step.unit


def _padded(c: Context, step: Pack) -> Operand:
    """The length of the summed axis, up to whole tiles."""
    depth = _unit(step).depth
    return c.b.and_(c.b.add(c.ranges[step.summed].length, depth - 1), -depth)


def _outer_axis(step: Pack) -> str:
    return next(axis for axis in step.home.layout.axes if axis != step.summed)


def _rows_along_sum(c: Context, step: Pack) -> None:
    """Rows operand, contiguous along the sum: straight rows."""
    b, lanes, layout = c.b, c.target.lanes, step.home.layout
    outer, depth = _outer_axis(step), c.ranges[step.summed].length
    element = _unit(step).element
    with b.loop(0, c.ranges[outer].length, 1, iv=outer) as row:
        at = Point(b.ops, c.root(), outer, row.iv)
        base = b.gep(element, c.memory[step.home.buffer], b.mul(row.iv, layout.row_elems))
        for first, end, masked in _whole_and_rest(c, step):
            with b.loop(first, end, lanes, iv=step.summed) as k:
                mask = first_lanes(b, b.max(b.sub(depth, k.iv), const(I64, 0)), lanes) if masked else None
                bits = _narrowed(c, step, Point(b.ops, at, step.summed, k.iv, 0, lanes, mask))
                b.store(bits, b.gep(element, base, k.iv))


def _whole_and_rest(c: Context, step: Pack) -> list[tuple[Operand, Operand, bool]]:
    """(first, end, masked) of the positions that exist by whole vectors, and of the rest up to the padded end."""
    depth = c.ranges[step.summed].length
    known = int_value(depth)
    whole = c.b.and_(depth, -c.target.lanes)
    parts = [(const(I64, 0), whole, False)]
    if known is None or known != step.home.layout.sizes[1]:
        parts.append((whole, _padded(c, step), True))
    return parts


def _rows_across(c: Context, step: Pack) -> None:
    """Rows operand, contiguous along its rows: squares are transposed, one summed position a vector."""
    b, lanes, layout = c.b, c.target.lanes, step.home.layout
    outer, depth = _outer_axis(step), c.ranges[step.summed].length
    length, element = c.ranges[outer].length, _unit(step).element
    with b.loop(0, length, lanes, iv=outer) as row, b.loop(0, _padded(c, step), lanes, iv=step.summed) as k:
        mask = first_lanes(b, b.sub(length, row.iv), lanes)
        columns = []
        for offset in range(lanes):
            position = b.add(k.iv, offset)
            inside = b.icmp("slt", position, depth)
            clamped = b.min(position, b.max(b.sub(depth, 1), const(I64, 0)))
            at = Point(b.ops, Point(b.ops, c.root(), step.summed, clamped), outer, row.iv, 0, lanes, mask)
            bits = _narrowed(c, step, at)
            columns.append(b.select(b.splat(inside, lanes), bits, b.const(bits.type, 0)))
        for offset, bits in enumerate(transposed(b, columns)):
            start = b.mul(b.add(row.iv, offset), layout.row_elems)
            b.store(bits, b.gep(element, c.memory[step.home.buffer], b.add(start, k.iv)))


def _interleaved_groups(c: Context, step: Pack) -> None:
    """Lanes operand, contiguous along its lanes: neighbouring summed positions become the parts of 32-bit elements.
    Whole panels of existing groups take the quick way; edges are masked and filled with zeros."""
    b, panel = c.b, step.home.layout.panel
    outer, group = _outer_axis(step), _unit(step).group
    length = c.ranges[outer].length
    inside = b.udiv(c.ranges[step.summed].length, group)
    padded = b.udiv(_padded(c, step), group)
    full = b.mul(b.udiv(length, panel), panel)
    for first, end, whole in ((const(I64, 0), full, True), (full, length, False)):
        if int_value(first) is not None and int_value(first) == int_value(end):
            continue
        with b.loop(first, end, panel, iv=outer) as column:
            for start, stop, exists in ((const(I64, 0), inside, True), (inside, padded, False)):
                with b.loop(start, stop, 1, iv="group") as at:
                    for offset in range(0, panel, c.target.lanes):
                        _store_group(c, step, b.add(column.iv, offset), at.iv, whole, exists)


def _store_group(c: Context, step: Pack, column: Operand, at: Operand, whole: bool, exists: bool) -> None:
    b, lanes, unit = c.b, c.target.lanes, _unit(step)
    outer, depth = _outer_axis(step), c.ranges[step.summed].length
    rest = b.max(b.sub(c.ranges[outer].length, column), const(I64, 0))
    mask = None if whole else first_lanes(b, rest, lanes)
    made: Operand | None = None
    for part in range(unit.group):
        position = b.add(b.mul(at, unit.group), part)
        clamped = position if exists else b.min(position, b.max(b.sub(depth, 1), const(I64, 0)))
        point = Point(b.ops, Point(b.ops, c.root(), step.summed, clamped), outer, column, 0, lanes, mask)
        bits = _narrowed(c, step, point)
        if not exists:
            bits = b.select(b.splat(b.icmp("slt", position, depth), lanes), bits, b.const(bits.type, 0))
        wide = b.cast("zext", bits, Vector(lanes, I32))
        moved = b.shl(wide, b.const(wide.type, part * unit.element.bits)) if part else wide
        made = moved if made is None else b.or_(made, moved)
    if made is None:
        raise InternalError("a group has elements")
    b.store(made, _group_address(c, step, column, at))


def _group_address(c: Context, step: Pack, column: Operand, at: Operand) -> Operand:
    b, layout = c.b, step.home.layout
    start = b.mul(b.udiv(column, layout.panel), layout.panel_elems)
    start = b.add(b.add(start, b.urem(column, layout.panel)), b.mul(at, layout.panel))
    return b.gep(I32, c.memory[step.home.buffer], start)


def _transposed_groups(c: Context, step: Pack) -> None:
    """Lanes operand, contiguous along the sum: 16 rows of 16 groups are transposed as 32-bit elements."""
    b, lanes, group = c.b, c.target.lanes, _unit(step).group
    outer, depth = _outer_axis(step), c.ranges[step.summed].length
    length = c.ranges[outer].length
    with (
        b.loop(0, length, lanes, iv=outer) as column,
        b.loop(0, _padded(c, step), group * lanes, iv=step.summed) as k,
    ):
        rest = [b.max(b.sub(depth, b.add(k.iv, lanes * part)), const(I64, 0)) for part in range(group)]
        masks = [first_lanes(b, left, lanes) for left in rest]
        rows = []
        for offset in range(lanes):
            position = b.min(b.add(column.iv, offset), b.sub(length, 1))
            at = Point(b.ops, c.root(), outer, position)
            parts = [
                _narrowed(c, step, Point(b.ops, at, step.summed, k.iv, lanes * part, lanes, masks[part]))
                for part in range(group)
            ]
            rows.append(b.cast("bitcast", _side_by_side(b, parts), Vector(lanes, I32)))
        for offset, groups in enumerate(transposed(b, rows)):
            b.store(groups, _group_address(c, step, column.iv, b.add(b.udiv(k.iv, group), offset)))


def _side_by_side(b: Builder, parts: list[Operand]) -> Operand:
    """Vectors (a power of two of them) as one long one."""
    while len(parts) > 1:
        lanes = 2 * parts[0].type.lanes
        parts = [b.shuffle(parts[i], parts[i + 1], range(lanes)) for i in range(0, len(parts), 2)]
    return parts[0]


# ---------------------------------------------------------------- the micro-kernel


def _tile_call(b: Builder, name: str, tiles: tuple[int, ...], *operands: Operand) -> None:
    numbers = [Const(I8, str(tile)) for tile in tiles]
    b.leaf("call", (*numbers, *operands), VOID, Attrs(callee=f"llvm.x86.{name}"))


def build_tile_kernel(
    c: Context, unit: Operands, columns: int, row_bytes: int, group_bytes: int, out_bytes: int
) -> str:
    """block(count, rows, groups, out, add): 2 x `columns` result tiles, `count` tiles of the sum; strides in bytes."""
    name = f"tiles.{unit.dtype}.2x{columns}.{row_bytes}.{group_bytes}.to{out_bytes}"
    if name in c.micro_kernels:
        return name
    c.micro_kernels.add(name)
    params = [("count", I64), ("rows", PTR, "noalias readonly"), ("groups", PTR, "noalias readonly")]
    params += [("out", PTR, "noalias"), ("add", I1)]
    with c.module.function(name, params, attrs=("noinline", "nounwind")) as b:
        count, rows, groups, out, add = b.args
        tiles = [(row, column, row * columns + column) for row in range(2) for column in range(columns)]
        result = [b.byte_offset(out, row * MATRIX_LANES * out_bytes + column * ROW_BYTES) for row, column, _ in tiles]
        with b.if_(add) as branch:
            for (_, _, tile), pointer in zip(tiles, result, strict=True):
                _tile_call(b, "tileloadd64", (tile,), pointer, const(I64, out_bytes))
            branch.otherwise()
            for _, _, tile in tiles:
                _tile_call(b, "tilezero", (tile,))
        with b.loop(0, count, 1, iv="step") as loop:
            at_rows = b.byte_offset(rows, b.mul(loop.iv, ROW_BYTES))
            at_groups = b.byte_offset(groups, b.mul(loop.iv, MATRIX_LANES * group_bytes))
            for column in range(columns):
                pointer = b.byte_offset(at_groups, ROW_BYTES * column)
                _tile_call(b, "tileloadd64", (6 + column,), pointer, const(I64, group_bytes))
            for row in range(2):
                pointer = b.byte_offset(at_rows, row * MATRIX_LANES * row_bytes)
                _tile_call(b, "tileloadd64", (4 + row,), pointer, const(I64, row_bytes))
            for row, column, tile in tiles:
                _tile_call(b, unit.instruction, (tile, 4 + row, 6 + column))
        for (_, _, tile), pointer in zip(tiles, result, strict=True):
            _tile_call(b, "tilestored64", (tile,), pointer, const(I64, out_bytes))
        b.ret()
    return name


def configuration(c: Context) -> Const:
    """64 bytes: palette 1; at 16 the bytes of a row of each tile (i16), at 48 the rows (i8)."""
    content = [1, *[0] * 15, *([64, 0] * 8), *[0] * 16, *[16] * 8, *[0] * 8]
    text = "[" + ", ".join(f"i8 {value}" for value in content) + "]"
    return c.module.global_(TILES, Array(64, I8), text, constant=True, align_bytes=64)


# ---------------------------------------------------------------- the loops around it


class MatrixEmitter(ProductEmitter):
    """Panels and strips as for vectors; a block is two by one or two tiles."""

    def emit(self) -> None:
        _tile_call(self.c.b, "ldtilecfg", (), configuration(self.c))
        self._loops()
        _tile_call(self.c.b, "tilerelease", ())

    def _block(self, point: Point, rows: int, vectors: int) -> None:
        c, b, step = self.c, self.c.b, self.step
        at_row, at_column = point.of_axis(step.row_axis), point.of_axis(step.axis)
        if at_row is None or at_column is None or at_row.index is None or at_column.index is None:
            raise InternalError("a block outside the loops over its rows and lanes")
        if not isinstance(step.rows_operand, Home) or not isinstance(step.lanes_operand, Home):
            raise InternalError("the matrix unit reads packed operands only")
        rows_from, groups_from, unit = step.rows_operand, step.lanes_operand, step.matrix
        if unit is None:
            raise InternalError("a product by the matrix unit is of a kind that it takes")
        with c.at(point):
            row_bytes, panel = unit.element.bits // 8 * rows_from.layout.row_elems, groups_from.layout.panel
            out_bytes = 4 * self._out_stride()
            name = build_tile_kernel(c, unit, panel // MATRIX_LANES, row_bytes, 4 * panel, out_bytes)
            at_rows = b.byte_offset(c.memory[rows_from.buffer], b.mul(at_row.index, row_bytes))
            start = b.mul(b.udiv(at_column.index, panel), groups_from.layout.panel_elems)
            at_groups = b.gep(I32, c.memory[groups_from.buffer], start)
            count = b.udiv(b.add(c.ranges[step.sum_axis].length, unit.depth - 1), unit.depth)
            add: Operand = const(I1, bool(self.accumulate))
            if self.starts and c.trip is not None:
                add = b.xor(c.trip.first, True)
            b.call(name, [count, at_rows, at_groups, address(c, self.out, point), add])
