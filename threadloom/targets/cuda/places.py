"""Where the tiles of loops stand: C variables for first positions, trip counts, and the walk over the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from threadloom.errors import InternalError
from threadloom.sched.boxes import in_whole_tiles
from threadloom.targets.cuda.copy import dim_name
from threadloom.targets.cuda.kernel_plan import KernelPlan
from threadloom.targets.cuda.registers import Place, Scope
from threadloom.task.ops import Loop
from threadloom.tile.ops import AxisKind, LoopAxis


class Places:
    """One role's view. `worker`: the role is a worker, whose part of a split axis begins further on."""

    def __init__(self, plan: KernelPlan, scope: Scope, worker: bool):
        self.plan, self.scope, self.worker = plan, scope, worker
        self.grid: dict[str, Place] = {}  # of the grid's axes
        self.loops: list[dict[int, dict[str, Place]]] = [{}]  # of the loops being written, outermost first, by stage
        self.around: list[int] = []  # for each loop but the innermost, the stage that runs the one inside
        self.counts: dict[str, str] = {}  # of loops over several axes: tiles of each
        self.trips: dict[int, str] = {}  # loop -> trip count of the run being written
        self.starts: dict[str, str] = {}
        self.stops: dict[str, str] = {}

    # ------------------------------------------------------------ grid

    def tile_counts(self, loop: Loop) -> list[tuple[LoopAxis, str]]:
        """(axis, C expression of the number of tiles the launch must cover) in the order of `loop`."""
        counts = []
        for a in loop.axes:
            count = self._ceil(dim_name(a.axis.dim), self.plan.grid_extent(a.axis.name))
            multiple = self.plan.rounded.get(a.axis.name, 1)  # blocks of a cluster have as many tiles each
            counts.append((a, f"ceil_div({count}, {multiple}) * {multiple}" if multiple > 1 else count))
        return counts

    def _ceil(self, count: str, extent: int) -> str:
        return count if extent == 1 else f"ceil_div({count}, {extent})"

    def declare_grid(self, loop: Loop) -> str:
        """Number of tiles per axis and in all; returns the name of the total."""
        w, total = self.scope.writer, []
        for a, count in self.tile_counts(loop):
            w.line(f"const i32 tiles_{a.axis.name} = {count};")
            total.append(f"tiles_{a.axis.name}")
        w.line(f"const i32 tiles = {' * '.join(total) or '1'};")
        return "tiles"

    def enter_tile(self, loop: Loop, tile: str, emit_scalars: Callable[[], None]) -> None:
        """Split the tile number into positions along the grid axes, as the partition orders them.

        `emit_scalars` writes what scalar code can be written with the axes known so far: bounds of later axes need it.
        Where an axis has bounds, the walk covers the longest it can be, and tiles beyond its end are passed over."""
        partition, w = self.plan.program.partition, self.scope.writer
        names = [a.axis.name for a in loop.axes]
        order = [x for x in partition.order if x in names] + [x for x in names if x not in partition.order]
        rest, block = tile, partition.group
        if partition.longest_first and block > 1 and len(order) >= 2:
            self._enter_section(loop, tile, order, block)
            self._enter_places(loop, emit_scalars)
            return
        grouped = block > 1 and len(order) >= 2
        plain = order[:-2] if grouped else order
        tail = order[len(plain) :]
        if not grouped:
            tail = []
        w.line(f"i32 rest = {rest};")
        if grouped:
            slow, fast = tail
            w.line(f"i32 plane = tiles_{slow} * tiles_{fast};")
            w.line("i32 in_plane = rest % plane;")
            w.line("rest /= plane;")
            w.note(f"{block} tiles of {slow} are visited together: both operands stay in L2")
            w.line(f"const i32 band = in_plane / ({block} * tiles_{fast});")
            w.line(f"const i32 height = min({block}, tiles_{slow} - band * {block});")
            w.line(f"const i32 in_band = in_plane - band * {block} * tiles_{fast};")
            w.line(f"const i32 index_{slow} = band * {block} + in_band % height;")
            w.line(f"const i32 index_{fast} = in_band / height;")
        for k, name in enumerate(reversed(plain)):
            last = k == len(plain) - 1
            longest_first = partition.longest_first and name == order[0] and self._is_tiled(loop, name)
            if last:
                w.line(f"const i32 index_{name} = {self._flip('rest', name, longest_first)};")
            else:
                w.line(f"const i32 index_{name} = {self._flip(f'rest % tiles_{name}', name, longest_first)};")
                w.line(f"rest /= tiles_{name};")
        self._enter_places(loop, emit_scalars)

    def _enter_section(self, loop: Loop, tile: str, order: list[str], block: int) -> None:
        """The tile of number `tile`, where `block` indices of all but the slowest axis are done from long to short
        tiles before the next."""
        w, (slow, *others) = self.scope.writer, order
        w.note(f"tiles from long to short, {block} indices of the other axes at a time: what they share stays in L2")
        w.line(f"const i32 others = {' * '.join(f'tiles_{name}' for name in others)};")
        w.line(f"const i32 section = {tile} / ({block} * tiles_{slow});")
        w.line(f"const i32 in_section = {tile} - section * ({block} * tiles_{slow});")
        w.line(f"const i32 height = min({block}, others - section * {block});")
        index = self._flip("in_section / height", slow, self._is_tiled(loop, slow))
        w.line(f"const i32 index_{slow} = {index};")
        w.line(f"i32 rest = section * {block} + in_section % height;")
        for name in reversed(others[1:]):
            w.line(f"const i32 index_{name} = rest % tiles_{name};")
            w.line(f"rest /= tiles_{name};")
        w.line(f"const i32 index_{others[0]} = rest;")

    def _enter_places(self, loop: Loop, emit_scalars: Callable[[], None]) -> None:
        """Places of the grid axes, whose tiles' indices are known."""
        places: dict[str, Place] = {}
        self.grid, self.loops, self.around = places, [{}], []
        for a in loop.axes:
            if a.start is not None or a.stop is not None:
                self.scope.places = self.at(0)
                emit_scalars()
            places[a.axis.name] = place = self._grid_place(a)
            if a.start is not None or a.stop is not None:
                first = place.whole.first if place.whole else place.first
                self.scope.writer.line(f"if ({first} >= {place.stop}) continue;  // every role passes over it")

    def _is_tiled(self, loop: Loop, name: str) -> bool:
        return next(a.axis.kind for a in loop.axes if a.axis.name == name) is AxisKind.TILE

    def _flip(self, text: str, name: str, flip: bool) -> str:
        return f"tiles_{name} - 1 - ({text})" if flip else text

    def _grid_place(self, a: LoopAxis) -> Place:
        name, extent = a.axis.name, self.plan.grid_extent(a.axis.name)
        start = self.bound(a.start, "0")
        stop = dim_name(a.axis.dim) if a.stop is None else f"min({self.bound(a.stop, '')}, {dim_name(a.axis.dim)})"
        first = f"index_{name}" if extent == 1 else f"index_{name} * {extent}"
        if start != "0":
            first = f"{start} + {first}"
        variable = self.scope.fresh(f"{name}_at")
        self.scope.writer.line(f"const i32 {variable} = {first};")
        if a.stop is not None:
            limit = self.scope.fresh(f"{name}_stop")
            self.scope.writer.line(f"const i32 {limit} = {stop};")
            stop = limit
        if a.axis.kind is AxisKind.TILE:
            mine = self.plan.worker_extents[name]
            if self.worker and mine < extent:
                part = self.scope.fresh(f"{name}_mine")
                self.scope.writer.line(f"const i32 {part} = {variable} + worker * {mine};")
                whole = Place(variable, stop, extent, full=False)
                return Place(part, stop, mine, full=False, offset=f"worker * {mine}", whole=whole)
        return Place(variable, stop, extent, full=extent == 1 and a.start is None and a.stop is None)

    def bound(self, value, otherwise: str) -> str:
        if value is None:
            return otherwise
        held = self.scope.registers.get(value.name)
        if held is None:
            raise InternalError(f"loop bound {value.name} is not known here")
        return f"(i32)({held.name})"

    # ------------------------------------------------------------ streams

    def enter_loop(self, loop: Loop) -> str:
        """Bounds and trip count of one run; returns the C name of the trip count."""
        w, counts = self.scope.writer, []
        for a in loop.axes:
            name, extent = a.axis.name, self.plan.extents[a.axis.name]
            size = dim_name(a.axis.dim)
            start, stop = self.bound(a.start, "0"), size if a.stop is None else f"min({self.bound(a.stop, '')}, {size})"
            if name in self.grid:  # walked inside the grid's tile
                start = self.grid[name].first
                stop = f"min({start} + {self.plan.grid_extent(name)}, {size})"
            if start != "0":
                variable = self.scope.fresh(f"{name}_start")
                w.line(f"const i32 {variable} = max({start}, 0);")
                start = variable
            if a.stop is not None:
                variable = self.scope.fresh(f"{name}_stop")
                w.line(f"const i32 {variable} = {stop};")
                stop = variable
            self.starts[name] = start
            limit = size if in_whole_tiles(name, extent, self.plan.program.graph) else stop
            span = stop if start == "0" else f"max({stop} - {start}, 0)"
            counts.append(
                (name, self._ceil(span if a.stop is None or start != "0" else f"max({stop}, 0)", extent), limit)
            )
        self.stops |= {name: stop for name, _, stop in counts}
        variable = self.scope.fresh("count")
        if len(counts) > 1:
            for name, count, _ in counts:
                self.counts[name] = self.scope.fresh(f"tiles_{name}")
                w.line(f"const i32 {self.counts[name]} = {count};")
            w.line(f"const i32 {variable} = {' * '.join(self.counts[name] for name, _, _ in counts)};")
        else:
            w.line(f"const i32 {variable} = {counts[0][1]};")
        self.trips[loop.id] = variable
        return variable

    def enter_instance(self, loop: Loop, instance: str, stage: int) -> None:
        """Positions of the tiles of local instance `instance` (a C expression)."""
        w, places = self.scope.writer, {}
        indices = {}
        if loop.id in self.plan.backwards:
            instance = f"{self.trips[loop.id]} - 1 - ({instance})"
        if len(loop.axes) > 1:
            rest = self.scope.fresh("rest")
            w.line(f"i32 {rest} = {instance};")
            for k, a in enumerate(reversed(loop.axes)):
                name = a.axis.name
                index = self.scope.fresh(f"index_{name}")
                if k < len(loop.axes) - 1:
                    w.line(f"const i32 {index} = {rest} % {self.counts[name]};")
                    w.line(f"{rest} /= {self.counts[name]};")
                else:
                    w.line(f"const i32 {index} = {rest};")
                indices[name] = index
        for a in loop.axes:
            name, extent = a.axis.name, self.plan.extents[a.axis.name]
            index, start = indices.get(name, f"({instance})"), self.starts[name]
            step = index if extent == 1 else f"{index} * {extent}"
            variable = self.scope.fresh(f"{name}_at")
            w.line(f"const i32 {variable} = {step if start == '0' else f'{start} + {step}'};")
            places[name] = Place(variable, self.stops[name], extent, full=extent == 1)
        self.loops[-1][stage] = places

    def _whole_place(self, name: str) -> Place:
        """Of an axis that no loop cuts: all of it, or the worker's part."""
        extent, mine = self.plan.extents[name], self.plan.worker_extents[name]
        whole = Place("0", str(extent), extent, full=True)
        if not self.worker or mine == extent:
            return whole
        first = f"worker * {mine}"
        if extent % mine:  # the last worker has less
            return Place(first, str(extent), mine, full=False, offset=first, whole=whole)
        return Place(first, f"{first} + {mine}", mine, full=True, offset=first, whole=whole)

    @contextmanager
    def inside(self, stage: int) -> Iterator[None]:
        """While the loop that an instruction of `stage` runs is written."""
        self.loops.append({})
        self.around.append(stage)
        yield
        self.loops.pop()
        self.around.pop()

    def at(self, stage: int) -> dict[str, Place]:
        """Places of all axes for an instruction of `stage`."""
        whole = {a.name: self._whole_place(a.name) for a in self.plan.axes.values() if a.kind is AxisKind.WHOLE}
        found = whole | self.grid
        for loop, its_stage in zip(self.loops, (*self.around, stage), strict=True):
            found |= loop.get(its_stage, {})
        return found
