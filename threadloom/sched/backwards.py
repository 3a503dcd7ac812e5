"""Loops that may go from the last tile to the first (`Partition.backwards`).

    before:  tiles 0, 1 ... n - 1      those that a causal mask cuts come last: beside nothing, in code of their own
    after:   tiles n - 1 ... 1, 0      they come first, in the prologue, and all passes of the steady state are alike

Right where all that a loop carries combines in any order (`combinable.py`): results then differ as those of other tiles
do. Of use where the loop ends at a bound of its own. The numbers of instances, and all that the checker proves, are as
before: only the place of instance i is that of tile n - 1 - i. Source: FlashAttention walks keys so; the rule is ours.
"""

from __future__ import annotations

from functools import lru_cache

from threadloom.sched.combinable import NotCombinable, rules_of
from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import Const, Grid, Stream
from threadloom.tile.uses import walk


@lru_cache(maxsize=64)
def backwards_loops(graph: TaskGraph) -> frozenset[int]:
    """The loops of `graph` that may go backwards and end at a bound."""
    ops = list(walk(graph.kernel.body))
    streams, loops = [op for op in ops if isinstance(op, Stream)], graph.loops[1:]
    alike = [tuple(a.axis.name for a in x.axes) for x in streams] == [tuple(a.axis.name for a in x.axes) for x in loops]
    if not alike or any(loop.like is not None for loop in loops):
        return frozenset()  # scheduling made loops of its own
    constants = {op.result.name: float(op.number) for op in ops if isinstance(op, Const)}
    found = set()
    for loop, stream in zip(loops, streams, strict=True):
        bounded = len(loop.axes) == 1 and loop.axes[0].stop is not None
        if bounded and loop.carried and _combines(stream, constants):
            found.add(loop.id)
    return frozenset(found)


def _combines(stream: Stream, constants: dict[str, float]) -> bool:
    try:
        rules_of(stream, constants)
    except NotCombinable:
        return False
    return not any(isinstance(op, Grid) for op in walk(stream.body))
