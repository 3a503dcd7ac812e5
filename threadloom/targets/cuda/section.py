"""Sections of an sProgram as code of one role: instructions in order; loops with prologue, steady state and epilogue.

Everything decided here was decided by the sProgram; this file only spells it. Ring signals and slots follow `Ring`
counters, one per (loop, slots, stage); a skipped Issue into a group commits an empty group, as docs/sprogram.md says.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar

from threadloom.machine.model import Completion
from threadloom.sched.ops import Arrive, Fence, Inner, Instr, Issue, Role, Section, Wait, Why
from threadloom.sched.semantics import begin_order, early_instrs
from threadloom.targets.cuda import issue
from threadloom.targets.cuda.across import emit_reduce_threads
from threadloom.targets.cuda.begin_ahead import begin_next, begin_next_tile, begins_ahead, end_of_tile
from threadloom.targets.cuda.carried_scalars import (
    after_loop,
    begin_loop,
    begin_pass,
    declare_for_loops_in,
    end_pass,
)
from threadloom.targets.cuda.group_waits import is_group_wait, plan_group_waits
from threadloom.targets.cuda.homes import Homes
from threadloom.targets.cuda.kernel_plan import KernelPlan
from threadloom.targets.cuda.lane_parts import LaneParts, lane_parts
from threadloom.targets.cuda.parts_in_turn import parts_in_turn
from threadloom.targets.cuda.places import Places
from threadloom.targets.cuda.read_ahead import Ahead, begin_ahead_loads
from threadloom.targets.cuda.registers import Registers, Scope
from threadloom.targets.cuda.rings import begin_kept
from threadloom.targets.cuda.unsupported import no_code
from threadloom.task.ops import Kind, Loop

EVENTS_PER_LOOP = 1000


@dataclass(slots=True)
class RoleEmitter:
    """Writes the code of one role: a producer (one elected lane) or a worker (a warpgroup)."""

    counts_passes: ClassVar[bool] = True  # those without masks, before their loop, which takes a register
    plan: KernelPlan
    role: Role
    scope: Scope
    places: Places
    rings: dict[tuple[int, int, int], str] = field(default_factory=dict)
    expected: set[tuple[str, int]] = field(default_factory=set)
    in_flight: float = math.inf  # at most so many matrix groups of this role are in flight here
    homes: Homes | None = None
    settled: bool = False  # reads of shared memory by threads are complete here, as far as copies are concerned
    position: int = 0  # of the current instruction in its section
    body_mark: int = 0  # where the instructions of the pass written last begin, after its positions and scalars
    draining: bool = False  # in an epilogue: skipped products need no group of their own, waits are adjusted
    groups: list[bool] = field(default_factory=list)  # the epilogue's groups so far: whether there is one
    turns: dict[str, str] = field(default_factory=dict)  # order signal -> its name in this role's code
    scalars: dict[int, dict[str, Registers]] = field(default_factory=dict)  # stage -> rank-0 values of its instance
    ready: set[tuple[str, str]] = field(default_factory=set)  # (sTask, rank-0 value) written while the grid is walked
    kept: dict[tuple[int, int, int], str] = field(default_factory=dict)  # like rings, of tiles that a like loop made
    begun: str = ""  # C name of: the last tile has begun this tile's run of the inner loop (Inner.ahead)
    next_tile: str = ""  # C expression of the number of the tile after this one
    begun_groups: int = 0  # products of the next tile that are in flight here
    begun_results: list[str] = field(default_factory=list)  # the registers that they write
    carried: dict[tuple[int, str, int], str] = field(default_factory=dict)  # (loop, carried scalar, stage) -> variable
    apart: list[LaneParts] = field(default_factory=list)  # what the lanes of a loop that has ended still hold in parts
    ahead: dict[str, Ahead] = field(default_factory=dict)  # sTask -> what it has loaded for the next pass
    waited: tuple[int, str, str, str] | None = None  # the wait written last: the place after it, and its text

    @property
    def has_threads(self) -> bool:
        """Whether all 128 threads run this code (a worker, or a producer that loads by threads)."""
        return self.role.kind == "worker" or self.plan.wide_producer

    @property
    def one_thread(self) -> str:
        """C condition before what one thread must do: nothing where one thread runs the code anyway."""
        return "if (elected) " if self.role.kind == "producer" and self.plan.wide_producer else ""

    def section(self, loop: int) -> Section:
        found = [s for s in self.plan.program.sections if s.loop == loop and s.role == self.role.name]
        return found[0] if found else Section(loop, self.role.name, ())

    # ------------------------------------------------------------ rings (`rings.py` declares them)

    def slot(self, loop: int, slots: int, stage: int) -> str:
        return "0" if slots == 1 else f"{self.rings[loop, slots, stage]}.slot"

    def entry(self, signal: str, loop: int, stage: int) -> str:
        """C expression of the address of the barrier that instance uses."""
        slots, name = self.plan.signal(signal).slots, self.turns.get(signal) or self.plan.barrier_name(signal)
        return name if slots == 1 else f"{name} + 8 * {self.slot(loop, slots, stage)}"

    # ------------------------------------------------------------ loops

    def tile_body(self) -> None:
        """Loop 0: what the role does for one tile of the grid."""
        loop = self.plan.loop(0)
        self.pass_over(loop, self.section(0), {0})
        end_of_tile(self)

    def run_loop(self, inner: Inner) -> None:
        """One run of a stream loop."""
        loop = self.plan.loop(inner.loop)
        section, w = self.section(loop.id), self.scope.writer
        if not section.instrs:
            return
        begin_kept(self, loop)
        begin_loop(self, loop)
        count = self.places.enter_loop(loop)
        used = sorted({i.stage for i in section.instrs})
        first, last = used[0], used[-1]
        t = self.scope.fresh("t")
        if first == last or self.is_light(section, first):
            begin_ahead_loads(self, loop, section, first, t, count)
        if first == last:
            with w.block(f"for (i32 {t} = 0; {t} < {count}; {t}++)"):
                self.instance_pass(loop, section, {first: t})
            return
        if self.is_light(section, first):
            with w.block(f"for (i32 {t} = 0; {t} < {count}; {t}++)"):
                late = {s: f"{t} >= {s - first}" for s in used if s != first}
                self.instance_pass(loop, section, {s: t if s == first else f"{t} - {s - first}" for s in used}, late)
            with w.block(f"if ({count} > 0)"):
                self.epilogue(loop, section, used, count)
            return
        with w.block(f"if ({count} > 0)"):
            for step in range(last - first):
                w.note(f"prologue {step}")
                begun = inner.ahead if step == 0 else 0
                instances = {s: str(step - (s - first)) for s in used if s - first <= step}
                self.ramp(loop, section, instances, count, begun=begun)
            instances = {s: t if s == first else f"{t} - {s - first}" for s in used}
            w.line(f"i32 {t} = {last - first};")
            if loop.id in self.plan.backwards:
                self.steady_until_clear(loop, section, instances, t, count)
            else:
                self.steady_without_masks(loop, section, instances, t, count)
            w.note("steady state")
            with w.block(f"for (; {t} < {count}; {t}++)"):
                self.instance_pass(loop, section, instances)
            self.epilogue(loop, section, used, count, inner, ramped=True)

    def _keep_lanes_apart(self, inner: Inner) -> tuple[LaneParts, ...]:
        parts = lane_parts(self.plan, self.plan.loop(inner.loop)) if self.homes is not None else ()
        self.scope.in_lanes |= {p.reduce.result.name: None for p in parts if self.homes.of(p.result.name) is not None}
        return parts

    def _join_lanes(self) -> None:
        """Before the first sTask or loop after a loop, or where the pass around it ends: what its lanes kept apart."""
        while self.apart:
            part = self.apart.pop(0)
            if (source := self.scope.in_lanes.pop(part.reduce.result.name, None)) is not None:
                emit_reduce_threads(self.scope, part.reduce, source, self.homes.of(part.result.name))

    def steady_until_clear(self, loop: Loop, section: Section, instances: dict[int, str], t: str, count: str) -> None:
        """The passes that need masks at a run's begin, where it goes backwards; then those without."""
        w, masked = self.scope.writer, self.scope.fresh("masked")
        begin = w.mark()
        w.note("steady state, first tiles with masks")
        with w.block(f"for (; {t} < {masked}; {t}++)"):
            self.instance_pass(loop, section, instances)
        after = w.mark()
        test = self.steady_without_masks(loop, section, instances, t, count)
        if w.mark() == after:  # there are no masks
            w.cut(begin)
        elif test:
            *places, condition, end = test[1:]
            failing = condition.replace("return ", "return !(").replace(";", ");")
            for at, line in enumerate([f"const i32 {masked} = {test[0]}", *places, failing, end]):
                w.insert(begin + 1 + at, line)
        else:
            w.insert(begin + 1, f"const i32 {masked} = {t};")

    def steady_without_masks(
        self, loop: Loop, section: Section, instances: dict[int, str], t: str, count: str
    ) -> list[str]:
        """A loop of its own for the passes in which no tile needs a mask; nothing where there are no masks.

        How many there are is found before it, 32 at a time, by the lines that it returns. So its body has no branch,
        and no test that the next product would wait for: the assembler can overlap all of it."""
        w = self.scope.writer
        w.note("steady state, tiles without masks")
        head = w.mark()
        self.scope.assumed = []
        clear = self.scope.fresh("clear")
        with w.block(f"for (; {t} < {clear}; {t}++)"):
            self.instance_pass(loop, section, instances)
        places = w.written(head + 1, self.body_mark)
        assumed, self.scope.assumed = self.scope.assumed, None
        if not assumed:
            w.cut(head - 1)
            return []
        known = all(line.strip().startswith("const ") for line in places)  # not what changes with the passes
        if not known or not self.counts_passes:
            w.insert(self.body_mark, f"  if (!({' && '.join(assumed)})) break;")
            w.replace(head, f"for (; {t} < {count}; {t}++) {{")
            return []
        test = [f"first_without({t}, {count}, [&](i32 {t}) {{", *places, f"  return {' && '.join(assumed)};", "});"]
        for at, line in enumerate([f"const i32 {clear} = {test[0]}", *test[1:]]):
            w.insert(head + at, line)
        return test

    def is_light(self, section: Section, first: int) -> bool:
        """Whether all stages but the first only wait for products and release slots: the loop then needs no prologue,
        a test in its body will do. (A copy of the body would be one more place for the products' registers.)"""
        return all(
            i.stage == first or isinstance(i, Arrive) or is_group_wait(i, {i.stage}, self.plan) for i in section.instrs
        )

    def epilogue(
        self,
        loop: Loop,
        section: Section,
        used: list[int],
        count: str,
        inner: Inner | None = None,
        ramped: bool = False,
    ) -> None:
        """The passes after the last iteration; `ramped`: after a prologue of as many."""
        first, last = used[0], used[-1]
        self.groups.clear()
        for step in range(last - first):
            begins = inner is not None and inner.ahead + inner.early > 0 and step == 0
            self.scope.writer.note(f"epilogue {step}{', and the next tile begins' if begins else ''}")
            late = {s: f"{count} - {s - first - step}" for s in used if s - first > step}
            done = last - first - step if ramped else 0  # a shorter run has done this pass in its prologue
            self.draining = True
            self.ramp(loop, section, late, count, begins=inner if begins else None, least=done)
            self.draining = False

    def ramp(
        self,
        loop: Loop,
        section: Section,
        instances: dict[int, str],
        count: str,
        begun: int = 0,
        begins: Inner | None = None,
        least: int = 0,
    ) -> None:
        """One pass of prologue or epilogue: the stages in `instances` run, each for its own instance. Of stage 0 the
        first `begun` instructions may have been done by the last tile; `begins`: some are done for the next; `least`:
        nothing is done in runs with fewer iterations."""
        guards = {s: None for s in instances}
        if self.plan.is_guarded(loop.id, self.role.name):
            # a run shorter than the pipeline: instances that do not exist are skipped
            guards = {s: f"{i} < {count}" if i.isdigit() else f"{i} >= 0" for s, i in instances.items()}
            if least > 1:
                guards = {s: f"{count} >= {least} && {guard}" for s, guard in guards.items()}
        with self.scope.writer.block(""):
            self.instance_pass(loop, section, instances, {s: g for s, g in guards.items() if g}, begun, begins)

    def instance_pass(
        self,
        loop: Loop,
        section: Section,
        instances: dict[int, str],
        guards: dict[int, str] | None = None,
        begun: int = 0,
        begins: Inner | None = None,
    ) -> None:
        """One pass through the loop's body; what it declares is gone afterwards."""
        outside, names = dict(self.scope.registers), set(self.scope.names)
        for stage, instance in instances.items():
            self.places.enter_instance(loop, instance, stage)
        with parts_in_turn(self, loop, next(iter(instances.values()))):
            self.pass_over(loop, section, set(instances), guards or {}, begun, begins)
        self.scope.registers = outside
        self.scope.names.clear()
        self.scope.names.update(names)

    def pass_over(
        self,
        loop: Loop,
        section: Section,
        active: set[int],
        guards: dict[int, str] | None = None,
        begun: int = 0,
        begins: Inner | None = None,
    ) -> None:
        """All instructions of the stages in `active`, once."""
        declare_for_loops_in(self, section)
        for stage in sorted(active):
            self.scope.places = self.places.at(stage)
            self.scalars[stage] = begin_pass(self, loop.id, stage)
        own = {stage: self.scalars[stage] for stage in active}
        self.body_mark, self.scope.before = self.scope.writer.mark(), frozenset(self.scope.names)
        self.expected.clear()
        self.in_flight = math.inf
        joined = list(enumerate(plan_group_waits(section.instrs, active, self.plan)))
        instrs, ahead = joined, begins.ahead if begins is not None else 0
        if begins is not None:
            instrs = [joined[at] for at in begin_order(section, ahead)]
        begin_at = next((at for at, i in instrs if i.stage == 0 or at >= ahead), -1) if begins is not None else -1
        early = early_instrs(section) if begins_ahead(section) else {}
        for done, some in groupby(instrs, lambda x: x[0] in early or (x[1].stage == 0 and x[0] < begun)):
            with self.scope.writer.block(f"if (!{self.begun})") if done else nullcontext():
                for self.position, instr in some:
                    if self.position == begin_at:
                        begin_next_tile(self, begins)
                    if instr.stage == 0 and self.position < ahead:
                        begin_next(self, loop, instr, section.instrs)
                    elif instr.stage in active:
                        self.scope.places = self.places.at(instr.stage)
                        self.scope.registers.update(own[instr.stage])
                        self.guarded(loop, instr, section.instrs, (guards or {}).get(instr.stage))
                        if isinstance(instr, Inner):
                            own[instr.stage].update(after_loop(self, loop.id, instr.loop))
                    else:
                        self.skipped(instr)
        self._join_lanes()
        for stage in sorted(active):
            end_pass(self, loop.id, stage, own[stage], (guards or {}).get(stage))
        for (at, _, stage), ring in (*self.rings.items(), *self.kept.items()):
            if at == loop.id and stage in active:
                guard = (guards or {}).get(stage)
                self.scope.writer.line(f"{f'if ({guard}) ' if guard else ''}{ring}.advance();")

    # ------------------------------------------------------------ instructions

    def guarded(self, loop: Loop, instr: Instr, instrs: tuple[Instr, ...], guard: str | None) -> None:
        harmless = is_group_wait(instr, {instr.stage}, self.plan)  # a wait too many
        settled, outside = self.settled, dict(self.scope.registers)
        with self.scope.writer.block(f"if ({guard})") if guard and not harmless else nullcontext():
            self.instruction(loop, instr, instrs)
            if guard:  # there are lanes to join only where there was a run, and what the block declared is gone
                self._join_lanes()
                self.scope.registers = outside
        self.settled = self.settled and (settled or not guard)
        if guard and isinstance(instr, Issue) and self.plan.is_group(instr.completes):
            self.scope.writer.line("else mma_commit();  // an empty group keeps the count")
        elif guard and isinstance(instr, Issue) and self.plan.is_store_group(instr.completes):
            self.scope.writer.line("else if (lane == 0) store_commit();  // an empty group keeps the count")

    def skipped(self, instr: Instr) -> None:
        """An instruction whose instance does not exist: its group does."""
        if isinstance(instr, Issue) and self.plan.is_group(instr.completes):
            if self.draining:
                self.groups.append(False)
            else:
                self.commit("an empty group keeps the count")
        elif isinstance(instr, Issue) and self.plan.is_store_group(instr.completes):
            self.scope.writer.line("if (lane == 0) store_commit();  // an empty group keeps the count")

    def instruction(self, loop: Loop, instr: Instr, instrs: tuple[Instr, ...]) -> None:
        timed = isinstance(instr, Wait) or (
            isinstance(instr, Issue) and self.plan.task(instr.task).kind is not Kind.SCALAR
        )
        if not self.plan.timeline or not timed:
            self._instruction(loop, instr, instrs)
            return
        before, w = self.scope.fresh("before"), self.scope.writer
        w.line(f"const u32 {before} = Clocks::now();")
        self._instruction(loop, instr, instrs)
        w.line(f"clocks.record({event_of(loop.id, self.position)}, {before});")

    def _instruction(self, loop: Loop, instr: Instr, instrs: tuple[Instr, ...]) -> None:
        match instr:
            case Issue():
                self._join_lanes()
                self.scope.consumed.clear()
                issue.emit_issue(self, loop, instr, instrs)
                self.settled = False
            case Wait():
                self.wait(loop, instr)
            case Arrive():
                self.arrive(loop, instr)
            case Fence():
                self.fence(instr)
            case Inner():
                self._join_lanes()  # not in the body of this loop
                parts = self._keep_lanes_apart(instr)  # joined behind the waits that follow: fewer registers in between
                with self.places.inside(instr.stage):
                    self.run_loop(instr)
                self.apart.extend(parts)
                self.in_flight, self.settled = math.inf, False

    def wait(self, loop: Loop, instr: Wait) -> None:
        signal, w = self.plan.signal(instr.signal), self.scope.writer
        why = self.plan.explain(instr.reason)
        if self.plan.is_store_group(signal.name):
            w.line(f"if (lane == 0) store_wait_read<{instr.pending}>();  // {why}")
            w.line("__syncwarp();")
            return
        if signal.kind is not Completion.MBARRIER:
            younger = instr.pending + self.begun_groups
            recent = self.groups[-younger:] if self.draining and younger else []
            pending = younger - recent.count(False)
            if self.in_flight > pending:
                w.line(f"mma_wait<{pending}>();  // {why}")
                self.in_flight = pending
            held = self.homes.of_buffer(instr.reason.buffer) if self.homes else None
            if held is not None:
                w.line(f"pin({held.name});")
            return
        earlier, distance = instr.reason.why is Why.SLOT_FREE, instr.reason.distance
        if instr.reason.why is Why.ORDER and distance == signal.slots:
            earlier, distance = True, 0
        if distance and not earlier:
            why = f"a wait for {instr.signal} reaches {distance} iterations back"
            raise no_code(instr.reason.dst, why, self.plan.task(instr.reason.dst).loc)
        phase = f"{self.rings[loop.id, signal.slots, instr.stage]}.phase"
        entry = self.entry(signal.name, loop.id, instr.stage)
        if instr.reason.why is Why.ORDER:
            name = self.turns[signal.name]
            self._wait_on(f"{entry}, {phase} ^ {name}_early, {name}_index", why)
            return
        parity = f"{phase} ^ 1" if earlier else phase
        self._wait_on(f"{entry}, {parity}, {self.plan.barrier_index(signal.name)}", why)

    def _wait_on(self, arguments: str, why: str) -> None:
        """A wait for a barrier; of waits one after the other one call, so that their tests overlap."""
        w, head = self.scope.writer, "barrier_wait("
        if self.waited is not None and self.waited[0] == w.mark():
            mark, before, its_why, its_head = self.waited
            w.replace(mark - 1, f"{its_head}{before},  // {its_why}")
            head = " " * len(head)
        w.line(f"{head}{arguments});  // {why}")
        self.waited = (w.mark(), arguments, why, head)

    def commit(self, note: str = "") -> None:
        self.scope.writer.line(f"mma_commit();{f'  // {note}' if note else ''}")
        self.in_flight += 1
        self.groups.append(True)

    def arrive(self, loop: Loop, instr: Arrive) -> None:
        w = self.scope.writer
        entry, why = self.entry(instr.signal, loop.id, instr.stage), self.plan.explain(instr.reason)
        buffer = self.plan.find_buffer(instr.reason.buffer)
        spread = buffer.multicast if buffer is not None else 1
        if not self.has_threads:
            for block in range(spread) if spread > 1 else ():
                w.line(f"barrier_arrive_at({entry}, {block});  // {why}")
            if spread == 1:
                w.line(f"barrier_arrive({entry});  // {why}")
            return
        by_threads = self.plan.read_by_threads(instr.reason.src)
        freed = by_threads and instr.reason.why is Why.SLOT_FREE and self.plan.filled_by_copies(instr.reason.buffer)
        if freed and not (buffer is not None and buffer.tile in map(self.plan.tiles.of, self.scope.consumed)):
            self.settle("what was read has left shared memory before a copy comes there")
        if by_threads or self.role.kind == "producer":
            w.line("__syncwarp();")
        if spread > 1:
            w.line(f"if (lane < {spread}) barrier_arrive_at({entry}, lane);  // at all blocks of the cluster; {why}")
        else:
            w.line(f"if (lane == 0) barrier_arrive({entry});  // {why}")

    def fence(self, instr: Fence) -> None:
        if self.plan.buffer(instr.buffer).space != "reg":  # for registers, every product begins with its own fence
            self.settle(self.plan.explain(instr.reason))

    def settle(self, why: str) -> None:
        """Order what threads did in shared memory before what the asynchronous proxy does there. Reads need it, too:
        one that waits behind products was seen to return what a copy brought after the release of its slot."""
        if not self.settled:
            self.scope.writer.line(f"fence_to_async();  // {why}")
        self.settled = True


def event_of(loop: int, position: int) -> int:
    """Number of an instruction in the records of in-kernel clocks."""
    return loop * EVENTS_PER_LOOP + position
