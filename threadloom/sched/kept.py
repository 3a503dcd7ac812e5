"""Signals of tiles that one loop makes and another goes through again (docs/sprogram.md, section 9).

All slots are filled by one run of a loop, read by another, and free again when that and all around it are done: the
full signal counts in the first loop, the empty one (of one slot) in the loop around both. The open one is for runs
without iterations: no reader may release what its owner has not taken yet.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.machine.model import GROUPS
from threadloom.sched.draft import Dependence, Draft
from threadloom.sched.ops import Arrive, Reason, Signal, Wait, Why


def keep(draft: Draft, tile: str, deps: list[Dependence]) -> None:
    """`deps`: all that read the kept tile."""
    buffer, source = draft.buffers[tile, ""], deps[0].edge.src
    makers = list(dict.fromkeys(d.src_role for d in deps))
    empty = replace(draft.signals[f"empty.{buffer.name}"], slots=1)
    opened = Signal(f"open.{buffer.name}", empty.kind, 1, len(makers))
    draft.signals[empty.name], draft.signals[opened.name] = empty, opened
    made_in, around = draft.loop_of[source], deps[0].loop
    for role in dict.fromkeys(d.dst_role for d in deps):
        _read(draft, source, role, [d for d in deps if d.dst_role == role])
    for role in makers:
        line = draft.lines[around, role]
        freed = Reason(Why.SLOT_FREE, deps[0].edge.dst, source, buffer.name)
        filled = Reason(Why.DEPENDENCE, source, deps[0].edge.dst, buffer.name)
        line.items[line.inner(made_in)].before += [Wait(empty.name, freed), Arrive(opened.name, filled)]


def _read(draft: Draft, source: str, role: str, deps: list[Dependence]) -> None:
    """The role waits in the loop that makes the tile, and releases it behind the loop that reads it."""
    buffer, target, around = draft.buffers[deps[0].tile, ""], deps[0].edge.dst, deps[0].loop
    made_in = draft.loop_of[source]
    filled = Reason(Why.DEPENDENCE, source, target, buffer.name)
    draft.lines[made_in, role].lead.append(Wait(f"full.{buffer.name}", filled))
    outer = draft.lines[around, role]
    outer.items[outer.inner(made_in)].before.append(Wait(f"open.{buffer.name}", filled))
    item = draft.item(around, role, target)
    for reader in dict.fromkeys(d.edge.dst for d in deps):
        drained = Wait(draft.group(reader), Reason(Why.SLOT_FREE, reader, source, buffer.name), 0, 0)
        if draft.seu(reader).completion in GROUPS and drained not in item.after:
            item.after.append(drained)
    item.after.append(Arrive(f"empty.{buffer.name}", Reason(Why.SLOT_FREE, target, source, buffer.name)))
