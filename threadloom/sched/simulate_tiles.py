"""Adversarial simulation on real arrays: each sTask runs its tile operations on what it finds in its slots.

before: an sProgram, inputs, dims. after: the outputs that the program's EUs computed, in the worst orders that the
adversaries of `simulate_values.py` find. The task graph is first walked in its own order to learn trip counts, index
ranges, scalar values and false guards of every task instance.

A store by bulk copies writes whole tiles, cut at the tensor's edges only: what it writes beyond the tile's own end
holds garbage here, and it lands last, because nothing orders EUs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from threadloom.dtypes import numpy_dtype
from threadloom.machine.devices import device as device_named
from threadloom.machine.model import Device
from threadloom.sched.adversaries import Adversary, adversaries
from threadloom.sched.check_trips import repeats
from threadloom.sched.ops import Issue, SProgram
from threadloom.sched.semantics import Places, TaskInstance, Trips
from threadloom.sched.simulate_values import Outcome, Simulation
from threadloom.sched.simulated_state import ALL, Cells, Content
from threadloom.task.interp import GraphRun
from threadloom.task.ops import Loop, Method, STask, TaskGraph
from threadloom.tile.interp import Run, convert, index_arrays, run_op
from threadloom.tile.ops import Access, Store

Arrays = Mapping[str, np.ndarray]
Scalars = Mapping[str, float | int | bool]


@dataclass(slots=True)
class Situation:
    """What one task instance finds: index range of each axis, scalar values, whether its guard lets it run."""

    ranges: dict[str, tuple[int, int]]
    scalars: dict[str, np.ndarray]
    runs: bool


@dataclass(slots=True)
class Walk:
    """One EU's share of the grid: situation of every task instance, and trip counts."""

    situations: dict[TaskInstance, Situation] = field(default_factory=dict)
    runs: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    tiles: int = 0

    @property
    def trips(self) -> Trips:
        counts = {loop: tuple(runs) or (0,) for loop, runs in self.runs.items()}
        return Trips({**counts, 0: (self.tiles,)})


class _Walker(GraphRun):
    """The interpreter of task graphs, for the grid positions `eu`, `eu + eus`, ..., taking notes."""

    def __init__(self, graph: TaskGraph, run: Run, eu: int, eus: int):
        super().__init__(graph, run)
        self.eu, self.eus, self.positions = eu, eus, 0
        self.walk = Walk()
        self._times: dict[str, int] = defaultdict(int)
        self._iterations: dict[int, int] = defaultdict(int)
        self._noting = False
        self._guarded = {value for name in self.guards for value in self.tasks[name].writes}

    def grid(self) -> None:
        root = self.loops[0]
        for at, _ in enumerate(self._positions(root.axes)):
            self.positions += 1
            if at % self.eus == self.eu:
                self._noting = True
                self.items(root)
                self._noting = False
                self.walk.tiles += 1

    def items(self, loop: Loop) -> None:
        self._iterations[loop.id] += 1
        for _, arg, following, _ in loop.carried:
            if following.name in self._guarded:  # updated in place: what no branch writes stays as it was
                self.run.values[following.name] = self.run.values.get(arg.name)
        super().items(loop)

    def stream(self, loop: Loop) -> None:
        before = self._iterations[loop.id]
        super().stream(loop)
        self.walk.runs[loop.id].append(self._iterations[loop.id] - before)

    def task(self, task: STask) -> None:
        if not self._noting:  # scalar code for the bounds of the grid
            super().task(task)
            return
        values = self.run.values
        runs = all(bool(values[cond]) is wanted for cond, wanted in self.guards.get(task.name, ()))
        scalars = {name: values[name] for name in values if np.ndim(values[name]) == 0}
        who = TaskInstance(task.name, self._times[task.name])
        self._times[task.name] += 1
        self.walk.situations[who] = Situation(dict(self.run.ranges), scalars, runs)
        super().task(task)


class TileExecutor:
    """Runs task instances on arrays; outputs go to `run.tensors`."""

    def __init__(self, program: SProgram, run: Run, walk: Walk):
        self.run_, self.walk = run, walk
        self.tasks = {task.name: task for task in program.graph.tasks}
        self.places = Places(program)
        self.split = {t.axis: t.worker_extent for t in program.partition.tiles if t.worker_extent < t.extent}
        self.extents = {t.axis: t.worker_extent for t in program.partition.tiles}
        issues = [i for s in program.sections for i in s.instrs if isinstance(i, Issue)]
        self.bulk = {i.task for i in issues if i.method is Method.BULK_COPY}
        self.overruns: list[tuple[str, tuple[np.ndarray, ...]]] = []  # (tensor, indices) written beyond tiles' ends

    def run(self, who: TaskInstance, part: int, inputs: dict[str, Cells]) -> dict[str, Content]:
        task, situation = self.tasks[who.task], self.walk.situations[who]
        run = self.run_
        run.ranges.update(situation.ranges)
        run.values = dict(situation.scalars)
        part = ALL if self.places.is_whole(who.task) else part
        if part != ALL:
            run.ranges.update(self._part(situation.ranges, part))
        for value, cells in inputs.items():
            run.values[value] = self._assemble(value, cells, situation, part)
        for op in task.ops:
            run_op(run, op)
            if isinstance(op, Store) and task.name in self.bulk:
                self._note_overrun(op)
        return {value: run.values[value] for value in task.writes}

    def _note_overrun(self, op: Store) -> None:
        """Where the whole tile lies in the tensor but its valid part does not."""
        run, axes = self.run_, op.value.type.axes
        valid = {a: run.ranges[a] for a in axes}
        run.ranges.update({a: (first, max(stop, first + self.extents.get(a, 0))) for a, (first, stop) in valid.items()})
        found = [np.asarray(x) for x in np.broadcast_arrays(*index_arrays(run, op.subscripts, axes))]
        beyond = np.zeros(found[0].shape, bool)
        for k, axis in enumerate(axes):
            along = np.arange(found[0].shape[k]) >= valid[axis][1] - valid[axis][0]
            beyond |= along.reshape([-1 if k == j else 1 for j in range(len(axes))])
        for index, size in zip(found, run.tensors[op.tensor].shape, strict=True):
            beyond &= (index >= 0) & (index < size)
        run.ranges.update(valid)
        if beyond.any():
            self.overruns.append((op.tensor, tuple(index[beyond] for index in found)))

    def _part(self, ranges: dict[str, tuple[int, int]], part: int) -> dict[str, tuple[int, int]]:
        """The index ranges of one worker's share."""
        found = {}
        for axis, extent in self.split.items():
            if axis in ranges:
                start, stop = ranges[axis]
                first = min(start + part * extent, stop)
                found[axis] = (first, min(first + extent, stop))
        return found

    def _assemble(self, value: str, cells: Cells, situation: Situation, part: int) -> np.ndarray:
        tile = self.places.tiles[self.places.tile(value) or value]
        axes = tile.type.axes
        at = next((n for n, axis in enumerate(axes) if axis in self.split), None)
        ordered = [array for _, array in sorted(cells.items(), key=lambda cell: cell[0])]
        if len(ordered) > 1 and at is not None:
            return np.concatenate([np.asarray(a) for a in ordered], axis=at)
        array = np.asarray(ordered[0])
        whole = next(iter(cells))[0] == ALL
        if at is None or part == ALL or not whole:
            return array
        start, _ = situation.ranges[axes[at]]
        first, last = self._part(situation.ranges, part)[axes[at]]
        return array[(slice(None),) * at + (slice(first - start, last - start),)]


def simulate_tiles(
    program: SProgram,
    tensors: Arrays,
    scalars: Scalars,
    dims: Mapping[str, int],
    device: Device | None = None,
    eus: int = 2,
    random_ones: int = 2,
) -> Iterator[tuple[Outcome, dict[str, np.ndarray]]]:
    """For each adversary: the first wrong outcome of any EU (or a right one), and the tensors after all EUs ran."""
    device = device or device_named(program.device)
    if program.combine is not None:
        tensors = {**between_tensors(program, dims), **tensors}
    tiles = _tiles(program)
    walks = _walks(program, tensors, scalars, dims, tiles, eus)
    for number, adversary in enumerate(adversaries(program, device, random_ones)):
        made = {name: np.array(array) for name, array in tensors.items()}
        outcome = _outcome(program, device, made, dims, tiles, walks, adversary)
        if outcome.right and (after := program.combine) is not None:
            machine = device if after.device == program.device else device_named(after.device)
            enemies = list(adversaries(after, machine, random_ones))
            following = _walks(after, made, scalars, dims, _tiles(after), eus)
            enemy = enemies[number % len(enemies)]
            outcome = _outcome(after, machine, made, dims, _tiles(after), following, enemy)
        yield outcome, made


def _tiles(program: SProgram) -> dict[str, int]:
    return {t.axis: t.extent for t in program.partition.tiles}


def between_tensors(program: SProgram, dims: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Arrays for what goes from a program to that which combines its parts, full of what no result may show."""
    found = {}
    for tensor in program.graph.kernel.tensors:
        if tensor.access is Access.OUT:
            shape = tuple(d if isinstance(d, int) else dims[d] for d in tensor.dims)
            poison = np.nan if tensor.dtype.is_float else 77
            found[tensor.name] = np.full(shape, poison).astype(numpy_dtype(tensor.dtype))
    return found


def _walks(
    program: SProgram, tensors: Arrays, scalars: Scalars, dims: Mapping[str, int], tiles: dict[str, int], eus: int
) -> list[Walk]:
    """The share of each EU: every `eus`-th tile, or one tile each where loop 0 does not repeat."""

    def walker(eu: int, count: int) -> _Walker:
        scratch = {name: np.array(array) for name, array in tensors.items()}
        run = Run(program.graph.kernel, scratch, dims, tiles)
        for scalar in program.graph.kernel.scalars:
            run.values[scalar.name] = convert(run, np.asarray(scalars[scalar.name]), scalar.dtype)
        made = _Walker(program.graph, run, eu, count)
        made.grid()
        return made

    if not repeats(program):
        eus = max(1, walker(0, 1).positions)
    return [walker(eu, eus).walk for eu in range(eus)]


def _outcome(
    program: SProgram,
    device: Device,
    tensors: dict[str, np.ndarray],
    dims: Mapping[str, int],
    tiles: dict[str, int],
    walks: list[Walk],
    adversary: Adversary,
) -> Outcome:
    overruns: list[tuple[str, tuple[np.ndarray, ...]]] = []
    for walk in walks:
        if walk.tiles == 0:
            continue
        executor = TileExecutor(program, Run(program.graph.kernel, tensors, dims, tiles), walk)
        situations = walk.situations
        simulation = Simulation(
            program, device, walk.trips, executor, skipped=lambda who, s=situations: not s[who].runs
        )
        outcome = simulation.run(adversary)
        if not outcome.right:
            return outcome
        overruns += executor.overruns
    for tensor, indices in overruns:
        tensors[tensor][indices] = np.array(np.nan).astype(tensors[tensor].dtype)
    return Outcome("right", "", str(adversary))
