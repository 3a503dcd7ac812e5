"""The best plan of a search, run on the GPU that is here with clocks inside: its timeline, for below the plan's."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from threadloom.errors import CompileError, slug
from threadloom.machine.devices import device as find_device
from threadloom.machine.model import Device
from threadloom.sched.measure import Measurer
from threadloom.sched.profiled import times_of_records
from threadloom.sched.reuse import recipe_of_candidate
from threadloom.sched.search import Outcome
from threadloom.sched.timeline import Timeline
from threadloom.sched.timeline_measured import measured_timeline
from threadloom.tile.ops import Kernel

NOT_CLOCKED = slug("not-clocked", "a plan could not be run with clocks inside")


@dataclass(frozen=True, slots=True)
class Clocked:
    """`task_times`: what its synchronous sTasks took, for `loom schedule --task-times`."""

    timeline: Timeline
    task_times: dict[str, object]


def run_with_clocks(
    outcome: Outcome,
    kernel: Kernel,
    dims: dict[str, int],
    machine: Device,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, float],
    title: str = "",
) -> Clocked:
    """`arrays`: of integer tensors; others are made up. In a process of its own, which may hang or die."""
    program = outcome.best
    with tempfile.TemporaryDirectory() as folder, Measurer(kernel, dims, machine, arrays, scalars) as measurer:
        made = measurer.make(recipe_of_candidate(outcome.candidates[0]), Path(folder) / "plan", clocks=True)
        records, why = measurer.clock_records(made) if not made.error else ([], made.error)
    if not records:
        raise CompileError(
            NOT_CLOCKED,
            f"no clocks of {kernel.name} could be read on {machine.name}",
            why=why or "the kernel recorded none",
            try_="loom doctor says what is missing",
            loc=kernel.loc,
        )
    shared = find_device(program.device)
    seen = measured_timeline(program, shared, records)
    seen = replace(seen, title=title or seen.title, ii_cycles=interval_of(seen), bounds_cycles=())
    return Clocked(seen, times_of_records(program, dims, shared, records))


def interval_of(timeline: Timeline) -> float:
    """Cycles between passes of the innermost loop that was seen: of each of its sTasks the median, of these the median;
    0 where nothing was seen twice."""
    inner = max((bar.loop for bar in timeline.bars), default=0)
    starts: dict[tuple[str, str], list[float]] = defaultdict(list)
    for bar in timeline.bars:
        if bar.loop == inner and bar.row == bar.role:
            starts[bar.row, bar.task].append(bar.start_cycles)
    gaps = [median(b - a for a, b in pairwise(sorted(s))) for s in starts.values() if len(s) > 1]
    return median(gaps) if gaps and inner else 0.0
