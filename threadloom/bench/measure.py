"""Fair timing on a machine that others use too.

Candidates run in short bursts, one each a turn, in rotated order, so that what lasts longer than a turn hits all alike:
on a virtual machine two processors may be one core's threads for some tenths of a second, and everything takes up to
twice as long. A burst during which other processes used a noticeable part of the cores is thrown away with its turn;
before each burst we wait for quiet, as long as the time limit allows. Reported are the minimum and the median of the
kept samples, and the best time of every turn. A candidate whose first call takes a good part of the time limit (a
product of a type that a library has only slow loops for) is not called again: that call is its time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

JIFFY_S = 0.01
QUIET_CORES = 0.15  # what others may use of the machine during a burst, in cores
LONG_S = 0.5  # what takes longer is timed once a turn
WARM_S = 0.04  # before a burst: woken threads may share a processor for some milliseconds
BURST_S = 0.06
SLOW_PART = 8  # of the time limit: a call that takes longer is not repeated
WAIT_S = 0.3  # between looks at a machine that is not quiet


@dataclass(frozen=True, slots=True)
class Timing:
    """`kept` samples of `taken`; where none was quiet, all are kept and `quiet` is False. `turns`: the best time of
    every turn in which all candidates ran undisturbed, in order. `over`: not done after that time, so nothing is known
    but that it is more."""

    min_s: float
    median_s: float
    kept: int
    taken: int
    quiet: bool
    turns: tuple[float, ...] = ()
    over: bool = False


Told = Callable[[str], None]  # whose first call begins; "" when turns do


def not_told(_name: str) -> None:
    pass


@dataclass(slots=True)
class _Samples:
    kept: list[float]
    all: list[float]
    turns: list[float]


def alternate_by_cpu_time(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 15, limit_s: float = 40.0, told: Told = not_told
) -> dict[str, Timing]:
    """The CPU time of this one thread: what remains fair where the machine is never quiet. Everybody must run in it."""
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    names = []
    for name, function in candidates.items():
        told(name)
        start = time.thread_time()
        function()
        if (took := time.thread_time() - start) * SLOW_PART > limit_s:
            taken[name].append(took)
        else:
            names.append(name)
    told("")
    end = time.monotonic() + limit_s
    for turn in range(rounds if names else 0):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.thread_time()
            candidates[name]()
            taken[name].append(time.thread_time() - start)
        if time.monotonic() > end:
            break
    turns = {name: tuple(taken[name]) for name in names}
    return {n: Timing(min(t), statistics.median(t), len(t), len(t), False, turns.get(n, ())) for n, t in taken.items()}


def alternate(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 30, limit_s: float = 40.0, told: Told = not_told
) -> dict[str, Timing]:
    """Time every candidate until there were `rounds` quiet turns, or the time is over."""
    samples = {name: _Samples([], [], []) for name in candidates}
    names: list[str] = []
    for name, function in candidates.items():
        told(name)
        start, work = time.perf_counter(), time.process_time()
        function()
        took = time.perf_counter() - start
        # the less of both: a busy machine may have stopped us, and many threads work many seconds a second
        if min(took, time.process_time() - work) * SLOW_PART > limit_s:
            samples[name].all.append(took)
        else:
            names.append(name)
    told("")
    end, turn = time.monotonic() + limit_s, 0
    while names and len(samples[names[0]].turns) < rounds and (time.monotonic() < end or not samples[names[0]].all):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        turn += 1
        best = {}
        for name in order:
            _wait_for_quiet(end)  # idle threads of the last one's runtime are awake for a while, too
            best[name] = _burst(candidates[name], samples[name])
        for name, quiet in best.items():
            if None not in best.values():
                samples[name].turns.append(quiet)
    return {name: _timing(found) for name, found in samples.items()}


def _burst(function: Callable[[], object], samples: _Samples) -> float | None:
    """Run for a moment; the best time, None where somebody disturbed it."""
    began, took = time.perf_counter(), 0.0
    while time.perf_counter() - began < WARM_S:
        start = time.perf_counter()
        function()
        took = time.perf_counter() - start
    fewest = 1 if took > LONG_S else 3
    began, busy, own = time.perf_counter(), _busy_s(), time.process_time()
    times: list[float] = []
    while len(times) < fewest or time.perf_counter() - began < BURST_S:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    wall = time.perf_counter() - began
    others = (_busy_s() - busy) - (time.process_time() - own)
    samples.all += times
    if others > QUIET_CORES * wall + 2 * JIFFY_S:
        return None
    samples.kept += times
    return min(times)


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
    counts = len(times), len(samples.all), bool(samples.kept)
    return Timing(min(times), statistics.median(times), *counts, tuple(samples.turns))
