"""From a search's outcome to what people look at: the simulated timeline of its best plan, and its story."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from threadloom.machine.model import Device
from threadloom.sched.search import Outcome
from threadloom.sched.semantics import Trips
from threadloom.sched.timeline import Rejected, Timeline

MOST_TILES = 2  # of the grid that the picture shows, one after the other on one EU
MOST_TRIPS = 12  # of each loop within a tile

FAMILIES = {
    "bound": "cannot beat the best plan: its lower bound is longer",
    "work-limit": "not scheduled within the bound on work",
    "splits": "the reduction of this short grid cannot be done in parts",
    "tiles-first": "another tile was chosen before any order (policy `decoupled`)",
    "cluster": "neighbouring tiles share no load, or differ in their trip counts",
    "kept": "what a walk along an axis keeps cannot be filled by the copy engine",
    "no-schedule": "no order of the sTasks fits the buffers",
    "unproved": "the checker refuses what was scheduled",
    "resource": "a unit cannot hold the work",
    "recurrence": "a cycle of dependences cannot be satisfied",
}


def best_timeline(outcome: Outcome, device: Device, title: str) -> Timeline:
    """The best plan run by the model on one EU: a few iterations of its most frequent kind of tile."""
    from threadloom.sched.simulate_time import simulate_time

    best, program = outcome.candidates[0], outcome.best
    graph = program.graph
    costs = best.costs
    tiles = max(1, min(MOST_TILES, -(-best.grid.tiles // device.eu_count)))
    frequent = max(best.grid.classes, key=lambda c: (any(c[1].values()), c[0]), default=(0, {}))[1]
    counts = {loop: (min(MOST_TRIPS, trips),) for loop, trips in frequent.items()}
    trips = Trips({0: (tiles,), **counts})
    drawn = simulate_time(program, {t.name: costs.of(t) for t in graph.tasks}, trips, device=device, memory=True)
    inner = max(program.loops, key=lambda p: p.loop, default=None)
    return dataclasses.replace(
        drawn,
        title=title,
        ii_cycles=inner.ii_cycles if inner and inner.loop else 0.0,
        bounds_cycles=inner.bounds_cycles if inner and inner.loop else (),
        predicted_ns=program.predicted_ns,
        tiles=tuple((t.axis, t.extent) for t in best.partition.tiles),
        rejected=rejections(outcome),
    )


@dataclass(frozen=True, slots=True)
class LoopQuality:
    """How good the schedule of one loop is, for its tiles: nothing below `bound_cycles` exists."""

    loop: int
    ii_cycles: int
    bound_cycles: int
    is_optimal: bool

    def __str__(self) -> str:
        if self.is_optimal:
            return f"loop {self.loop}: ii {self.ii_cycles} cycles is optimal for these tiles"
        gap = self.ii_cycles / max(1, self.bound_cycles) - 1
        bound = f"{self.bound_cycles} is a proved bound"
        return f"loop {self.loop}: ii {self.ii_cycles} cycles, at most {gap:.1%} from optimal ({bound})"


def loop_qualities(outcome: Outcome) -> list[LoopQuality]:
    """Of every pipelined loop of the best plan; the bounds are the resource, recurrence and memory ones, and what the
    solver has shown."""
    found = []
    for loop, made in (outcome.candidates[0].schedules or {}).items():
        if loop != 0 and made.problem.nodes:
            bound = max(made.bounds.values(), default=0)
            found.append(LoopQuality(loop, made.ii, bound, made.proven or made.ii <= bound))
    return found


def rejections(outcome: Outcome) -> tuple[Rejected, ...]:
    """Why whole families of partitions fell out, the largest first."""
    ordered = sorted(outcome.reasons.items(), key=lambda r: -r[1])
    return tuple(Rejected("partitions", reason_text(family), count) for family, count in ordered)


def reason_text(family: str) -> str:
    if family.startswith("memory:"):
        return f"the tiles do not fit in {family.removeprefix('memory:')}"
    return FAMILIES.get(family, family)


def drawings(timeline: Timeline) -> dict[str, str]:
    """File name -> content: the timeline in every form that there is (the trace opens in Perfetto)."""
    from threadloom.sched.timeline import to_json
    from threadloom.sched.timeline_chrome import render_chrome
    from threadloom.sched.timeline_html import render_html
    from threadloom.sched.timeline_svg import render_svg
    from threadloom.sched.timeline_text import render_text

    return {
        "timeline.txt": render_text(timeline, whole=True) + "\n",
        "timeline.json": to_json(timeline) + "\n",
        "timeline.svg": render_svg(timeline),
        "timeline.html": render_html(timeline),
        "timeline.trace.json": render_chrome(timeline) + "\n",
    }
