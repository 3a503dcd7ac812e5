"""From modulo schedules to an sProgram: buffers, signals, sections, loop plans.

before: Placement and one Modulo per loop. after: an SProgram that check.py proves. The synchronisation itself is in
`waits.py`. Source: PipeThreader, section 4 (sProgram, Append, Wait).
"""

from __future__ import annotations

from threadloom.machine.model import Device
from threadloom.sched.draft import Draft
from threadloom.sched.fold import Modulo
from threadloom.sched.lines import lines_of
from threadloom.sched.ops import Buffer, LoopPlan, Partition, Section, SProgram
from threadloom.sched.placement import Placement
from threadloom.sched.tile_map import TileMap
from threadloom.sched.waits import synchronize
from threadloom.task.ops import TaskGraph


def assemble(
    graph: TaskGraph,
    partition: Partition,
    device: Device,
    placement: Placement,
    schedules: dict[int, Modulo],
    policy: str,
    predicted_ns: float,
    decisions: tuple[tuple[str, str], ...] = (),
) -> SProgram:
    slots, tiles = slots_of(schedules), TileMap(graph)
    buffers = buffers_of(graph, placement, slots)
    lines = lines_of(graph, placement, schedules)
    draft = Draft(graph, placement, lines, {(b.tile, b.role): b for b in buffers})
    synchronize(draft, partition)
    sections = tuple(Section(loop, role, line.instrs()) for (loop, role), line in lines.items())
    kept = [p for p in placement.places.values() if p.kept_slots]
    most = {tiles.loop_of_task[tiles.tile(p.tile).producers[0]]: p.kept_slots for p in kept}
    loops = tuple(_loop_plan(loop, schedules[loop], sections, most.get(loop, 0)) for loop in schedules)
    return SProgram(
        device=device.name,
        graph=graph,
        partition=partition,
        roles=placement.roles,
        buffers=buffers,
        signals=tuple(draft.signals.values()),
        sections=sections,
        loops=loops,
        policy=policy,
        predicted_ns=predicted_ns,
        decisions=decisions,
    )


def slots_of(schedules: dict[int, Modulo]) -> dict[tuple[str, str], int]:
    """(tile, role) -> slots, over all loops."""
    found: dict[tuple[str, str], int] = {}
    for made in schedules.values():
        for pool in made.problem.pools:
            found[pool.tile, pool.role] = made.slots[pool.name]
    return found


def buffers_of(graph: TaskGraph, placement: Placement, slots: dict[tuple[str, str], int]) -> tuple[Buffer, ...]:
    """A buffer for each tile that an asynchronous unit or another role touches, or that a cache should hold. Register
    tiles that only synchronous tasks of one role touch need none."""
    tiles = TileMap(graph)
    made: list[Buffer] = []
    for place in placement.places.values():
        tile = tiles.tile(place.tile)
        units = [placement.units[t] for t in (*tile.producers, *tile.consumers) if t in placement.units]
        many = any(count > 1 for (t, _), count in slots.items() if t == place.tile)
        if place.space == "reg" and not many and not any(u.seu.is_async for u in units):
            continue
        roles = ("",) if place.shared else _owners(tile.producers, placement)
        for role in roles:
            name = place.tile if len(roles) == 1 else f"{place.tile}.{role}"
            count = place.kept_slots or slots.get((place.tile, role), 1)
            size, spread = place.bytes_per_slot, place.multicast
            made.append(Buffer(name, place.tile, place.space, size, count, place.layout, role, spread))
    return tuple(made)


def _owners(producers: tuple[str, ...], placement: Placement) -> tuple[str, ...]:
    roles = {r: None for t in producers for r in placement.units[t].roles}
    return tuple(roles) or ("",)


def _loop_plan(loop: int, made: Modulo, sections: tuple[Section, ...], most_trips: int) -> LoopPlan:
    used = [i.stage for s in sections if s.loop == loop for i in s.instrs]
    starts: dict[str, float] = {}
    for node, start in zip(made.problem.nodes, made.starts, strict=True):
        starts[node.name] = float(start)
    bounds = tuple((name, float(cycles)) for name, cycles in made.bounds.items())
    return LoopPlan(loop, float(made.ii), 1 + max(used, default=0), tuple(starts.items()), bounds, most_trips)
