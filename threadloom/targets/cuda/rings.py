"""Counters of rings: which entry of a barrier, and which slot of a buffer, an instance uses, and in which phase.

One for each (loop, slots, stage) that a role touches; they live as long as the kernel. Loops over tiles that another
loop has kept have counters of their own, which begin again where that loop's last run began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadloom.machine.model import Completion
from threadloom.sched.ops import Arrive, Instr, Issue, Wait
from threadloom.targets.cuda.kernel_plan import KernelPlan
from threadloom.task.ops import Loop

if TYPE_CHECKING:
    from threadloom.targets.cuda.section import RoleEmitter


def declare_rings(e: RoleEmitter) -> None:
    """The counters of every ring signal and slotted buffer that the role of `e` touches."""
    wanted: dict[tuple[int, int, int], None] = {}
    for section in (s for s in e.plan.program.sections if s.role == e.role.name):
        for instr in section.instrs:
            for slots in _ring_sizes(e.plan, instr):
                wanted[section.loop, slots, instr.stage] = None
    for key, _ in sorted(wanted.items()):
        e.rings[key] = e.scope.fresh("_".join(["ring", *(str(x) for x in key)]))
        e.scope.writer.line(f"Ring<{key[1]}> {e.rings[key]};")
    for loop in e.plan.program.graph.loops:
        if loop.like is not None:
            _declare_kept(e, loop)


def _ring_sizes(plan: KernelPlan, instr: Instr) -> set[int]:
    sizes: set[int] = set()
    if isinstance(instr, Wait | Arrive) and plan.signal(instr.signal).kind is Completion.MBARRIER:
        sizes.add(plan.signal(instr.signal).slots)
    if isinstance(instr, Issue):
        task = plan.task(instr.task)
        for name in (*task.reads, *task.writes):
            shared = plan.shared_tile(name) if plan.tiles.of(name) else None
            if shared is not None and plan.home_loop(name) == task.loop:
                sizes.add(shared.slots)
    return sizes


def _declare_kept(e: RoleEmitter, loop: Loop) -> None:
    """Counters over tiles that loop `loop.like` made: each run of `loop` goes through the slots of its last run."""
    for instr in e.section(loop.id).instrs:
        task = e.plan.task(instr.task) if isinstance(instr, Issue) else None
        for name in (*task.reads, *task.writes) if task else ():
            shared = e.plan.shared_tile(name) if e.plan.tiles.of(name) else None
            if shared is None or shared.slots == 1 or e.plan.home_loop(name) != loop.like:
                continue
            key = (loop.id, shared.slots, instr.stage)
            if key not in e.kept:
                e.kept[key] = e.scope.fresh("_".join(["kept", *(str(x) for x in key)]))
                e.scope.writer.line(f"Ring<{shared.slots}> {e.kept[key]};")
                e.scope.writer.line(f"u32 {e.kept[key]}_first = 0;  // slot of the last run's first")


def begin_kept(e: RoleEmitter, loop: Loop) -> None:
    """At a run's begin: note where a filling loop starts; start there, where `loop` goes through what it made."""
    likes = {x.id: x.like for x in e.plan.program.graph.loops if x.like is not None}
    for (at, slots, _), name in e.kept.items():
        if likes[at] == loop.id:
            e.scope.writer.line(f"{name}_first = {e.rings[loop.id, slots, 0]}.slot;")
        if at == loop.id:
            e.scope.writer.line(f"{name}.slot = {name}_first;")
