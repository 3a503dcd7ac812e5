"""Tile kernel + schedule + form of the arguments -> KernelPlan.

The story: simplify; cut into steps; choose vector axes; fuse nests; decide which values need memory, how they lie
there, and which share it; give every product its operands (in place, from a home, or packed); move carried values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from threadloom.dtypes import i8, i32, u8
from threadloom.errors import InternalError
from threadloom.targets.cpu.amx import MATRIX_LANES, MATRIX_ROWS, OPERANDS, Operands
from threadloom.targets.cpu.choose import Choice, Chooser, groups_of
from threadloom.targets.cpu.epilogue import EpiloguePlanner
from threadloom.targets.cpu.fuse import AxesOf, Fusion, fetched_ahead, placed, temporaries
from threadloom.targets.cpu.homes import AT_END, Places, Position
from threadloom.targets.cpu.layout import Layout, kept_type, panels, rows
from threadloom.targets.cpu.operands import OperandPlanner, register_rows, register_vectors
from threadloom.targets.cpu.plan import Branches, Copy, Home, KernelPlan, Loop, Loops, Planned, PlannedBody
from threadloom.targets.cpu.schedule import CpuSchedule, Form, Target, narrowed_axes
from threadloom.targets.cpu.shared_packs import SharedPacks
from threadloom.targets.cpu.simplify import simplify
from threadloom.targets.cpu.steps import Body, Chosen, Product, Repeated, StepBuilder, Uses, Vector, grid_of, uses_of
from threadloom.tile.ops import Access, Axis, AxisKind, Block, Cast, Kernel, Load, Op, Reduce, Value
from threadloom.tile.uses import operands, results


def plan_kernel(schedule: CpuSchedule, form: Form, target: Target) -> KernelPlan:
    kernel = simplify(schedule.kernel, schedule.sequential)
    return Planner(kernel, schedule, form, schedule.obeyed_by(target)).plan()


@dataclass(slots=True)
class Planner:
    kernel: Kernel
    schedule: CpuSchedule
    form: Form
    target: Target
    uses: Uses = field(init=False)
    sizes: dict[str, int] = field(init=False)
    full: frozenset[str] = field(init=False)
    axes_of: AxesOf = field(init=False)
    choice: Choice = field(init=False)
    places: Places = field(default_factory=Places)
    homeless: set[str] = field(default_factory=set)  # values of rank > 0 made in a nest and read only there
    vectors: dict[str, int] = field(default_factory=dict)  # of the register block, by vector axis
    room: dict[str, int] = field(default_factory=dict)  # positions of an axis that tiles have room for: whole blocks
    rows_read: dict[str, set[str]] = field(default_factory=dict)  # value -> axes summed where it is a rows operand
    lanes_read: dict[str, str] = field(default_factory=dict)  # value -> vector axis where it is a lanes operand

    def __post_init__(self) -> None:
        self.uses = uses_of(self.kernel)
        axes = {axis.name: axis for axis in self.kernel.axes}
        self.sizes = {name: self._size(axis) for name, axis in axes.items()}
        narrowed = narrowed_axes(self.kernel)
        self.full = frozenset(
            name
            for name, axis in axes.items()
            if (axis.kind is AxisKind.WHOLE and name not in narrowed) or name in self.form.even
        )
        self.axes_of = AxesOf(frozenset(name for name, axis in axes.items() if axis.kind is AxisKind.EACH))

    def _size(self, axis: Axis) -> int:
        if axis.kind is AxisKind.EACH:
            return 1
        if axis.kind is AxisKind.TILE:
            extent = self.schedule.extent(axis.name)
            return min(extent, axis.dim) if isinstance(axis.dim, int) else extent
        fixed = dict(self.form.dims)
        return axis.dim if isinstance(axis.dim, int) else fixed[axis.dim]

    def plan(self) -> KernelPlan:
        grid = grid_of(self.kernel)
        written = frozenset(tensor.name for tensor in self.kernel.tensors if tensor.access is not Access.IN)
        before_block = Block(tuple(op for op in self.kernel.body.ops if op is not grid))
        before = StepBuilder(self.uses, written).build(before_block)
        body = StepBuilder(self.uses, written).build(grid.body)
        chooser = Chooser(self.uses, self.axes_of, self.form, self.sizes, self.target.lanes)
        self.choice = chooser.choose(body)
        self._note_products(body)
        drafts = Drafter(self, chooser).draft(body, ())
        outside = Drafter(self, chooser).draft(before, (-1,))
        self._lay_out(drafts)
        drafts = self._share(drafts)
        packer = OperandPlanner(self)
        planned, pending = packer.plan(drafts, self._defined(grid.body))
        if pending:
            raise InternalError(f"operand {pending[0].value.name} is defined outside the grid")
        shared = SharedPacks(self.schedule, self.uses, {axis.name: axis for axis in self.kernel.axes})
        planned = shared.split(planned, grid.axes)
        homes = {name: self.places.home(name) for name in self.places.layouts}
        planned = EpiloguePlanner(self.uses, self.axes_of, homes).plan(self._with_rooms(planned))
        return KernelPlan(
            self.kernel, grid, outside, planned, homes, frozenset(self.uses.inline),
            self.uses.definitions, self.sizes, self.full, tuple(shared.found),
        )  # fmt: skip

    def _defined(self, block: Block) -> frozenset[str]:
        return frozenset(value.name for op in block.ops for value in results(op))

    # ------------------------------------------------------------ products

    def _note_products(self, body: Body) -> None:
        for product in all_products(body):
            axis = self.choice.of_product[product.result.name]
            a, b = product.dot.a, product.dot.b
            lanes, other = (a, b) if axis in a.type.axes else (b, a)
            self.lanes_read.setdefault(lanes.name, axis)
            self.rows_read.setdefault(other.name, set()).update(product.dot.over)
            row_elems = max((self.sizes[x] for x in other.type.axes if x not in lanes.type.axes), default=1)
            wanted = register_vectors(self.target, row_elems, self.sizes[axis])
            self.vectors[axis] = min(wanted, self.vectors.get(axis, wanted))
        for product in all_products(body):
            axis, row_axis = self.choice.of_product[product.result.name], self.row_axis(product)
            block = register_rows(self.target, self.sizes[row_axis], self.vectors[axis])
            block = MATRIX_ROWS if self.by_matrix_unit(product) else block
            padded = -(-self.sizes[row_axis] // block) * block
            self.room[row_axis] = max(padded, self.room.get(row_axis, 0))

    def by_matrix_unit(self, product: Product) -> Operands | None:
        """The kind of operands, for plain products that the matrix unit takes, large enough to fill its tiles."""
        dot, axis = product.dot, self.choice.of_product[product.result.name]
        row_axis = self.row_axis(product)
        plain = len(dot.over) == 1 and set(dot.a.type.axes) | set(dot.b.type.axes) == {axis, row_axis, *dot.over}
        kinds = {self._multiplied_as(value) for value in (dot.a, dot.b)}
        kind = OPERANDS.get(kinds.pop()) if len(kinds) == 1 else None
        takes = kind is not None and kind.dtype.replace("u8", "i8") in self.target.tile_dtypes
        whole = self.panel(axis) in (MATRIX_LANES, 2 * MATRIX_LANES)
        return kind if plain and takes and whole and self.sizes[row_axis] >= MATRIX_LANES else None

    def _multiplied_as(self, value: Value) -> str:
        """The dtype of what a product multiplies: bytes are widened only for units that cannot take them."""
        made = self.uses.definitions.get(value.name)
        if isinstance(made, Cast) and value.type.dtype is i32 and made.arg.type.dtype in (i8, u8):
            return made.arg.type.dtype.name
        return value.type.dtype.name

    def row_axis(self, product: Product) -> str:
        """The axis of the register block's rows: the longest of those that only the broadcast operand has."""
        axis = self.choice.of_product[product.result.name]
        a, b = product.dot.a, product.dot.b
        lanes, other = (a, b) if axis in a.type.axes else (b, a)
        return max((x for x in other.type.axes if x not in lanes.type.axes), key=lambda x: self.sizes[x])

    def panel(self, axis: str) -> int:
        return self.vectors[axis] * self.target.lanes

    # ------------------------------------------------------------ layouts

    def layout(self, value: Value, last: str | None, panel: int = 0, without: frozenset[str] = frozenset()) -> Layout:
        """`value`'s layout with `last` contiguous; its other axes in the kernel's order."""
        order = [axis.name for axis in self.kernel.axes]
        axes = sorted((axis for axis in value.type.axes if axis not in without), key=order.index)
        if last in axes:
            axes = [*(axis for axis in axes if axis != last), last]
        sizes = tuple(self.room.get(axis, self.sizes[axis]) for axis in axes)
        element = kept_type(value.type.dtype)
        if panel and last in axes:
            return panels(tuple(axes), sizes, element, panel)
        # the micro-kernel writes and reads whole panels
        whole = self.panel(axes[-1]) if axes and axes[-1] in self.vectors else self.target.lanes
        return rows(tuple(axes), sizes, element, whole)

    def _lay_out(self, body: PlannedBody) -> None:
        """A layout for every value that needs memory."""
        for value, axis in self._kept(body):
            last = self.choice.of_value.get(value.name, axis)
            if last not in value.type.axes:
                last = value.type.axes[-1]
            wants_panel = last in self.vectors and (
                value.name in self.choice.of_product or self.choice.of_value.get(value.name) == last
            )
            if last in self.rows_read.get(value.name, ()):
                wants_panel = False  # the micro-kernel walks along it
            self.places.layouts[value.name] = self.layout(value, last, self.panel(last) if wants_panel else 0)

    def _kept(self, body: PlannedBody) -> Iterator[tuple[Value, str | None]]:
        """Values that need memory, with the vector axis of the nest that makes them."""
        for step in body.steps:
            match step:
                case Loops(items, axis):
                    for op, _, _ in placed(items):
                        for value in results(op):
                            if value.type.axes and value.name not in self.homeless:
                                yield value, axis
                case Product():
                    yield step.result, None
                case Loop(op, inner):
                    for value in (*getattr(op, "args", ()), *results(op)):
                        if value.type.axes:
                            yield value, None
                    yield from self._kept(inner)
                case Branches(op, then, otherwise):
                    for value in op.results:
                        if value.type.axes:
                            yield value, None
                    yield from self._kept(then)
                    yield from self._kept(otherwise)

    # ------------------------------------------------------------ sharing and carried values

    def _share(self, body: PlannedBody) -> PlannedBody:
        self._reuse_places(body)
        steps: list[Planned] = []
        for step in body.steps:
            match step:
                case Product():
                    steps += self._share_product(step)
                case Loop(op, inner):
                    steps.append(self._share_loop(replace(step, body=self._share(inner))))
                case Branches(op, then, otherwise):
                    sides = [_yielding_to(self._share(side), op.results) for side in (then, otherwise)]
                    steps.append(Branches(op, *sides))
                case Loops(masks=True):
                    (where,) = (op for op, _, _ in placed(step.items))
                    steps.append(replace(step, masks=self.places.shared(where.args[1], where.result)))
                case _:
                    steps.append(step)
        return PlannedBody(tuple(steps), body.yields)

    def _reuse_places(self, body: PlannedBody) -> None:
        """`p = exp(s - m)` takes the place of `s`, made in the same trip, where `s` is not read again."""
        made: list[Value] = []
        for step in body.steps:
            if isinstance(step, Product):
                made.append(step.result)
            if not isinstance(step, Loops):
                continue
            for op, _, _ in placed(step.items):
                for value in results(op):
                    if value.name in self.places.layouts and not isinstance(op, Reduce | Load):
                        taken = next((old for old in made if self.places.try_share(old, value)), None)
                        made = [old for old in made if old is not taken]  # it is no more
                    made.append(value)

    def _share_product(self, product: Product) -> list[Planned]:
        addend = product.addend
        if addend is None or self.places.try_share(addend, product.result):
            return [product]
        return [Copy(addend, product.result), product]

    def _share_loop(self, loop: Loop) -> Loop:
        """One place for a carried value's argument and result; also for what starts it and what follows it, where
        nothing needs the old value any more; else copies."""
        args = getattr(loop.op, "args", ())
        inits = getattr(loop.op, "inits", ())
        before: list[Copy] = []
        after: list[Copy] = []
        owners: dict[str, str] = {}
        for init, arg, out in zip(inits, args, results(loop.op), strict=True):
            if arg.type.axes:
                self.places.share(arg.name, out.name)
                if self.uses.counts.get(init.name) != 1 or not self.places.try_share(init, arg):
                    before.append(Copy(init, arg))
                owners[self.places.buffer(arg.name)] = arg.name
        for arg, made in zip(args, loop.body.yields, strict=True):
            if not arg.type.axes or made.name == arg.name:
                continue
            self._update_in_place(arg, loop.body)
            owner = owners.get(self.places.buffer(made.name), arg.name)
            if owner != arg.name or not self.places.try_share(arg, made):
                after.append(Copy(made, arg))
        return replace(loop, before=tuple(before), after=self._in_safe_order(after, args))

    def _in_safe_order(self, copies: list[Copy], args: tuple[Value, ...]) -> tuple[Copy, ...]:
        """Copies that read what another one overwrites go through a place of their own."""
        targets = {self.places.buffer(copy.target.name) for copy in copies}
        first: list[Copy] = []
        last: list[Copy] = []
        for copy in copies:
            reads = {self.places.buffer(root.name) for root in self.uses.roots(copy.source) if root.type.axes}
            if reads & (targets - {self.places.buffer(copy.target.name)}):
                between = Value(f"{copy.target.name}.next", copy.target.type)
                self.places.layouts[between.name] = self.places.layouts[copy.target.name]
                first.append(Copy(copy.source, between))
                copy = Copy(between, copy.target)
            last.append(copy)
        return (*first, *last)

    def _update_in_place(self, arg: Value, body: PlannedBody) -> None:
        """`acc * alpha` of a nest takes the place of `acc`."""
        for step in body.steps:
            if not isinstance(step, Loops):
                continue
            for op, _, _ in placed(step.items):
                reads = {root.name for value in operands(op) for root in self.uses.roots(value)}
                for value in results(op):
                    if arg.name in reads and not isinstance(op, Reduce | Load) and value.type.axes:
                        self.places.try_share(arg, value)

    # ------------------------------------------------------------ rooms

    def _with_rooms(self, body: PlannedBody) -> PlannedBody:
        steps: list[Planned] = []
        for step in body.steps:
            match step:
                case Loops():
                    steps.append(replace(step, rooms=tuple(self._rooms(step))))
                case Loop():
                    steps.append(replace(step, body=self._with_rooms(step.body)))
                case Branches():
                    steps.append(
                        replace(step, then=self._with_rooms(step.then), otherwise=self._with_rooms(step.otherwise))
                    )
                case _:
                    steps.append(step)
        return PlannedBody(tuple(steps), body.yields)

    def _rooms(self, step: Loops) -> Iterator[tuple[str, Home]]:
        """Values between loops of one nest keep only the axes of the loops they do not share, and the lanes."""
        loops_of = {value.name: loops for op, _, loops in placed(step.items) for value in results(op)}
        for name, (value, depth) in temporaries(step.items, self.uses).items():
            if name in self.places.layouts:
                continue
            fixed = frozenset(loops_of[name][:depth]) - {step.axis}
            yield name, Home(name, self.layout(value, step.axis, without=fixed))


@dataclass(slots=True)
class Drafter:
    """Steps -> planned steps without places; products stay as they are. Notes every read and write."""

    planner: Planner
    chooser: Chooser

    def draft(self, body: Body, at: Position) -> PlannedBody:
        steps: list[Planned] = []
        for step in self._split(body):
            position = (*at, len(steps))
            match step:
                case Vector(ops, masked):
                    steps.append(replace(self._loops(ops, position), masks=masked is not None))
                case Product():
                    self._note_product(step, position)
                    steps.append(step)
                case Repeated(op, inner):
                    self._read(operands(op), position)
                    self._written(results(op), position)
                    steps.append(Loop(op, self.draft(inner, position)))
                case Chosen(op, then, otherwise):
                    self._read(operands(op), position)
                    self._written(results(op), position)
                    steps.append(Branches(op, self.draft(then, (*position, 0)), self.draft(otherwise, (*position, 1))))
        self._read(body.yields, (*at, AT_END))
        return PlannedBody(tuple(steps), body.yields)

    def _split(self, body: Body) -> Iterator[Vector | Product | Repeated | Chosen]:
        for step in body.steps:
            if isinstance(step, Vector) and step.masked is None:
                yield from (Vector(ops) for ops in groups_of(step.ops, self.planner.uses))
            else:
                yield step

    def _loops(self, ops: tuple[Op, ...], position: Position) -> Loops:
        planner = self.planner
        axis, _ = self.chooser.best_axis(ops, planner.choice)
        fusion = Fusion(planner.uses, planner.axes_of, frozenset({axis} if axis else ()))
        items = fusion.nests(ops)
        made = {value.name for op in ops for value in results(op)}
        for op, path, _ in placed(items):
            self._read(operands(op), (*position, *path))
            self._written(results(op), (*position, *path))
        planner.homeless |= made
        fetched = tuple(fetched_ahead(items, planner.uses, axis).items())
        return Loops(items, axis, fetched=fetched)

    def _note_product(self, product: Product, position: Position) -> None:
        places = self.planner.places
        if product.addend is not None:
            self._read((product.addend,), (*position, 0))
        self._read((product.dot.a, product.dot.b), (*position, 1))
        places.writes[product.result.name] = (*position, 0)

    def _written(self, values: tuple[Value, ...], position: Position) -> None:
        self.planner.places.writes |= {value.name: position for value in values}

    def _read(self, values: tuple[Value, ...], position: Position) -> None:
        """What is read after the nest that makes it is complete needs memory."""
        for value in values:
            for root in self.planner.uses.roots(value):
                self.planner.places.read(root.name, position)
                self.planner.homeless.discard(root.name)


def _yielding_to(side: PlannedBody, targets: tuple[Value, ...]) -> PlannedBody:
    """A branch that leaves its values where the If's results live."""
    copies = [Copy(made, out) for made, out in zip(side.yields, targets, strict=True) if out.type.axes]
    return PlannedBody((*side.steps, *copies), side.yields)


def all_products(body: Body) -> Iterator[Product]:
    for step in body.steps:
        match step:
            case Product():
                yield step
            case Repeated(_, inner):
                yield from all_products(inner)
            case Chosen(_, then, otherwise):
                yield from all_products(then)
                yield from all_products(otherwise)
