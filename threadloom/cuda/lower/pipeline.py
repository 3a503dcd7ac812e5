"""The passes of barrier lowering, in order, with the reason for each place."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from threadloom.cuda import launch_effects, own_elements
from threadloom.cuda.lower.block_collectives import LowerBlockCollectives
from threadloom.cuda.lower.check_divergence import CheckDivergence
from threadloom.cuda.lower.drop_declarations import DropDeclarations
from threadloom.cuda.lower.for_to_while import ForToWhile
from threadloom.cuda.lower.hide_masks import HideMasks
from threadloom.cuda.lower.jam_rows import JamRows
from threadloom.cuda.lower.merge_instances import MergeInstances
from threadloom.cuda.lower.move_barriers import MoveBarriers
from threadloom.cuda.lower.outline_loops import OutlineLoops
from threadloom.cuda.lower.peel_rows import PeelRows
from threadloom.cuda.lower.prefetch_blocks import PrefetchBlocks
from threadloom.cuda.lower.split import Split
from threadloom.cuda.lower.split_warps import SplitWarps
from threadloom.cuda.lower.volatile_sync import VolatileSync
from threadloom.cuda.lower.warp_collectives import LowerWarpCollectives
from threadloom.cuda.lower.watch_waits import WatchWaits
from threadloom.cuda.lower.wrap_shared import WrapShared
from threadloom.cuda.optimize import pipeline as optimize
from threadloom.cuda.optimize.align_shares import AlignShares
from threadloom.cuda.optimize.collapse import Collapse
from threadloom.cuda.optimize.order_loops import OrderLoops
from threadloom.cuda.optimize.raise_affine import RaiseAffine
from threadloom.cuda.optimize.serialize_inner import ForkInner, SerializeInner
from threadloom.cuda.vectorize.carry_accumulators import CarryAccumulators
from threadloom.cuda.vectorize.fuse_products import FuseProducts
from threadloom.cuda.vectorize.hoist_guarded import HoistGuarded
from threadloom.cuda.vectorize.narrow_threads import NarrowThreads
from threadloom.cuda.vectorize.prune_exits import PruneExits
from threadloom.cuda.vectorize.skip_idle import SkipIdle
from threadloom.cuda.vectorize.stride_threads import StrideThreads
from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads
from threadloom.par.canonicalize import Canonicalize
from threadloom.par.ops import Level, Module
from threadloom.par.passes import Hook, Pass, Result, run_passes

PASSES: tuple[Pass, ...] = (
    VolatileSync(),  # first: the meetings it adds count for everything that follows
    LowerBlockCollectives(),  # leaves plain barriers, so before all that looks for barriers
    ForToWhile(Level.THREADS),  # then only ifs and whiles can diverge
    CheckDivergence(),  # its votes are barriers themselves, so before the split
    MoveBarriers(),  # every barrier that there will be is there, and the split's costs are those that it will have
    Split(Level.THREADS),  # outermost first: a warp never spans a barrier of its block
    SplitWarps(),  # only the segments that have warp operations pay for lanes
    LowerWarpCollectives(),  # leaves barriers among lanes
    ForToWhile(Level.LANES),  # as above, one level down; lanes may diverge, so nothing is checked
    Split(Level.LANES),  # no meeting of threads or lanes is left
    ForToWhile(Level.BLOCKS),  # a grid-wide barrier has become a barrier among blocks
    Split(Level.BLOCKS),  # it takes the loops over threads as they are
    PrefetchBlocks(),  # while loops over threads still have all threads of a block, guards and all
    AlignShares(),  # while addresses are those of single threads
    Collapse(),  # on whole loops over threads, and when it is seen how much there is in them
    OutlineLoops(),  # no barrier is left between loops; before vectors, so that equal loops are vectorised once
    NarrowThreads(),  # on the final loops over threads; ranges of rows come before rows are split
    StrideThreads(),  # thins out the ranges that it leaves
    CarryAccumulators(),  # what it leaves in registers is what rows are jammed for
    RaiseAffine(),  # past the bounds that are loaded once now, and before rows are jammed by what loops count
    PeelRows(),  # on the final loops over threads: rows are split where no barrier can come between
    JamRows(),  # on the rows between the edges, and before their threads become lanes
    PruneExits(),  # lanes that stay in a loop then agree about its counters
    HoistGuarded(),  # past the exits that are constants now, and before masks stand in the way
    VectorizeThreads(),  # on whole rows: a range of a few threads fills no vector
    SkipIdle(),  # on what vectors were no good for
    FuseProducts(),  # when loads and sums are those of vectors
    SerializeInner(),  # what loops over threads have become
    WatchWaits(),  # when no pass looks into loops any more
    DropDeclarations(),  # nothing calls them any more
    HideMasks(),  # for LLVM only: last, so that no pass of ours has to see through it
)

# Of the above; the others are needed.
_FOR_SPEED = {
    "move-barriers", "prefetch-blocks", "align-shares", "collapse", "narrow-threads",
    "stride-threads", "carry-accumulators", "raise-affine", "peel-rows", "jam-rows", "prune-exits", "hoist-guarded",
    "vectorize-threads", "skip-idle", "fuse-products", "serialize-inner",
}  # fmt: skip
MINIMUM_CUT = "minimum-cut"  # no pass: whether the splits compute values again or keep all that cross

# What `loom cc --without=` may leave out.
OPTIONAL: tuple[str, ...] = (
    MergeInstances().name,  # for quick compiles
    *(one.name for one in optimize.PASSES if not isinstance(one, OrderLoops)),  # which is not for speed
    *(one.name for one in PASSES if one.name in _FOR_SPEED),
    MINIMUM_CUT,
    launch_effects.NAME,  # no passes over kernels: how their launches follow one another
    own_elements.NAME,
)


def lower(
    module: Module,
    dump_folder: Path | None = None,
    hook: Hook | None = None,
    without: Collection[str] = (),
    check: bool = False,
    debug: bool = False,
) -> Result:
    """`module` optimised (less the passes named in `without`), then without barriers and collectives; dumps and hooks
    as in par/passes.py. `check`: not optimised, but every access watched. `debug`: nothing is optimised."""
    from threadloom.cuda.check.check_ahead import CheckAhead
    from threadloom.cuda.check.instrument import Instrument
    from threadloom.cuda.check.watch_lanes import WatchLanes

    # Folded after: reads that nobody uses are watched, and a barrier that no thread can reach does not diverge.
    first = (WatchLanes(), Instrument(), Canonicalize()) if check else (MergeInstances(), *optimize.PASSES)
    if debug:
        without = {*without, *_FOR_SPEED - {SerializeInner().name}, MergeInstances().name, OutlineLoops().name,
                   *(one.name for one in optimize.PASSES if not isinstance(one, OrderLoops))}  # fmt: skip
    last: list[Pass] = []
    for one in PASSES:
        last.append(one)
        if check and isinstance(one, RaiseAffine):
            last.append(CheckAhead())  # on narrowed loops that count, before rows are split and threads become lanes
    steps = (WrapShared(), *first, *last)  # what addresses mean comes before all that looks at them
    instead = {SerializeInner().name: ForkInner()}
    steps = tuple(instead.get(one.name) if one.name in without else one for one in steps)
    steps = tuple(one for one in steps if one is not None)
    if MINIMUM_CUT in without:
        steps = tuple(replace(one, minimum=False) if isinstance(one, Split) else one for one in steps)
    return run_passes(module, steps, dump_folder=dump_folder, hook=hook, verify_each=hook is not None)
