"""Times one plan on this machine's cores, for tuning."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping

import numpy as np

from threadloom.machine.model import Device
from threadloom.sched.ops import SProgram
from threadloom.targets.cpu.between import steps_of
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
    steps = [
        (compile(one, form_for(cpu_schedule(one), given, dims), device), given)
        for one, given in steps_of(program, arrays, dims)
    ]

    def run() -> None:
        for compiled, given in steps:
            compiled.run(given, dims, scalars)

    run()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < LEAST_RUNS or (len(times) < MOST_RUNS and time.perf_counter() - began < ENOUGH_S):
        for compiled, given in steps:
            clear_accumulated(compiled.schedule.kernel, given, dims)
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(sorted(times)[: -(-len(times) // 2)]) * 1e9
