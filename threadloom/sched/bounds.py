"""Lower bounds on the initiation interval of a loop, and the slots of its buffers.

Bounds (prototype study: their maximum was the optimum in 69 of 69 cases):
  resource:R    every unit must do its work of one iteration; tasks that need more than half of it exclude each other
  recurrence    greatest ratio latency/distance of a dependence cycle
  memory:S      Little's law: bytes times least lifetime must fit the memory
  capacity      recurrence when each buffer has the most slots it could ever get
"""

from __future__ import annotations

import math

from threadloom.sched.fold import UNBOUNDED, min_ii, pool_arcs
from threadloom.sched.pipeline import Pool, Problem, Space

MAX_SLOTS = {"smem": 6, "reg": 2, "tmem": 2}


def lower_bounds(problem: Problem) -> dict[str, int]:
    """Name of each bound -> cycles; UNBOUNDED where the loop cannot run at all."""
    bounds = {f"resource:{name}": cycles for name, cycles in _resource(problem).items()}
    recurrence = min_ii(len(problem.nodes), problem.arcs, 1)
    bounds["recurrence"] = UNBOUNDED if recurrence is None else recurrence[0]
    for space in problem.spaces:
        bounds[f"memory:{space.name}" + (f"@{space.role}" if space.role else "")] = _memory(problem, space)
    if max(bounds.values()) < UNBOUNDED:
        most = {p.name: most_slots(problem, p) for p in problem.pools}
        solved = min_ii(len(problem.nodes), [*problem.arcs, *pool_arcs(problem.pools, problem, most)], 1)
        bounds["capacity"] = UNBOUNDED if solved is None else solved[0]
    return bounds


def _resource(problem: Problem, shared: bool = False) -> dict[str, int]:
    busy: dict[str, float] = {}
    for node in problem.nodes:
        for use in node.uses:
            share = 1.0 if use.demand > 0.5 and not shared else use.demand
            busy[use.resource] = busy.get(use.resource, 0.0) + use.cycles * share
    return {name: math.ceil(cycles - 1e-9) for name, cycles in busy.items()}


def shared_bounds(problem: Problem, bounds: dict[str, int]) -> dict[str, int]:
    """`bounds`, but for sTasks that share a unit as the hardware lets them: schedules here give it to one that needs
    more than half of it, and the unit serves others while that one waits for its own results. Of a partition that is
    only judged by its bounds nothing more may be said."""
    return bounds | {f"resource:{name}": cycles for name, cycles in _resource(problem, shared=True).items()}


def in_space(problem: Problem, space: Space) -> list[Pool]:
    """Pools that take from `space`: its role's own ones, or everybody's where the memory is the EU's."""
    return [p for p in problem.pools if p.space == space.name and space.role in ("", p.role)]


def _memory(problem: Problem, space: Space) -> int:
    pools = in_space(problem, space)
    if not pools:
        return 0
    if sum(space.taken(p.bytes, 1) for p in pools) > space.free_bytes:
        return UNBOUNDED
    held = sum(p.bytes * _least_lifetime(problem, p) for p in pools)
    return math.ceil(held / max(1, space.free_bytes))


def _least_lifetime(problem: Problem, pool: Pool) -> int:
    """Longest chain of distance 0 from the producer's start to the end of a reader."""
    reach = {pool.producer: 0}
    for _ in problem.nodes:
        grew = False
        for arc in problem.arcs:
            if arc.distance == 0 and arc.src in reach and reach[arc.src] + arc.latency > reach.get(arc.dst, -1):
                reach[arc.dst] = reach[arc.src] + arc.latency
                grew = True
        if not grew:
            break
    ends = (reach[r] + problem.nodes[r].latency for r, _ in pool.readers if r in reach)
    return max(ends, default=problem.nodes[pool.producer].latency)


def most_slots(problem: Problem, pool: Pool) -> int:
    """The most slots `pool` gets if every other pool of its space has one."""
    if pool.fixed:
        return 1
    space = next((s for s in problem.spaces if s.name == pool.space and s.role in ("", pool.role)), None)
    if space is None:
        return 1
    others = sum(space.taken(p.bytes, 1) for p in in_space(problem, space) if p != pool)
    return max(1, (space.free_bytes - others) // max(1, pool.bytes))


def choose_slots(problem: Problem, depth: int = 4) -> dict[str, int] | None:
    """Slots of every pool, chosen before any scheduling (a pool of bytes shared by buffers deadlocks): raise the
    smallest count in turn while the space holds it, of workers that have a buffer each of one tile together, since
    they run the same code. None where one slot each does not fit."""
    slots = {p.name: 1 for p in problem.pools}
    for space in problem.spaces:
        pools = in_space(problem, space)
        if sum(space.taken(p.bytes, 1) for p in pools) > space.free_bytes:
            return None
        limit = min(depth, MAX_SLOTS.get(space.name, 1))
        tiles: dict[str, list[Pool]] = {}
        for p in pools:
            tiles.setdefault(p.tile, []).append(p)
        while True:
            free = space.free_bytes - sum(space.taken(p.bytes, slots[p.name]) for p in pools)
            growable = [
                own
                for own in tiles.values()
                if not any(p.fixed for p in own)
                and slots[own[0].name] < limit
                and sum(space.taken(p.bytes, 1) for p in own) <= free
            ]
            if not growable:
                break
            for p in min(growable, key=lambda own: slots[own[0].name]):
                slots[p.name] += 1
    return slots
