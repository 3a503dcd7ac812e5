"""Fences between accesses of one buffer by different proxies (docs/sprogram.md, section 7).

before: lines without fences. after: whatever the generic proxy wrote is fenced before the async proxy accesses it.
"""

from __future__ import annotations

from threadloom.sched.draft import Dependence, Draft
from threadloom.sched.lines import Item
from threadloom.sched.ops import Buffer, Fence, Reason, Why


def fence_reads(draft: Draft, deps: list[Dependence]) -> None:
    """A generic write before a read by the async proxy: before the read of the same role, else behind the write."""
    for dep in deps:
        edge, buffer = dep.edge, draft.buffer(dep.tile, dep.src_role)
        proxies = draft.seu(edge.src).proxy, draft.seu(edge.dst).proxy
        if proxies != ("generic", "async") or not dep.tile or buffer is None:
            continue
        reason = Reason(Why.DEPENDENCE, edge.src, edge.dst, buffer.name, edge.distance)
        if dep.src_role == dep.dst_role:
            target = draft.item(dep.loop, dep.dst_role, edge.dst)
            fence = _fence(buffer, reason, target)
            if fence not in target.before:
                target.before.append(fence)
        else:
            target = draft.issued(dep.src_role, edge.src)
            fence = _fence(buffer, reason, target)
            if fence not in target.after:
                target.after.insert(0, fence)


def fence_overwritten(draft: Draft) -> None:
    """A place that a generic write changed (a result over its operand) before its asynchronous producer comes round to
    it again."""
    for place in draft.placement.places.values():
        producers = draft.tiles.tile(place.tile).producers
        generic = [t for t in producers if draft.seu(t).proxy == "generic" and not draft.seu(t).is_async]
        for task in [t for t in producers if draft.seu(t).proxy == "async"] if generic else []:
            for role in draft.placement.units[task].roles:
                buffer, target = draft.buffer(place.tile, role), draft.issued(role, task)
                if buffer is None or any(isinstance(k, Fence) and k.buffer == buffer.name for k in target.before):
                    continue
                reason = Reason(Why.SLOT_FREE, generic[-1], task, buffer.name, buffer.slots)
                target.before.append(_fence(buffer, reason, target))


def _fence(buffer: Buffer, reason: Reason, target: Item) -> Fence:
    return Fence(buffer.name, "generic", "async", reason, target.stage)
