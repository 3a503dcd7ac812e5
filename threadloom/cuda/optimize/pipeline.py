"""The optimisations of raised kernels, in order, with the reason for each place."""

from __future__ import annotations

from collections.abc import Collection

from threadloom.cuda.optimize.eliminate_barriers import EliminateBarriers
from threadloom.cuda.optimize.forward_stores import ForwardStores
from threadloom.cuda.optimize.hoist_invariant import HoistInvariant
from threadloom.cuda.optimize.order_loops import OrderLoops
from threadloom.cuda.optimize.rematerialize import Rematerialize
from threadloom.cuda.optimize.specialize import Specialize
from threadloom.cuda.optimize.specialize_launch import SpecializeLaunch
from threadloom.par.ops import Level
from threadloom.par.passes import Pass

PASSES: tuple[Pass, ...] = (
    SpecializeLaunch(),  # first: an extent that is a number needs no test by the next
    Specialize(),  # before the others, which work on the facts that these two state
    OrderLoops(),  # on those facts, too; the barriers it adds count for all that follows
    EliminateBarriers(),  # every barrier less widens the intervals that the others look at
    ForwardStores(),  # before hoisting: a store that is gone no longer stands in the way
    HoistInvariant(Level.THREADS),  # inner first, so that the same operation can climb on
    HoistInvariant(Level.BLOCKS),  # out of the launch
    Rematerialize(),  # last: what is computed again is then as short as it gets
)


def passes(without: Collection[str] = ()) -> tuple[Pass, ...]:
    """The pipeline, less the passes named in `without` (ablation)."""
    return tuple(one for one in PASSES if one.name not in without)
