"""Two workers that change parts of their tiles from one iteration to the next.

    before:  rows 0-63 of every head by worker 0, rows 64-127 by worker 1      a causal mask leaves worker 1 more to do
    after:   worker w does part (w + i) % 2 in iteration i of the loop over heads

Only where a grid axis is walked in a loop of its own (walk_axis.py) and nothing that workers make of their parts lives
from one iteration to the next. Decision `parts_in_turn`: the loop. What a mask leaves is not equal where tiles along
the split axis have other trip counts, so the plan is then one that goes from long to short tiles.
Source: ours; the hand-written ChunkScan gives each worker an upper and a lower block of rows.
"""

from __future__ import annotations

from threadloom.sched.lines import subtree
from threadloom.sched.ops import Partition
from threadloom.sched.placement import LOADS
from threadloom.task.ops import TaskGraph


def loop_of_turns(graph: TaskGraph, partition: Partition) -> int | None:
    """The loop whose iterations change parts; None where that is of no use, or not sound."""
    if partition.workers != 2 or not partition.longest_first or len(partition.sequential) != 1:
        return None
    if partition.cluster > 1 or partition.begins_ahead:
        return None
    split = {t.axis for t in partition.tiles if t.worker_extent < t.extent}
    grid = {a.axis.name for a in graph.loops[0].axes}
    walks = [loop.id for loop in graph.loops[1:] if loop.parent == 0 and _walks(graph, loop.id, partition.sequential)]
    if len(walks) != 1 or len(split) != 1 or not split <= grid:
        return None
    (walk,) = walks
    inside = subtree(graph, walk)
    loops = {t.name: t.loop for t in graph.tasks}
    for tile in graph.tiles:
        made = [t for t in tile.producers if graph.task(t).kind not in LOADS]
        if not split & set(tile.type.axes) or not made:
            continue
        outside = [t for t in (*tile.producers, *tile.consumers) if loops[t] not in inside]
        if outside or (tile.carried is not None and tile.carried not in inside - {walk}):
            return None
    return walk


def _walks(graph: TaskGraph, loop: int, sequential: tuple[str, ...]) -> bool:
    axes = next(n for n in graph.loops if n.id == loop).axes
    return tuple(a.axis.name for a in axes) == sequential
