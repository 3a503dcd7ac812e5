"""Learning while tuning: what clocks inside the first plans say about the time of an sTask corrects the model for all.

    plan 128 x 128 ran:  softmax 1200 cycles by the clocks, 900 by the model
    ->  softmax takes 4/3 of the model's cycles at every size; sTasks that no clocked plan has take what their unit's
        sTasks took of the model's together

All partitions are ranked again by the corrected model, so what is measured next is not what the uncorrected one liked.
Synchronous units only: what an asynchronous one takes is not in the clocks of the role that feeds it.

Source: PipeThreader, section 6 (times of sTasks replace the model's). Theirs are of sTasks alone at the sizes searched;
ours come from whole plans and carry over to other sizes as ratios, since a search with measured times for a few sizes
only would prefer whichever of clock and model is too kind (`profiled.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean

from threadloom.machine.model import Device
from threadloom.sched.candidate import Candidate
from threadloom.sched.profile import expression_key, sizes_key
from threadloom.sched.sizes import Sizes
from threadloom.task.ops import Kind, STask, TaskGraph

FURTHEST = 3.0  # ratio of clocks to model, either way: what lies beyond is taken for a fault of the clocks


@dataclass
class Lessons:
    """Ratios of measured to modelled time, by sTask (digest of its expression, unit) and by unit."""

    device: Device
    ratios: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    totals: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))

    def add(self, made: Candidate, times: Sequence[Mapping[str, object]]) -> None:
        """`times`: of the candidate's plan, as `profiled.times_of_records` gives them."""
        modelled = replace(made.costs, measured=None, _memo={})
        tasks = {(expression_key(t), sizes_key(t, made.sizes)): t for t in made.context.graph.tasks}
        for entry in times:
            task, unit, ns = tasks.get((entry["expression"], entry["sizes"])), str(entry["unit"]), float(entry["ns"])
            if task is None or ns <= 0:
                continue
            model_ns = modelled.of(task).occupancy / self.device.clock_ghz.value
            self.ratios[expression_key(task), unit].append(_within(ns / model_ns))
            self.totals[unit][0] += ns
            self.totals[unit][1] += model_ns

    def __bool__(self) -> bool:
        return bool(self.ratios)

    def time(self, task: STask, sizes: Sizes, unit: str, modelled_ns: float) -> float | None:
        """For `plan(..., measured=...)`."""
        if seen := self.ratios.get((expression_key(task), unit)):
            return modelled_ns * geometric_mean(seen)
        if unit not in self.totals or task.kind is Kind.SCALAR:
            return None
        measured, modelled = self.totals[unit]
        return modelled_ns * _within(measured / modelled)


def _within(ratio: float) -> float:
    return min(FURTHEST, max(1 / FURTHEST, ratio))


def worth_learning(graph: TaskGraph) -> bool:
    """Whether vector code works inside a pipelined loop: elsewhere its time hardly decides between plans."""
    return any(t.loop and t.kind is Kind.VECTOR for t in graph.tasks)
