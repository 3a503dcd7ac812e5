"""An ablation's programs timed: several at once, each with a few workers on cores of its own, until time runs out.

A round goes over all programs before the next begins, and in each over what tells most first (ablation.distinct), so
that whatever is reached when time is over can be compared.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from threadloom.bench.suites import ablation
from threadloom.bench.suites.ablation import Ablation, Variant
from threadloom.bench.suites.process import Limits

_MOST_SECONDS = 20  # of a run; what takes longer is no rival
_SAVED_EVERY_S = 10


@dataclass(frozen=True, slots=True)
class Lane:
    """Cores of one program at a time."""

    cores: tuple[int, ...]

    def variables(self) -> dict[str, str]:
        places = ",".join(f"{{{core}}}" for core in self.cores)
        return {"OMP_NUM_THREADS": str(len(self.cores)), "OMP_PLACES": places, "OMP_PROC_BIND": "close"}


def lanes(workers: int) -> list[Lane]:
    """The cores of this process in groups of `workers`, threads of one core counted once; one lane at least."""
    cores = ablation.core_numbers()
    workers = min(workers, len(cores)) or 1
    return [Lane(tuple(cores[at : at + workers])) for at in range(0, len(cores) - workers + 1, workers)]


def time_all(found: Sequence[Ablation], scratch: Path, rounds: int, workers: int, until: float,
             save: Callable[[], None]) -> list[str]:  # fmt: skip
    """Up to `rounds` runs of each variant, until that time.monotonic(); `save` is called now and then, and at the end.
    Returns which variants have none."""
    every, lock = list(_turns(found, rounds)), threading.Lock()
    busy: set[int] = set()  # programs that run: they share a folder

    def next_turn() -> tuple[int, Ablation, Variant] | None:
        with lock:
            for place, turn in enumerate(every):
                if turn[0] not in busy:
                    busy.add(turn[0])
                    return every.pop(place)
        return None

    def work(lane: Lane) -> None:
        limits = Limits(cpu_s=_MOST_SECONDS * len(lane.cores))
        while every and time.monotonic() < until:
            turn = next_turn()
            if turn is None:
                time.sleep(0.01)
                continue
            number, one, variant = turn
            if not variant.cause:
                ablation.time_variant(one, variant, scratch, lane.variables(), limits)
            with lock:
                busy.discard(number)

    threads = [threading.Thread(target=work, args=(lane,)) for lane in lanes(workers)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        threads[0].join(_SAVED_EVERY_S) if threads[0].is_alive() else time.sleep(0.1)
        save()
    save()
    return [f"{one.pair.name}: {variant.name}" for one in found for variant in ablation.distinct(one)
            if not variant.cause and not variant.kernel_s]  # fmt: skip


def _turns(found: Sequence[Ablation], rounds: int) -> Iterator[tuple[int, Ablation, Variant]]:
    """Number of a program, itself, its next variant: those with the fewest runs so far come first."""
    orders = [ablation.distinct(one) for one in found]
    for done in range(rounds):
        for place in range(max(map(len, orders), default=0)):
            for number, order in enumerate(orders):
                if place < len(order) and len(order[place].kernel_s) <= done:
                    yield number, found[number], order[place]

