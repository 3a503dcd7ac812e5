"""Gives every worker the same order of work, one after the other in phase.

    before:  worker0 [softmax i, pv i, qk i+1]    worker1 [qk i, pv i-1, softmax i]      (a list scheduler's result)
    after:   both    [qk i, pv i-1, softmax i, rescale i], worker1 half an interval later

What a worker queues on its matrix unit then stands together at the head of its pass: one product runs under vector work
while others wait in the queue, no product is in flight over the loop's back edge (assemblers give up on those), and all
workers share one code. Orders are enumerated: products first in every order that dependences allow, then the rest (in
program order where there are many), each sTask in this or the next pass. Each order is folded to its least interval; of
equal ones that is taken which suffers least where vector work is slower than predicted.
Needs: a schedule of a loop whose workers queue work on a matrix unit. Keeps: slots. Not handled: more than
`MOST_TASKS` sTasks per worker, workers with different tasks. Source: FlashAttention-3 for the order that it finds for
attention; the enumeration is ours.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from threadloom.sched.fold import Modulo, fold
from threadloom.sched.pipeline import Problem

MOST_TASKS = 12
MOST_PERMUTED = 4  # vector sTasks whose order is varied
MOST_ORDERS = 240
WORTH = 2.0  # an aligned schedule may be predicted to be slower by this factor: others tend to be serialised by ptxas
CLOSE = 1.02  # orders whose intervals differ by less are told apart by how they bear slower vector work
SLOWER = 1.3  # how much slower vector work may turn out

Order = tuple[tuple[int, int], ...]  # (number of a worker's node, stage) in the order of one pass


@dataclass(frozen=True, slots=True)
class Peers:
    """Nodes of each worker, in the same order of tasks: issues and synchronous nodes, and per issue its execution."""

    own: tuple[tuple[int, ...], ...]
    runs: tuple[dict[int, int], ...]


def align_workers(problem: Problem, found: Modulo) -> Modulo:
    """The best aligned schedule where it is as good as `found` by prediction, else `found`."""
    peers = _peers(problem)
    if peers is None:
        return found
    slower = _slower(problem)
    best: tuple[int, int, Modulo] | None = None
    for order in itertools.islice(_orders(problem, peers.own[0]), MOST_ORDERS):
        made = _folded(problem, peers, order, found)
        if made is None or made.ii > found.ii * WORTH or (best is not None and made.ii > best[0] * CLOSE):
            continue
        careful = _folded(slower, peers, order, found)
        rank = careful.ii if careful is not None else 2 * made.ii
        if best is None or (rank, made.ii) < best[:2][::-1]:
            best = (made.ii, rank, made)
    return best[2] if best is not None else found


def _peers(problem: Problem) -> Peers | None:
    """The workers that queue work on a matrix unit, if all of them have the same tasks."""
    queued = {problem.nodes[issue].role for pairs in problem.queues().values() for issue, _ in pairs}
    own, runs, names = [], [], set()
    for role in dict.fromkeys(n.role for n in problem.nodes if n.role in queued):
        mine = [i for i, n in enumerate(problem.nodes) if n.role == role and n.issued_by < 0]
        own.append(tuple(mine))
        runs.append({n.issued_by: i for i, n in enumerate(problem.nodes) if n.role == role and n.issued_by >= 0})
        names.add(tuple(problem.nodes[i].task for i in mine))
    if len(names) != 1 or len(own[0]) > MOST_TASKS:
        return None
    return Peers(tuple(own), tuple(runs))


def _orders(problem: Problem, own: tuple[int, ...]) -> Iterator[Order]:
    """Orders of one worker's pass, products first, with the stages that its dependences allow."""
    products = [i for i in own if problem.nodes[i].is_issue]
    others = [i for i in own if i not in products]
    needs = _needs(problem, own)
    varied = list(itertools.permutations(others)) if len(others) <= MOST_PERMUTED else [tuple(others)]
    for stages in sorted(itertools.product((0, 1), repeat=len(own)), key=sum):
        stage = dict(zip(own, stages, strict=True))
        if min(stages) == 0 and all(stage[a] <= stage[b] + d for a, b, d in needs):
            for first in itertools.permutations(products):
                for rest in varied:
                    at = {node: place for place, node in enumerate((*first, *rest))}
                    if all(stage[a] < stage[b] + d or at[a] < at[b] for a, b, d in needs):
                        yield tuple((node, stage[node]) for node in (*first, *rest))


def _needs(problem: Problem, own: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """(a, b, distance) among the worker's nodes: b needs a; what an execution makes counts as its issue's."""
    mine = {i: i for i in own} | {i: n.issued_by for i, n in enumerate(problem.nodes) if n.issued_by in own}
    arcs = [(mine[a.src], mine[a.dst], a.distance) for a in problem.arcs if a.src in mine and a.dst in mine]
    for pool in problem.pools:
        if pool.fixed and pool.producer in mine:  # one slot: its readers come before the next content
            arcs += [(mine[r], mine[pool.producer], 1 - d) for r, d in pool.readers if r in mine]
    return [(a, b, d) for a, b, d in arcs if a != b]


def _folded(problem: Problem, peers: Peers, order: Order, found: Modulo) -> Modulo | None:
    """The schedule in which every worker follows `order`, each one share of the interval after the one before."""
    span = 1 << 16
    starts: dict[int, int] = {}
    for number, (own, runs) in enumerate(zip(peers.own, peers.runs, strict=True)):
        for place, (node, stage) in enumerate(order):
            mine = own[peers.own[0].index(node)]
            starts[mine] = stage * span + number * span // len(peers.own) + place * 16
            if mine in runs:
                starts[runs[mine]] = starts[mine] + 8
    for i in range(len(problem.nodes)):  # whoever feeds the workers does so in the order in which they read
        if i not in starts:
            used = [starts[a.dst] - a.distance * span for a in problem.arcs if a.src == i and a.dst in starts]
            starts[i] = min(used, default=0) - 4 - span // 2
    low = min(starts.values())
    placed = [starts[i] - low for i in range(len(problem.nodes))]
    made = fold(problem, placed, span, found.slots, f"{found.policy}-aligned", found.order)
    return made and replace(made, bounds=found.bounds)


def _slower(problem: Problem) -> Problem:
    """The problem with vector work slower than predicted."""

    def longer(cycles: int, node: int) -> int:
        return cycles if problem.nodes[node].is_async else round(cycles * SLOWER)

    nodes = tuple(
        replace(n, latency=longer(n.latency, i), uses=tuple(replace(u, cycles=longer(u.cycles, i)) for u in n.uses))
        for i, n in enumerate(problem.nodes)
    )
    arcs = tuple(replace(a, latency=longer(a.latency, a.src)) for a in problem.arcs)
    return replace(problem, nodes=nodes, arcs=arcs)
