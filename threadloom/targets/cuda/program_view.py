"""What an sProgram says, looked up by name: tasks, extents, buffers, signals, and the words that explain them.

Nothing here knows registers or shared-memory addresses: kernel_plan.py adds these.
"""

from __future__ import annotations

from functools import cached_property

from threadloom.machine.model import Completion
from threadloom.sched.backwards import backwards_loops
from threadloom.sched.clusters import rounded_tiles
from threadloom.sched.ops import Buffer, Issue, Reason, Signal, SProgram, Why
from threadloom.sched.tile_map import TileMap
from threadloom.task.ops import Guard, Loop, Method, STask
from threadloom.tile import ops as tile
from threadloom.tile.uses import operands, results


class ProgramView:
    """`program`, for launches like `dims`: dimension -> extent (WHOLE axes are compiled in)."""

    program: SProgram
    dims: dict[str, int]

    # ------------------------------------------------------------ tables

    @cached_property
    def tasks(self) -> dict[str, STask]:
        return {t.name: t for t in self.program.graph.tasks}

    @cached_property
    def tiles(self) -> TileMap:
        return TileMap(self.program.graph)

    @cached_property
    def values(self) -> dict[str, tile.Value]:
        graph = self.program.graph
        found = {v.name: v for t in graph.tasks for op in t.ops for v in (*operands(op), *results(op))}
        return found | {v.name: v for loop in graph.loops for c in loop.carried for v in c}

    @cached_property
    def axes(self) -> dict[str, tile.Axis]:
        return {a.name: a for a in self.program.graph.kernel.axes}

    @cached_property
    def issued(self) -> dict[str, Issue]:
        return {i.task: i for s in self.program.sections for i in s.instrs if isinstance(i, Issue)}

    def guards(self, task: STask) -> tuple[Guard, ...]:
        return tuple(g for g in self.program.graph.guards if g.task == task.name)

    def loop(self, number: int) -> Loop:
        return next(x for x in self.program.graph.loops if x.id == number)

    def home_loop(self, value: str) -> int:
        """The loop whose counter gives the slot of `value`."""
        made = self.tiles.tile(self.tiles.of(value)).producers
        return self.tasks[made[0]].loop

    # ------------------------------------------------------------ extents

    @cached_property
    def extents(self) -> dict[str, int]:
        """Elements of one EU's tile along each axis."""
        chosen = {t.axis: t.extent for t in self.program.partition.tiles}
        return {name: self._extent(axis, chosen) for name, axis in self.axes.items()}

    def _extent(self, axis: tile.Axis, chosen: dict[str, int]) -> int:
        if axis.kind is tile.AxisKind.EACH:
            return 1
        if axis.name in chosen and axis.kind is tile.AxisKind.TILE:
            return chosen[axis.name]
        return axis.dim if isinstance(axis.dim, int) else self.dims[axis.dim]

    @cached_property
    def backwards(self) -> frozenset[int]:
        """Loops that go from their last tile to the first."""
        return backwards_loops(self.program.graph) if self.program.partition.backwards else frozenset()

    @cached_property
    def rounded(self) -> dict[str, int]:
        """Grid axis -> what its number of tiles is rounded up to a multiple of."""
        return rounded_tiles(self.program.graph, self.program.partition)

    def grid_extent(self, axis: str) -> int:
        """Indices of a grid axis that one tile of the grid has: those of a walked axis are taken one at a time."""
        walked = axis in self.program.partition.sequential
        return self.program.partition.extent(axis) if walked else self.extents[axis]

    @cached_property
    def worker_extents(self) -> dict[str, int]:
        mine = {t.axis: t.worker_extent for t in self.program.partition.tiles if t.worker_extent < t.extent}
        return self.extents | mine

    def done_by_each_worker(self, task: STask) -> bool:
        """Whether every worker does the whole of the task: it has no axis that they share."""
        mine = {a for a, extent in self.worker_extents.items() if extent < self.extents[a]}
        touched = {*task.axes, *(a for o in task.ops for v in (*operands(o), *results(o)) for a in v.type.axes)}
        written = [o for o in task.ops if isinstance(o, tile.Store | tile.AtomicAdd)]
        touched |= {t.axis for o in written for s in o.subscripts for t in s.terms}
        return self.program.partition.workers > 1 and not mine & touched

    def worker_rows(self, axis: str, rows: int) -> str:
        """C expression of a worker's first position along `axis` in a tile of which each has `rows`, "" where all of
        them have all of it."""
        return f"worker * {rows}" if self.worker_extents.get(axis, 1) < self.extents.get(axis, 1) else ""

    # ------------------------------------------------------------ buffers and signals

    @cached_property
    def buffers(self) -> dict[str, Buffer]:
        return {b.name: b for b in self.program.buffers}

    def find_buffer(self, name: str) -> Buffer | None:
        return self.buffers.get(name)

    def buffer(self, name: str) -> Buffer:
        return self.buffers[name]

    @cached_property
    def signals(self) -> dict[str, Signal]:
        return {s.name: s for s in self.program.signals}

    def signal(self, name: str) -> Signal:
        return self.signals[name]

    @cached_property
    def rings(self) -> list[Signal]:
        return [s for s in self.program.signals if s.kind is Completion.MBARRIER]

    def is_group(self, signal: str) -> bool:
        """Whether `signal` is the FIFO of matrix products."""
        return signal in self.signals and self.signals[signal].kind is Completion.MMA_GROUP

    def is_store_group(self, signal: str) -> bool:
        return signal in self.signals and self.signals[signal].kind is Completion.COPY_GROUP

    def barrier_index(self, signal: str) -> int:
        return [s.name for s in self.rings].index(signal)

    def filled_by_copies(self, buffer: str) -> bool:
        """Whether bulk copies write the buffer."""
        full = f"full.{buffer}"
        return any(i.completes == full and i.method is Method.BULK_COPY for i in self.issued.values())

    def stages(self, loop: int) -> int:
        return next((p.stages for p in self.program.loops if p.loop == loop), 1)

    def tasks_of(self, role: str) -> set[str]:
        """The sTasks that the role runs."""
        return {i.task for s in self.program.sections if s.role == role for i in s.instrs if isinstance(i, Issue)}

    # ------------------------------------------------------------ words

    def task(self, name: str) -> STask:
        return self.tasks[name]

    def value(self, name: str) -> tile.Value:
        return self.values[name]

    def explain(self, reason: Reason) -> str:
        """Why a wait or an arrival is there; the same words in all workers."""
        if reason.why is Why.ORDER:
            return f"order: {reason.src} -> {reason.dst}, workers take turns on {reason.buffer}"
        found = self.find_buffer(reason.buffer)
        away = f", {reason.distance} iterations earlier" if reason.distance else ""
        return f"{reason.why}: {reason.src} -> {reason.dst} ({found.tile if found else reason.buffer}{away})"

    def describe(self, task: STask) -> str:
        made = ", ".join(task.writes)
        return f"{task.name}{f': {made}' if made else ''}"
