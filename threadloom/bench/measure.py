"""Fair timing on a machine that others use too.

Candidates run in short bursts, alternating in rotated order, so that slow drifts hit all alike. A burst during which
other processes used a noticeable part of the cores is thrown away and repeated later; before each burst we wait for
quiet, as long as the time limit allows. Reported are the minimum and the median of the kept samples.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

JIFFY_S = 0.01
QUIET_CORES = 0.15  # what others may use of the machine during a burst, in cores
BURST_S = 0.08
WAIT_S = 0.3  # between looks at a machine that is not quiet


@dataclass(frozen=True, slots=True)
class Timing:
    """`kept` samples of `taken`; where none was quiet, all are kept and `quiet` is False."""

    min_s: float
    median_s: float
    kept: int
    taken: int
    quiet: bool


@dataclass(slots=True)
class _Samples:
    kept: list[float]
    all: list[float]


def alternate_by_cpu_time(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 15, limit_s: float = 40.0
) -> dict[str, Timing]:
    """The CPU time of this one thread: what remains fair where the machine is never quiet. Everybody must run in it."""
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for function in candidates.values():
        function()
    end, names = time.monotonic() + limit_s, list(candidates)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.thread_time()
            candidates[name]()
            taken[name].append(time.thread_time() - start)
        if time.monotonic() > end:
            break
    return {n: Timing(min(t), statistics.median(t), len(t), len(t), False) for n, t in taken.items()}


def alternate(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 15, limit_s: float = 40.0
) -> dict[str, Timing]:
    """Time every candidate until each has `rounds` quiet bursts, or the time is over."""
    samples = {name: _Samples([], []) for name in candidates}
    for function in candidates.values():
        function()
    end = time.monotonic() + limit_s
    names, turn = list(candidates), 0
    bursts = dict.fromkeys(names, 0)
    while min(bursts.values()) < rounds and (time.monotonic() < end or not all(s.all for s in samples.values())):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        turn += 1
        for name in order:
            _wait_for_quiet(end)
            bursts[name] += _burst(candidates[name], samples[name])
    return {name: _timing(found) for name, found in samples.items()}


def _burst(function: Callable[[], object], samples: _Samples) -> bool:
    """Run for a moment; whether nobody disturbed it."""
    function()
    began, busy, own = time.perf_counter(), _busy_s(), time.process_time()
    times: list[float] = []
    while len(times) < 3 or time.perf_counter() - began < BURST_S:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    wall = time.perf_counter() - began
    others = (_busy_s() - busy) - (time.process_time() - own)
    samples.all += times
    if others > QUIET_CORES * wall + 2 * JIFFY_S:
        return False
    samples.kept += times
    return True


def _wait_for_quiet(end: float) -> None:
    while time.monotonic() < end:
        before = _busy_s()
        time.sleep(0.05)
        if _busy_s() - before <= 2 * JIFFY_S:
            return
        time.sleep(WAIT_S)


def _busy_s() -> float:
    """Seconds that all cores have spent working, ours included; 0 where the system does not tell."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    except OSError:
        return 0.0
    user, nice, system, irq, softirq = (int(fields[at]) for at in (1, 2, 3, 6, 7))
    return (user + nice + system + irq + softirq) * JIFFY_S


def _timing(samples: _Samples) -> Timing:
    times = samples.kept or samples.all
    return Timing(min(times), statistics.median(times), len(times), len(samples.all), bool(samples.kept))
