"""Contents of slots: every read gets the value it means, and nothing is overwritten while it may still be read.

For each slot, the contents that it holds one after the other are known from the reference order. Content c (written by
one task instance, perhaps in parts by several roles) is right for its readers under every completion order if
every write of c is complete before each read of c starts, and everything that touches c is complete before a write of
the next content starts. Reads last until their task completes: a matrix unit reading shared memory, a bulk store. A
read in one branch of a condition does not meet a write in the other: the next write that can run with it counts.

Two tasks of one role on one MMA_GROUP unit that both write the same slot are ordered by the unit itself.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from threadloom.machine.model import Completion
from threadloom.sched.check_findings import Finding, Findings
from threadloom.sched.check_order import Order, Run
from threadloom.sched.ops import Fence, SProgram
from threadloom.sched.semantics import Places, Reference, TaskInstance
from threadloom.task.ops import Kind

ALL = -1


@dataclass(slots=True)
class Access:
    """One task's use of one slot: `content` is the writer of what it reads or makes; `part` a worker's index or ALL;
    `share` an EU's part of a multicast load or ALL."""

    run: Run
    eu: int
    buffer: str
    slot: int
    part: int
    share: int
    writes: bool
    content: TaskInstance
    split: bool = False  # the workers each own a part of the tile

    def meets(self, other: Access) -> bool:
        parts = self.part == other.part or ALL in (self.part, other.part)
        return parts and (self.share == other.share or ALL in (self.share, other.share))


class Demand(NamedTuple):
    """`first` must be done before `second` starts, for the sake of `buffer`; `kind`: "read" or "overwrite"."""

    kind: str
    first: Run
    second: Run
    buffer: str

    @property
    def key(self) -> tuple[str, str, TaskInstance, str, TaskInstance, str]:
        """The same demand in another program has the same key."""
        return (self.kind, self.buffer, self.first.who, self.first.step.role, self.second.who, self.second.step.role)


class DataChecker:
    """Checks one execution (`order`) of `program` against `reference`."""

    def __init__(self, program: SProgram, order: Order, reference: Reference, eus: int, findings: Findings, trips: str):
        self.program, self.order, self.reference, self.eus = program, order, reference, eus
        self.findings, self.trips = findings, trips
        self.demands: list[Demand] = []
        self.places: Places = reference.places
        self.implicit = implicit_tasks(program)
        self.workers = [role.name for role in program.roles if role.kind == "worker"]
        self.issuers: dict[tuple[int, TaskInstance], list[Run]] = defaultdict(list)
        for run in order.runs:
            self.issuers[run.step.eu, run.who].append(run)
        self.fences: dict[tuple[int, str, str], list[int]] = defaultdict(list)
        makers = {value: task for task in program.graph.tasks for value in task.writes}
        self.guards: dict[str, list[tuple[str, int, bool]]] = defaultdict(list)  # condition, its loop, what is wanted
        for guard in program.graph.guards:
            if guard.cond in makers:
                self.guards[guard.task].append((guard.cond, makers[guard.cond].loop, guard.wanted))
        for node, step in order.fences:
            if isinstance(step.instr, Fence) and (step.instr.before, step.instr.after) == ("generic", "async"):
                self.fences[step.eu, step.role, step.instr.buffer].append(node)

    def check(self) -> None:
        slots: dict[tuple[int, str, int], list[Access]] = defaultdict(list)
        for run in self.order.runs:
            for access in self._accesses(run):
                slots[access.eu, access.buffer, access.slot].append(access)
        for accesses in slots.values():
            self._check_slot(accesses)

    def report(self, slug: str, message: str, src: str, dst: str, buffer: str, run: Run) -> None:
        finding = Finding(slug, message, src, dst, buffer, run.step.role, run.who.instance)
        self.findings.add(finding, self.trips)

    # ------------------------------------------------------------ accesses

    def _accesses(self, run: Run) -> list[Access]:
        use = self.reference.uses.get(run.who)
        if use is None:
            return []
        found: list[Access] = []
        for tile, writer in use.reads:
            found += self._access(run, tile, writer, writes=False)
        for tile in use.writes:
            found += self._access(run, tile, run.who, writes=True)
        return found

    def _access(self, run: Run, tile: str, content: TaskInstance | None, writes: bool) -> list[Access]:
        role, eu = run.step.role, run.step.eu
        if content is None:
            message = f"{run.who} reads {tile} before anything wrote it"
            self.report("undefined-read", message, "", run.who.task, tile, run)
            return []
        if content.task in self.implicit:
            return []
        buffer = self.places.buffer(tile, role)
        split = self.places.is_split(tile, run.who.task)
        part = ALL
        if split and role in self.workers and len(self.issuers[eu, run.who]) > 1:
            part = self.workers.index(role)
        slot = self.reference.place[tile, content] % buffer.slots
        if writes and buffer.multicast > 1 and self.eus > 1:
            return [Access(run, f, buffer.name, slot, part, eu, True, content) for f in range(self.eus)]
        return [Access(run, eu, buffer.name, slot, part, ALL, writes, content, split)]

    def split_tasks(self) -> set[str]:
        """Tasks of which each worker does a part, its own of the tiles that they touch."""
        return {
            task.name
            for task in self.program.graph.tasks
            for value in (*task.reads, *task.writes)
            if (tile := self.places.tile(value)) is not None and self.places.is_split(tile, task.name)
        }

    # ------------------------------------------------------------ one slot

    def _check_slot(self, accesses: list[Access]) -> None:
        contents: dict[TaskInstance, list[Access]] = defaultdict(list)
        for access in accesses:
            contents[access.content].append(access)
        ordered = sorted(contents, key=lambda who: self.reference.uses[who].order)
        writers = {content: [a for a in touching if a.writes] for content, touching in contents.items()}
        for at, content in enumerate(ordered):
            for access in contents[content]:
                if not access.writes:
                    self._check_read(writers[content], access, content)
            for access in contents[content]:
                following = self._next_content(access, ordered, at + 1)
                for write in writers[following] if following is not None else ():
                    if access.meets(write):
                        self._check_overwrite(access, write)
            self._check_duplicates(writers[content])

    def _next_content(self, access: Access, ordered: list[TaskInstance], at: int) -> TaskInstance | None:
        """The first content from number `at` on whose writing may meet the access. (Writes come one after the other,
        so what follows it is later still.)"""
        following = (ordered[n] for n in range(at, len(ordered)))
        return next((who for who in following if access.writes or not self._exclusive(access.run.who, who)), None)

    def _exclusive(self, a: TaskInstance, b: TaskInstance) -> bool:
        """Whether the two stand in opposite branches of one condition and see the same value of it, so that only one
        of them runs."""
        for cond, loop, wanted in self.guards.get(a.task, ()):
            if (cond, loop, not wanted) in self.guards.get(b.task, ()):
                instance = self.reference.instance_in(loop, a)
                if instance is not None and instance == self.reference.instance_in(loop, b):
                    return True
        return False

    def _check_read(self, writers: list[Access], reader: Access, content: TaskInstance) -> None:
        meeting = [w for w in writers if w.meets(reader)]
        if not meeting:
            message = f"{content} writes nothing that {reader.run.step.role} could see in {reader.buffer}"
            self.report("no-writer", message, content.task, reader.run.who.task, reader.buffer, reader.run)
        elif reader.split and reader.part == ALL:
            elsewhere = len(self.issuers[reader.run.step.eu, content]) - len(meeting)
            if elsewhere > 0:
                message = (
                    f"{elsewhere} worker(s) write their part of {content} where {reader.run.step.role} cannot read it"
                )
                self.report("no-writer", message, content.task, reader.run.who.task, reader.buffer, reader.run)
        for write in meeting:
            self.demands.append(Demand("read", write.run, reader.run, reader.buffer))
            if not self._done_before(write, reader):
                who = f"{reader.run.who} in {reader.run.step.role}"
                message = f"{who} may start before {write.run.who} has written slot {reader.slot}"
                slug = "read-too-early"
                self.report(slug, message, write.run.who.task, reader.run.who.task, reader.buffer, reader.run)
            elif self._needs_fence(write, reader):
                message = (
                    f"{reader.run.unit.name} reads through the async proxy what {write.run.who} wrote through the "
                    f"generic one, and {write.run.step.role} has no fence between"
                )
                slug = "missing-fence"
                self.report(slug, message, write.run.who.task, reader.run.who.task, reader.buffer, reader.run)

    def _check_overwrite(self, access: Access, write: Access) -> None:
        if access.run is write.run:
            return  # an update in place reads the slot itself
        self.demands.append(Demand("overwrite", access.run, write.run, write.buffer))
        if not self._done_before(access, write):
            verb = "still write" if access.writes else "still read"
            message = (
                f"{write.run.who} in {write.run.step.role} may overwrite slot {write.slot} while {access.run.who} in "
                f"{access.run.step.role} may {verb} it"
            )
            self.report("overwrite", message, access.run.who.task, write.run.who.task, write.buffer, write.run)
        elif access.writes and self._needs_fence(access, write):
            message = (
                f"{write.run.unit.name} writes slot {write.slot} through the async proxy after {access.run.who} wrote "
                f"it through the generic one, and {access.run.step.role} has no fence between"
            )
            self.report("missing-fence", message, access.run.who.task, write.run.who.task, write.buffer, write.run)

    def _check_duplicates(self, writers: list[Access]) -> None:
        for at, first in enumerate(writers):
            for second in writers[at + 1 :]:
                if first.meets(second) and first.share == second.share:
                    message = f"{first.run.who} is issued by {first.run.step.role} and again by {second.run.step.role}"
                    task = first.run.who.task
                    self.report("issued-twice", message, task, task, first.buffer, second.run)

    def _done_before(self, first: Access, second: Access) -> bool:
        if self.order.before(first.run.done, second.run.start):
            return True
        a, b = first.run, second.run
        same_unit = a.unit is b.unit and a.unit.completion is Completion.MMA_GROUP
        same_issuer = (a.step.eu, a.step.role) == (b.step.eu, b.step.role)
        updates = self._updates(first) and self._updates(second)
        return same_unit and same_issuer and updates and self.order.before(a.start, b.start)

    def _updates(self, access: Access) -> bool:
        """Whether the task writes this buffer (a read of what it then overwrites is part of the update)."""
        if access.writes:
            return True
        use = self.reference.uses[access.run.who]
        written = (self.places.buffer(tile, access.run.step.role) for tile in use.writes)
        return any(buffer.name == access.buffer for buffer in written)

    def _needs_fence(self, write: Access, later: Access) -> bool:
        """A generic write before an async access, with no fence of the writing role between them."""
        if write.run.unit.proxy != "generic" or later.run.unit.proxy != "async":
            return False
        fences = self.fences[write.run.step.eu, write.run.step.role, write.buffer]
        before = self.order.before
        return not any(before(write.run.done, f) and before(f, later.run.start) for f in fences)


# ---------------------------------------------------------------- whole-execution conditions


def implicit_tasks(program: SProgram) -> set[str]:
    """Scalar tasks: every role computes them where it needs them; an Issue only marks the place."""
    return {task.name for task in program.graph.tasks if task.kind is Kind.SCALAR}


def check_issued(checker: DataChecker) -> None:
    """Every task instance is issued: once by one role, or by all workers; by all where each does a part of it."""
    findings, trips = checker.findings, checker.trips
    workers = set(checker.workers)
    split = checker.split_tasks() if len(workers) > 1 else set()
    for who in checker.reference.uses:
        if who.task in checker.implicit:
            continue
        for eu in range(checker.eus):
            runs = checker.issuers.get((eu, who), [])
            roles = [run.step.role for run in runs]
            if not roles:
                message = f"{who} is never issued"
                findings.add(Finding("not-issued", message, who.task, "", "", "", who.instance), trips)
            elif len(roles) > 1 and (len(set(roles)) < len(roles) or set(roles) != workers):
                message = f"{who} is issued by {', '.join(roles)}; it must be one role, or every worker once"
                findings.add(Finding("issued-twice", message, who.task, who.task, "", roles[0], who.instance), trips)
            elif len(roles) == 1 and roles[0] in workers and who.task in split and not runs[0].unit.is_async:
                message = f"{who} is issued by {roles[0]} only, so the other workers' parts of it are never done"
                findings.add(Finding("not-issued", message, who.task, "", "", roles[0], who.instance), trips)


def check_exit(order: Order, findings: Findings, trips: str) -> None:
    """No asynchronous task is in flight when the last role of the EU ends (a role's end waits for its own groups)."""
    for run in order.runs:
        finals = (final for eu, final in order.finals if eu == run.step.eu)
        if run.unit.is_async and not any(order.before(run.done, final) for final in finals):
            message = f"{run.who} on {run.unit.name} may be in flight when the program ends"
            finding = Finding("in-flight-at-exit", message, run.who.task, "", "", run.step.role, run.who.instance)
            findings.add(finding, trips)
