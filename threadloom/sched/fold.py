"""Retiming and folding: from an order of sTasks to the modulo schedule with the least initiation interval.

A list schedule's trace need not repeat with period 1, so start times are not averaged; only the cyclic order per unit
and the stage of each sTask are kept. Then the least ii without a positive cycle over dependence, slot and order arcs is
found, and the longest paths at that ii are the start times. Source: prototype study; Lam's modulo scheduling and
Howard's cycle ratios for the method.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from threadloom.sched.pipeline import Arc, Pool, Problem

UNBOUNDED = 1 << 60


@dataclass(frozen=True, slots=True)
class Modulo:
    """A modulo schedule of one loop: node i of instance k starts at starts[i] + k*ii.

    `order`: arcs that the policy added (turns on shared units, user waits); `bounds`: lower bounds on ii by name.
    """

    problem: Problem
    ii: int
    starts: tuple[int, ...]
    slots: dict[str, int]
    policy: str
    order: tuple[Arc, ...] = ()
    bounds: dict[str, int] = field(default_factory=dict)
    proven: bool = False

    @property
    def stages(self) -> int:
        if not self.starts:
            return 1
        return 1 + (max(self.starts) - min(self.starts)) // self.ii

    @property
    def length(self) -> int:
        """Cycles from the first start to the last result of one instance."""
        ends = (s + n.latency for s, n in zip(self.starts, self.problem.nodes, strict=True))
        return max(ends, default=0) - min(self.starts, default=0)


def min_ii(count: int, arcs: Iterable[Arc], low: int) -> tuple[int, list[int]] | None:
    """(least integer ii >= low, start times) without a positive cycle; None where no ii will do.

    Raises ii to the ratio latency/distance of each positive cycle met; a cycle of no distance can never be met.
    """
    flat = [(a.src, a.dst, a.latency, a.distance) for a in arcs]
    ii = max(1, low)
    while True:
        starts, cycle = _longest_paths(count, flat, ii)
        if not cycle:
            return ii, starts
        latency, distance = sum(a[2] for a in cycle), sum(a[3] for a in cycle)
        if distance <= 0:
            return None
        ii = max(ii + 1, math.ceil(latency / distance))


def _longest_paths(count: int, arcs: list, ii: int) -> tuple[list[int], list]:
    """Start times at `ii`, or a positive cycle (list of arcs)."""
    starts = [0] * count
    parent: list = [None] * count
    last = -1
    for _ in range(count + 1):
        last = -1
        for arc in arcs:
            at = starts[arc[0]] + arc[2] - ii * arc[3]
            if at > starts[arc[1]]:
                starts[arc[1]] = at
                parent[arc[1]] = arc
                last = arc[1]
        if last < 0:
            return starts, []
    for _ in range(count):
        last = parent[last][0]
    cycle, at = [], last
    while True:
        arc = parent[at]
        cycle.append(arc)
        at = arc[0]
        if at == last:
            return starts, cycle


def pool_arcs(pools: Iterable[Pool], problem: Problem, slots: dict[str, int]) -> list[Arc]:
    """A producer waits for the readers of the instance that had its slot."""
    return [
        Arc(reader, pool.producer, problem.nodes[reader].latency, slots[pool.name] - distance)
        for pool in pools
        for reader, distance in pool.readers
        if reader != pool.producer
    ]


def fold(
    problem: Problem, starts: list[int], ii: int, slots: dict[str, int], policy: str, order: tuple[Arc, ...] = ()
) -> Modulo | None:
    """The best schedule with the order per unit and the stages of `starts`; None where they contradict each other."""
    arcs = [*problem.arcs, *pool_arcs(problem.pools, problem, slots), *order]
    arcs += unit_order(problem, starts, ii)
    solved = min_ii(len(problem.nodes), arcs, 1)
    if solved is None:
        return None
    return Modulo(problem, solved[0], tuple(solved[1]), slots, policy, order)


def unit_order(problem: Problem, starts: list[int], ii: int) -> list[Arc]:
    """Arcs that keep the cyclic order of `starts` (modulo ii) between tasks that exclude each other on a unit."""
    arcs: list[Arc] = []
    for users in problem.resources().values():
        ranked = sorted(users, key=lambda u: (starts[u[0]] % ii, starts[u[0]], u[0]))
        for at, (a, use) in enumerate(ranked):
            for later in range(len(ranked)):
                b, other = ranked[later]
                if a != b and use.demand + other.demand > 1.0:
                    distance = starts[a] // ii - starts[b] // ii + (0 if at < later else 1)
                    arcs.append(Arc(a, b, use.cycles, distance))
    for pairs in problem.queues().values():
        arcs += _queue_order(pairs, starts, ii)
    return arcs


def _queue_order(pairs: list[tuple[int, int]], starts: list[int], ii: int) -> list[Arc]:
    """A unit executes in the order of issues: for two sTasks a and b, k*ii <= start(a) - start(b) < (k+1)*ii holds for
    their issues and their executions with the same k."""
    arcs: list[Arc] = []
    for at, (a_issue, a_run) in enumerate(pairs):
        for b_issue, b_run in pairs[at + 1 :]:
            k = (starts[a_issue] - starts[b_issue]) // ii
            for a, b in ((a_issue, b_issue), (a_run, b_run)):
                arcs += [Arc(b, a, 1, -k), Arc(a, b, 1, k + 1)]
    return arcs


def serial(problem: Problem, slots: dict[str, int]) -> Modulo:
    """The fallback that always exists: one instance after the other, in program order."""
    starts, now = [], 0
    for node in problem.nodes:
        ready = max(
            (
                starts[a.src] + a.latency
                for a in problem.arcs
                if a.dst == len(starts) and a.distance == 0 and a.src < len(starts)
            ),
            default=0,
        )
        now = max(now, ready)
        starts.append(now)
        now += node.uses[0].cycles if node.is_async else node.latency
    end = max((s + n.latency for s, n in zip(starts, problem.nodes, strict=True)), default=1)
    return Modulo(problem, max(1, end), tuple(starts), slots, "serial")
