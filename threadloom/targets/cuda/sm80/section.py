"""Sections of an sProgram as code of the one worker of an Ampere block.

A pipelined loop is three loops over the same body: the first passes and the last ones with a test for each stage, and
the many between without. Copies join the worker's one FIFO of groups; an Issue that is skipped commits an empty group.
"""

from __future__ import annotations

from contextlib import nullcontext

from threadloom.errors import InternalError
from threadloom.sched.ops import Arrive, Inner, Instr, Issue, Section, Wait
from threadloom.targets.cuda.carried_scalars import (
    after_loop,
    begin_loop,
    begin_pass,
    declare_for_loops_in,
    end_pass,
)
from threadloom.targets.cuda.section import RoleEmitter, event_of
from threadloom.targets.cuda.sm80.barriers import barriers_of
from threadloom.targets.cuda.sm80.issue import emit_issue
from threadloom.task.ops import Kind, Loop


class WorkerEmitter(RoleEmitter):
    """Writes the code of the worker: all threads of the block."""

    counts_passes = False  # threads use all 255 registers that there are

    def run_loop(self, loop: Loop) -> None:
        section, w = self.section(loop.id), self.scope.writer
        if not section.instrs:
            return
        begin_loop(self, loop)
        count, stages = self.places.enter_loop(loop), self.plan.stages(loop.id)
        t, last = self.scope.fresh("t"), stages - 1
        instances = {s: t if s == 0 else f"{t} - {s}" for s in sorted({i.stage for i in section.instrs})}
        if stages == 1:
            with w.block(f"for (i32 {t} = 0; {t} < {count}; {t}++)"):
                self.instance_pass(loop, section, instances)
            return
        tested = {s: f"(u32)({i}) < (u32){count}" for s, i in instances.items()}
        w.line(f"i32 {t} = 0;")
        w.note("the pipeline fills")
        with w.block(f"for (; {t} < {last}; {t}++)"):
            self.instance_pass(loop, section, instances, tested)
        self.steady_without_masks(loop, section, instances, t, count)
        w.note("steady state")
        with w.block(f"for (; {t} < {count}; {t}++)"):
            self.instance_pass(loop, section, instances)
        w.note("the pipeline drains")
        with w.block(f"for (; {t} < {count} + {last}; {t}++)"):
            self.instance_pass(loop, section, instances, tested)

    def pass_over(
        self,
        loop: Loop,
        section: Section,
        active: set[int],
        guards: dict[int, str] | None = None,
        begun: int = 0,
        begins: Inner | None = None,
    ) -> None:
        """All instructions of the section once, those of stages with a guard only where it holds; nothing is ever
        begun ahead here."""
        guards = guards or {}
        declare_for_loops_in(self, section)
        for stage in sorted(active):
            self.scope.places = self.places.at(stage)
            self.scalars[stage] = begin_pass(self, loop.id, stage)
        own = {stage: self.scalars[stage] for stage in active}
        self.body_mark, self.scope.before = self.scope.writer.mark(), frozenset(self.scope.names)
        before, after = barriers_of(self.plan, section)
        for position, instr in enumerate(section.instrs):
            self.position = position
            self.scope.places = self.places.at(instr.stage)
            self.scope.registers.update(own[instr.stage])
            if position in before:
                self.scope.writer.line(f"{self.scope.team.sync}  // all have read what is overwritten now")
            self.worker_instruction(loop, instr, guards.get(instr.stage, ""))
            if isinstance(instr, Inner):
                own[instr.stage].update(after_loop(self, loop.id, instr.loop))
            if position in after:
                self.scope.writer.line(f"{self.scope.team.sync}  // and so have the copies of the other threads")
        for stage in sorted(active):
            end_pass(self, loop.id, stage, own[stage], guards.get(stage))
        for (at, _, stage), ring in self.rings.items():
            if at == loop.id and stage in active:
                guard = guards.get(stage)
                self.scope.writer.line(f"{f'if ({guard}) ' if guard else ''}{ring}.advance();")

    def worker_instruction(self, loop: Loop, instr: Instr, guard: str) -> None:
        timed = isinstance(instr, Wait) or (
            isinstance(instr, Issue) and self.plan.task(instr.task).kind is not Kind.SCALAR
        )
        w = self.scope.writer
        if not self.plan.timeline or not timed:
            self._write(loop, instr, guard)
            return
        clock = self.scope.fresh("before")
        w.line(f"const u32 {clock} = Clocks::now();")
        self._write(loop, instr, guard)
        w.line(f"clocks.record({event_of(loop.id, self.position)}, {clock});")

    def _write(self, loop: Loop, instr: Instr, guard: str) -> None:
        match instr:
            case Issue():
                emit_issue(self, loop, instr, guard)
            case Wait():  # one too many, of a stage that is not active, is harmless
                self.scope.writer.line(f"copy_wait<{instr.pending}>();  // {self.plan.explain(instr.reason)}")
            case Inner():
                whether = self.scope.writer.block(f"if ({guard})") if guard else nullcontext()
                with whether, self.places.inside(instr.stage):
                    self.run_loop(self.plan.loop(instr.loop))
                if guard:
                    self.scope.writer.line("else copy_wait<0>();  // later waits count on the copies of the loop")
            case Arrive():
                raise InternalError("one worker has nobody to signal to")
            case _:
                pass  # prefetches are hints; there is one proxy only, so fences say nothing
