"""Times one plan on this machine's cores, for tuning."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping

import numpy as np

from threadloom.machine.model import Device
from threadloom.sched.ops import SProgram
from threadloom.targets.cpu.compile import clear_accumulated, compile, cpu_schedule, form_for

LEAST_RUNS, MOST_RUNS, ENOUGH_S = 3, 50, 0.3


def time_plan(
    program: SProgram,
    arrays: Mapping[str, np.ndarray],
    dims: Mapping[str, int],
    scalars: Mapping[str, object],
    device: Device,
) -> float:
    """Nanoseconds of one launch: the median of the faster half of the runs, since other work only ever adds."""
    schedule = cpu_schedule(program)
    compiled = compile(program, form_for(schedule, arrays, dims), device)
    compiled.run(arrays, dims, scalars)
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < LEAST_RUNS or (len(times) < MOST_RUNS and time.perf_counter() - began < ENOUGH_S):
        clear_accumulated(schedule.kernel, arrays, dims)
        start = time.perf_counter()
        compiled.run(arrays, dims, scalars)
        times.append(time.perf_counter() - start)
    return statistics.median(sorted(times)[: -(-len(times) // 2)]) * 1e9
