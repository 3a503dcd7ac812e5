"""The checker's first engine: the interpreter of par on raised kernels.

Two runs see everything: the kernel as raised (races, bounds, uninitialised memory; what the barriers order), and the
kernel with its conditions around barriers voted on (check_divergence.py), which finds barriers that a part of the block
misses even where the others then end: CUDA forbids that, though a barrier does not wait for threads that have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from threadloom.cuda.check.rendezvous import cuda_rendezvous
from threadloom.cuda.lower.block_collectives import LowerBlockCollectives
from threadloom.cuda.lower.check_divergence import CheckDivergence
from threadloom.cuda.lower.for_to_while import ForToWhile
from threadloom.cuda.lower.runtime_calls import DIVERGENT_BARRIER
from threadloom.par.interp import Argument, External, interpret
from threadloom.par.interp_memory import Finding
from threadloom.par.ops import Level, Module
from threadloom.par.walk import walk
from threadloom.source import Loc


class _Diverged(Exception):
    """Ends the run: behind a divergent barrier nothing has a meaning."""

    def __init__(self, line: int):
        self.line = line


def check_interpreted(module: Module, kernel: str, args: Sequence[Argument], geometry: Sequence[int],
                      externals: Mapping[str, External] | None = None) -> tuple[Finding, ...]:  # fmt: skip
    """What a launch of the raised `kernel` does wrong; arrays are left as the launch leaves them."""
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    voted = _divergence(module, kernel, [*copies, *geometry], externals or {})
    outcome = interpret(module, kernel, [*args, *geometry], rendezvous=cuda_rendezvous(), externals=externals)
    found = tuple(one for one in outcome.findings if one.kind != "divergent-barrier")
    return (*found, *voted)


def _divergence(module: Module, kernel: str, args: Sequence[Argument], externals: Mapping[str, External]
                ) -> tuple[Finding, ...]:  # fmt: skip
    for one in (LowerBlockCollectives(), ForToWhile(Level.THREADS), CheckDivergence()):
        module = one.apply(module)

    def diverged(file: int, line: int) -> int:
        raise _Diverged(line)

    try:
        interpret(
            module, kernel, args, rendezvous=cuda_rendezvous(), externals={**externals, DIVERGENT_BARRIER: diverged}
        )
    except _Diverged as error:
        return (replace(_FINDING, locs=(Loc(_file_of(module), error.line),)),)
    return ()


_FINDING = Finding("divergent-barrier", "__syncthreads() was reached by a part of the threads of a block only")


def _file_of(module: Module) -> str:
    """The source's name, from the first operation that has a place."""
    bodies = (function.body for function in module.functions if function.body is not None)
    return next((op.loc.file for body in bodies for op in walk(body) if getattr(op, "loc", None)), "")
