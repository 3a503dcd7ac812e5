"""Ranks scheduled candidates by simulation with jitter: a static ii is not what hardware with shared lanes reaches.

The timed simulator runs one and two tiles with few iterations of each loop; from the differences come the cycles of an
iteration and of a further tile on the same EU (loads of the next tile overlap the end of this one). Source: prototype
study, section 5: minimum-memory optima lose 6 % in simulation, unordered warpgroups 79 %.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.sched.candidate import Candidate
from threadloom.sched.costs import dot_shape
from threadloom.sched.inter import launch_ns_of, spread
from threadloom.sched.ops import SProgram
from threadloom.sched.semantics import Trips
from threadloom.sched.timeline import Timeline
from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import Dot

JITTER = 0.05
SHORT, LONG = 4, 12  # iterations of each loop in the two runs
SHORT_NESTED = 3  # where loops lie in loops, whose iterations multiply
MOST_SIMULATED = 5
MOST_ALIKE = 3  # of one number of workers
TIE = 1.001  # predicted times that differ by less say nothing
CLOSE = 1.15  # candidates predicted to be slower than the best by more are not simulated


@dataclass(frozen=True, slots=True)
class Measured:
    """Cycles by simulation: `first` tile of an EU with the short trip counts, each `further` one, one `iteration`."""

    first: float
    further: float
    iteration: float


def simulate(made: Candidate, program: SProgram) -> Measured | None:
    """None where the program deadlocks."""
    from threadloom.sched.simulate_time import simulate_time

    costs = {t.name: made.costs.of(t) for t in made.context.graph.tasks}
    short, long = _trip_counts(program)

    def run(tiles: int, counts: dict[int, int]) -> Timeline:
        trips = Trips({0: (tiles,), **{loop: (count,) for loop, count in counts.items()}})
        return simulate_time(program, costs, trips, JITTER, seed=1, device=made.context.device)

    runs = run(1, short), run(2, short), run(1, long)
    if any(r.note for r in runs):
        return None
    one, two, more = (r.end_cycles for r in runs)
    added = _iterations(program.graph, long) - _iterations(program.graph, short)
    return Measured(one, max(1.0, two - one), (more - one) / added if added else 0.0)


def _trip_counts(program: SProgram) -> tuple[dict[int, int], dict[int, int]]:
    """Trip counts of the short and of the long run: innermost loops that may have any length get longer; where there
    are none, loops around them."""
    most = {plan.loop: plan.most_trips for plan in program.loops if plan.most_trips}
    inner = [loop for loop in program.graph.loops if loop.id != 0]
    nested = any(loop.parent for loop in inner)
    short = {loop.id: min(SHORT_NESTED if nested else SHORT, most.get(loop.id, SHORT)) for loop in inner}
    free = {loop.id for loop in inner if loop.like is None and loop.id not in most}
    around = {loop.parent for loop in inner if loop.id in free}
    return short, {n: LONG if n in free - around else count for n, count in short.items()}


def _iterations(graph: TaskGraph, counts: dict[int, int]) -> float:
    """Iterations of innermost loops: those of nested loops multiply, loops side by side are averaged."""
    loops = {loop.id: loop for loop in graph.loops}
    kept = graph.kept_loops()
    parents = {loop.parent for loop in graph.loops}
    leaves = [n for n in loops if n not in parents and n != 0 and n not in kept]

    def times(loop: int) -> int:
        at = loops[loop]
        count = counts.get(at.like if at.like is not None else loop, 1)
        return count * (times(at.parent) if at.parent else 1)

    return sum(map(times, leaves)) / max(1, len(leaves))


def simulated_ns(made: Candidate, program: SProgram) -> float:
    """Predicted time of the launch from simulated cycles; infinite where the program deadlocks."""
    found = simulate(made, program)
    if found is None:
        return float("inf")
    simulated = _iterations(program.graph, _trip_counts(program)[0])

    def tile(trips: dict[int, int]) -> float:
        return max(1.0, found.further + (_iterations(program.graph, trips) - simulated) * found.iteration)

    times = [(count, tile(trips)) for count, trips in made.grid.classes]
    device = made.context.device
    busiest = spread(times, device.eu_count, made.partition.longest_first) + max(0.0, found.first - found.further)
    return made.after_ns + launch_ns_of(device, busiest, made.context.moved_bytes)


def worth_simulating(scheduled: list[Candidate]) -> list[Candidate]:
    """The best few, where roles or asynchronous units make the static prediction doubtful. Some of each number of
    workers: a static schedule gives a shared unit to one at a time, which is further from the truth the more there are
    (measured on an H200: attention with heads of 64 is 1.2 times as fast with three as with two; static: 1.08 times
    slower). And the one with the best bound: of loops in loops a static schedule says that they never overlap."""
    if not scheduled or len(scheduled[0].placement.roles) < 2:
        return []
    limit = scheduled[0].predicted_ns * CLOSE
    close = [c for c in scheduled if c.predicted_ns <= limit]
    chosen = close[:MOST_SIMULATED]
    for workers in sorted({c.partition.workers for c in close}):
        alike = [c for c in close if c.partition.workers == workers]
        chosen += [c for c in alike[:MOST_ALIKE] if c not in chosen]
    least = min(close, key=lambda c: c.floor_ns)
    return chosen if least in chosen else [*chosen, least]


def wider_first(candidates: list[Candidate], ns: list[float]) -> list[Candidate]:
    """The candidates, best first by `ns`; those as good as the best by how wide a worker's products are. An instruction
    of a matrix unit reads its rows and all columns from shared memory, so wide ones read less for the same work, which
    takes power. Measured on an H200, 4096 cubed: 128 x 256 takes 0.988 of the time of 256 x 128, predicted to take the
    same, half of that by the clock."""
    if not candidates or not candidates[0].simulated_ns or not candidates[0].context.device.fact("dot_rows"):
        return candidates
    as_good = sum(1 for c, time in zip(candidates, ns, strict=True) if c.simulated_ns and time <= TIE * ns[0])
    return sorted(candidates[:as_good], key=_columns, reverse=True) + candidates[as_good:]


def _columns(made: Candidate) -> int:
    dots = [op for t in made.context.graph.tasks for op in t.ops if isinstance(op, Dot)]
    return max((dot_shape(op, made.sizes, share=True)[1] for op in dots), default=0)
