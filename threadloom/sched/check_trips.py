"""Which trip counts stand for all trip counts.

Let w be the largest distance, in instances of a loop, over which two uses of one slot or one ring entry are compared
(its slots plus the largest dependence distance), S the stages.

*Order.* The happens-before graph of n iterations is contained in that of n+1, both shifted by 0 (iterations added at
the end) and by 1 (added in front): every edge is between fixed places of the program at a fixed distance in running
instances or is the order of a role, and added iterations only add edges. Everything the checker demands concerns two
instances at most w apart. So a demand in n+1 > w+1 iterations is the image of one in n, and if it holds there it holds
here: all n up to max(2S+2, w+2) suffice. For several runs of a loop (outer iterations), iterations outside the
instances between the two, and outer iterations whose runs lie outside, can be taken away by the same argument. What
remains are runs with w+1 iterations in all: every way to write w+1 as a sum is one case (beyond a limit, a sample).

*Loops over kept tiles.* A loop that fills slots which another loop goes through again is for at most `most_trips`
iterations (its plan says so): every number up to that is tried, and the other loop has as many.

*Deadlock.* A shortest circle of waits visits each chain of ordered events (a role, a group FIFO) once, so it spans at
most (number of chains) * (w + S) instances: one case that long.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from threadloom.machine.model import GROUPS
from threadloom.sched.ops import SProgram
from threadloom.sched.semantics import Trips, stages_of

MOST_SUMS = 64
MOST_LONG = 96


def repeats(program: SProgram) -> bool:
    """Whether loop 0 runs for several tiles of one EU."""
    return program.partition.persistent or bool(program.partition.sequential)


def window(program: SProgram) -> int:
    """The largest distance in instances over which two uses of a slot or entry are compared."""
    slots = max((x.slots for x in (*program.buffers, *program.signals)), default=1)
    distance = max((edge.distance for edge in program.graph.edges), default=0)
    return slots + distance


def trip_cases(program: SProgram) -> list[Trips]:
    """The trip counts to check, small ones first."""
    limits = _limits(program)
    inner = [loop.id for loop in program.graph.loops if loop.id != 0 and loop.like is None]
    inner.sort(key=lambda loop: loop in program.graph.kept_loops())  # the long case is for a loop of any length
    cases: dict[str, Trips] = {}
    for outer, counts in (*_cases(program, inner), *_limited(program, inner)):
        bounded = {n: tuple(min(c, limits.get(n, c)) for c in given) for n, given in counts.items()}
        trips = Trips({0: (outer,), **bounded})
        cases.setdefault(str(trips), trips)
    return sorted(cases.values(), key=_size)


Case = tuple[int, dict[int, tuple[int, ...]]]  # trips of loop 0, and of the runs of each loop inside


def _limits(program: SProgram) -> dict[int, int]:
    return {plan.loop: plan.most_trips for plan in program.loops if plan.most_trips}


def _cases(program: SProgram, inner: list[int]) -> Iterator[Case]:
    """Cases for loops of any length."""
    wide, again = window(program), repeats(program)
    outer = range(2 * stages_of(program, 0) + 3) if again else range(1, 2)
    depth = max((stages_of(program, loop) for loop in inner), default=1)
    long = min(MOST_LONG, _chains(program) * (wide + depth))
    if not inner:
        yield from ((m, {}) for m in (*outer, *((wide + 2, long) if again else ())))
        return
    most = max(2 * depth + 2, wide + 2)
    for m, n in product(outer, range(most + 1)):  # all runs alike
        if m == 1 or n <= 2 or (m == 2 and n == most):
            yield m, {loop: (n,) for loop in inner}
    if len(inner) > 1:
        for counts in product((0, 1, 2, most), repeat=min(len(inner), 3)):
            yield 1, {loop: (counts[at % len(counts)],) for at, loop in enumerate(inner)}
    if again:
        for parts in (*_sums(wide + 1), *_mixed(most)):
            yield len(parts), {loop: parts for loop in inner}
    deep = [n for n in inner if next(loop.parent for loop in program.graph.loops if loop.id == n)]
    for parts in _sums(wide + 1) if deep else ():  # several runs within one tile
        yield 1, {loop: parts if loop in deep else (len(parts),) for loop in inner}
    yield 1, {loop: (long if loop == inner[0] else most,) for loop in inner}


def _limited(program: SProgram, inner: list[int]) -> Iterator[Case]:
    """Every length of a loop that is for so many iterations at the most."""
    for loop, limit in _limits(program).items():
        for count in range(limit + 1):
            yield 2 if repeats(program) else 1, {**{other: (2,) for other in inner}, loop: (count, limit)}


def _chains(program: SProgram) -> int:
    groups = sum(signal.kind in GROUPS for signal in program.signals)
    eus = 2 if program.partition.cluster > 1 else 1
    return eus * len(program.roles) * (1 + groups)


def _size(trips: Trips) -> int:
    outer = trips.counts[0][0]
    inner = [counts for loop, counts in trips.counts.items() if loop != 0]
    return outer + sum(counts[run % len(counts)] for counts in inner for run in range(outer))


def _sums(total: int) -> list[tuple[int, ...]]:
    """All ways to write `total` as an ordered sum of positive numbers; a fixed sample of them where they are many."""
    every = range(1 << (total - 1))
    if len(every) <= MOST_SUMS:
        masks = list(every)
    else:
        masks = sorted({0, len(every) - 1, *random.Random(total).sample(every, MOST_SUMS - 2)})
    sums = []
    for mask in masks:
        parts, run = [], 1
        for bit in range(total - 1):
            if mask >> bit & 1:
                parts.append(run)
                run = 1
            else:
                run += 1
        sums.append((*parts, run))
    return sums


def _mixed(most: int) -> list[tuple[int, ...]]:
    """Sequences with empty and uneven runs."""
    rng = random.Random(most)
    fixed = [(0, 1), (1, 0, 1), (0, 0, most), (most, 0, 1), (2, 0, 0, 3)]
    return fixed + [tuple(rng.randrange(most + 1) for _ in range(4)) for _ in range(4)]
