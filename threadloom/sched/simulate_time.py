"""Timed simulation of an sProgram: a discrete-event model of roles, sEUs and signals that ranks candidate schedules.

Durations come from a profile (task -> Cycles), with jitter; what waits for what comes from the program itself. Units:
synchronous ones (vector lanes) are shared by all roles and slow down when their demands exceed 1; an asynchronous one
serves one task at a time: `fifo` in order of issue, `ordered` in the order of the plan's start times, `share` all
issued ones at once (what two warpgroups do to a tensor core when nothing orders them).
Not handled: several EUs, memory traffic between EUs (it is in the profile's rates).
Source: prototype study: static ii is not the hardware's; rank by simulation with jitter.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from threadloom.errors import InternalError
from threadloom.machine.devices import device as device_named
from threadloom.machine.model import GROUPS, SEU, Completion, Device
from threadloom.sched.ops import Arrive, Issue, SProgram, Wait
from threadloom.sched.semantics import Places, Reference, Step, TaskInstance, Trips, streams, wait_target
from threadloom.sched.timeline import Bar, MemoryCurve, Row, Stall, Timeline
from threadloom.task.ops import Method

MODES = ("fifo", "ordered", "share")


class Duration(Protocol):
    """Cycles that a unit is busy, the share of the unit it uses meanwhile, and cycles until the result is usable."""

    @property
    def occupancy(self) -> float: ...
    @property
    def demand(self) -> float: ...
    @property
    def latency(self) -> float: ...


Costs = Mapping[str, Duration]


@dataclass(slots=True)
class _Operation:
    """An issued task: `work` cycles of its unit still to do, then `after` cycles until the result is usable."""

    step: Step
    task: str
    unit: _Unit
    work: float
    after: float
    demand: float
    start: float = -1.0
    done: float = -1.0
    waiters: list[_Thread] = field(default_factory=list)


@dataclass(slots=True)
class _Unit:
    """State of one sEU: `active` runs now; `queue` waits; `planned` the order to keep in mode `ordered`."""

    seu: SEU
    shares: bool
    active: list[_Operation] = field(default_factory=list)
    queue: deque[_Operation] = field(default_factory=deque)
    planned: deque[tuple[str, str, int]] = field(default_factory=deque)
    since: float = 0.0
    version: int = 0


@dataclass(slots=True)
class _Entry:
    arrivals: int
    bytes: int
    waiters: list[_Thread] = field(default_factory=list)


@dataclass(slots=True)
class _Thread:
    """A role: next step `at`, its group FIFOs (None: an empty group), when it began to wait."""

    name: str
    steps: list[Step]
    at: int = 0
    fifos: dict[str, list[_Operation | None]] = field(default_factory=lambda: defaultdict(list))
    waiting_since: float = -1.0


def simulate_time(
    program: SProgram,
    costs: Costs,
    trips: Trips,
    jitter: float = 0.0,
    seed: int = 0,
    *,
    device: Device | None = None,
    mode: str = "fifo",
    memory: bool = False,
) -> Timeline:
    """Run `program` once on one EU: `costs` by task name, durations varied by up to +-`jitter` (a fraction)."""
    if mode not in MODES:
        raise InternalError(f"mode {mode!r} is none of {MODES}")
    simulation = _Simulation(program, costs, trips, jitter, seed, device or device_named(program.device), mode)
    simulation.run()
    return simulation.timeline(memory)


class _Simulation:
    def __init__(
        self, program: SProgram, costs: Costs, trips: Trips, jitter: float, seed: int, device: Device, mode: str
    ):
        self.program, self.costs, self.device, self.mode, self.trips = program, costs, device, mode, trips
        self.jitter, self.random = jitter, random.Random(seed)
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.sequence = 0
        self.signals = {signal.name: signal for signal in program.signals}
        self.units = {
            unit.name: _Unit(unit, not unit.is_async or (mode == "share" and Method.MATRIX in unit.methods))
            for unit in device.seus
        }
        self.threads = [_Thread(role, steps) for (_, role), steps in streams(program, trips).items()]
        self.entries: dict[tuple[str, int], _Entry] = {}
        self.bytes = self._written_bytes()
        self.cluster = program.partition.cluster
        self.multicast = {buffer.name for buffer in program.buffers if buffer.multicast > 1}
        self.expected: set[tuple[str, str, int]] = set()
        self.finished: list[_Operation] = []
        self.stalls: list[Stall] = []
        if mode == "ordered":
            self._plan_orders()

    def _written_bytes(self) -> dict[tuple[str, str], int]:
        places, found = Places(self.program), {}
        for task in self.program.graph.tasks:
            for role in self.program.roles:
                tiles = (places.tile(value) for value in task.writes)
                buffers = (places.buffer(tile, role.name) for tile in tiles if tile is not None)
                found[task.name, role.name] = sum(b.bytes_per_slot for b in buffers)
        return found

    def _plan_orders(self) -> None:
        """For each unit that serves one task at a time: all its tasks in the order of their planned starts."""
        plans = {plan.loop: (plan.ii_cycles, dict(plan.starts_cycles)) for plan in self.program.loops}
        keyed: dict[str, list[tuple[float, int, tuple[str, str, int]]]] = defaultdict(list)
        for thread in self.threads:
            for step in thread.steps:
                if isinstance(step.instr, Issue) and step.active:
                    ii, starts = plans.get(step.loop, (0.0, {}))
                    task = step.instr.task
                    start = starts.get(f"{task}@{step.role}", starts.get(task))
                    if start is not None:
                        key = (start + ii * step.running, len(keyed[step.instr.seu]), (task, step.role, step.running))
                        keyed[step.instr.seu].append(key)
        for name, items in keyed.items():
            counted = sum(
                i.instr.seu == name for t in self.threads for i in t.steps if isinstance(i.instr, Issue) and i.active
            )
            if self.device_unit(name).is_async and counted == len(items):
                self.units[name].planned = deque(key for _, _, key in sorted(items))

    def device_unit(self, name: str) -> SEU:
        return self.units[name].seu

    # ------------------------------------------------------------ events

    def at(self, time: float, action: Callable[[], None]) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (time, self.sequence, action))

    def run(self) -> None:
        for thread in self.threads:
            self.at(0.0, lambda thread=thread: self._advance(thread))
        while self.events:
            self.now, _, action = heapq.heappop(self.events)
            action()

    def _advance(self, thread: _Thread) -> None:
        """Execute `thread` until it blocks."""
        while thread.at < len(thread.steps):
            step = thread.steps[thread.at]
            instr = step.instr
            if isinstance(instr, Wait):
                if not self._passes(thread, step, instr):
                    return
            elif isinstance(instr, Arrive):
                times = self.cluster if instr.reason.buffer in self.multicast else 1
                self._contribute(instr.signal, step.running, times, 0)
            elif isinstance(instr, Issue):
                thread.at += 1
                if self._issue(thread, step, instr):
                    return
                continue
            thread.at += 1

    def _passes(self, thread: _Thread, step: Step, instr: Wait) -> bool:
        """Whether the wait is over; else the thread is put where it will be woken."""
        waiters = self._waiters(thread, step, instr)
        if waiters is not None:
            if thread.waiting_since < 0:
                thread.waiting_since = self.now
            waiters.append(thread)
            return False
        if thread.waiting_since >= 0:
            r = instr.reason
            if self.now > thread.waiting_since:
                self.stalls.append(
                    Stall(thread.name, instr.signal, str(r.why), r.src, r.dst, r.buffer, step.running,
                          thread.waiting_since, self.now)
                )  # fmt: skip
            thread.waiting_since = -1.0
        return True

    def _waiters(self, thread: _Thread, step: Step, instr: Wait) -> list[_Thread] | None:
        """The list of those who wait for the same thing; None where it has happened."""
        signal = self.signals[instr.signal]
        if signal.kind in GROUPS:
            fifo = thread.fifos[signal.name]
            upto = max(0, len(fifo) - instr.pending)
            for operation in reversed(fifo[:upto]):
                if operation is not None:
                    return operation.waiters if operation.done < 0 or operation.done > self.now else None
            return None
        target = wait_target(step, signal.slots)
        if target is None or target < 0:
            return None
        entry = self._entry(signal.name, target)
        return None if entry.arrivals <= 0 and entry.bytes <= 0 else entry.waiters

    def _entry(self, signal: str, instance: int) -> _Entry:
        key = (signal, instance)
        if key not in self.entries:
            self.entries[key] = _Entry(self.signals[signal].arrivals, self.signals[signal].bytes)
        return self.entries[key]

    def _contribute(self, signal: str, instance: int, arrivals: int, bytes_: int) -> None:
        entry = self._entry(signal, instance)
        entry.arrivals -= arrivals
        entry.bytes -= bytes_
        if entry.arrivals <= 0 and entry.bytes <= 0:
            self._wake(entry.waiters)

    def _wake(self, waiters: list[_Thread]) -> None:
        for thread in waiters:
            self.at(self.now, lambda thread=thread: self._advance(thread))
        waiters.clear()

    # ------------------------------------------------------------ tasks

    def _issue(self, thread: _Thread, step: Step, instr: Issue) -> bool:
        """Start a task; says whether the thread is busy (it is woken later)."""
        signal = self.signals.get(instr.completes)
        fifo = thread.fifos[signal.name] if signal and signal.kind in GROUPS else None
        if not step.active:
            if fifo is not None:
                fifo.append(None)
            return False
        unit, cost = self.units[instr.seu], self.costs[instr.task]
        factor = 1.0 + self.random.uniform(-self.jitter, self.jitter) if self.jitter else 1.0
        after = max(0.0, cost.latency - cost.occupancy)
        operation = _Operation(step, instr.task, unit, max(1e-3, cost.occupancy * factor), after * factor, cost.demand)
        if fifo is not None:
            fifo.append(operation)
        if not unit.seu.is_async:
            operation.waiters.append(thread)
            self._submit(operation)
            return True
        if signal is not None and signal.kind is Completion.MBARRIER:
            key = (step.role, signal.name, step.running)
            if key not in self.expected:
                self.expected.add(key)
                self._contribute(signal.name, step.running, 1, 0)
        issue_cycles = unit.seu.issue_cycles.value

        def issued() -> None:
            self._submit(operation)
            self._advance(thread)

        self.at(self.now + issue_cycles, issued)
        return True

    def _submit(self, operation: _Operation) -> None:
        unit = operation.unit
        if unit.shares:
            self._age(unit)
            operation.start = self.now
            unit.active.append(operation)
            self._reschedule(unit)
        else:
            unit.queue.append(operation)
            self._serve(unit)

    def _age(self, unit: _Unit) -> None:
        """Take off the work done since the unit was last looked at."""
        if unit.active:
            speed = min(1.0, 1.0 / sum(o.demand for o in unit.active))
            elapsed = (self.now - unit.since) * speed
            for operation in unit.active:
                operation.work -= elapsed
        unit.since = self.now

    def _reschedule(self, unit: _Unit) -> None:
        """The next end of work on a shared unit, at the speed that its load now gives."""
        unit.version += 1
        if not unit.active:
            return
        version, total = unit.version, sum(o.demand for o in unit.active)
        soonest = min(unit.active, key=lambda o: o.work)

        def ends() -> None:
            if unit.version == version:
                self._age(unit)
                unit.active.remove(soonest)
                self._reschedule(unit)
                self._ended(soonest)

        self.at(self.now + max(0.0, soonest.work) * max(1.0, total), ends)

    def _serve(self, unit: _Unit) -> None:
        """Start the next task of a unit that does one at a time."""
        if unit.active or not unit.queue:
            return
        chosen = unit.queue[0]
        if unit.planned:
            head = unit.planned[0]
            chosen = next((o for o in unit.queue if (o.task, o.step.role, o.step.running) == head), None)
            if chosen is None:
                return  # its turn is for a task not issued yet
            unit.planned.popleft()
        unit.queue.remove(chosen)
        unit.active.append(chosen)
        chosen.start = self.now

        def ends() -> None:
            unit.active.clear()
            self._ended(chosen)
            self._serve(unit)

        self.at(self.now + chosen.work, ends)

    def _ended(self, operation: _Operation) -> None:
        """The unit is done with it; the result is usable `after` cycles later."""
        self.at(self.now + operation.after, lambda: self._usable(operation))

    def _usable(self, operation: _Operation) -> None:
        operation.done = self.now
        self.finished.append(operation)
        step, instr = operation.step, operation.step.instr
        assert isinstance(instr, Issue)
        signal = self.signals.get(instr.completes)
        if signal is not None and signal.kind is Completion.MBARRIER:
            arrivals = 0 if operation.unit.seu.is_async else 1
            bytes_ = self.bytes[operation.task, step.role] if operation.unit.seu.is_async else 0
            self._contribute(signal.name, step.running, arrivals, bytes_)
        self._wake(operation.waiters)

    # ------------------------------------------------------------ result

    def timeline(self, memory: bool) -> Timeline:
        stuck = [t for t in self.threads if t.at < len(t.steps)]
        note = "; ".join(f"{t.name} is stuck at {t.steps[t.at]}" for t in stuck)
        used = {operation.unit.seu.name for operation in self.finished}
        rows = [Row(role.name, "role") for role in self.program.roles]
        rows += [Row(unit.name, "seu") for unit in self.device.seus if unit.name in used]
        main = max(self.program.loops, key=lambda plan: plan.loop, default=None)
        end = max((o.done for o in self.finished), default=0.0)
        return Timeline(
            title=self.program.graph.kernel.name,
            device=self.device.name,
            source="simulated",
            clock_ghz=self.device.clock_ghz.value,
            rows=tuple(rows),
            bars=tuple(self._bars()),
            stalls=tuple(self.stalls),
            memory=tuple(self._memory()) if memory else (),
            ii_cycles=main.ii_cycles if main else 0.0,
            bounds_cycles=main.bounds_cycles if main else (),
            predicted_ns=self.program.predicted_ns or end / self.device.clock_ghz.value,
            tiles=tuple((t.axis, t.extent) for t in self.program.partition.tiles),
            note=note,
        )

    def _bars(self) -> list[Bar]:
        bars = []
        for o in self.finished:
            step, seu = o.step, o.unit.seu
            end = o.done - o.after if seu.is_async else o.done
            bars.append(Bar(seu.name, o.task, step.running, o.start, end, step.role, step.loop, step.instr.stage))
            if not seu.is_async:
                bars.append(Bar(step.role, o.task, step.running, o.start, end, step.role, step.loop, step.instr.stage))
        return bars

    def _memory(self) -> list[MemoryCurve]:
        """Bytes held: a slot from the start of its first writer to the end of its last access."""
        places = Places(self.program)
        reference = Reference(self.program, self.trips, places)
        held: dict[tuple[str, int], tuple[float, float]] = {}
        size: dict[str, tuple[str, int]] = {}
        for o in self.finished:
            use = reference.uses[TaskInstance(o.task, o.step.running)]
            me = TaskInstance(o.task, o.step.running)
            for tile, content in [*use.reads, *((tile, me) for tile in use.writes)]:
                buffer = places.buffer(tile, o.step.role)
                if buffer.space and content is not None and (tile, content) in reference.place:
                    key = (buffer.name, reference.place[tile, content])
                    start, end = held.get(key, (o.start, o.done))
                    held[key] = (min(start, o.start), max(end, o.done))
                    owner = f"{buffer.space} of {buffer.role}" if self._per_role(buffer.space) else buffer.space
                    size[buffer.name] = (owner, buffer.bytes_per_slot)
        changes: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for (buffer, _), (start, end) in held.items():
            space, size_bytes = size[buffer]
            changes[space] += [(start, size_bytes), (end, -size_bytes)]
        return [self._curve(space, found) for space, found in sorted(changes.items())]

    def _per_role(self, space: str) -> bool:
        return any(m.name == space and m.per == "role" for m in self.device.memories)

    def _curve(self, space: str, changes: list[tuple[float, int]]) -> MemoryCurve:
        points, level = [(0.0, 0)], 0
        for time, change in sorted(changes):
            level += change
            if points[-1][0] == time:
                points[-1] = (time, level)
            else:
                points.append((time, level))
        capacity = self.device.memory(space.split(" of ")[0]).capacity_bytes.value
        return MemoryCurve(space, int(capacity), tuple(points))
