"""Roles that share an asynchronous matrix unit take turns on it in the planned order.

Left alone they fall into lockstep (prototype study: 2048 -> 3674 cycles). Where no role has other work in the loop
there is nothing to overlap, and where the unit is idle most of the time nobody is in another's way: handing over every
iteration then only costs. Where workers meet in the loop to combine their parts of an axis they would wait for each
other for ever.
"""

from __future__ import annotations

from threadloom.machine.model import Completion
from threadloom.sched.lines import Item, Line
from threadloom.sched.ops import Arrive, Issue, Partition, Reason, Signal, Wait, Why
from threadloom.sched.placement import Placement
from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import Reduce, Scan

SHARED_FROM = 0.5  # of an iteration a unit is busy, from which on roles take turns on it


def workers_meet(graph: TaskGraph, partition: Partition, loop: int) -> bool:
    """Whether workers combine their parts of an axis that they share in the loop's body."""
    shared = {t.axis for t in partition.tiles if t.worker_extent < t.extent}
    ops = (op for task in graph.tasks if task.loop == loop for op in task.ops)
    return any(isinstance(op, Reduce | Scan) and op.axis in shared for op in ops)


def take_turns(loop: int, lines: dict[tuple[int, str], Line], placement: Placement, signals: dict[str, Signal]) -> None:
    """Hand-overs in the lines of `loop`, whose signals go to `signals`."""
    own = {role: line for (at, role), line in lines.items() if at == loop}
    issued = [i for line in own.values() for i in line.items if isinstance(i.instr, Issue)]
    if all(placement.units[i.task].seu.is_async for i in issued):
        return
    users: dict[str, list[tuple[int, str, Item]]] = {}
    for role, line in own.items():
        for item in line.items:
            if isinstance(item.instr, Issue) and placement.units[item.task].seu.completion is Completion.MMA_GROUP:
                users.setdefault(item.instr.seu, []).append((item.start, role, item))
    for unit, found in users.items():
        ii = own[found[0][1]].ii
        found.sort(key=lambda f: f[0] % ii)
        busy = sum(item.done - item.start for _, _, item in found)
        if len({role for _, role, _ in found}) < 2 or busy < SHARED_FROM * ii:
            continue
        for at, (start, role, item) in enumerate(found):
            next_start, next_role, following = found[(at + 1) % len(found)]
            if next_role != role:
                passes = max(0, (start - next_start) // ii + 1)  # the first pass of the taker that starts later
                signal = _hand_over(loop, unit, (role, item), (next_role, following), passes)
                signals[signal.name] = signal


def _hand_over(loop: int, unit: str, giver: tuple[str, Item], taker: tuple[str, Item], wraps: int) -> Signal:
    (from_role, item), (to_role, following) = giver, taker
    name = f"turn.{unit}.{loop}.{from_role}.{item.task}.{to_role}.{following.task}"
    reason = Reason(Why.ORDER, item.task, following.task, unit, wraps)
    # Stage 0 whatever the tasks' stages: in the prologue, where later stages are skipped, every turn is still taken, so
    # nobody can hand over twice before the other has seen it once.
    item.after.insert(0, Arrive(name, reason, 0))
    following.before.append(Wait(name, reason, 0))
    return Signal(name, Completion.MBARRIER)
