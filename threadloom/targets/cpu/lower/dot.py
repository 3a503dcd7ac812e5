"""Products: a register-blocked micro-kernel and the loops around it.

    for each panel of lanes { for each strip of rows { block[rows x vectors] += over k: row element * lanes } }

The micro-kernel keeps rows x vectors accumulators in registers over the whole summed axis; per step it loads `vectors`
vectors of the lanes operand and broadcasts one element of each row. It stores the block or adds it to the tile, so the
tile is touched once. Strips that are not full are cut into blocks of 8, 4, 2 and 1 rows, or, where nothing is added,
become the last whole block once more; the last panel of a tile may take fewer vectors. Lanes beyond the tile compute on
padding and are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from threadloom.par.builder import Builder
from threadloom.par.constants import const, int_value
from threadloom.par.ops import I1, I64, PTR, Float, Int, Operand, Vector
from threadloom.par.result_types import size_bytes
from threadloom.targets.cpu.layout import LINE_BYTES
from threadloom.targets.cpu.lower.access import TensorAccess
from threadloom.targets.cpu.lower.context import ZERO_BYTES, Context, Point, Window
from threadloom.targets.cpu.lower.dtypes import register_type
from threadloom.targets.cpu.lower.evaluate import Evaluator
from threadloom.targets.cpu.lower.next_tiles import Fetch, NextTiles
from threadloom.targets.cpu.lower.pack import fill
from threadloom.targets.cpu.lower.padding import WORTH_STEPS
from threadloom.targets.cpu.lower.tiles import address
from threadloom.targets.cpu.lower.vectors import both
from threadloom.targets.cpu.plan import Home, InPlace, Loops, Multiply
from threadloom.targets.cpu.schedule import Ahead

POINTERS_EVERY = (
    3  # rows reached from one pointer when their distance is not known: x86 adds 1, 2, 4 or 8 times a register
)


@dataclass(frozen=True, slots=True)
class MicroKernel:
    """Strides in elements; None: a parameter. `out_stride`: from row to row of the result."""

    element: Float | Int
    rows: int
    vectors: int
    lanes: int
    row_stride: int | None
    row_step: int | None  # of the rows operand, along the summed axis
    lane_step: int | None  # of the lanes operand, along the summed axis
    out_stride: int
    accumulate: bool | None  # None: a parameter
    fetches: tuple[tuple[int, int], ...] = ()  # (shift, level) of the address series that are fetched meanwhile
    fetched_out: Ahead | None = None  # the block, in blocks of rows ahead, before the sum

    @property
    def name(self) -> str:
        strides = ".".join("x" if s is None else str(s) for s in (self.row_stride, self.row_step, self.lane_step))
        kind = self.element.kind if isinstance(self.element, Float) else f"i{self.element.bits}"
        mode = {True: "add", False: "set", None: "either"}[self.accumulate]
        ahead = "".join(f".l{level}.{shift}" for shift, level in self.fetches)
        if self.fetched_out is not None:
            ahead += f".out{self.fetched_out.distance}.l{self.fetched_out.level}"
        return f"dot.{kind}.{self.rows}x{self.vectors}.{strides}.to{self.out_stride}.{mode}{ahead}"

    @property
    def block_bytes(self) -> int:
        """From the first to the last element of a block of the result."""
        return ((self.rows - 1) * self.out_stride + self.vectors * self.lanes) * size_bytes(self.element)


# ---------------------------------------------------------------- the micro-kernel


def build_micro_kernel(c: Context, kernel: MicroKernel) -> str:
    """Adds the function to the module, once; returns its name."""
    if kernel.name in c.micro_kernels:
        return kernel.name
    c.micro_kernels.add(kernel.name)
    params = [("count", I64), ("rows", PTR, "noalias readonly"), ("lanes", PTR, "noalias readonly"),
              ("out", PTR, "noalias")]  # fmt: skip
    names = ("row.stride", "row.step", "lane.step")
    strides = (kernel.row_stride, kernel.row_step, kernel.lane_step)
    params += [(name, I64) for name, known in zip(names, strides, strict=True) if known is None]
    params += [("add", I1)] if kernel.accumulate is None else []
    for number in range(len(kernel.fetches)):
        params += [(f"next{number}", PTR), (f"next{number}.stride", I64)]
    with c.module.function(kernel.name, params, attrs=("noinline", "nounwind")) as b:
        count, rows, lanes, out, *rest = b.args
        row_stride, row_step, lane_step = (rest.pop(0) if s is None else const(I64, s) for s in strides)
        if kernel.fetched_out is not None:
            _fetch_block(b, kernel, kernel.fetched_out, out)
        adds = rest.pop(0) if kernel.accumulate is None else const(I1, bool(kernel.accumulate))
        ahead = [Fetch(*rest[2 * at : 2 * at + 2], *kind) for at, kind in enumerate(kernel.fetches)]
        block = _sum_products(b, kernel, count, rows, lanes, (row_stride, row_step, lane_step), ahead)
        if kernel.accumulate is not None:
            _write_block(b, kernel, out, block, out if kernel.accumulate else None)
        elif kernel.block_bytes <= ZERO_BYTES:
            _write_block(b, kernel, out, block, b.select(adds, out, c.zeros()))
        else:
            with b.if_(adds) as branch:
                _write_block(b, kernel, out, block, out)
                branch.otherwise()
                _write_block(b, kernel, out, block, None)
        b.ret()
    return kernel.name


def _sum_products(
    b: Builder,
    kernel: MicroKernel,
    count: Operand,
    rows: Operand,
    lanes: Operand,
    strides: tuple[Operand, Operand, Operand],
    ahead: list[Fetch],
) -> Sequence[Operand]:
    """The accumulators, row by row. Every step fetches a line of the next tiles, the same for several steps: repeats
    are cheap where load ports idle, and a test would be mispredicted."""
    vector = Vector(kernel.lanes, kernel.element)
    every = kernel.rows if kernel.row_stride is not None else POINTERS_EVERY
    row_stride, row_step, lane_step = strides
    blocks = kernel.rows * kernel.vectors
    bases = [b.gep(kernel.element, rows, b.mul(row_stride, row)) for row in range(0, kernel.rows, every)]
    state: list[Operand] = [const(vector, 0)] * blocks + [lanes, *bases]
    names = ["acc"] * blocks + ["lanes"] + ["rows"] * len(bases)
    with b.loop(0, count, 1, inits=state, names=names, iv="k") as loop:
        for fetch in ahead:
            line = b.lshr(loop.iv, fetch.shift)
            b.prefetch(b.byte_offset(fetch.pointer, b.mul(fetch.stride_bytes, line)), locality=4 - fetch.level)
        accumulators: list[Operand] = list(loop.args[:blocks])
        lane_pointer, *row_pointers = loop.args[blocks:]
        at = [b.gep(kernel.element, lane_pointer, kernel.lanes * v) for v in range(kernel.vectors)]
        loaded = [b.load(vector, pointer) for pointer in at]
        for row in range(kernel.rows):
            pointer = b.gep(kernel.element, row_pointers[row // every], b.mul(row_stride, row % every))
            factor = b.splat(b.load(kernel.element, pointer), kernel.lanes)
            for v in range(kernel.vectors):
                slot = row * kernel.vectors + v
                accumulators[slot] = multiply_add(b, factor, loaded[v], accumulators[slot])
        moved = [b.gep(kernel.element, pointer, row_step) for pointer in row_pointers]
        loop.yield_(*accumulators, b.gep(kernel.element, lane_pointer, lane_step), *moved)
    return loop.results[:blocks]


def multiply_add(b: Builder, x: Operand, y: Operand, z: Operand) -> Operand:
    element = z.type.element if isinstance(z.type, Vector) else z.type
    return b.fma(x, y, z) if isinstance(element, Float) else b.add(z, b.mul(x, y))


def _fetch_block(b: Builder, kernel: MicroKernel, ahead: Ahead, out: Operand) -> None:
    """The block is added to the tile after the loop: bring it, or one after it, closer before."""
    line_elems = LINE_BYTES // size_bytes(kernel.element)
    first = ahead.distance * kernel.rows
    for row in range(first, first + kernel.rows):
        for at in range(0, kernel.vectors * kernel.lanes, line_elems):
            pointer = b.gep(kernel.element, out, row * kernel.out_stride + at)
            b.prefetch(pointer, locality=4 - ahead.level, write=True)


def _write_block(
    b: Builder, kernel: MicroKernel, out: Operand, block: Sequence[Operand], old: Operand | None
) -> None:
    """Store the block, added to what lies at `old` in the same way."""
    vector = Vector(kernel.lanes, kernel.element)
    add = b.fadd if isinstance(kernel.element, Float) else b.add
    for row in range(kernel.rows):
        for v in range(kernel.vectors):
            at = row * kernel.out_stride + v * kernel.lanes
            value: Operand = block[row * kernel.vectors + v]
            if old is not None:
                value = add(b.load(vector, b.gep(kernel.element, old, at)), value)
            b.store(value, b.gep(kernel.element, out, at))


# ---------------------------------------------------------------- the loops around it


class ProductEmitter:
    """`emit_nest` emits the nest that follows a stream's last trip."""

    def __init__(self, c: Context, step: Multiply, emit_nest: Callable[[Loops], None]):
        self.c, self.step, self.emit_nest = c, step, emit_nest
        self.evaluator = Evaluator(c)
        self.out = c.plan.homes[step.product.result.name]
        self.element = register_type(step.product.result.type.dtype)
        self.lanes = c.target.lanes
        self.accumulate = step.accumulate or bool(self._other_sums())
        trip = c.trip
        result = step.product.result.name
        self.starts = trip is not None and trip.starts == result
        self.finishes = trip is not None and trip.finishes == result
        self.ahead = NextTiles(c, self.evaluator, step)

    def emit(self) -> None:
        """The product, or nothing (zeros) where an operand in place lies outside its tensor."""
        inside = self._operands_inside()
        if inside is None:
            self._loops()
            return
        with self.c.b.if_(inside) as branch:
            self._loops()
            branch.otherwise()
            if not self.step.accumulate:
                self.c.seldom, outer = True, self.c.seldom
                fill(self.c, self.step.product.result, self.out, const(self.element, 0))
                self.c.seldom = outer

    def _operands_inside(self) -> Operand | None:
        condition: Operand | None = None
        for source in (self.step.lanes_operand, self.step.rows_operand):
            if isinstance(source, InPlace):
                tested, _ = TensorAccess(self.evaluator, source.load).inside(self.c.root())
                condition = both(self.c.b, condition, tested)
        return condition

    def _loops(self) -> None:
        """Loops over all axes that are not the register block's, then panels and strips."""
        step, c = self.step, self.c
        result = step.product.result
        if self._other_sums() and not step.accumulate:
            fill(c, result, self.out, const(self.element, 0))
        outer = [axis for axis in result.type.axes if axis not in (step.axis, step.row_axis)]
        point = c.root()
        with ExitStack() as stack:
            for axis in (*outer, *self._other_sums()):
                loop = stack.enter_context(c.b.loop(0, c.ranges[axis].length, 1, iv=axis))
                point = Point(c.b.ops, point, axis, loop.iv)
            self._panels(point)

    def _other_sums(self) -> tuple[str, ...]:
        return tuple(axis for axis in self.step.product.dot.over if axis != self.step.sum_axis)

    def _panels(self, point: Point) -> None:
        c, b, step = self.c, self.c.b, self.step
        width = step.vectors * self.lanes
        length = c.ranges[step.axis].length
        known = int_value(length)
        if known is None and isinstance(step.lanes_operand, Home) and c.plan.sizes[step.axis] >= WORTH_STEPS * width:
            with b.loop(0, length, width, iv=step.axis) as loop:  # panels have room for all vectors
                self._strips(Point(b.ops, point, step.axis, loop.iv), step.vectors)
            return
        if known is None:
            self._ragged_panels(point, length, width)
            return
        full_end = const(I64, known - known % width)
        if known >= width:
            with b.loop(0, full_end, width, iv=step.axis) as loop:
                self._strips(Point(b.ops, point, step.axis, loop.iv), step.vectors)
        if known % width:
            vectors = _vectors_for(known % width, self.lanes, step.vectors)
            self._strips(Point(b.ops, point, step.axis, full_end), vectors)

    def _ragged_panels(self, point: Point, length: Operand, width: int) -> None:
        """Whole panels, the last one also where more than half of its vectors are needed: it has room for all. Then
        what fits fewer vectors, if 1 vector, that, else 2 ..."""
        b, step = self.c.b, self.step
        half = step.vectors // 2 * self.lanes
        full_end = b.mul(b.udiv(b.add(length, width - half - 1), width), width)
        with b.loop(0, full_end, width, iv=step.axis) as loop:
            self._strips(Point(b.ops, point, step.axis, loop.iv), step.vectors)
        if half:
            with b.if_(b.icmp("slt", full_end, length)):
                self._fewest_vectors(Point(b.ops, point, step.axis, full_end), b.sub(length, full_end), 1)

    def _fewest_vectors(self, point: Point, rest: Operand, vectors: int) -> None:
        """if rest fits `vectors` vectors, those, else twice as many ..., at most half a panel."""
        b = self.c.b
        if vectors == self.step.vectors // 2:
            self._strips(self._here(point), vectors)
            return
        with b.if_(b.icmp("sle", rest, vectors * self.lanes)) as branch:
            self._strips(self._here(point), vectors)
            branch.otherwise()
            self._fewest_vectors(point, rest, vectors * 2)

    def _here(self, point: Point) -> Point:
        """The same point in the innermost open region."""
        return Point(self.c.b.ops, point.parent, point.axis, point.index)

    def _strips(self, panel: Point, vectors: int) -> None:
        """All rows against one panel. Tiles have room for whole blocks; rows of a tensor have not, so there the rest
        is done by smaller ones."""
        c, b, step = self.c, self.c.b, self.step
        length = c.ranges[step.row_axis].length
        known = int_value(length)
        block = step.row_block
        whole_blocks = isinstance(step.rows_operand, Home)
        counted = b.add(length, block - 1) if whole_blocks else length
        full_end = b.mul(b.udiv(counted, block), block)
        if known is None or known >= block or whole_blocks:
            with b.loop(0, full_end, block, iv=step.row_axis) as loop:
                self._block(Point(b.ops, panel, step.row_axis, loop.iv), block, vectors)
                exact = known is not None and known % block == 0
                end = None if exact or not whole_blocks else b.min(b.add(loop.iv, block), length)
                self._finish(panel, vectors, Window(loop.iv, block, end))
        if whole_blocks or (known is not None and known % block == 0):
            return
        if not self.accumulate and not self.starts and not self.finishes and (known is None or known > block):
            self._last_rows_again(panel, full_end, vectors)
            return
        self._rest_of_rows(panel, full_end, vectors)
        self._finish(panel, vectors, Window(full_end, block, length))

    def _last_rows_again(self, panel: Point, first: Operand, vectors: int) -> None:
        """The rows from `first` on, where the product is stored and not added: the last whole block once more, of which
        some rows come out a second time, is less code than blocks of 4, 2 and 1. Tiles shorter than a block go row by
        row."""
        c, b, step = self.c, self.c.b, self.step
        length = c.ranges[step.row_axis].length
        block, known = step.row_block, int_value(length)
        if known is not None:
            self._block(Point(b.ops, panel, step.row_axis, b.sub(length, block)), block, vectors)
            return
        with b.if_(b.icmp("slt", first, length)), b.if_(b.icmp("sge", length, block)) as branch:
            self._block(Point(b.ops, panel, step.row_axis, b.sub(length, block)), block, vectors)
            branch.otherwise()
            with b.loop(0, length, 1, iv=step.row_axis) as loop:
                self._block(Point(b.ops, panel, step.row_axis, loop.iv), 1, vectors)

    def _rest_of_rows(self, panel: Point, first: Operand, vectors: int) -> None:
        """The rows from `first` on, fewer than a block, by halving block sizes."""
        c, b, step = self.c, self.c.b, self.step
        length = c.ranges[step.row_axis].length
        known, at = int_value(length), first
        rest = b.sub(length, first)
        for rows in _smaller_blocks(step.row_block):
            if known is not None:
                if (known % step.row_block) & rows:
                    self._block(Point(b.ops, panel, step.row_axis, at), rows, vectors)
                    at = b.add(at, rows)
                continue
            with b.if_(b.icmp("ne", b.and_(rest, rows), 0)):
                self._block(Point(b.ops, panel, step.row_axis, at), rows, vectors)
            at = b.add(at, b.and_(rest, rows))

    def _finish(self, panel: Point, vectors: int, rows: Window) -> None:
        """In the stream's last trip: what follows it, for the rows just done of this panel."""
        c, step = self.c, self.step
        if not self.finishes or c.trip is None or c.trip.epilogue is None or panel.index is None:
            return
        width = vectors * self.lanes
        whole = step.axis in c.plan.full and c.plan.sizes[step.axis] % width == 0
        end = None if whole else c.b.min(c.b.add(panel.index, width), c.ranges[step.axis].length)
        with c.b.if_(c.trip.last):
            c.windows = {step.axis: Window(panel.index, width, end), step.row_axis: rows}
            self.emit_nest(c.trip.epilogue)
            c.windows = {}

    def _block(self, point: Point, rows: int, vectors: int) -> None:
        """One call of the micro-kernel. Few rows are not worth kernels of fewer vectors: panels have room for all."""
        c, b, step = self.c, self.c.b, self.step
        if rows < step.row_block and isinstance(step.lanes_operand, Home):
            vectors = step.vectors
        with c.at(point):
            first = Point(point.ops, point, step.sum_axis, const(I64, 0))
            count = c.ranges[step.sum_axis].length
            row_pointer, row_stride, row_step = self._operand(step.rows_operand, first, step.row_axis)
            lane_pointer, _, lane_step = self._operand(step.lanes_operand, first, step.axis)
            strides = [s for s in (row_stride, row_step, lane_step) if int_value(s) is None]
            if self.starts and c.trip is not None:
                strides.append(b.xor(c.trip.first, True))
            fetches = self.ahead.fetches(point) if rows == step.row_block else []
            strides += [operand for fetch in fetches for operand in (fetch.pointer, fetch.stride_bytes)]
            accumulate = None if self.starts else self.accumulate
            kernel = MicroKernel(
                self.element, rows, vectors, self.lanes, int_value(row_stride), int_value(row_step),
                int_value(lane_step), self._out_stride(), accumulate,
                tuple((fetch.shift, fetch.level) for fetch in fetches),
                c.schedule.ahead(step.product.result.name) if accumulate is not False else None,
            )  # fmt: skip
            name = build_micro_kernel(c, kernel)
            b.call(name, [count, row_pointer, lane_pointer, address(c, self.out, point), *strides])

    def _operand(self, source: Home | InPlace, point: Point, axis: str) -> tuple[Operand, Operand, Operand]:
        """(address at `point`, elements from one index of `axis` to the next, likewise of the summed axis)."""
        c, along = self.c, self.step.sum_axis
        if isinstance(source, Home):
            return (
                address(c, source, point),
                const(I64, source.layout.stride(axis)),
                const(I64, source.layout.stride(along)),
            )
        access = TensorAccess(self.evaluator, source.load)
        root = point.root
        return access.address(point), access.axis_stride(axis, root), access.axis_stride(along, root)

    def _out_stride(self) -> int:
        return self.out.layout.stride(self.step.row_axis)


def _smaller_blocks(block: int) -> Iterator[int]:
    size = 1 << 10
    while size >= 1:
        if size < block:
            yield size
        size //= 2


def _vectors_for(elems: int, lanes: int, most: int) -> int:
    vectors = 1
    while vectors * lanes < elems:
        vectors *= 2
    return min(vectors, most)
