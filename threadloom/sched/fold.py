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


def critical_cycle(count: int, arcs: Iterable[Arc], ii: int) -> list[int]:
    """The nodes of a cycle of arcs that needs at least `ii` cycles, in order; [] where all go round sooner."""
    flat = [(a.src, a.dst, a.latency, a.distance) for a in arcs]
    return [src for src, _, _, _ in reversed(_longest_paths(count, flat, ii - 1)[1])]


_Flat = tuple[int, int, int, int]  # src, dst, latency, distance


def _longest_paths(count: int, arcs: list[_Flat], ii: int) -> tuple[list[int], list[_Flat]]:
    """Start times at `ii`, or a positive cycle (list of arcs)."""
    weighted = [(src, dst, latency - ii * distance) for src, dst, latency, distance in arcs]
    starts = [0] * count
    parent = [-1] * count
    for sweep in range(count + 2):
        changed = False
        for number, (src, dst, weight) in enumerate(weighted):
            at = starts[src] + weight
            if at > starts[dst]:
                starts[dst] = at
                parent[dst] = number
                changed = True
        if not changed:
            return starts, []
        if sweep % 3 == 2 and (cycle := _parent_cycle(parent, arcs)):
            return starts, cycle
    return starts, _parent_cycle(parent, arcs)


def _parent_cycle(parent: list[int], arcs: list[_Flat]) -> list[_Flat]:
    """A cycle among the arcs that last moved their targets (it is positive), or [] where there is none yet."""
    seen = [0] * len(parent)
    for root in range(len(parent)):
        at = root
        while parent[at] >= 0 and not seen[at]:
            seen[at] = root + 1
            at = arcs[parent[at]][0]
        if parent[at] >= 0 and seen[at] == root + 1:
            cycle, end = [], at
            while True:
                cycle.append(arcs[parent[at]])
                at = arcs[parent[at]][0]
                if at == end:
                    return cycle
    return []


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
    arcs += unit_order(problem, _beside_the_others(problem, arcs, starts, ii), ii)
    solved = min_ii(len(problem.nodes), arcs, 1)
    if solved is None:
        return None
    return Modulo(problem, solved[0], tuple(solved[1]), slots, policy, order)


def _beside_the_others(problem: Problem, arcs: list[Arc], starts: list[int], ii: int) -> list[int]:
    """`starts` with what no arc joins to the most nodes moved to the stages of these. A store of what waits for nothing
    runs as far ahead as a list schedule is long, and each stage is code of its own."""
    group = list(range(len(starts)))
    for _ in group:
        for arc in arcs:
            group[arc.src] = group[arc.dst] = min(group[arc.src], group[arc.dst])
    most = max(group, key=group.count, default=0)
    first: dict[tuple[int, str], int] = {}  # (group, role) -> its first stage
    for node, number, start in zip(problem.nodes, group, starts, strict=True):
        first[number, node.role] = min(start // ii, first.get((number, node.role), start // ii))
    ahead: dict[int, int] = {}
    for (number, role), stage in first.items():
        if (most, role) in first:
            behind = max(0, first[most, role] - stage)
            ahead[number] = min(behind, ahead.get(number, behind))
    return [start + ahead.get(number, 0) * ii for start, number in zip(starts, group, strict=True)]


def unit_order(problem: Problem, starts: list[int], ii: int) -> list[Arc]:
    """Arcs that keep the cyclic order of `starts` (modulo ii) between tasks that exclude each other on a unit."""
    arcs: list[Arc] = []
    for users in problem.resources().values():
        ranked = sorted(users, key=lambda u: (starts[u[0]] % ii, starts[u[0]], u[0]))
        if all(use.demand > 0.5 for _, use in ranked):
            arcs += _chain([(node, use.cycles) for node, use in ranked], starts, ii)
            continue
        for at, (a, use) in enumerate(ranked):
            for later, (b, other) in enumerate(ranked):
                if a != b and use.demand + other.demand > 1.0:
                    distance = starts[a] // ii - starts[b] // ii + (0 if at < later else 1)
                    arcs.append(Arc(a, b, use.cycles, distance))
    for pairs in problem.queues().values():
        # A unit executes in the order of issues: both follow the cyclic order of the issues, with the same stages.
        issues = sorted(pairs, key=lambda p: (starts[p[0]] % ii, starts[p[0]], p[0]))
        for of in (0, 1):
            arcs += _chain([(pair[of], 1) for pair in issues], starts, ii, issues)
    return arcs


def _chain(
    ring: list[tuple[int, int]], starts: list[int], ii: int, stages_of: list[tuple[int, int]] | None = None
) -> list[Arc]:
    """Arcs from each (node, cycles) of a ring to the next; around the ring they add up to one period, so all pairs
    keep their order. Stages are those of `starts`, taken from the first of each pair in `stages_of` where given."""
    arcs: list[Arc] = []
    by = [pair[0] for pair in stages_of] if stages_of is not None else [node for node, _ in ring]
    for at, (node, cycles) in enumerate(ring):
        to = (at + 1) % len(ring)
        if ring[to][0] != node:
            distance = starts[by[at]] // ii - starts[by[to]] // ii + (1 if to == 0 else 0)
            arcs.append(Arc(node, ring[to][0], cycles, distance))
    return arcs


def in_order(problem: Problem) -> list[int]:
    """The nodes in program order, but for those that arcs of one instance want before earlier ones: in a branch of a
    condition code may change in place what the other branch reads."""
    before = {at: {a.src for a in problem.arcs if a.dst == at and a.distance == 0} for at in range(len(problem.nodes))}
    order: list[int] = []
    while before:
        free = (at for at, sources in before.items() if not sources & before.keys())
        order.append(next(free, min(before)))
        del before[order[-1]]
    return order


def serial(problem: Problem, slots: dict[str, int]) -> Modulo:
    """The fallback that always exists: one instance after the other, in program order as far as arcs allow."""
    known: dict[int, int] = {}
    now = 0
    for at in in_order(problem):
        node = problem.nodes[at]
        arcs = (a for a in problem.arcs if a.dst == at and a.distance == 0 and a.src in known)
        now = max(now, max((known[a.src] + a.latency for a in arcs), default=0))
        known[at] = now
        now += node.uses[0].cycles if node.is_async else node.latency
    starts = [known[at] for at in range(len(problem.nodes))]
    end = max((s + n.latency for s, n in zip(starts, problem.nodes, strict=True)), default=1)
    return Modulo(problem, max(1, end), tuple(starts), slots, "serial")
