"""The passes of barrier lowering, in order, with the reason for each place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from threadloom.cuda.lower.block_collectives import LowerBlockCollectives
from threadloom.cuda.lower.check_divergence import CheckDivergence
from threadloom.cuda.lower.for_to_while import ForToWhile
from threadloom.cuda.lower.split import Split
from threadloom.cuda.lower.split_warps import SplitWarps
from threadloom.cuda.lower.volatile_sync import VolatileSync
from threadloom.cuda.lower.warp_collectives import LowerWarpCollectives
from threadloom.par.ops import Level, Module


class Lowering(Protocol):
    @property
    def name(self) -> str: ...

    def apply(self, module: Module) -> Module: ...


PASSES: tuple[Lowering, ...] = (
    VolatileSync(),  # first: the meetings it adds count for everything that follows
    LowerBlockCollectives(),  # leaves plain barriers, so before all that looks for barriers
    ForToWhile(Level.THREADS),  # then only ifs and whiles can diverge
    CheckDivergence(),  # its votes are barriers themselves, so before the split
    Split(Level.THREADS),  # outermost first: a warp never spans a barrier of its block
    SplitWarps(),  # only the segments that have warp operations pay for lanes
    LowerWarpCollectives(),  # leaves barriers among lanes
    ForToWhile(Level.LANES),  # as above, one level down; lanes may diverge, so nothing is checked
    Split(Level.LANES),  # no meeting of threads or lanes is left
    ForToWhile(Level.BLOCKS),  # a grid-wide barrier has become a barrier among blocks
    Split(Level.BLOCKS),  # last: it takes the loops over threads as they are
)


def lower(module: Module, after: Callable[[Lowering, Module], None] | None = None) -> Module:
    """`module` without barriers and collectives; `after` sees the module behind each pass (dumps, oracle)."""
    for step in PASSES:
        module = step.apply(module)
        if after is not None:
            after(step, module)
    return module
