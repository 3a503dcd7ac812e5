"""The checker's first engine: the interpreter of par on raised kernels.

Three runs see everything: the kernel as raised (races, bounds, uninitialised memory; what the barriers order); the
kernel with its conditions around barriers voted on (check_divergence.py), which finds barriers that a part of the block
misses even where the others then end: CUDA forbids that, though a barrier does not wait for threads that have ended;
and, where lanes may part around warp operations, the kernel with its warps in lock-step (watch_lanes.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from threadloom.cuda.check.rendezvous import cuda_rendezvous
from threadloom.cuda.check.watch_lanes import WatchLanes
from threadloom.cuda.kernel import WARP_LANES
from threadloom.cuda.lower.block_collectives import LowerBlockCollectives
from threadloom.cuda.lower.check_divergence import CheckDivergence
from threadloom.cuda.lower.for_to_while import ForToWhile
from threadloom.cuda.lower.runtime_calls import CHECK_ASIDE, CHECK_COMES, CHECK_NAMED, DIVERGENT_BARRIER
from threadloom.cuda.lower.split import Split
from threadloom.cuda.lower.split_warps import SplitWarps
from threadloom.cuda.lower.warp_collectives import LowerWarpCollectives
from threadloom.par.interp import Argument, External, interpret
from threadloom.par.interp_memory import Finding
from threadloom.par.ops import Level, Module
from threadloom.par.walk import walk
from threadloom.source import Loc


class _Diverged(Exception):
    """Ends the run: behind a divergent barrier nothing has a meaning."""

    def __init__(self, line: int):
        self.line = line


def _diverged(file: int, line: int) -> int:
    raise _Diverged(line)


def check_interpreted(module: Module, kernel: str, args: Sequence[Argument], geometry: Sequence[int],
                      externals: Mapping[str, External] | None = None) -> tuple[Finding, ...]:  # fmt: skip
    """What a launch of the raised `kernel` does wrong; arrays are left as the launch leaves them."""
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    voted = _divergence(module, kernel, [*copies, *geometry], externals or {})
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    absent = _absent_lanes(module, kernel, [*copies, *geometry], externals or {})
    outcome = interpret(module, kernel, [*args, *geometry], rendezvous=cuda_rendezvous(), externals=externals)
    found = tuple(one for one in outcome.findings if one.kind != "divergent-barrier")
    return (*found, *absent, *voted)


def _absent_lanes(module: Module, kernel: str, args: Sequence[Argument], externals: Mapping[str, External]
                  ) -> list[Finding]:  # fmt: skip
    watched = WatchLanes().apply(module)
    if watched is module:
        return []
    for one in _LOCK_STEP:
        watched = one.apply(watched)
    lanes = _Lanes(_file_of(module))
    calls = {CHECK_ASIDE: lanes.aside, CHECK_COMES: lanes.comes, CHECK_NAMED: lanes.named, DIVERGENT_BARRIER: _diverged}
    with contextlib.suppress(_Diverged):
        interpret(watched, kernel, args, rendezvous=cuda_rendezvous(), externals={**externals, **calls})
    return lanes.findings()


# Lanes of a warp then go through the kernel side by side, and who stands aside is known where the others meet.
_LOCK_STEP = (
    LowerBlockCollectives(), ForToWhile(Level.THREADS), CheckDivergence(), Split(Level.THREADS), SplitWarps(),
    LowerWarpCollectives(), ForToWhile(Level.LANES), Split(Level.LANES), ForToWhile(Level.BLOCKS), Split(Level.BLOCKS),
)  # fmt: skip


class _Lanes:
    """Which lanes are named by a warp operation that they do not reach, by its line."""

    def __init__(self, file: str):
        self._file = file
        self._aside: dict[tuple[int, int], int] = {}
        self._absent: dict[int, set[int]] = {}
        self._asked: set[tuple[int, ...]] = set()  # by one of them; the others may have gone elsewhere since

    def aside(self, block: int, thread: int, set_: int, cleared: int) -> int:
        self._aside[block, thread] = self._aside.get((block, thread), 0) & ~cleared | set_
        return 0

    def comes(self, block: int, thread: int, mask: int, site: int) -> int:
        self._asked.discard((block, thread // WARP_LANES, mask, site))
        return 0

    def named(self, block: int, thread: int, mask: int, site: int, conditions: int, file: int, line: int,
              *texts: int) -> int:  # fmt: skip
        first, place = thread - thread % WARP_LANES, (block, thread // WARP_LANES, mask, site)
        if place in self._asked:
            return 0
        self._asked.add(place)
        absent = {lane for lane in range(WARP_LANES)
                  if mask >> lane & 1 and self._aside.get((block, first + lane), 0) & conditions}  # fmt: skip
        if absent:
            self._absent.setdefault(line, absent)
        return 0

    def findings(self) -> list[Finding]:
        return [Finding("absent-lanes", f"lanes {sorted(lanes)} are named by an operation that they do not reach",
                        (Loc(self._file, line),)) for line, lanes in self._absent.items()]  # fmt: skip


def _divergence(module: Module, kernel: str, args: Sequence[Argument], externals: Mapping[str, External]
                ) -> tuple[Finding, ...]:  # fmt: skip
    for one in (LowerBlockCollectives(), ForToWhile(Level.THREADS), CheckDivergence()):
        module = one.apply(module)

    try:
        interpret(
            module, kernel, args, rendezvous=cuda_rendezvous(), externals={**externals, DIVERGENT_BARRIER: _diverged}
        )
    except _Diverged as error:
        return (replace(_FINDING, locs=(Loc(_file_of(module), error.line),)),)
    return ()


_FINDING = Finding("divergent-barrier", "__syncthreads() was reached by a part of the threads of a block only")


def _file_of(module: Module) -> str:
    """The source's name, from the first operation that has a place."""
    bodies = (function.body for function in module.functions if function.body is not None)
    return next((op.loc.file for body in bodies for op in walk(body) if getattr(op, "loc", None)), "")
