"""Puts waits, releases, fences and turns into the lines of the roles.

before: Lines (order and stages only). after: every dependence that program order does not keep is covered by a Wait
with its reason, every slot is released after the Wait that covers its readers (`release.py`), generic writes that an
async-proxy unit accesses are fenced (`fences.py`), and roles that share the matrix unit hand over turns (`turns.py`).
Tiles that a loop leaves for another to go through again are waited for in the loop that makes them, and released
together after the other (`kept.py`). Meaning of the instructions: docs/sprogram.md.
"""

from __future__ import annotations

from threadloom.machine.model import GROUPS, Completion
from threadloom.sched.draft import Dependence, Draft, complete_at
from threadloom.sched.fences import fence_overwritten, fence_reads
from threadloom.sched.kept import keep
from threadloom.sched.lines import inner_loops
from threadloom.sched.ops import Arrive, Issue, Partition, Reason, Signal, Wait, Why
from threadloom.sched.release import protect_slots, release_slots, wait_for_group, wait_for_slots
from threadloom.sched.turns import take_turns, workers_meet


def synchronize(draft: Draft, partition: Partition) -> None:
    """Changes the draft's lines in place, and adds the signals that they use."""
    every, kept_loops = draft.dependences(), draft.graph.kept_loops()
    kept = [d for d in every if draft.loop_of[d.edge.src] in kept_loops]
    deps = [d for d in every if draft.loop_of[d.edge.src] not in kept_loops]
    _name_groups(draft)
    _name_rings(draft, deps + kept)
    for tile in dict.fromkeys(d.tile for d in kept):
        keep(draft, tile, [d for d in kept if d.tile == tile])
    fence_reads(draft, deps)
    fence_overwritten(draft)
    for dep in deps:
        _wait_for_value(draft, dep)
    protect_slots(draft, deps)
    wait_for_slots(draft)
    release_slots(draft, deps)
    for loop in draft.graph.loops:
        if not inner_loops(loop) and loop.id != 0 and not workers_meet(draft.graph, partition, loop.id):
            take_turns(loop.id, draft.lines, draft.placement, draft.signals)


# ---------------------------------------------------------------- signals


def _name_groups(draft: Draft) -> None:
    """Tasks on a unit with group completion join their role's FIFO of that unit."""
    for line in draft.lines.values():
        for item in line.items:
            if isinstance(item.instr, Issue) and draft.seu(item.task).completion in GROUPS:
                name = draft.group(item.task)
                draft.signals[name] = Signal(name, draft.seu(item.task).completion)
                complete_at(item, name)


def _name_rings(draft: Draft, deps: list[Dependence]) -> None:
    """A full signal per buffer that crosses roles, and an empty one for its slots."""
    crossing = [d for d in deps if draft.needs_ring(d)]
    for tile in dict.fromkeys(d.tile for d in crossing):
        _name_ring(draft, tile, [d for d in crossing if d.tile == tile])


def _name_ring(draft: Draft, tile: str, deps: list[Dependence]) -> None:
    buffer, asynchronous = draft.buffers[tile, ""], draft.seu(deps[0].edge.src).is_async
    sources = dict.fromkeys((d.edge.src, d.src_role) for d in deps)
    writers = len({role for _, role in sources})
    readers = len({d.dst_role for d in deps}) * buffer.multicast  # of every EU that the tile was loaded for
    size = buffer.bytes_per_slot if asynchronous else 0
    full = Signal(f"full.{buffer.name}", Completion.MBARRIER, buffer.slots, writers, size)
    empty = Signal(f"empty.{buffer.name}", Completion.MBARRIER, buffer.slots, readers)
    draft.signals[full.name], draft.signals[empty.name] = full, empty
    for task, role in sources:
        item = draft.issued(role, task)
        if asynchronous:
            complete_at(item, full.name)
        else:
            reason = Reason(Why.DEPENDENCE, task, deps[0].edge.dst, buffer.name)
            item.after.append(Arrive(full.name, reason, item.stage))


# ---------------------------------------------------------------- waits for values


def _wait_for_value(draft: Draft, dep: Dependence) -> None:
    edge = dep.edge
    reason = Reason(Why.DEPENDENCE, edge.src, edge.dst, draft.buffer_name(dep), edge.distance)
    if draft.needs_ring(dep):
        _wait_for_entry(draft, dep, reason)
    elif draft.seu(edge.src).completion in GROUPS and not _chained(draft, dep):
        wait_for_group(draft, dep, reason)


def _chained(draft: Draft, dep: Dependence) -> bool:
    """An accumulator passed on inside one matrix unit by one role: executed in issue order."""
    unit = draft.seu(dep.edge.src)
    same_unit = unit == draft.seu(dep.edge.dst) and unit.completion is Completion.MMA_GROUP
    return same_unit and draft.writes(dep.edge.dst, dep.tile)


def _wait_for_entry(draft: Draft, dep: Dependence, reason: Reason) -> None:
    """One wait for an instance is enough: none where an earlier item of the line has waited for the same one."""
    line = draft.lines[dep.loop, dep.dst_role]
    at = draft.position(dep.loop, dep.dst_role, dep.edge.dst)
    wait = Wait(f"full.{reason.buffer}", reason, line.items[at].stage)
    known = (k for item in line.items[: at + 1] for k in item.before if isinstance(k, Wait))
    same = (wait.signal, wait.stage, reason.distance)
    if all((k.signal, k.stage, k.reason.distance) != same for k in known):
        line.items[at].before.append(wait)
