"""Waits for groups of matrix products, as ptxas wants them: it runs all products of a kernel one after the other where
it thinks that accumulators are touched while they are written (warning C7514).

Both changes make waits stronger, which is always right and costs a little overlap. They were found with kernels that
got the warning.
"""

from __future__ import annotations

import re
from dataclasses import replace

from threadloom.sched.ops import Arrive, Instr, Issue, Wait
from threadloom.targets.cuda.kernel_plan import KernelPlan


def plan_group_waits(instrs: tuple[Instr, ...], active: set[int], plan: KernelPlan) -> list[Instr]:
    """The instructions of a pass over the stages in `active`, with waits as they are written."""
    return cover_younger(join(instrs, active, plan), active, plan)


def join(instrs: tuple[Instr, ...], active: set[int], plan: KernelPlan) -> list[Instr]:
    """Wait<1>; release; Wait<0> -> Wait<0>; release.

    Else an older group is waited for while a younger one is in flight, and the older one's registers are read after the
    younger one's wait (attention). The release comes a little later.
    """
    out = list(instrs)
    for k, instr in enumerate(out):
        if not is_group_wait(instr, active, plan):
            continue
        for later in out[k + 1 :]:
            if isinstance(later, Arrive) or later.stage not in active:
                continue
            if is_group_wait(later, active, plan) and later.pending < instr.pending:
                out[k] = replace(instr, pending=later.pending)
            break
    return out


def cover_younger(instrs: list[Instr], active: set[int], plan: KernelPlan) -> list[Instr]:
    """a; b; Wait<1> for a; read a; a again; Wait<1> for b  ->  a; b; Wait<0>; read a; a again; Wait<1>.

    Else a's registers are read and written again while b is in flight, all in what ptxas takes for one stage of its
    pipeline (a recurrence over chunks, whose next scores begin beside this chunk's last product).
    """
    out = list(instrs)
    for k, instr in enumerate(instrs):
        if is_group_wait(instr, active, plan) and instr.pending and _again_in_flight(instrs, k, active, plan):
            out[k] = replace(instr, pending=0)
    return out


def _again_in_flight(instrs: list[Instr], at: int, active: set[int], plan: KernelPlan) -> bool:
    """Whether the product that is waited for at `at` is issued again before all that were in flight at `at` are
    complete. (If it is not issued again in this pass, then in the next, behind this pass's last wait.)"""
    wait = instrs[at]
    buffer = plan.find_buffer(wait.reason.buffer)
    issued = 0
    for later in instrs[at + 1 :]:
        if later.stage not in active:
            continue
        if is_group_wait(later, active, plan) and later.pending <= issued:
            return False
        if isinstance(later, Issue) and plan.is_group(later.completes):
            issued += 1
            written = map(plan.tiles.of, plan.task(later.task).writes)
            if buffer is not None and buffer.tile and buffer.tile in written:
                return True
    return False


def is_group_wait(instr: Instr, active: set[int], plan: KernelPlan) -> bool:
    return isinstance(instr, Wait) and instr.stage in active and plan.is_group(instr.signal)


def with_full_waits(text: str) -> str:
    """A kernel's code with every wait for all products: what is left to do where ptxas still runs them one by one."""
    return re.sub(r"mma_wait<\d+>", "mma_wait<0>", text)
