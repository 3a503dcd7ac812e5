"""Loop nests of vector operations.

    for m { for n { mx }; for n { e, s } }      n in lanes
    ->  for m:  for n by 4 vectors: 4 accumulators of mx;  rest by one masked vector;  combine, fold the lanes
                for n by 4 vectors: e stored in its room, 4 accumulators of s; ...

A vector loop has an unmasked body of several vectors and a masked one of one vector for what is left; where all that it
touches lies on chip, and has room, the first alone runs into the padding (`padding.py`). A loop that holds other loops
has two vectors (a panel) where it is the vector loop, else one position at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from threadloom.errors import InternalError
from threadloom.par.builder import Builder
from threadloom.par.constants import const, int_value
from threadloom.par.ops import I64, Operand
from threadloom.par.result_types import size_bytes
from threadloom.targets.cpu.choose import unit_axis
from threadloom.targets.cpu.fuse import Item, Nest, Path
from threadloom.targets.cpu.layout import LINE_BYTES
from threadloom.targets.cpu.lower.access import TensorAccess
from threadloom.targets.cpu.lower.context import Context, Point, Window
from threadloom.targets.cpu.lower.elementwise import materialized
from threadloom.targets.cpu.lower.evaluate import Evaluator, widest
from threadloom.targets.cpu.lower.late_stores import emit_late_stores, plan_late_stores
from threadloom.targets.cpu.lower.padding import runs_into_padding
from threadloom.targets.cpu.lower.reduce import Accumulator, Reduction, reduction_of
from threadloom.targets.cpu.lower.scan import emit_scan
from threadloom.targets.cpu.lower.tiles import store_tile
from threadloom.targets.cpu.lower.vectors import first_lanes, tree
from threadloom.targets.cpu.math import FUNCTIONS
from threadloom.tile.ops import AtomicAdd, Load, Map, Op, Reduce, Scan, Store, Value

INNERMOST_COPIES, OUTER_COPIES = 4, 2


@dataclass(frozen=True, slots=True)
class State:
    """The accumulators of one reduction in one loop: [point][copy]."""

    op: Reduce
    reduction: Reduction
    accumulators: tuple[tuple[Accumulator, ...], ...]


class NestEmitter:
    """Emits one nest; `axis` is in vector lanes. `unrolls`: its loops are worth several copies of their bodies."""

    def __init__(
        self,
        c: Context,
        axis: str | None,
        fetched: Mapping[Path, Sequence[tuple[Load, str]]] | None = None,
        unrolls: bool = True,
    ):
        self.c, self.axis, self.fetched, self.unrolls = c, axis, fetched or {}, unrolls
        self.evaluator = Evaluator(c)
        self.lanes = c.target.lanes
        self._taking: dict[str, tuple[Reduction, dict[Point, Accumulator]]] = {}

    def emit(self, items: Sequence[Item], points: list[Point], path: Path = ()) -> None:
        for at, item in enumerate(items):
            if isinstance(item, Nest):
                self._nest(item, points, (*path, at))
            else:
                self._op(item, points)

    # ------------------------------------------------------------ operations

    def _op(self, op: Op, points: list[Point]) -> None:
        match op:
            case Reduce():
                self._take(op, points)
            case Store():
                nontemporal = op.tensor in self.c.schedule.nontemporal and self.c.form.tensor(op.tensor).aligned
                access = TensorAccess(self.evaluator, op)
                for point in points:
                    access.store(self.evaluator.value(op.value, point), point, nontemporal)
            case AtomicAdd():
                from threadloom.targets.cpu.lower.atomics import atomic_add

                for point in points:
                    atomic_add(TensorAccess(self.evaluator, op), self.evaluator.vector(op.value, point), point)
            case Scan():
                raise InternalError(f"scan {op.result.name} is not alone in its loop")
            case _:
                for point in points:
                    self.define(op.result, self.evaluator.compute(op, point), point)

    def define(self, value: Value, made: Operand, point: Point) -> None:
        """Let `value` be `made` at `point`, and in its place in memory if it has one."""
        if not value.type.axes:
            self.c.scalars[value.name] = materialized(self.c.b, made)
            return
        point.values[value.name] = made
        home = self.c.home(value)
        if home is not None:
            vector = point.vector
            operand = materialized(self.c.b, made)
            if vector is not None and vector.axis in value.type.axes:
                operand = widest(self.c.b, operand, vector.lanes)
            store_tile(self.c, home, value.type.dtype, point, operand)

    def _take(self, op: Reduce, points: list[Point]) -> None:
        if op.result.name not in self._taking:
            raise InternalError(f"{op.result.name} is reduced outside a loop over {op.axis}")
        reduction, taken = self._taking[op.result.name]
        for point in points:
            value = self.evaluator.value(op.arg, point)
            along = point.of_axis(op.axis)
            operand = materialized(self.c.b, value)
            mask = None
            if point.vector is not None and (along is point.vector or point.vector.axis in op.arg.type.axes):
                operand = widest(self.c.b, operand, point.vector.lanes)
                mask = along.mask if along is point.vector else None
            if op.fn in ("sum", "prod") and op.arg.type.dtype != op.result.type.dtype:
                from threadloom.targets.cpu.lower.elementwise import converted

                operand = materialized(self.c.b, converted(self.c.b, operand, op.arg.type.dtype, op.result.type.dtype))
            index = None
            if reduction.is_arg:
                index = materialized(self.c.b, self.evaluator.axis_index(op.axis, point))
                if point.vector is not None:
                    index = widest(self.c.b, index, point.vector.lanes)
            taken[point] = reduction.take(self.c.b, taken[point], operand, index, mask)

    # ------------------------------------------------------------ loops

    def _nest(self, nest: Nest, points: list[Point], path: Path) -> None:
        scans = [item for item in nest.items if isinstance(item, Scan) and item.axis == nest.axis]
        if scans:
            if len(nest.items) > 1:
                raise InternalError(f"scan {scans[0].result.name} shares its loop")
            emit_scan(self, scans[0], points)
            return
        late = plan_late_stores(self.c, nest, self.axis) if len(points) == 1 else None
        if late is not None:
            emit_late_stores(self, nest, late, points[0], path)
            return
        vector = nest.axis == self.axis
        unit = self.lanes if vector else 1
        copies = self._copies(nest, points, vector)
        window = self.c.windows.get(nest.axis)
        if window is not None:
            self._window(nest, path, points, window, unit)
            return
        length = self.c.ranges[nest.axis].length
        states = [self._start(op, points, copies, vector) for op in nest.items if _reduces(op, nest.axis)]
        known = int_value(length)
        step = unit * copies
        if vector and not states and known is None and runs_into_padding(self.c, nest, step):
            self._loop(nest, path, points, const(I64, 0), length, step, copies, [], None)
            return
        if vector and known is None and self._masks_all(nest, path, copies):
            for state in self._loop(nest, path, points, const(I64, 0), length, unit, 1, states, length):
                self._finish(state, points, nest.axis)
            return
        main_end = const(I64, known - known % step) if known is not None else self._rounded_down(length, step)
        if known is None or known >= step:
            states = self._loop(nest, path, points, const(I64, 0), main_end, step, copies, states, None)
        if step > 1 and (known is None or known % step):
            masked = vector and (known is None or known % unit != 0)
            states = self._loop(nest, path, points, main_end, length, unit, 1, states, length if masked else None)
        for state in states:
            self._finish(state, points, nest.axis)

    def _masks_all(self, nest: Nest, path: Path, copies: int) -> bool:
        """Whether one masked loop of single vectors does all: a mask is little beside an exponential, and a second
        copy of it as much code again."""
        dear = copies == 1 and path not in self.fetched and any(map(is_dear, nest.items))
        return dear or self.c.seldom

    def part(
        self, nest: Nest, path: Path, point: Point, first: Operand, end: Operand, states: list[State]
    ) -> list[State]:
        """Whole steps of the vector loop `nest` from `first` to `end`, for the row at `point`."""
        copies = self._copies(nest, [point], True)
        return self._loop(nest, path, [point], first, end, self.lanes * copies, copies, states, None)

    def in_pieces(
        self, nest: Nest, path: Path, point: Point, size: int, before: Callable[[Operand, Operand], None]
    ) -> None:
        """The vector loop `nest` in pieces of `size`, which divides its length; `before`(first, end) each of them."""
        b, copies = self.c.b, self._copies(nest, [point], True)
        states = [self._start(op, [point], copies, True) for op in nest.items if _reduces(op, nest.axis)]
        carried = _parts(states, copies)
        length = self.c.ranges[nest.axis].length
        with b.loop(0, length, size, inits=carried, names=["acc"] * len(carried), iv=nest.axis) as piece:
            end = b.add(piece.iv, size)
            before(piece.iv, end)
            after = self.part(nest, path, point, piece.iv, end, _with_parts(states, copies, piece.args))
            piece.yield_(*_parts(after, copies))
        for state in _with_parts(states, copies, piece.results):
            self._finish(state, [point], nest.axis)

    def _window(self, nest: Nest, path: Path, points: list[Point], window: Window, unit: int) -> None:
        """A part of the tile, for elementwise operations: whole vectors, then a masked one."""
        b = self.c.b
        copies = 1
        if unit > 1 and not any(isinstance(item, Nest) for item in nest.items) and not self._stores_lanes(nest):
            copies = max(1, min(INNERMOST_COPIES if self.unrolls else OUTER_COPIES, window.size // unit))
        step = unit * copies
        end = window.end if window.end is not None else b.add(window.first, window.size)
        exact = window.end is None
        if exact and window.size == step:
            self._body(nest, path, points, window.first, copies, [], None)
            return
        size = const(I64, window.size) if exact else b.sub(end, window.first)
        main_end = b.add(window.first, self._rounded_down(size, step))
        self._loop(nest, path, points, window.first, main_end, step, copies, [], None)
        if step > 1 and not (exact and window.size % step == 0):
            self._loop(nest, path, points, main_end, end, unit, 1, [], end if unit > 1 else None)

    def _copies(self, nest: Nest, points: list[Point], vector: bool) -> int:
        """Unrolled positions: enough independent chains to hide latencies, not more registers than there are."""
        innermost = not any(isinstance(item, Nest) for item in nest.items)
        if vector and self._stores_lanes(nest):
            return 1
        if not innermost:
            return OUTER_COPIES if vector else 1
        reduces = any(_reduces(item, nest.axis) for item in nest.items)
        if not vector and not reduces:
            return 1
        if not self.unrolls:
            return 1
        few_registers = self.c.target.vector_registers < 32
        if few_registers and any(is_dear(item) for item in nest.items):
            return 1  # its constants fill the registers, and one copy's chain is as long as several iterations
        heavy = len(nest.items) > 6 and few_registers
        return max(1, (INNERMOST_COPIES // 2 if heavy else INNERMOST_COPIES) // len(points))

    def _stores_lanes(self, nest: Nest) -> bool:
        """Whether a store in the nest takes its vectors apart: that is most of the work, and of the code."""
        for item in nest.items:
            if isinstance(item, Nest) and self._stores_lanes(item):
                return True
            if isinstance(item, Store) and self.axis in item.value.type.axes and not self.c.target.avx512:
                return unit_axis(self.c.form, item.tensor, item.subscripts) != self.axis
        return False

    def _rounded_down(self, length: Operand, step: int) -> Operand:
        b = self.c.b
        if step == 1:
            return length
        if step & (step - 1) == 0:
            return b.and_(length, -step)
        return b.mul(b.udiv(length, step), step)

    def _loop(
        self,
        nest: Nest,
        path: Path,
        points: list[Point],
        first: Operand,
        end: Operand,
        step: int,
        copies: int,
        states: list[State],
        masked_to: Operand | None,
    ) -> list[State]:
        """One loop over [first, end) by `step`; accumulators of the first `copies` copies are carried."""
        b = self.c.b
        x, y = int_value(first), int_value(end)
        if x is not None and y is not None and x < y <= x + step:
            return self._body(nest, path, points, first, copies, states, masked_to)
        carried = _parts(states, copies)
        with b.loop(first, end, step, inits=carried, names=["acc"] * len(carried), iv=nest.axis) as loop:
            inside = _with_parts(states, copies, loop.args)
            after = self._body(nest, path, points, loop.iv, copies, inside, masked_to)
            loop.yield_(
                *(part for state in after for row in state.accumulators for acc in row[:copies] for part in acc)
            )
        return _with_parts(states, copies, loop.results)

    def _body(
        self,
        nest: Nest,
        path: Path,
        points: list[Point],
        index: Operand,
        copies: int,
        states: list[State],
        masked_to: Operand | None,
    ) -> list[State]:
        b = self.c.b
        vector = nest.axis == self.axis
        unit = self.lanes if vector else 1
        rest = b.sub(masked_to, index) if masked_to is not None else None
        mask = first_lanes(b, rest, self.lanes) if rest is not None else None
        count = int_value(rest) if rest is not None else None
        made = [
            Point(b.ops, point, nest.axis, index, copy * unit, self.lanes if vector else 1, mask, count, rest)
            for point in points
            for copy in range(copies)
        ]
        for state in states:
            flat = [acc for row in state.accumulators for acc in row[:copies]]
            self._taking[state.op.result.name] = (state.reduction, dict(zip(made, flat, strict=True)))
        if masked_to is None:
            self._fetch(path, made)
        self.emit(nest.items, made, path)
        after = []
        for state in states:
            _, taken = self._taking.pop(state.op.result.name)
            rows = [[taken[point] for point in made[at * copies : (at + 1) * copies]] for at in range(len(points))]
            kept = [(*row, *old[copies:]) for row, old in zip(rows, state.accumulators, strict=True)]
            after.append(State(state.op, state.reduction, tuple(kept)))
        return after

    def _fetch(self, path: Path, points: list[Point]) -> None:
        """The same lanes at a later position of the loop around."""
        for load, around in self.fetched.get(path, ()):
            ahead = self.c.schedule.ahead(load.tensor)
            if ahead is None:
                continue
            access = TensorAccess(self.evaluator, load)
            line = LINE_BYTES // size_bytes(access.element)
            stride = self.c.b.mul(access.axis_stride(around, points[0].root), ahead.distance)
            for point in points:
                if point.offset % line == 0:
                    pointer = self.c.b.gep(access.element, access.address(point), stride)
                    self.c.b.prefetch(pointer, locality=4 - ahead.level)

    # ------------------------------------------------------------ reductions

    def _start(self, op: Reduce, points: list[Point], copies: int, vector: bool) -> State:
        reduction = reduction_of(op)
        rows = []
        for point in points:
            outer = point.vector
            wide = vector or (outer is not None and outer.axis in op.arg.type.axes)
            lanes = self.lanes if wide else 1
            rows.append(tuple(reduction.start(lanes) for _ in range(copies)))
        return State(op, reduction, tuple(rows))

    def _finish(self, state: State, points: list[Point], axis: str) -> None:
        b = self.c.b
        for point, row in zip(points, state.accumulators, strict=True):
            total = row[0]
            if len(row) > 1:
                total = _merged(state.reduction, row, b)
            if axis == self.axis:
                total = state.reduction.finish(b, total)
            self.define(state.op.result, state.reduction.result(b, total, self.c.ranges[axis].start), point)


def _merged(reduction: Reduction, row: Sequence[Accumulator], b: Builder) -> Accumulator:
    if not reduction.is_arg:
        return (tree(b, [acc[0] for acc in row], reduction.combine(b)),)
    total = row[0]
    for acc in row[1:]:
        total = reduction.merge(b, total, acc)
    return total


def is_dear(item: Item) -> bool:
    """exp and the like: a polynomial of its own."""
    return isinstance(item, Map) and item.fn in FUNCTIONS


def _reduces(item: Item, axis: str) -> bool:
    return isinstance(item, Reduce) and item.axis == axis


def _parts(states: list[State], copies: int) -> list[Operand]:
    return [part for state in states for row in state.accumulators for acc in row[:copies] for part in acc]


def _with_parts(states: list[State], copies: int, parts: Sequence[Operand]) -> list[State]:
    """The states with the accumulators of the first `copies` copies replaced by `parts`, in order."""
    queue = list(parts)
    renewed = []
    for state in states:
        rows = []
        for row in state.accumulators:
            new = [tuple(queue.pop(0) for _ in acc) for acc in row[:copies]]
            rows.append((*new, *row[copies:]))
        renewed.append(State(state.op, state.reduction, tuple(rows)))
    return renewed
