"""Greedy list scheduling in simulated time (PipeThreader, section 4 and figure 9), folded into a modulo schedule.

At each moment, of the sTasks that can start, take the one with: an asynchronous unit, then the oldest iteration, then
the most successors it unlocks, then the fewest unfinished predecessors. The paper's text names async, unlock and in
flight; with the oldest iteration in second place 23 of 30 attention tilings came out optimal, without it 7 (prototype
study). Other keys are tried where the first one misses the lower bound.
"""

from __future__ import annotations

from collections.abc import Callable

from threadloom.sched.bounds import choose_slots, lower_bounds
from threadloom.sched.fold import UNBOUNDED, Modulo, serial
from threadloom.sched.mechanism import Plan
from threadloom.sched.pipeline import Problem

UNROLL = 24  # iterations simulated: the pipeline fills within 8, is averaged over 8 and drains

Key = Callable[[bool, int, int, int, int], tuple]

# name -> key of (is async, iteration, unlocked successors, critical path, unfinished predecessors)
KEYS: dict[str, Key] = {
    "async-iteration-unlock": lambda a, i, u, c, f: (a, -i, u, -f),
    "async-iteration-path": lambda a, i, u, c, f: (a, -i, c),
    "async-unlock": lambda a, i, u, c, f: (a, u, -f, -i),
    "iteration-async-unlock": lambda a, i, u, c, f: (-i, a, u),
    "iteration-path": lambda a, i, u, c, f: (-i, c),
}


def schedule(problem: Problem, slots: dict[str, int] | None = None, keys: int = 2) -> Modulo | None:
    """The best folded schedule of the first `keys` priorities; None where a slot for each buffer does not fit."""
    bounds = lower_bounds(problem)
    if max(bounds.values(), default=0) >= UNBOUNDED:
        return None
    chosen = slots if slots is not None else choose_slots(problem)
    if chosen is None:
        return None
    best = serial(problem, chosen)
    if len({n.role for n in problem.nodes}) > 1 or any(n.is_async for n in problem.nodes):
        floor = max(bounds.values(), default=1)
        for key in list(KEYS)[:keys]:
            made = run(problem, chosen, key)
            if made is not None and made.ii < best.ii:
                best = made
            if best.ii <= floor:
                break
    return Modulo(problem, best.ii, best.starts, best.slots, best.policy, best.order, bounds)


def run(problem: Problem, slots: dict[str, int], key: str) -> Modulo | None:
    """One greedy run with one priority."""
    plan = Plan(problem, slots, policy="greedy")
    rank, unlock, path = KEYS[key], *_weights(problem)
    nodes = range(len(problem.nodes))
    while True:
        ready = plan.startable_nodes(UNROLL)
        if ready:
            best = max(
                ready,
                key=lambda n: rank(problem.nodes[n].is_async, plan.instances(n), unlock[n], path[n], plan.in_flight(n)),
            )
            plan.start_now(best)
        elif not plan.advance():
            break
    complete = all(plan.instances(n) == UNROLL for n in nodes)
    return plan.folded() if complete else None  # incomplete: a deadlock of slots


def _weights(problem: Problem) -> tuple[list[int], list[int]]:
    """Per node: number of successors in its iteration, and cycles of the longest chain from it."""
    count = len(problem.nodes)
    after: list[set[int]] = [set() for _ in range(count)]
    path = [n.latency for n in problem.nodes]
    for _ in range(count):
        for arc in problem.arcs:
            if arc.distance == 0:
                after[arc.src] |= {arc.dst} | after[arc.dst]
                path[arc.src] = max(path[arc.src], arc.latency + path[arc.dst])
    return [len(a) for a in after], path
