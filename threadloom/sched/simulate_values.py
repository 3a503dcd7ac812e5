"""Adversarial simulation: runs an sProgram on values, in an order that an enemy of the program chooses.

It shares with the checker only what a role executes and where a content lies (`semantics.py`), and works the way
hardware does: entries of ring signals count arrivals and bytes and know one phase bit; group FIFOs complete in order; a
task's reads are taken at its start and again at its end (a difference is a torn read); a slot is poison while it is
written; generic writes reach the async proxy only by a fence. Who moves next is up to an `Adversary`: one role
runs ahead as far as it can, the completions of one unit come as late as they can, or everything is random.

What a task computes is an `Executor`'s business: `SymbolicExecutor` makes terms that are equal only where the same
computation was done, `simulate_tiles.py` has one for real arrays.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from threadloom.machine.devices import device as device_named
from threadloom.machine.model import GROUPS, SEU, Completion, Device
from threadloom.sched.adversaries import FIRST_RANK, LAST_RANK, Adversary, adversaries
from threadloom.sched.ops import Arrive, Fence, Issue, Reason, SProgram, Wait
from threadloom.sched.semantics import Places, Reference, Step, TaskInstance, Trips, streams, wait_target
from threadloom.sched.simulated_state import (
    ALL,
    Cells,
    Content,
    Entry,
    Failure,
    Operation,
    Slot,
    Thread,
    Touch,
    Use,
)
from threadloom.task.ops import Kind


@dataclass(frozen=True, slots=True)
class Outcome:
    """`kind`: right, wrong-value, torn-read, stale-proxy, deadlock, overflow or no-place; `message` names the place."""

    kind: str
    message: str = ""
    adversary: str = ""

    @property
    def right(self) -> bool:
        return self.kind == "right"


class Executor(Protocol):
    """Computes task instances. `inputs`: per value read, the cells found; the result: content per value written."""

    def run(self, who: TaskInstance, part: int, inputs: dict[str, Cells]) -> dict[str, Content]: ...


class SymbolicExecutor:
    """A content is a term: which task instance (and part) made it from which contents."""

    def __init__(self, program: SProgram):
        self.writes = {task.name: task.writes for task in program.graph.tasks}

    def run(self, who: TaskInstance, part: int, inputs: dict[str, Cells]) -> dict[str, Content]:
        seen = tuple((name, tuple(sorted(cells.items(), key=lambda c: c[0]))) for name, cells in sorted(inputs.items()))
        return {value: (who.task, who.instance, part, value, hash(seen)) for value in self.writes[who.task]}


# ---------------------------------------------------------------- the simulation


class Simulation:
    """One run of `program` against one adversary. `skipped(task instance)`: its guard is false."""

    def __init__(
        self,
        program: SProgram,
        device: Device,
        trips: Trips,
        executor: Executor,
        skipped: Callable[[TaskInstance], bool] = lambda who: False,
    ):
        self.program, self.executor, self.skipped = program, executor, skipped
        self.units = {unit.name: unit for unit in device.seus}
        self.signals = {signal.name: signal for signal in program.signals}
        self.tasks = {task.name: task for task in program.graph.tasks}
        self.places = Places(program)
        self.reference = Reference(program, trips, self.places)
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        self.eus = program.partition.cluster if any(b.multicast > 1 for b in program.buffers) else 1
        self.workers = [role.name for role in program.roles if role.kind == "worker"]
        self.streams = streams(program, trips, self.eus)
        self.issuers: dict[TaskInstance, int] = defaultdict(int)
        for (eu, _), steps in self.streams.items():
            for step in steps:
                if eu == 0 and step.active and isinstance(step.instr, Issue):
                    self.issuers[TaskInstance(step.instr.task, step.running)] += 1
        self.implicit = {task.name for task in program.graph.tasks if task.kind is Kind.SCALAR}
        self.touched: dict[int, tuple[int, list[Touch], list[Touch]]] = {}  # by the id of a step of `streams`

    def run(self, adversary: Adversary) -> Outcome:
        self._reset(adversary)
        chooser = random.Random(adversary.seed)
        try:
            while move := self._chosen(adversary, chooser):
                if isinstance(move, Thread):
                    self._advance(move)
                else:
                    self._end(move)
        except Failure as failure:
            return Outcome(failure.kind, str(failure), str(adversary))
        stuck = [t for t in self.threads if t.at < len(t.steps) or t.running]
        if stuck:
            text = "; ".join(f"{t.role} at {t.steps[t.at]}" for t in stuck if t.at < len(t.steps))
            return Outcome("deadlock", f"stuck: {text}", str(adversary))
        return Outcome("right", "", str(adversary))

    def _reset(self, adversary: Adversary) -> None:
        self.adversary = adversary
        self.slots: dict[tuple[int, str, int], Slot] = defaultdict(Slot)
        self.entries: dict[tuple[int, str, int], Entry] = {}
        self.flying: list[Operation] = []
        self.expected: set[tuple[int, str, str, int]] = set()
        self.made: dict[tuple[int, TaskInstance, int], Content] = {}
        self.threads = [
            Thread(eu, role, steps, adversary.rank_step(role)) for (eu, role), steps in self.streams.items()
        ]

    def _chosen(self, adversary: Adversary, chooser: random.Random) -> Thread | Operation | None:
        """The adversary's next move; None where nothing can move."""
        if adversary.seed >= 0:
            moves: list[Thread | Operation] = [t for t in self.threads if self._can_advance(t)]
            moves += [o for o in self.flying if _can_end(o)]
            return chooser.choice(moves) if moves else None
        best, chosen = LAST_RANK, None
        for thread in self.threads:
            if thread.rank < best and self._can_advance(thread):
                best, chosen = thread.rank, thread
        if best == FIRST_RANK:
            return chosen
        for operation in self.flying:
            if operation.rank < best and _can_end(operation):
                best, chosen = operation.rank, operation
        return chosen

    def _can_advance(self, thread: Thread) -> bool:
        if thread.running is not None or thread.at >= len(thread.steps):
            return False
        step = thread.steps[thread.at]
        return not isinstance(step.instr, Wait) or self._passes(thread, step, step.instr)

    def _passes(self, thread: Thread, step: Step, wait: Wait) -> bool:
        signal = self.signals[wait.signal]
        if signal.kind in GROUPS:
            fifo, done = thread.fifos[signal.name], thread.done[signal.name]
            while done < len(fifo) and ((group := fifo[done]) is None or group.done):  # they complete in order
                done += 1
            thread.done[signal.name] = done
            return done >= len(fifo) - wait.pending
        target = wait_target(step, signal.slots)
        if target is None:
            return True
        phase = target // signal.slots
        return (self._entry(step.eu, signal.name, target).completed - phase) % 2 == 1

    def _entry(self, eu: int, name: str, instance: int) -> Entry:
        signal = self.signals[name]
        key = (eu, name, instance % signal.slots)
        if key not in self.entries:
            self.entries[key] = Entry(signal.arrivals, signal.bytes)
        return self.entries[key]

    def _contribute(self, eu: int, name: str, instance: int, arrivals: int, bytes_: int, step: Step) -> None:
        entry, signal = self._entry(eu, name, instance), self.signals[name]
        entry.arrivals -= arrivals
        entry.bytes -= bytes_
        if entry.arrivals < 0 or entry.bytes < 0:
            raise Failure("overflow", f"{step}: {name}[{instance % signal.slots}] gets more than a phase takes")
        if entry.arrivals == 0 and entry.bytes == 0:
            entry.completed += 1
            entry.arrivals, entry.bytes = signal.arrivals, signal.bytes

    def _advance(self, thread: Thread) -> None:
        step = thread.steps[thread.at]
        instr = step.instr
        thread.at += 1
        if isinstance(instr, Issue):
            self._issue(thread, step, instr)
        elif isinstance(instr, Arrive):
            for eu in self._targets(thread.eu, instr.reason):
                self._contribute(eu, instr.signal, step.running, 1, 0, step)
        elif isinstance(instr, Fence) and (instr.before, instr.after) == ("generic", "async"):
            for (eu, name, _), slot in self.slots.items():
                if eu == thread.eu and name == instr.buffer:
                    slot.fence(thread.role)

    def _targets(self, eu: int, reason: Reason) -> range:
        buffer = self.buffers.get(reason.buffer)
        return range(self.eus) if buffer is not None and buffer.multicast > 1 else range(eu, eu + 1)

    # ------------------------------------------------------------ operations

    def _issue(self, thread: Thread, step: Step, instr: Issue) -> None:
        signal, unit = self.signals.get(instr.completes), self.units[instr.seu]
        fifo = thread.fifos[signal.name] if signal and signal.kind in GROUPS else None
        who = TaskInstance(instr.task, step.running)
        if not step.active or instr.task in self.implicit:
            if fifo is not None:
                fifo.append(None)
            return
        operation = self._operation(who, step, unit)
        operation.skipped = self.skipped(who)
        if fifo is not None:
            operation.previous += [o for o in fifo if o is not None and not o.done]
            fifo.append(operation)
        elif signal is not None and unit.is_async:
            key = (step.eu, step.role, signal.name, step.running)
            if key not in self.expected:
                self.expected.add(key)
                self._contribute(step.eu, signal.name, step.running, 1, 0, step)
        if not unit.is_async:
            thread.running = operation
        if not operation.skipped:
            self._start(operation)
        self.flying.append(operation)

    def _operation(self, who: TaskInstance, step: Step, unit: SEU) -> Operation:
        if (found := self.touched.get(id(step))) is None:
            found = self.touched[id(step)] = self._touched(who, step)
        part, reads, writes = found
        rank = self.adversary.rank_end(unit.name, unit.is_async, step.role)
        return Operation(who, step, unit, part, self._uses(step, reads), self._uses(step, writes), rank)

    def _uses(self, step: Step, touches: list[Touch]) -> list[Use]:
        return [Use(self.slots[step.eu, t.buffer.name, t.place], t.value, t.buffer, t.cell) for t in touches]

    def _touched(self, who: TaskInstance, step: Step) -> tuple[int, list[Touch], list[Touch]]:
        """The worker whose part is computed, what is read and what is written: the same against every adversary."""
        use = self.reference.uses[who]
        task = self.tasks[who.task]
        split_task = self.issuers[who] > 1 and step.role in self.workers
        worker = self.workers.index(step.role) if split_task else ALL
        reads, writes = [], []
        values = [v for v in task.reads if self.places.tile(v) is not None]
        for value, (tile, content) in zip(values, use.reads, strict=True):
            if content is None:
                raise Failure("wrong-value", f"{who} reads {tile} before anything wrote it")
            if content.task not in self.implicit:
                part = worker if self.places.is_split(tile, who.task) else ALL
                reads.append(self._touch(step, value, tile, content, (part, ALL)))
        for value in task.writes:
            tile = self.places.tile(value)
            if tile is not None:
                part = worker if self.places.is_split(tile, who.task) else ALL
                shared = self.eus > 1 and self.places.buffer(tile, step.role).multicast > 1
                writes.append(self._touch(step, value, tile, who, (part, step.eu if shared else ALL)))
        return worker, reads, writes

    def _touch(self, step: Step, value: str, tile: str, content: TaskInstance, cell: tuple[int, int]) -> Touch:
        buffer = self.places.buffer(tile, step.role)
        return Touch(value, buffer, self.reference.place[tile, content] % buffer.slots, cell)

    def _start(self, operation: Operation) -> None:
        """Take the reads and poison what is written, except where an earlier task of the matrix unit still updates."""
        updated = {id(use.slot) for use in operation.writes}
        blocked: set[int] = set()
        if operation.unit.completion is Completion.MMA_GROUP:
            for earlier in self.flying:
                same = (earlier.step.eu, earlier.step.role, earlier.unit.name) == (
                    operation.step.eu, operation.step.role, operation.unit.name,
                )  # fmt: skip
                shared = {id(use.slot) for use in earlier.writes} & updated
                if same and shared:
                    blocked |= shared
                    operation.previous.append(earlier)
        for use in operation.reads:
            if id(use.slot) not in blocked:
                use.seen = self._look(use, operation)
        for use in operation.writes:
            if id(use.slot) not in blocked:
                self._put(use, None, operation)

    def _look(self, use: Use, operation: Operation) -> Cells:
        """The cells that the access can see: its own part where there is one, else everything."""
        cells = use.slot.view(operation.unit)
        if use.cell[0] != ALL and use.cell in cells:
            return {use.cell: cells[use.cell]}
        if use.cell[0] != ALL:
            return {c: v for c, v in cells.items() if c[0] in (ALL, use.cell[0])}
        if use.buffer.multicast > 1 and self.eus > 1:
            return {(ALL, share): cells.get((ALL, share)) for share in range(self.eus)}
        return dict(cells)

    def _put(self, use: Use, content: Content, operation: Operation) -> None:
        if use.cell[1] == ALL:
            use.slot.write(use.cell, content, operation.unit, operation.step.role)
            return
        place = next(key for key, slot in self.slots.items() if slot is use.slot)
        for eu in range(self.eus):
            self.slots[eu, place[1], place[2]].write(use.cell, content, operation.unit, operation.step.role)

    def _end(self, operation: Operation) -> None:
        self.flying.remove(operation)
        operation.done = True
        step = operation.step
        if not operation.skipped:
            self._complete(operation)
        for thread in self.threads:
            if thread.running is operation:
                thread.running = None
        assert isinstance(step.instr, Issue)
        signal = self.signals.get(step.instr.completes)
        if signal is not None and signal.kind is Completion.MBARRIER:
            self._signal_end(operation, signal.name)

    def _signal_end(self, operation: Operation, signal: str) -> None:
        step = operation.step
        if not operation.unit.is_async:
            key = (step.eu, step.role, signal, step.running)
            if self._last_sync_issue(step, signal):
                self.expected.add(key)
                self._contribute(step.eu, signal, step.running, 1, 0, step)
            return
        for use in operation.writes:
            shared = use.buffer.multicast > 1 and self.eus > 1
            size_bytes = use.buffer.bytes_per_slot // (self.eus if shared else 1)
            for eu in range(self.eus) if shared else (step.eu,):
                self._contribute(eu, signal, step.running, 0, size_bytes, step)

    def _last_sync_issue(self, step: Step, signal: str) -> bool:
        """Whether the role issues nothing more into this instance of the signal."""
        later = self.streams[step.eu, step.role]
        same = [
            s for s in later
            if isinstance(s.instr, Issue) and s.instr.completes == signal and s.running == step.running and s.active
        ]  # fmt: skip
        return same[-1] is step

    def _complete(self, operation: Operation) -> None:
        """Read again, compute, write."""
        written = {id(use.slot) for use in operation.writes}
        inputs: dict[str, Cells] = {}
        for use in operation.reads:
            now = self._look(use, operation)
            if use.seen is None:
                use.seen = now
            if id(use.slot) not in written and not _same(now, use.seen):
                raise Failure(
                    "torn-read",
                    f"{operation.who} in {operation.step.role}: {use.buffer.name} was overwritten while it was read",
                )
            if any(content is None for content in use.seen.values()) or not use.seen:
                kind = "stale-proxy" if use.slot.unfenced and operation.unit.proxy == "async" else "torn-read"
                message = f"{operation.who} in {operation.step.role} reads poison from {use.buffer.name}"
                raise Failure(kind, message)
            inputs[use.value] = use.seen
        made = self.executor.run(operation.who, operation.part, inputs)
        for use in operation.writes:
            if operation.unit.proxy == "async" and use.slot.unfenced:
                message = f"{operation.who} writes {use.buffer.name} and an unfenced generic write may land after it"
                raise Failure("stale-proxy", message)
            self._put(use, made[use.value], operation)
        expected = self._expected(operation)
        for value, content in made.items():
            if expected is not None and content != expected.get(value):
                sources = ", ".join(f"{use.value} from {use.buffer.name}" for use in operation.reads)
                message = f"{operation.who} in {operation.step.role} computed a wrong {value} ({sources})"
                raise Failure("wrong-value", message)

    def _expected(self, operation: Operation) -> dict[str, Content] | None:
        """What the executor knows to be right for this instance; None where it does not."""
        known = getattr(self.executor, "expected", None)
        return known(operation.who, operation.part) if known is not None else None


def _same(a: Cells, b: Cells) -> bool:
    """Whether the very same contents lie there (contents are compared as objects: two loads may give equal values)."""
    return a.keys() == b.keys() and all(a[cell] is b[cell] for cell in a)


def _can_end(operation: Operation) -> bool:
    return all(p.done for p in operation.previous)


def simulate_values(
    program: SProgram,
    trips: Trips,
    device: Device | None = None,
    executor: Executor | None = None,
    random_ones: int = 4,
    skipped: Callable[[TaskInstance], bool] = lambda who: False,
) -> Outcome:
    """The first wrong outcome that an adversary finds, or a right one."""
    device = device or device_named(program.device)
    simulation = Simulation(program, device, trips, executor or ReferenceTerms(program, device, trips), skipped)
    for adversary in adversaries(program, device, random_ones):
        outcome = simulation.run(adversary)
        if not outcome.right:
            return outcome
    return Outcome("right")


class ReferenceTerms(SymbolicExecutor):
    """Symbolic terms, and those that the program's tasks make when they run one after the other in reference order."""

    def __init__(self, program: SProgram, device: Device, trips: Trips):
        super().__init__(program)
        self.right: dict[tuple[TaskInstance, int], dict[str, Content]] = {}
        serial = Simulation(program, device, trips, self)
        serial._reset(Adversary())
        issued = [
            step for (eu, _), steps in serial.streams.items() if eu == 0 for step in steps
            if step.active and isinstance(step.instr, Issue) and step.instr.task not in serial.implicit
        ]  # fmt: skip
        issued.sort(key=lambda s: serial.reference.uses[TaskInstance(s.instr.task, s.running)].order)
        for step in issued:
            self._execute(serial, step)

    def _execute(self, serial: Simulation, step: Step) -> None:
        """Run one task alone, on its slots with everything visible to everybody."""
        assert isinstance(step.instr, Issue)
        who = TaskInstance(step.instr.task, step.running)
        operation = serial._operation(who, step, serial.units[step.instr.seu])
        inputs = {use.value: serial._look(use, operation) for use in operation.reads}
        made = self.run(who, operation.part, inputs)
        self.right[who, operation.part] = made
        for use in operation.writes:
            for share in range(serial.eus) if use.cell[1] != ALL else (ALL,):
                use.cell = (use.cell[0], share)
                for cells in (use.slot.generic, use.slot.async_):
                    if use.cell == (ALL, ALL):
                        cells.clear()
                    cells[use.cell] = made[use.value]

    def expected(self, who: TaskInstance, part: int) -> dict[str, Content] | None:
        return self.right.get((who, part))
