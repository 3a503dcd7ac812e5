"""Slots: who reads one asynchronously is waited for before the next write; slots of rings are handed back.

before: lines with their waits for values. after: a role that overwrites what its own asynchronous task may still read
waits first; a writer into a ring waits for an empty slot, and each reading role arrives there when its last reader is
done. Where that is costs nothing if the role waits for the reader anyway (`queued.py`).
"""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.machine.model import GROUPS
from threadloom.sched.draft import Dependence, Draft
from threadloom.sched.lines import Line
from threadloom.sched.ops import Arrive, Buffer, Inner, Issue, Reason, Wait, Why
from threadloom.sched.pipeline import updates_after
from threadloom.sched.queued import Queued
from threadloom.task.ops import Edge

# ---------------------------------------------------------------- slots of one role


def protect_slots(draft: Draft, deps: list[Dependence]) -> None:
    """An asynchronous reader of a buffer that the same role writes again: wait for it before the next write."""
    for dep in deps:
        reader = draft.seu(dep.edge.dst)
        buffer = draft.buffer(dep.tile, dep.src_role) if dep.tile else None
        if buffer is None or draft.needs_ring(dep) or reader.completion not in GROUPS:
            continue
        if draft.tiles.tile(dep.tile).carried is not None:
            _protect_carried(draft, dep, buffer)
        elif draft.seu(dep.edge.src) != reader:
            slots_later = buffer.slots - dep.edge.distance
            for writer in _first_writers(draft, dep.tile):
                reason = Reason(Why.SLOT_FREE, dep.edge.dst, writer, buffer.name, slots_later)
                back = Edge(dep.edge.dst, writer, dep.tile)
                wait_for_group(draft, Dependence(dep.loop, dep.dst_role, dep.src_role, back, dep.tile), reason)


def _protect_carried(draft: Draft, dep: Dependence, buffer: Buffer) -> None:
    """A carried tile is updated in place: by another unit than the reader's only when that has read it. (One that also
    writes it is waited for by whoever reads what it writes.)"""
    if draft.writes(dep.edge.dst, dep.tile):
        return
    for reader, updater, distance in updates_after(dep.edge, draft.graph, draft.tiles):
        if draft.seu(updater) != draft.seu(reader) and dep.dst_role in draft.placement.units[updater].roles:
            reason = Reason(Why.SLOT_FREE, reader, updater, buffer.name, distance)
            back = Edge(reader, updater, dep.tile)
            wait_for_group(draft, Dependence(dep.loop, dep.dst_role, dep.dst_role, back, dep.tile), reason)


def _first_writers(draft: Draft, tile: str) -> list[str]:
    """Tasks that begin an instance of the tile: those that write over their operand in it come later."""
    made = draft.tiles.tile(tile)
    begin = [t for t in made.producers if not any(draft.tiles.of(v) == tile for v in draft.graph.task(t).reads)]
    return begin or list(made.producers[:1])


def wait_for_group(draft: Draft, dep: Dependence, reason: Reason) -> None:
    """Before the target, `reason.distance` iterations on, wait until the group of the source is complete."""
    line = draft.lines[dep.loop, dep.dst_role]
    at = draft.position(dep.loop, dep.dst_role, dep.edge.dst)
    target, queued = line.items[at], draft.queued(line, dep.edge.src)
    later = target.stage + reason.distance - line.items[queued.came].stage
    pending = queued.younger(later, at)
    known = [k for k in target.before if isinstance(k, Wait) and k.signal == queued.signal]
    if all(k.pending > pending for k in known):
        target.before[:] = [k for k in target.before if k not in known]
        target.before.append(Wait(queued.signal, reason, target.stage, pending))


# ---------------------------------------------------------------- slots of rings


def wait_for_slots(draft: Draft) -> None:
    """A writer of a ring buffer waits until its slot was released. (Kept tiles are waited for around their loop.)"""
    kept = draft.graph.kept_loops()
    for (loop, _), line in draft.lines.items():
        for item in line.items if loop not in kept else ():
            for instr in (item.instr, *item.after):
                filled = instr.signal if isinstance(instr, Arrive) else getattr(instr, "completes", "")
                if not filled.startswith("full."):
                    continue
                buffer = filled.removeprefix("full.")
                readers = [e.dst for e in draft.graph.edges if draft.tiles.of(e.value) and e.src == item.task]
                reason = Reason(Why.SLOT_FREE, readers[0] if readers else "", item.task, buffer)
                wait = Wait(f"empty.{buffer}", reason, item.stage)
                if wait not in item.before:
                    item.before.append(wait)


def release_slots(draft: Draft, deps: list[Dependence]) -> None:
    """After a role's last reader of a ring buffer is done, the role arrives at the empty signal."""
    rings = [d for d in deps if draft.needs_ring(d)]
    for tile, role in dict.fromkeys((d.tile, d.dst_role) for d in rings):
        own = [d for d in rings if d.tile == tile and d.dst_role == role]
        loop = draft.loop_of[own[0].edge.src]
        if any(d.loop != loop for d in own):
            raise InternalError(f"tile {tile} is read outside the loop that loads it")
        _release(draft, draft.lines[loop, role], own)


def _release(draft: Draft, line: Line, deps: list[Dependence]) -> None:
    points = [(*_done_point(draft, line, dep), dep) for dep in deps]
    stage, at, dep = max(points, key=lambda p: p[:2])
    buffer = draft.buffers[dep.tile, ""]
    arrive = Arrive(f"empty.{buffer.name}", Reason(Why.SLOT_FREE, dep.edge.dst, dep.edge.src, buffer.name), stage)
    waited = _own_wait(draft, line, at, dep)
    if waited is not None:  # free at once what the item itself has waited for, before its work
        line.items[at].before.insert(waited + 1, arrive)
    else:
        line.items[at].after.append(arrive)


def _done_point(draft: Draft, line: Line, dep: Dependence) -> tuple[int, int]:
    """(stage, item after which) at which the reader is known to be done; it is waited for there if it must be."""
    queued = draft.queued(line, dep.edge.dst)
    item = line.items[queued.came]
    read_at = item.stage + dep.edge.distance
    if draft.seu(dep.edge.dst).completion not in GROUPS:
        return read_at, queued.came
    reason = Reason(Why.SLOT_FREE, dep.edge.dst, dep.edge.src, draft.buffer_name(dep))
    if isinstance(item.instr, Inner):
        if not any(isinstance(k, Wait) and k.signal == queued.signal and k.pending == 0 for k in item.after):
            item.after.append(Wait(queued.signal, reason, item.stage, 0))
        return read_at, queued.came
    later, at = queued.done(draft.buffers[dep.tile, ""].slots)
    if _needs_next(draft, queued, dep, later, at):  # else the role would wait for what it has not released
        later, at = 0, queued.came
    if not queued.waits_behind(later, at):
        wait = Wait(queued.signal, reason, item.stage + later, queued.younger(later, at + 1))
        line.items[at].after.append(wait)
    return read_at + later, at


def _needs_next(draft: Draft, queued: Queued, dep: Dependence, later: int, at: int) -> bool:
    """Whether an item after the reader, up to `at` of `later` iterations on, reads the next content of the slot."""
    slots, items = draft.buffers[dep.tile, ""].slots, queued.line.items
    if later >= slots:
        return True
    distances = {e.dst: e.distance for e in draft.graph.edges if draft.tiles.of(e.value) == dep.tile}
    content = -items[queued.came].stage - dep.edge.distance
    for ahead, place in queued.moments(later * len(items) + at - queued.came):
        item = items[place]
        reads = isinstance(item.instr, Issue) and item.task in distances
        if reads and ahead - item.stage - distances[item.task] - content >= slots:
            return True
    return False


def _own_wait(draft: Draft, line: Line, at: int, dep: Dependence) -> int | None:
    """Place among what stands before item `at` of its wait for the asynchronous reader `dep.edge.dst`, None where the
    reader is known to be done only later."""
    queued = draft.queued(line, dep.edge.dst)
    if draft.seu(dep.edge.dst).completion not in GROUPS or isinstance(line.items[queued.came].instr, Inner):
        return None
    later, found = queued.done(draft.buffers[dep.tile, ""].slots)
    if found != at or not queued.waits_before(later, at):
        return None
    most, before = queued.younger(later, at), line.items[at].before
    waits = (n for n, k in enumerate(before) if isinstance(k, Wait) and k.signal == queued.signal and k.pending <= most)
    return next(waits)
