"""Cases in processes of their own, which are ended where a call does not return: a benchmark comes to its end.

No limit inside a process holds for a call into a library (a product of a type that it has only slow loops for takes
minutes). So each case runs in a process that says what it begins, and this one watches the clock. A peer whose first
call takes longer than the case's part of the limit is ended with its process, and the case begins again without it.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection

from threadloom.bench.operators import OPERATORS, Case
from threadloom.bench.run import Result, run_case

PREPARE_S = 120.0  # most seconds for making inputs, planning, compiling, the reference in float64


@dataclass(frozen=True, slots=True)
class Stopped:
    """A case without result."""

    case: str
    why: str


def run_operator(name: str, rounds: int, limit_s: float, by_cpu_time: bool = False) -> Iterator[Result | Stopped]:
    """The results of an operator's cases; `limit_s` is shared by them."""
    count = len(OPERATORS[name].cases)
    for number in range(count):
        found = run_limited(partial(_case, name, number), rounds, limit_s / count, by_cpu_time)
        yield Stopped(f"{name}, case {number + 1}", found) if isinstance(found, str) else found


def _case(name: str, number: int) -> Case:
    return OPERATORS[name].cases[number]()


def run_limited(
    make: Callable[[], Case], rounds: int, limit_s: float, by_cpu_time: bool = False, prepare_s: float = PREPARE_S
) -> Result | str:
    """The result of the case that `make` (which can be pickled) makes, or why there is none."""
    context = multiprocessing.get_context("spawn")  # a fork would share the threads of OpenMP that are not there
    without: set[str] = set()
    while True:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, make, rounds, limit_s, by_cpu_time, without), daemon=True)
        process.start()
        theirs.close()
        try:
            found, peer = _watch(ours, limit_s, prepare_s)
        finally:
            process.kill()
            process.join()
            ours.close()
        if not peer:
            return found
        without.add(peer)


def _work(
    pipe: Connection, make: Callable[[], Case], rounds: int, limit_s: float, by_cpu_time: bool, without: set[str]
) -> None:
    pipe.send(run_case(make(), rounds, limit_s, by_cpu_time, without, pipe.send))


def _watch(pipe: Connection, limit_s: float, prepare_s: float) -> tuple[Result | str, str]:
    """(the result or why there is none, the peer whose first call did not end)."""
    start, peer = time.monotonic(), ""
    end = start + prepare_s
    while pipe.poll(max(0.0, end - time.monotonic())):
        try:
            said = pipe.recv()
        except EOFError:
            return f"the process ended{' in the first call of ' * bool(peer)}{peer}", ""
        if isinstance(said, Result):
            return said, ""
        peer = "" if said in ("", "ours", "copy") else said
        end = time.monotonic() + (limit_s if peer else 3 * limit_s + prepare_s)
    return f"not done after {time.monotonic() - start:.1f} s", peer
