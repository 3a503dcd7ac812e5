"""Carried scalars that every role computes for itself (sched/share_scalars.py): positions in a loop over pages, ends of
sequences that follow from one another.

Each stage of a pipelined loop passes through all iterations in order, at its own time, so each stage of a role has a
variable of its own for what the loop carries:

    i32 at_stage0 = first;                      before the loop
    i32 at = at_stage0;                         where a pass begins
    if (this stage has an iteration) at_stage0 = next;       where it ends

What code after the loop reads is what the first stage has then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadloom.sched.ops import Inner
from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda import issue
from threadloom.targets.cuda.layout import uniform
from threadloom.targets.cuda.registers import Registers
from threadloom.tile.ops import Value

if TYPE_CHECKING:
    from threadloom.sched.ops import Section
    from threadloom.targets.cuda.section import RoleEmitter
    from threadloom.task.ops import Loop


def declare_for_loops_in(e: RoleEmitter, section: Section) -> None:
    """The variables of the loops that `section` runs: what reads them after the loop may stand outside its block."""
    for inner in (i for i in section.instrs if isinstance(i, Inner)):
        declare(e, inner.loop)


def declare(e: RoleEmitter, loop: int) -> None:
    for _, arg, _, _ in e.plan.shared_scalars.get(loop, ()):
        for stage in _stages(e, loop):
            name = e.scope.fresh(f"{arg.name}_stage{stage}")
            e.carried[loop, arg.name, stage] = name
            e.scope.writer.line(f"{c.register_type(arg.type.dtype)} {name} = 0;")


def begin_loop(e: RoleEmitter, loop: Loop) -> None:
    for init, arg, _, _ in e.plan.shared_scalars.get(loop.id, ()):
        for stage in _stages(e, loop.id):
            e.scope.writer.line(f"{e.carried[loop.id, arg.name, stage]} = {e.scope.scalar(init.name)};")
    if e.homes is not None:
        e.homes.begin_loop(loop)


def begin_pass(e: RoleEmitter, loop: int, stage: int) -> dict[str, Registers]:
    """Rank-0 code of a pass for the instance of `stage`; what it made."""
    carried = {}
    for _, arg, _, _ in e.plan.shared_scalars.get(loop, ()):
        name = e.scope.fresh(arg.name)
        kind = c.register_type(arg.type.dtype)  # const is what the loop's index alone gives
        e.scope.writer.line(f"{kind} {name} = {e.carried[loop, arg.name, stage]};")
        carried[arg.name] = _held(e, arg, name)
    e.scope.registers |= carried
    made = carried | issue.emit_scalars(e, loop)
    run = {i.loop for i in e.section(loop).instrs if isinstance(i, Inner)}
    for inner in (x for x in e.plan.program.graph.loops if x.parent == loop and x.id not in run):
        if inner.id in e.plan.shared_scalars:
            made |= _run_scalars(e, loop, inner)
    return made


def _run_scalars(e: RoleEmitter, loop: int, inner: Loop) -> dict[str, Registers]:
    """The scalar code of a loop of which the role has nothing else to do; what it has carried at its end."""
    w, around = e.scope.writer, e.scope.places
    declare(e, inner.id)
    begin_loop(e, inner)
    with e.places.inside(0):
        count, t = e.places.enter_loop(inner), e.scope.fresh("t")
        outside, names = dict(e.scope.registers), set(e.scope.names)
        with w.block(f"for (i32 {t} = 0; {t} < {count}; {t}++)"):
            e.places.enter_instance(inner, t, 0)
            e.scope.places = e.places.at(0)
            end_pass(e, inner.id, 0, begin_pass(e, inner.id, 0), None)
        e.scope.registers = outside
        e.scope.names.clear()
        e.scope.names.update(names)
    e.scope.places = around
    return after_loop(e, loop, inner.id)


def end_pass(e: RoleEmitter, loop: int, stage: int, made: dict[str, Registers], guard: str | None) -> None:
    """`made`: the pass's rank-0 values; `guard`: C condition under which there is such an instance."""
    for _, arg, following, _ in e.plan.shared_scalars.get(loop, ()):
        line = f"{e.carried[loop, arg.name, stage]} = {made[following.name].name};"
        e.scope.writer.line(f"if ({guard}) {line}" if guard else line)


def after_loop(e: RoleEmitter, loop: int, inner: int) -> dict[str, Registers]:
    """What `inner`, which stands in `loop`, has carried at its end, and the scalar code that waited for it."""
    made = {}
    for _, arg, _, result in e.plan.shared_scalars.get(inner, ()):
        made[result.name] = _held(e, result, e.carried[inner, arg.name, _stages(e, inner)[0]])
    e.scope.registers |= made
    return made | (issue.emit_scalars(e, loop, after=inner) if made else {})


def _stages(e: RoleEmitter, loop: int) -> list[int]:
    return sorted({i.stage for i in e.section(loop).instrs}) or [0]


def _held(e: RoleEmitter, value: Value, name: str) -> Registers:
    return Registers(name, value.type.dtype, uniform(e.scope.team.warps), scalar=True)
