"""What is fixed while one kernel is lowered, and the points of a loop nest at which code is built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from threadloom.dtypes import Dtype
from threadloom.errors import InternalError
from threadloom.par.builder import Builder, ModuleBuilder
from threadloom.par.ops import I8, Const, Op, Operand
from threadloom.targets.cpu.layout import LINE_BYTES
from threadloom.targets.cpu.lower.elementwise import Register
from threadloom.targets.cpu.plan import Home, KernelPlan, Loops
from threadloom.targets.cpu.schedule import CpuSchedule, Form, Target
from threadloom.tile.ops import Axis, AxisKind, Dim, Value

if TYPE_CHECKING:
    from threadloom.targets.cpu.lower.shared import Copies


ZERO_BYTES = 32 * LINE_BYTES


@dataclass(frozen=True, slots=True)
class Range:
    """The current tile of an axis: its first index and how many there are (i64)."""

    start: Operand
    length: Operand


@dataclass(frozen=True, slots=True)
class TensorArguments:
    """Address, strides in elements and extents, as registers or constants."""

    pointer: Operand
    strides: tuple[Operand, ...]
    extents: tuple[Operand, ...]
    dtype: Dtype


@dataclass(slots=True, eq=False)
class Point:
    """A place in a loop nest: the position `index + offset` of the current tile of `axis`, in `lanes` consecutive
    positions where the axis is vectorised (`mask`: which of them exist). Code for it goes into `ops`.

    Several points of one loop body are its unrolled copies. A value that needs fewer axes is computed at the outermost
    point that has them, and found there by its copies: loop-invariant code is placed right at once.
    """

    ops: list[Op]
    parent: Point | None = None
    axis: str | None = None
    index: Operand | None = None
    offset: int = 0
    lanes: int = 1
    mask: Operand | None = None
    count: int | None = None  # how many lanes exist, where that is known
    rest: Operand | None = None  # positions from here to the end, of which `mask` has the first lanes
    values: dict[str, Register] = field(default_factory=dict)
    addresses: dict[str, Operand] = field(default_factory=dict)

    def chain(self) -> Iterator[Point]:
        """This point and those around it, innermost first."""
        point: Point | None = self
        while point is not None:
            yield point
            point = point.parent

    @property
    def root(self) -> Point:
        return list(self.chain())[-1]

    def of_axis(self, axis: str) -> Point | None:
        return next((point for point in self.chain() if point.axis == axis), None)

    def level(self, axes: tuple[str, ...] | frozenset[str] | set[str]) -> Point:
        """The outermost point at which all of `axes` that are bound here are bound."""
        return next(point for point in self.chain() if point.axis in axes or point.parent is None)

    def completes(self, axes: tuple[str, ...]) -> bool:
        """Whether this is the first point, from outside, at which all of `axes` are bound."""
        missing = set(axes) - {point.axis for point in self.chain()}
        return not missing and self.level(axes) is self

    @property
    def vector(self) -> Point | None:
        """The point of the vectorised axis, if one is open."""
        return next((point for point in self.chain() if point.lanes > 1), None)


@dataclass(frozen=True, slots=True)
class Window:
    """Positions of the current tile from `first` on: `size` of them, or, with an `end`, those before it."""

    first: Operand
    size: int
    end: Operand | None = None


@dataclass(frozen=True, slots=True)
class Trip:
    """Where a stream is: `first` and `last` (i1); `starts` names the product that begins with a store, `finishes` the
    one whose blocks the nest `epilogue` follows in the last trip."""

    first: Operand
    last: Operand
    starts: str = ""
    finishes: str = ""
    epilogue: Loops | None = None


@dataclass(slots=True)
class Context:
    b: Builder
    module: ModuleBuilder
    plan: KernelPlan
    schedule: CpuSchedule
    form: Form
    target: Target
    axes: dict[str, Axis]
    tensors: dict[str, TensorArguments] = field(default_factory=dict)
    extents: dict[Dim, Operand] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)
    scalars: dict[str, Operand] = field(default_factory=dict)
    memory: dict[str, Operand] = field(default_factory=dict)  # buffer -> address
    rooms: dict[str, Home] = field(default_factory=dict)  # places of the nest that is being lowered
    known_true: frozenset[str] = frozenset()  # conditions that hold wherever the code being built runs
    windows: dict[str, Window] = field(default_factory=dict)  # parts of axes that nests are limited to
    copies: dict[str, Copies] = field(default_factory=dict)  # buffer -> what all workers share
    trip: Trip | None = None  # of the innermost stream
    streams: list[str] = field(default_factory=list)  # axes of the open streams, innermost last
    micro_kernels: set[str] = field(default_factory=set)  # functions built so far
    seldom: bool = False  # what is being built hardly ever runs: it need not be quick

    def home(self, value: Value) -> Home | None:
        return self.rooms.get(value.name) or self.plan.homes.get(value.name)

    def is_each(self, axis: str) -> bool:
        return self.axes[axis].kind is AxisKind.EACH

    @contextmanager
    def at(self, point: Point) -> Iterator[Builder]:
        """Build into `point`'s region, which may be outside the innermost open one."""
        outer, self.b.ops = self.b.ops, point.ops
        try:
            yield self.b
        finally:
            self.b.ops = outer

    def root(self) -> Point:
        return Point(self.b.ops)

    def zeros(self) -> Const:
        """The address of some cache lines of zeros: what is read where a tensor does not reach."""
        from threadloom.par.ops import Array

        return self.module.global_("loom.zeros", Array(ZERO_BYTES, I8), constant=True, align_bytes=LINE_BYTES)

    def definition(self, value: Value) -> object:
        try:
            return self.plan.definitions[value.name]
        except KeyError:
            raise InternalError(f"value {value.name} is read but never made") from None
