"""Happens-before: the order of events that every legal execution of an sProgram keeps.

Events: each executed instruction, the completion of each asynchronous task, the completion of each phase of each ring
entry. Edges: the order of instructions in a role; Issue -> completion; completion order in a group FIFO; contributions
-> phase; phase -> the waits for it; group completion -> group wait. An edge is there only if *every* execution respects
it, so "not ordered here" means "some completion order breaks it". Arrivals are counted at the phase they are meant
for; `check_phases.py` shows that they cannot be counted elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from threadloom.machine.model import GROUPS, SEU, Completion, Device
from threadloom.sched.check_findings import Finding, Findings, along
from threadloom.sched.ops import Arrive, Buffer, Fence, Issue, Reason, Signal, SProgram, Wait
from threadloom.sched.semantics import Places, Step, TaskInstance, describe, wait_target


class Entry(NamedTuple):
    """One phase of one entry of a ring signal on one EU."""

    eu: int
    signal: str
    entry: int
    phase: int

    def moved(self, phases: int) -> Entry:
        """The same entry that many phases later."""
        return Entry(self.eu, self.signal, self.entry, self.phase + phases)

    def __str__(self) -> str:
        return f"{self.signal}[{self.entry}] phase {self.phase}"


class Contribution(NamedTuple):
    """Something that counts towards a phase: at event `node`; `gate` must come after the phase before is complete."""

    node: int
    gate: int
    arrivals: int
    bytes: int
    step: Step


class RingWait(NamedTuple):
    """A wait for `entry` (phase -1: passes on a fresh entry); `before` is the event just before it in its role."""

    node: int
    before: int
    entry: Entry
    step: Step


@dataclass(slots=True)
class Run:
    """An executed Issue: its accesses lie between events `start` and `done`."""

    who: TaskInstance
    step: Step
    unit: SEU
    start: int
    done: int


@dataclass(slots=True)
class Order:
    """The events of one execution; `before(a, b)` is happens-before."""

    preds: list[list[int]] = field(default_factory=list)
    steps: list[Step | None] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    fences: list[tuple[int, Step]] = field(default_factory=list)
    waits: list[RingWait] = field(default_factory=list)
    group_waits: list[tuple[int, Step, int | None]] = field(default_factory=list)
    phases: dict[Entry, int] = field(default_factory=dict)
    contributions: dict[Entry, list[Contribution]] = field(default_factory=dict)
    finals: list[tuple[int, int]] = field(default_factory=list)
    reach: list[int] = field(default_factory=list)

    def node(self, step: Step | None, *preds: int) -> int:
        self.preds.append([*preds])
        self.steps.append(step)
        return len(self.preds) - 1

    def before(self, a: int, b: int) -> bool:
        return bool(self.reach[b] >> a & 1)

    def label(self, node: int) -> str:
        step = self.steps[node]
        if step is not None:
            return str(step)
        entry = next((e for e, n in self.phases.items() if n == node), None)
        return f"completion of {entry}" if entry else "start"


class OrderBuilder:
    """Builds the events of `streams` on `device`."""

    def __init__(self, program: SProgram, device: Device, streams: dict[tuple[int, str], list[Step]], places: Places):
        self.program, self.streams = program, streams
        self.units = {unit.name: unit for unit in device.seus}
        self.signals: dict[str, Signal] = {signal.name: signal for signal in program.signals}
        self.eus = 1 + max((eu for eu, _ in streams), default=0)
        self.order = Order()
        self.buffers: dict[str, Buffer] = {buffer.name: buffer for buffer in program.buffers}
        self.places = places
        self.contributions: dict[Entry, list[Contribution]] = defaultdict(list)

    def build(self) -> Order:
        for (eu, role), steps in self.streams.items():
            self._role(eu, role, steps)
        for entry, given in self.contributions.items():
            self.order.preds[self._phase(entry)].extend(c.node for c in given)
        self.order.contributions = dict(self.contributions)
        return self.order

    def _role(self, eu: int, role: str, steps: list[Step]) -> None:
        order = self.order
        last = order.node(None)
        fifos: dict[str, list[int | None]] = defaultdict(list)
        expected: set[Entry] = set()
        for step in steps:
            instr = step.instr
            if isinstance(instr, Issue):
                last = self._issue(step, instr, last, fifos, expected)
            elif isinstance(instr, Wait):
                last = self._wait(step, instr, last, fifos)
            elif isinstance(instr, Arrive):
                last = order.node(step, last)
                for target in self._targets(eu, instr.reason):
                    entry = self._entry(target, instr.signal, step.running)
                    self.contributions[entry].append(Contribution(last, last, 1, 0, step))
            elif isinstance(instr, Fence):
                last = order.node(step, last)
                order.fences.append((last, step))
        self._sync_arrivals(eu, role)
        drained = [d for fifo in fifos.values() for d in fifo if d is not None]
        order.finals.append((eu, order.node(None, last, *drained)))

    def _issue(
        self, step: Step, instr: Issue, last: int, fifos: dict[str, list[int | None]], expected: set[Entry]
    ) -> int:
        order, unit = self.order, self.units[instr.seu]
        signal = self.signals.get(instr.completes)
        fifo = fifos[signal.name] if signal and signal.kind in GROUPS else None
        if not step.active:
            if fifo is not None:
                fifo.append(None)
            return last
        start = order.node(step, last)
        done = order.node(step, start)
        order.runs.append(Run(TaskInstance(instr.task, step.running), step, unit, start, done))
        if fifo is not None:
            previous = next((d for d in reversed(fifo) if d is not None), None)
            if previous is not None:
                order.preds[done].append(previous)
            fifo.append(done)
        elif signal is not None and unit.is_async:
            self._bulk(step, instr, signal, start, done, expected)
        return start if unit.is_async else done

    def _bulk(self, step: Step, instr: Issue, signal: Signal, start: int, done: int, expected: set[Entry]) -> None:
        """A task that completes at a ring entry: the role's one arrival, and the bytes of what the task writes."""
        own = self._entry(step.eu, signal.name, step.running)
        if own not in expected:
            expected.add(own)
            self.contributions[own].append(Contribution(start, start, 1, 0, step))
        for buffer in self.written(instr.task, step.role):
            shares = self.eus if buffer.multicast > 1 else 1
            for eu in range(self.eus) if shares > 1 else (step.eu,):
                entry = self._entry(eu, signal.name, step.running)
                part = Contribution(done, start, 0, buffer.bytes_per_slot // shares, step)
                self.contributions[entry].append(part)

    def _sync_arrivals(self, eu: int, role: str) -> None:
        """Synchronous Issues that complete at a ring signal: one arrival when the last of the role for it is done."""
        last: dict[Entry, Run] = {}
        for run in self.order.runs:
            instr, step = run.step.instr, run.step
            if step.eu != eu or step.role != role or run.unit.is_async or not isinstance(instr, Issue):
                continue
            signal = self.signals.get(instr.completes)
            if signal is not None and signal.kind is Completion.MBARRIER:
                last[self._entry(eu, signal.name, step.running)] = run
        for entry, run in last.items():
            self.contributions[entry].append(Contribution(run.done, run.done, 1, 0, run.step))

    def written(self, task: str, role: str) -> list[Buffer]:
        return [self.places.buffer(tile, role) for _, tile in self.places.writes[task]]

    def _targets(self, eu: int, reason: Reason) -> range:
        buffer = self.buffers.get(reason.buffer)
        shared = buffer is not None and buffer.multicast > 1
        return range(self.eus) if shared else range(eu, eu + 1)

    def _entry(self, eu: int, signal: str, instance: int) -> Entry:
        slots = self.signals[signal].slots
        return Entry(eu, signal, instance % slots, instance // slots)

    def _phase(self, entry: Entry) -> int:
        if entry not in self.order.phases:
            self.order.phases[entry] = self.order.node(None)
        return self.order.phases[entry]

    def _wait(self, step: Step, instr: Wait, last: int, fifos: dict[str, list[int | None]]) -> int:
        order, signal = self.order, self.signals[instr.signal]
        node = order.node(step, last)
        if signal.kind in GROUPS:
            fifo = fifos[signal.name]
            older = (fifo[at] for at in range(len(fifo) - 1 - instr.pending, -1, -1))
            target = next((done for done in older if done is not None), None)
            if target is not None:
                order.preds[node].append(target)
            order.group_waits.append((node, step, target))
            return node
        target_instance = wait_target(step, signal.slots)
        if target_instance is None:
            return node
        entry = self._entry(step.eu, signal.name, target_instance)
        if target_instance >= 0:
            order.preds[node].append(self._phase(entry))
        order.waits.append(RingWait(node, last, entry, step))
        return node


# ---------------------------------------------------------------- deadlock


def check_progress(order: Order, signals: dict[str, Signal], findings: Findings, trips: str) -> bool:
    """Every waited phase completes and no wait waits for itself; then `order.reach` is filled. Says whether so."""
    good = True
    for wait in order.waits:
        if wait.entry.phase < 0:
            continue
        given = order.contributions.get(wait.entry, [])
        signal = signals[wait.entry.signal]
        arrivals, bytes_ = sum(c.arrivals for c in given), sum(c.bytes for c in given)
        if arrivals < signal.arrivals or bytes_ < signal.bytes:
            message = (
                f"deadlock: {wait.step} waits for {wait.entry}, which gets {arrivals} of {signal.arrivals} arrivals "
                f"and {bytes_} of {signal.bytes} bytes"
            )
            reason = wait.step.instr.reason  # type: ignore[union-attr]
            findings.add(along(reason, "deadlock-missing-arrivals", message, wait.step.role, wait.step.running), trips)
            good = False
    ordered = _topological(order)
    if len(ordered) < len(order.preds):
        findings.add(_cycle(order, set(ordered)), trips)
        return False
    if good:
        order.reach = [0] * len(order.preds)
        for node in ordered:
            seen = 0
            for pred in order.preds[node]:
                seen |= order.reach[pred] | 1 << pred
            order.reach[node] = seen
    return good


def _topological(order: Order) -> list[int]:
    succs: list[list[int]] = [[] for _ in order.preds]
    missing = [len(preds) for preds in order.preds]
    for node, preds in enumerate(order.preds):
        for pred in preds:
            succs[pred].append(node)
    ready = [node for node, count in enumerate(missing) if count == 0]
    for node in ready:  # grows while it is walked
        for succ in succs[node]:
            missing[succ] -= 1
            if missing[succ] == 0:
                ready.append(succ)
    return ready


def _cycle(order: Order, done: set[int]) -> Finding:
    """The waits of one cycle among the events that never become ready."""
    node = next(n for n in range(len(order.preds)) if n not in done)
    seen: dict[int, int] = {}
    path: list[int] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(node)
        node = next(p for p in order.preds[node] if p not in done)
    cycle = path[seen[node] :]
    waits = [s for s in (order.steps[n] for n in cycle) if s is not None and isinstance(s.instr, Wait)]
    text = "; ".join(f"{s.role} waits at instance {s.running}: {describe(s.instr)}" for s in waits)
    if not waits:
        return Finding("deadlock-cycle", "deadlock: events wait for each other")
    first = min(waits, key=lambda s: (s.running, s.role))
    assert isinstance(first.instr, Wait)
    message = f"deadlock, waits in a circle: {text}"
    return along(first.instr.reason, "deadlock-cycle", message, first.role, first.running)
