"""Where the block meets: barriers of sm80/barriers.py, on plans edited by hand (no compiler)."""

from __future__ import annotations

import dataclasses

import numpy as np

from threadloom.examples.matmul import inputs, matmul
from threadloom.machine.devices import device
from threadloom.sched.ops import Issue, SProgram, Wait
from threadloom.sched.search import plan
from threadloom.targets.cuda.compile import facts_of
from threadloom.targets.cuda.launch import device_tensors
from threadloom.targets.cuda.sm80.barriers import barriers_of
from threadloom.targets.cuda.sm80.plan import AmperePlan


def planned() -> tuple[AmperePlan, SProgram]:
    call = matmul.bind(**inputs(np.random.default_rng(0), 256, 256, 256, dtype=np.float16))
    given = device_tensors(call.kernel, call.arrays)
    program = plan(call.kernel, call.dims, device("a100")).best
    return AmperePlan(program, {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}, call.dims), program


def with_slots(program: SProgram, slots: int) -> SProgram:
    buffers = tuple(dataclasses.replace(b, slots=slots) if b.tile in ("a", "b") else b for b in program.buffers)
    return dataclasses.replace(program, buffers=buffers)


def section(program: SProgram, loop: int):
    return next(s for s in program.sections if s.loop == loop)


def positions(program: SProgram, loop: int, kind: type, task: str = "") -> list[int]:
    instrs = section(program, loop).instrs
    return [k for k, i in enumerate(instrs) if isinstance(i, kind) and (not task or i.task.startswith(task))]


def test_a_wait_is_followed_by_a_barrier():
    plan_, program = planned()
    _, after = barriers_of(plan_, section(program, 1))
    assert after == frozenset(positions(program, 1, Wait)[-1:])


def ahead(program: SProgram) -> int:
    """How many passes the copies run ahead of the product."""
    stages = {i.task: i.stage for i in section(program, 1).instrs if isinstance(i, Issue)}
    return stages["dot_acc"] - stages["load_a"]


def test_enough_slots_need_no_other_barrier():
    """The slot that is overwritten was read at least two passes ago, and each pass has the barrier of its wait."""
    plan_, program = planned()
    edited = dataclasses.replace(plan_, program=with_slots(program, ahead(program) + 2))
    before, _ = barriers_of(edited, section(edited.program, 1))
    assert before == frozenset()


def test_a_slot_read_in_the_last_pass_needs_one():
    """What is overwritten was read since the barrier of the last pass; one barrier serves both copies."""
    plan_, program = planned()
    edited = dataclasses.replace(plan_, program=with_slots(program, ahead(program) + 1))
    before, _ = barriers_of(edited, section(edited.program, 1))
    first = min(positions(program, 1, Issue, "load_"))
    assert before == frozenset({first})


def test_tiles_of_the_grid_body_are_not_overwritten_under_slow_threads():
    """The bias of the next tile of the grid comes when all threads have used this one's."""
    plan_, program = planned()
    before, after = barriers_of(plan_, section(program, 0))
    (load,) = positions(program, 0, Issue, "load_bias")
    assert load in before and after
