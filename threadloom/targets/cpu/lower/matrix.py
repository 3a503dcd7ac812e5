"""Products on the matrix unit: packing its operands, the tile micro-kernel, and the loops around it (see ../amx.py)."""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.par.builder import Builder
from threadloom.par.constants import const, int_value
from threadloom.par.ops import I1, I8, I16, I32, I64, PTR, VOID, Array, Attrs, Const, Operand, Vector
from threadloom.targets.cpu.amx import DEPTH, MATRIX_LANES
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
    """Operand tiles in bf16, zero where the summed axis ends inside a tile. Always read along the axis that is
    contiguous at the source; pairs along the summed axis are transposed as 32-bit elements."""
    if step.matrix == "rows":
        (_rows_along_sum if step.transposed else _rows_across)(c, step)
    else:
        (_transposed_pairs if step.transposed else _interleaved_pairs)(c, step)


def _narrowed(c: Context, step: Pack, point: Point) -> Operand:
    """bf16 bits of the value at `point`: lanes of i16, zero where they do not exist."""
    b = c.b
    load = c.plan.definitions.get(step.value.name)
    if isinstance(load, Load) and step.value.name in c.plan.inline and load.result.type.dtype.name == "bf16":
        # bits as they lie in memory; what is masked comes as zeros already
        return widest(b, TensorAccess(Evaluator(c), load).load_memory(point), c.target.lanes)
    value = widest(b, materialized(b, Evaluator(c).value(step.value, point)), c.target.lanes)
    bits = narrow(b, value, step.value.type.dtype, c.target.native_bf16)
    return b.select(point.mask, bits, b.const(bits.type, 0)) if point.mask is not None else bits


def _outer_axis(step: Pack) -> str:
    return next(axis for axis in step.home.layout.axes if axis != step.summed)


def _rows_along_sum(c: Context, step: Pack) -> None:
    """Rows operand, contiguous along the sum: straight rows."""
    b, lanes, layout = c.b, c.target.lanes, step.home.layout
    outer, depth = _outer_axis(step), c.ranges[step.summed].length
    with b.loop(0, c.ranges[outer].length, 1, iv=outer) as row:
        at = Point(b.ops, c.root(), outer, row.iv)
        base = b.gep(I16, c.memory[step.home.buffer], b.mul(row.iv, layout.row_elems))
        for first, end, masked in _whole_and_rest(b, depth, lanes, layout.sizes[1]):
            with b.loop(first, end, lanes, iv=step.summed) as k:
                mask = first_lanes(b, b.max(b.sub(depth, k.iv), const(I64, 0)), lanes) if masked else None
                bits = _narrowed(c, step, Point(b.ops, at, step.summed, k.iv, 0, lanes, mask))
                b.store(bits, b.gep(I16, base, k.iv))


def _whole_and_rest(b: Builder, depth: Operand, lanes: int, padded: int) -> list[tuple[Operand, Operand, bool]]:
    """(first, end, masked) of the positions that exist by whole vectors, and of the rest up to the padded end."""
    known = int_value(depth)
    whole = b.and_(depth, -lanes)
    parts = [(const(I64, 0), whole, False)]
    if known is None or known != padded:
        rest = b.and_(b.add(depth, DEPTH - 1), -DEPTH)
        parts.append((whole, rest, True))
    return parts


def _rows_across(c: Context, step: Pack) -> None:
    """Rows operand, contiguous along its rows: squares are transposed as 16-bit lanes, one summed position a vector."""
    b, lanes, layout = c.b, c.target.lanes, step.home.layout
    outer, depth = _outer_axis(step), c.ranges[step.summed].length
    padded = b.and_(b.add(depth, DEPTH - 1), -DEPTH)
    length = c.ranges[outer].length
    with b.loop(0, length, lanes, iv=outer) as row, b.loop(0, padded, lanes, iv=step.summed) as k:
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
            b.store(bits, b.gep(I16, c.memory[step.home.buffer], b.add(start, k.iv)))


def _interleaved_pairs(c: Context, step: Pack) -> None:
    """Lanes operand, contiguous along its lanes: two summed positions become the halves of 32-bit elements. Whole
    panels of existing pairs take the quick way; edges are masked and filled with zeros."""
    b, panel = c.b, step.home.layout.panel
    outer, depth = _outer_axis(step), c.ranges[step.summed].length
    length = c.ranges[outer].length
    inside = b.lshr(depth, 1)
    padded = b.lshr(b.and_(b.add(depth, DEPTH - 1), -DEPTH), 1)
    full = b.mul(b.udiv(length, panel), panel)
    for first, end, whole in ((const(I64, 0), full, True), (full, length, False)):
        if int_value(first) is not None and int_value(first) == int_value(end):
            continue
        with b.loop(first, end, panel, iv=outer) as column:
            for start, stop, exists in ((const(I64, 0), inside, True), (inside, padded, False)):
                with b.loop(start, stop, 1, iv="pair") as pair:
                    for offset in range(0, panel, c.target.lanes):
                        _store_pair(c, step, b.add(column.iv, offset), pair.iv, whole, exists)


def _store_pair(c: Context, step: Pack, column: Operand, pair: Operand, whole: bool, exists: bool) -> None:
    b, lanes = c.b, c.target.lanes
    outer, depth = _outer_axis(step), c.ranges[step.summed].length
    rest = b.max(b.sub(c.ranges[outer].length, column), const(I64, 0))
    mask = None if whole else first_lanes(b, rest, lanes)
    halves = []
    for half in range(2):
        position = b.add(b.shl(pair, 1), half)
        clamped = position if exists else b.min(position, b.max(b.sub(depth, 1), const(I64, 0)))
        at = Point(b.ops, Point(b.ops, c.root(), step.summed, clamped), outer, column, 0, lanes, mask)
        bits = _narrowed(c, step, at)
        if not exists:
            bits = b.select(b.splat(b.icmp("slt", position, depth), lanes), bits, b.const(bits.type, 0))
        halves.append(b.cast("zext", bits, Vector(lanes, I32)))
    both = b.or_(halves[0], b.shl(halves[1], b.const(halves[1].type, 16)))
    b.store(both, _pair_address(c, step, column, pair))


def _pair_address(c: Context, step: Pack, column: Operand, pair: Operand) -> Operand:
    b, layout = c.b, step.home.layout
    start = b.mul(b.udiv(column, layout.panel), layout.panel_elems)
    start = b.add(b.add(start, b.urem(column, layout.panel)), b.mul(pair, layout.panel))
    return b.gep(I32, c.memory[step.home.buffer], start)


def _transposed_pairs(c: Context, step: Pack) -> None:
    """Lanes operand, contiguous along the sum: 16 rows of 16 pairs are transposed as 32-bit elements."""
    b, lanes = c.b, c.target.lanes
    outer, depth = _outer_axis(step), c.ranges[step.summed].length
    length = c.ranges[outer].length
    padded = b.and_(b.add(depth, DEPTH - 1), -DEPTH)
    with b.loop(0, length, lanes, iv=outer) as column, b.loop(0, padded, 2 * lanes, iv=step.summed) as k:
        masks = [first_lanes(b, b.max(b.sub(depth, b.add(k.iv, lanes * h)), const(I64, 0)), lanes) for h in range(2)]
        rows = []
        for offset in range(lanes):
            position = b.min(b.add(column.iv, offset), b.sub(length, 1))
            at = Point(b.ops, c.root(), outer, position)
            halves = [
                _narrowed(c, step, Point(b.ops, at, step.summed, k.iv, lanes * h, lanes, masks[h])) for h in range(2)
            ]
            together = b.shuffle(halves[0], halves[1], range(2 * lanes))
            rows.append(b.cast("bitcast", together, Vector(lanes, I32)))
        for offset, pairs in enumerate(transposed(b, rows)):
            b.store(pairs, _pair_address(c, step, column.iv, b.add(b.lshr(k.iv, 1), offset)))


# ---------------------------------------------------------------- the micro-kernel


def _tile_call(b: Builder, name: str, tiles: tuple[int, ...], *operands: Operand) -> None:
    numbers = [Const(I8, str(tile)) for tile in tiles]
    b.leaf("call", (*numbers, *operands), VOID, Attrs(callee=f"llvm.x86.{name}"))


def build_tile_kernel(c: Context, columns: int, row_bytes: int, pair_bytes: int, out_bytes: int) -> str:
    """block(count, rows, pairs, out, add): 2 x `columns` result tiles over `count` steps of 32; strides in bytes."""
    name = f"tiles.bf16.2x{columns}.{row_bytes}.{pair_bytes}.to{out_bytes}"
    if name in c.micro_kernels:
        return name
    c.micro_kernels.add(name)
    params = [("count", I64), ("rows", PTR, "noalias readonly"), ("pairs", PTR, "noalias readonly")]
    params += [("out", PTR, "noalias"), ("add", I1)]
    with c.module.function(name, params, attrs=("noinline", "nounwind")) as b:
        count, rows, pairs, out, add = b.args
        tiles = [(row, column, row * columns + column) for row in range(2) for column in range(columns)]
        result = [b.byte_offset(out, row * MATRIX_LANES * out_bytes + column * 64) for row, column, _ in tiles]
        with b.if_(add) as branch:
            for (_, _, tile), pointer in zip(tiles, result, strict=True):
                _tile_call(b, "tileloadd64", (tile,), pointer, const(I64, out_bytes))
            branch.otherwise()
            for _, _, tile in tiles:
                _tile_call(b, "tilezero", (tile,))
        with b.loop(0, count, 1, iv="step") as loop:
            at_rows = b.byte_offset(rows, b.mul(loop.iv, 2 * DEPTH))
            at_pairs = b.byte_offset(pairs, b.mul(loop.iv, DEPTH // 2 * pair_bytes))
            for column in range(columns):
                _tile_call(
                    b, "tileloadd64", (6 + column,), b.byte_offset(at_pairs, 64 * column), const(I64, pair_bytes)
                )
            for row in range(2):
                pointer = b.byte_offset(at_rows, row * MATRIX_LANES * row_bytes)
                _tile_call(b, "tileloadd64", (4 + row,), pointer, const(I64, row_bytes))
            for row, column, tile in tiles:
                _tile_call(b, "tdpbf16ps", (tile, 4 + row, 6 + column))
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
        rows_from, pairs_from = step.rows_operand, step.lanes_operand
        with c.at(point):
            row_bytes, panel = 2 * rows_from.layout.row_elems, pairs_from.layout.panel
            out_bytes = 4 * self._out_stride()
            name = build_tile_kernel(c, panel // MATRIX_LANES, row_bytes, 4 * panel, out_bytes)
            at_rows = b.byte_offset(c.memory[rows_from.buffer], b.mul(at_row.index, row_bytes))
            start = b.mul(b.udiv(at_column.index, panel), pairs_from.layout.panel_elems)
            at_pairs = b.gep(I32, c.memory[pairs_from.buffer], start)
            count = b.lshr(b.add(c.ranges[step.sum_axis].length, DEPTH - 1), 5)
            add: Operand = const(I1, bool(self.accumulate))
            if self.starts and c.trip is not None:
                add = b.xor(c.trip.first, True)
            b.call(name, [count, at_rows, at_pairs, address(c, self.out, point), add])
