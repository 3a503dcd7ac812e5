"""The meaning of an sProgram as code: what each role executes, and which instance of each value every task means.

`docs/sprogram.md` is the text of this page. Two things are made here, for given trip counts:

* `streams`: per role the list of `Step`s it executes (loops unrolled, stages applied, running instances counted);
* `Reference`: the task graph run in its own order, which says what content every read of every task instance expects
  and in which place (running instance of the tile, so slot) each content lies.

The checker and the simulator stand on it; it shares no code with the policies that make sPrograms.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from threadloom.errors import InternalError
from threadloom.machine.model import GROUPS, Completion
from threadloom.sched.ops import Arrive, Buffer, Fence, Inner, Instr, Issue, Section, SProgram, Wait, Why
from threadloom.task.ops import Loop, STask, TaskGraph, Tile
from threadloom.tile.uses import summed_axes


@dataclass(frozen=True)
class Trips:
    """Trip counts: run number r of loop L has `counts[L][r % len(counts[L])]` iterations."""

    counts: Mapping[int, tuple[int, ...]]

    def __str__(self) -> str:
        return ", ".join(f"loop {k}: {'/'.join(map(str, v))}" for k, v in sorted(self.counts.items()))


class TaskInstance(NamedTuple):
    """Running instance `instance` of sTask `task` in its loop. A tuple: the checker hashes them all the time."""

    task: str
    instance: int

    def __str__(self) -> str:
        return f"{self.task}[{self.instance}]"


class Step(NamedTuple):
    """One executed (or, for Issues into a group FIFO, skipped: `active` False) instruction of a role on EU `eu`.

    `local` counts within the run of the loop, `running` over all its runs. (A tuple: they are made by the thousand.)
    """

    role: str
    eu: int
    loop: int
    position: int  # in the section
    instr: Instr
    local: int
    running: int
    active: bool = True

    def __str__(self) -> str:
        return f"{describe(self.instr)} at instance {self.running} in {self.role}"


def describe(instr: Instr) -> str:
    """The instruction in a few words, for messages."""
    match instr:
        case Issue(task=task, seu=seu):
            return f"issue {task} on {seu}"
        case Wait(signal=signal, reason=reason):
            return f"wait {signal} ({reason.why}: {reason.src} -> {reason.dst} over {reason.buffer})"
        case Arrive(signal=signal):
            return f"arrive {signal}"
        case Fence(buffer=buffer, before=before, after=after):
            return f"fence {buffer} {before}->{after}"
        case Inner(loop=loop):
            return f"run loop {loop}"
    return type(instr).__name__.lower()


# ---------------------------------------------------------------- loops and their runs


@dataclass(frozen=True)
class LoopRuns:
    """All runs of one loop: trip count and first running instance of each."""

    counts: tuple[int, ...]
    starts: tuple[int, ...]

    @property
    def total(self) -> int:
        return self.starts[-1] + self.counts[-1] if self.counts else 0


def loop_runs(graph: TaskGraph, trips: Trips) -> dict[int, LoopRuns]:
    """Runs of every loop of the tree: a loop runs once per instance of its parent, loop 0 once."""
    runs: dict[int, LoopRuns] = {}
    pending = sorted(graph.loops, key=lambda loop: depth(graph, loop))  # a loop stands deeper than the one it is like
    for loop in pending:
        times = 1 if loop.parent is None else runs[loop.parent].total
        given = trips.counts.get(loop.id, (1,))
        counts = tuple(given[r % len(given)] for r in range(times))
        if loop.like is not None:
            counts = _counts_like(graph, loop, runs)
        starts, at = [], 0
        for n in counts:
            starts.append(at)
            at += n
        runs[loop.id] = LoopRuns(counts, tuple(starts))
    return runs


def _counts_like(graph: TaskGraph, loop: Loop, runs: dict[int, LoopRuns]) -> tuple[int, ...]:
    """Trip counts of a loop that goes through what the latest run of another loop made."""
    source = loop_of(graph, loop.like)
    owners, at = list(range(runs[loop.parent].total)), loop.parent  # of each run: the instance of loop `at` it lies in
    while at != source.parent:
        around = runs[at]
        instances = [run for run, n in enumerate(around.counts) for _ in range(n)]  # of each instance: its run
        owners, at = [instances[i] for i in owners], loop_of(graph, at).parent
    return tuple(runs[source.id].counts[i] for i in owners)


def loop_of(graph: TaskGraph, loop: int) -> Loop:
    return next(item for item in graph.loops if item.id == loop)


def depth(graph: TaskGraph, loop: Loop) -> int:
    levels = 0
    while loop.parent is not None:
        loop, levels = loop_of(graph, loop.parent), levels + 1
    return levels


def stages_of(program: SProgram, loop: int) -> int:
    """Stages of `loop`: as planned, and never fewer than the instructions of its sections use."""
    planned = next((plan.stages for plan in program.loops if plan.loop == loop), 1)
    used = (i.stage for s in program.sections if s.loop == loop for i in s.instrs)
    return max(planned, 1 + max(used, default=0))


# ---------------------------------------------------------------- streams


def streams(program: SProgram, trips: Trips, eus: int = 1) -> dict[tuple[int, str], list[Step]]:
    """What each role of each of `eus` EUs (of one cluster) executes, in order."""
    runs = loop_runs(program.graph, trips)
    stages = {loop.id: stages_of(program, loop.id) for loop in program.graph.loops}
    kinds = {signal.name: signal.kind for signal in program.signals}
    sections = {(s.loop, s.role): s for s in program.sections}
    result: dict[tuple[int, str], list[Step]] = {}
    for eu in range(eus):
        for role in program.roles:
            unroller = _Unroller(role.name, eu, sections, runs, stages, kinds)
            unroller.visit(0, 0)
            result[eu, role.name] = unroller.out
    return result


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of a loop: `count` instances from running instance `start` on.

    `begun`: so many instructions of its first instance the run before has done; `following`: the Inner whose next run
    this one begins in its first pass without an instance of its own, and `early` what of the loop around it does then.
    """

    section: Section
    count: int
    start: int
    begun: int
    following: Inner | None
    early: Sequence[Step]


class _Unroller:
    """What one role of one EU executes: `out`, after `visit`."""

    def __init__(
        self,
        role: str,
        eu: int,
        sections: dict[tuple[int, str], Section],
        runs: dict[int, LoopRuns],
        stages: dict[int, int],
        kinds: dict[str, Completion],
    ):
        self.role, self.eu = role, eu
        self.sections = {loop: section for (loop, name), section in sections.items() if name == role}
        self.runs, self.stages, self.kinds = runs, stages, kinds
        self.done_early = {loop: early_instrs(section) for loop, section in self.sections.items()}
        self.in_order = {loop for loop, section in self.sections.items() if not _begins_inner(section)}
        self.out: list[Step] = []

    def visit(
        self, loop: int, run: int, begun: int = 0, following: Inner | None = None, early: Sequence[Step] = ()
    ) -> None:
        """Run number `run` of `loop`, pass after pass; pass t does stage s of instance t - s."""
        if loop not in self.sections or loop not in self.runs:
            return
        count, start = self.runs[loop].counts[run], self.runs[loop].starts[run]
        this = _Run(self.sections[loop], count, start, begun, following, early)
        for t in range(count + self.stages[loop] - 1):
            if loop in self.in_order and not begun and (following is None or t != count):
                self._plain_pass(this, t)
            else:
                self._pass(this, t)

    def _plain_pass(self, run: _Run, t: int) -> None:
        """A pass in which no other run has begun, or begins, anything (most are, so this one is short)."""
        loop = run.section.loop
        for position, instr in enumerate(run.section.instrs):
            i = t - instr.stage
            active = 0 <= i < run.count
            if active and isinstance(instr, Inner):
                self.visit(instr.loop, run.start + i)
            elif active or self._counts_skipped(instr):
                self.out.append(Step(self.role, self.eu, loop, position, instr, i, run.start + i, active))

    def _pass(self, run: _Run, t: int) -> None:
        section, next_run = run.section, run.following if t == run.count else None
        order: Sequence[int] = range(len(section.instrs))
        if next_run is not None:
            order = begin_order(section, next_run.ahead)
            first = sum(i.stage > 0 for i in section.instrs[: next_run.ahead])  # of the next run's
        begun: Inner | None = None  # an inner loop whose next run was begun in this pass
        for at, position in enumerate(order):
            if next_run is not None and at == first:
                self.out += run.early
            instr = section.instrs[position]
            step = self._step(run, t, position)
            leads = next_run is not None and position < next_run.ahead
            if (ahead := begun or (None if leads else next_run)) is not None:
                step = self._behind(step, ahead)
            if isinstance(instr, Inner):
                if step.active and self._visit_inner(section, step, run.count):
                    begun = instr
            elif leads and instr.stage == 0:
                self.out.append(step._replace(local=0, active=True))
            elif not self._is_done(run, step) and (step.active or self._counts_skipped(instr)):
                self.out.append(step)

    def _step(self, run: _Run, t: int, position: int) -> Step:
        instr = run.section.instrs[position]
        i = t - instr.stage
        return Step(self.role, self.eu, run.section.loop, position, instr, i, run.start + i, 0 <= i < run.count)

    def _visit_inner(self, section: Section, at: Step, count: int) -> bool:
        """Run the inner loop; whether its next run was begun."""
        inner, run = at.instr, at.running
        begun = inner.ahead if at.local > 0 and self._begins(inner, run - 1) else 0
        following = at.local + 1 < count and self._begins(inner, run)
        early = [
            at._replace(position=position, instr=section.instrs[position], local=at.local + 1, running=run + 1)
            for position in range(at.position - inner.early, at.position)
        ]
        self.visit(inner.loop, run, begun, inner if following else None, early)
        return following

    def _begins(self, inner: Inner, run: int) -> bool:
        """Whether run `run` of the inner loop begins the next one."""
        counts = self.runs[inner.loop].counts
        asked = inner.ahead + inner.early > 0
        return asked and run + 1 < len(counts) and counts[run] > 0 and counts[run + 1] > 0

    def _is_done(self, run: _Run, step: Step) -> bool:
        """Whether the run before, or the inner loop's run before, has done it."""
        if step.local == 0:
            return step.instr.stage == 0 and step.position < run.begun
        inner = self.done_early[step.loop].get(step.position)
        return inner is not None and step.local > 0 and self._begins(inner, step.running - 1)

    def _counts_skipped(self, instr: Instr) -> bool:
        """Waits count the groups of such an Issue: one that is skipped makes an empty group."""
        return isinstance(instr, Issue) and self.kinds.get(instr.completes) in GROUPS

    def _behind(self, step: Step, ahead: Inner) -> Step:
        """The step after the next run was begun: groups of that run are younger than what a Wait counts."""
        if not isinstance(step.instr, Wait) or self.kinds.get(step.instr.signal) not in GROUPS:
            return step
        leading = self.sections[ahead.loop].instrs[: ahead.ahead]
        groups = sum(isinstance(i, Issue) and i.stage == 0 and i.completes == step.instr.signal for i in leading)
        return step._replace(instr=replace(step.instr, pending=step.instr.pending + groups))


def _begins_inner(section: Section) -> bool:
    """Whether it has an inner loop whose runs begin one another."""
    return any(isinstance(i, Inner) and i.ahead + i.early > 0 for i in section.instrs)


def begin_order(section: Section, ahead: int) -> list[int]:
    """Positions in the pass that begins the next run: of the leading ones the later stages first, whose results are
    waited for sooner."""
    leading = range(min(ahead, len(section.instrs)))
    return sorted(leading, key=lambda at: section.instrs[at].stage == 0) + list(range(ahead, len(section.instrs)))


def early_instrs(section: Section) -> dict[int, Inner]:
    """Position of an instruction that may be done early -> the Inner that it is done early for."""
    inner = [(at, i) for at, i in enumerate(section.instrs) if isinstance(i, Inner)]
    return {position: i for at, i in inner for position in range(at - i.early, at)}


def wait_target(step: Step, slots: int) -> int | None:
    """The running instance whose completion a ring Wait waits for; None where it is skipped (section 5). Negative: a
    fresh entry, which the wait passes by the entry's phase bit."""
    assert isinstance(step.instr, Wait)
    reason = step.instr.reason
    match reason.why:
        case Why.DEPENDENCE:
            return None if step.local < reason.distance else step.running - reason.distance
        case Why.SLOT_FREE:
            return step.running - slots
        case Why.ORDER:
            return step.running - reason.distance


# ---------------------------------------------------------------- tiles and places


class Places:
    """Which tile a value belongs to, whose instances it counts, and which buffer a role uses for it."""

    def __init__(self, program: SProgram):
        self.graph = program.graph
        self.tiles: dict[str, Tile] = {tile.name: tile for tile in program.graph.tiles}
        self._class = _carried_classes(program.graph)
        self._by_class = {self._class[n]: n for n in self.tiles if n in self._class}
        self._by_value = {value: tile.name for tile in program.graph.tiles for value in (tile.name, *tile.values)}
        self._buffers = {(b.tile, b.role): b for b in program.buffers}
        self._loops = {task.name: task.loop for task in program.graph.tasks}
        split = {t.axis for t in program.partition.tiles if t.worker_extent < t.extent}
        self._split = {name for name, tile in self.tiles.items() if split.intersection(tile.type.axes)}
        self._whole = {task.name for task in program.graph.tasks if any(split & summed_axes(op) for op in task.ops)}
        self._used: dict[tuple[str, str], Buffer] = {}

    @cached_property
    def homes(self) -> dict[str, int]:
        """Tile -> the loop whose running instance counts the tile's instances."""
        return {tile: self._home(tile) for tile in self.tiles}

    @cached_property
    def reads(self) -> dict[str, list[tuple[str, str]]]:
        """Task -> (value, tile) of the values it reads that lie in a tile."""
        return {task.name: self._placed(task.reads) for task in self.graph.tasks}

    @cached_property
    def writes(self) -> dict[str, list[tuple[str, str]]]:
        return {task.name: self._placed(task.writes) for task in self.graph.tasks}

    def _placed(self, values: Sequence[str]) -> list[tuple[str, str]]:
        return [(value, tile) for value in values if (tile := self.tile(value)) is not None]

    def tile(self, value: str) -> str | None:
        """The tile that holds `value`, or None where the value needs no place."""
        return self._by_value.get(value) or self._by_class.get(self._class.get(value, ""))

    def _home(self, tile: str) -> int:
        carriers = [
            loop for loop in self.graph.loops
            if any(self.tile(value.name) == tile for carried in loop.carried for value in carried)
        ]  # fmt: skip
        if carriers:
            outermost = min(carriers, key=lambda loop: depth(self.graph, loop))
            return outermost.parent if outermost.parent is not None else 0
        producers = self.tiles[tile].producers
        return self._loops.get(producers[0], 0) if producers else 0

    def buffer(self, tile: str, role: str) -> Buffer:
        """The buffer that `role` uses for `tile`; where the program has none, a single slot of the role's own."""
        if (tile, role) not in self._used:
            found = self._buffers.get((tile, role)) or self._buffers.get((tile, ""))
            self._used[tile, role] = found or Buffer(f"{tile}@{role}", tile, "", 0, 1, role=role)
        return self._used[tile, role]

    def is_split(self, tile: str, task: str) -> bool:
        """Whether the workers that do `task` each touch their own part of the tile only."""
        return tile in self._split and task not in self._whole

    def is_whole(self, task: str) -> bool:
        """Whether every worker that does the task needs whole tiles: it sums over the axis that workers split."""
        return task in self._whole


def _carried_classes(graph: TaskGraph) -> dict[str, str]:
    """Value name -> representative of all values that one carried tile holds in turn."""
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    for loop in graph.loops:
        for carried in loop.carried:
            for value in carried[1:]:
                parent[find(value.name)] = find(carried[0].name)
    return {name: find(name) for name in parent}


# ---------------------------------------------------------------- what every read means


@dataclass(slots=True)
class Use:
    """A task instance in the reference order: for each value read its tile and writer; the tiles it writes."""

    order: int
    reads: list[tuple[str, TaskInstance | None]] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)


class Reference:
    """The task graph executed in its own order: `uses` of all task instances, `place` of each content."""

    def __init__(self, program: SProgram, trips: Trips, places: Places):
        self.graph, self.places = program.graph, places
        self.runs = loop_runs(program.graph, trips)
        self.uses: dict[TaskInstance, Use] = {}
        self.place: dict[tuple[str, TaskInstance], int] = {}
        self._tasks = {task.name: task for task in program.graph.tasks}
        self._loops = {loop.id: loop for loop in program.graph.loops}
        self._writer: dict[str, TaskInstance] = {}
        self._now: dict[int, int] = {}
        self._kept: dict[int, list[dict[str, TaskInstance]]] = {n: [] for n in program.graph.kept_loops()}
        if self.runs[0].counts:
            self._run(0, 0)

    def instance_in(self, loop: int, who: TaskInstance) -> int | None:
        """The running instance of `loop` in which `who` runs; None where its sTask does not stand in that loop."""
        at, instance = self._tasks[who.task].loop, who.instance
        while at != loop:
            parent = self._loops[at].parent
            if parent is None:
                return None
            instance = bisect_right(self.runs[at].starts, instance) - 1  # its run; empty runs come before
            at = parent
        return instance

    def _run(self, loop_id: int, run: int) -> None:
        loop = self._loops[loop_id]
        for init, arg, _, _ in loop.carried:
            self._copy(init.name, arg.name)
        start = self.runs[loop_id].starts[run]
        if loop_id in self._kept:
            self._kept[loop_id] = []
        for i in range(self.runs[loop_id].counts[run]):
            self._now[loop_id] = start + i
            self._writer |= self._kept[loop.like][i] if loop.like is not None else {}
            for item in loop.items:
                if isinstance(item, int):
                    self._run(item, start + i)
                else:
                    self._execute(self._tasks[item], start + i)
            if loop_id in self._kept:
                values = (v for item in loop.items if isinstance(item, str) for v in self._tasks[item].writes)
                self._kept[loop_id].append({v: self._writer[v] for v in values})
            following = [(arg.name, self._writer.get(next_.name)) for _, arg, next_, _ in loop.carried]
            for arg, writer in following:
                self._set(arg, writer)
        for _, arg, _, result in loop.carried:
            self._copy(arg.name, result.name)

    def _copy(self, source: str, target: str) -> None:
        self._set(target, self._writer.get(source))

    def _set(self, value: str, writer: TaskInstance | None) -> None:
        if writer is None:
            self._writer.pop(value, None)
        else:
            self._writer[value] = writer

    def _execute(self, task: STask, instance: int) -> None:
        me = TaskInstance(task.name, instance)
        use = Use(len(self.uses))
        for value, tile in self.places.reads[task.name]:
            use.reads.append((tile, self._writer.get(value)))
        for value in task.writes:
            self._writer[value] = me
        for _, tile in self.places.writes[task.name]:
            use.writes.append(tile)
            self.place[tile, me] = self._now[self.places.homes[tile]]
        if me in self.uses:
            raise InternalError(f"task {me} stands twice in the loop tree")
        self.uses[me] = use
