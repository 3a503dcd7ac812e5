"""Planning with measured times of sTasks (PipeThreader, section 6) in place of the model's.

    search by the model -> its best partitions -> time their sTasks alone -> schedule these partitions again -> the best

Only partitions whose sTasks were timed are compared: a search in which some tiles have measured and others modelled
times would prefer whichever of the two is too kind. On this machine's cores what is missing is measured; for a device
that is not here, times come from `read_times` (benchmarks/hopper_timeline.py writes them on a GPU).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from threadloom.errors import CompileError, slug
from threadloom.machine.model import Device
from threadloom.sched.candidate import Candidate, Scheduler
from threadloom.sched.ops import Issue, SProgram
from threadloom.sched.profile import expression_key, measure_tasks, sizes_key, stored_times
from threadloom.sched.search import Outcome, plan
from threadloom.sched.sizes import Sizes, axis_extents, sizes_of
from threadloom.sched.timeline_measured import ClockRecord
from threadloom.store import Store
from threadloom.task.ops import Kind
from threadloom.tile.ops import Kernel

BAD_TIMES = slug("bad-task-times", "a file of measured sTask times cannot be read")
SCHEMA = "threadloom.task-times/1"
MOST_PROFILED = 4  # partitions


@dataclass(frozen=True, slots=True)
class TaskCost:
    """An sTask of the best plan: cycles on its sEU by the model, and as measured (0: not measured)."""

    task: str
    unit: str
    model_cycles: float
    measured_cycles: float


def profiled_plan(
    kernel: Kernel,
    dims: dict[str, int],
    device: Device,
    store: Store,
    policy: str | Scheduler = "joint",
    limit_s: float = 2.0,
    most: int = MOST_PROFILED,
) -> tuple[Outcome, list[TaskCost]]:
    """The best of the model's best plans by measured times of their sTasks, and what was measured."""
    first = plan(kernel, dims, device, policy, limit_s=limit_s)
    chosen = first.candidates[:most]
    times = stored_times(store, device)
    for made in chosen if device.arch == "cpu" else ():
        measure_tasks(made.context.graph, made.placement, made.sizes, device, store)
    again = [
        plan(kernel, dims, device, policy, c.context.granularity or None, measured=times, only=c.partition)
        for c in chosen
    ]
    again.sort(key=lambda outcome: outcome.best.predicted_ns)
    outcome = replace(first, best=again[0].best, candidates=tuple(o.candidates[0] for o in again))
    return outcome, task_costs(again[0].candidates[0], device)


def task_costs(made: Candidate, device: Device) -> list[TaskCost]:
    """The times that a candidate was scheduled by, beside the model's."""
    found = []
    modelled = replace(made.costs, measured=None, _memo={})
    for task in made.context.graph.tasks:
        if task.kind is Kind.SCALAR:
            continue
        unit = made.placement.units[task.name].seu.name
        ghz, occupancy = device.clock_ghz.value, modelled.of(task).occupancy
        ns = made.costs.measured(task, made.sizes, unit, occupancy / ghz) if made.costs.measured else None
        found.append(TaskCost(task.name, unit, occupancy, 0.0 if ns is None else ns * ghz))
    return found


# ---------------------------------------------------------------- times that were measured elsewhere


def times_of_records(
    program: SProgram, dims: dict[str, int], device: Device, records: Iterable[ClockRecord]
) -> dict[str, object]:
    """Median times of the synchronous sTasks of a program that ran with clocks, as a record for `read_times`. What an
    asynchronous unit takes is not in the clocks of the role that feeds it."""
    graph, partition = program.graph, program.partition
    sizes = sizes_of(graph, partition, axis_extents(graph, dims))
    sections = {(s.loop, s.role): s.instrs for s in program.sections}
    synchronous = {unit.name for unit in device.seus if not unit.is_async}
    spent: dict[tuple[str, str], list[float]] = {}
    for record in records:
        instr = sections[record.loop, record.role][record.position]
        if isinstance(instr, Issue) and instr.seu in synchronous and graph.task(instr.task).kind is not Kind.SCALAR:
            spent.setdefault((instr.task, instr.seu), []).append(record.end_cycles - record.start_cycles)
    times = [
        _entry(graph.task(name), sizes, unit, median(cycles) / device.clock_ghz.value)
        for (name, unit), cycles in sorted(spent.items())
    ]
    return {"schema": SCHEMA, "device": device.name, "times": times}


def _entry(task, sizes: Sizes, unit: str, ns: float) -> dict[str, object]:
    key = {"expression": expression_key(task), "sizes": sizes_key(task, sizes), "unit": unit}
    return {"task": task.name, **key, "ns": ns}


def read_times(text: str, device: Device, store: Store, file: str) -> int:
    """Keep the times of a file that `times_of_records` made for this device; how many there were."""
    from threadloom.sched.reuse import device_key

    try:
        record = json.loads(text)
        if record["schema"] != SCHEMA or record["device"] != device.name:
            raise ValueError(f"it holds {record['schema']} of {record['device']}")
        entries = [(e["expression"], e["sizes"], e["unit"], float(e["ns"])) for e in record["times"]]
    except (ValueError, KeyError, TypeError) as broken:
        raise CompileError(
            BAD_TIMES,
            f"{file} holds no sTask times of {device.name}",
            why=f"{type(broken).__name__}: {broken}",
            try_="a file that benchmarks/hopper_timeline.py wrote on that device",
        ) from broken
    for expression, sizes, unit, ns in entries:
        store.add_task_time(device_key(device), expression, sizes, unit, ns)
    return len(entries)


def as_json(costs: Iterable[TaskCost]) -> list[Mapping[str, object]]:
    return [
        {"task": c.task, "unit": c.unit, "model_cycles": c.model_cycles, "measured_cycles": c.measured_cycles}
        for c in costs
    ]
