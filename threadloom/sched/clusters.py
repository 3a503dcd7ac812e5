"""Clusters: EUs that take neighbouring tiles of the grid and load together, by multicast, what those tiles share.

`Partition.cluster` = C EUs get tiles that differ in their index along one axis, the one that varies fastest from tile
to tile (its number of tiles is rounded up to a multiple of C; what lies beyond the tensor loads zeros and stores
nothing). A load that does not depend on that axis is the same in all of them: each EU brings 1/C of its rows to all C.
So C times less is read from the second-level cache, and a slot is free only when the readers of all C EUs have
released it.

Offered where the copy engine, not another unit, bounds a loop. Measured on an H200 (machine/h200.py): products gain
nothing, since the second-level cache serves equal addresses at nearly the rate of shared memory. Clusters of four do
not fill that machine's groups of SMs, so only pairs are tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from threadloom.machine.model import Completion, Device
from threadloom.sched.ops import Partition
from threadloom.sched.sizes import Sizes
from threadloom.task.ops import Kind, STask, TaskGraph, Tile
from threadloom.tile.ops import Bound, Index, Load, Op, Value
from threadloom.tile.uses import operands

if TYPE_CHECKING:
    from threadloom.sched.pipeline import Problem

CLUSTERS = (2,)
BOUND_BY_LOADS = 0.9  # of a loop's interval is the copy engine's work: then fewer bytes may help
ROWS = 8  # of a swizzled panel that belong together


def cluster_axis(graph: TaskGraph, partition: Partition) -> str:
    """The grid axis whose index changes from tile to tile."""
    names = [a.axis.name for a in graph.loops[0].axes]
    order = [x for x in partition.order if x in names] + [x for x in names if x not in partition.order]
    grouped = partition.group > 1 and len(order) >= 2
    return order[-2] if grouped else order[-1] if order else ""


def rounded_tiles(graph: TaskGraph, partition: Partition) -> dict[str, int]:
    """Axis -> what its number of tiles is rounded up to a multiple of."""
    return {cluster_axis(graph, partition): partition.cluster} if partition.cluster > 1 else {}


def clusters_worth_trying(problems: Mapping[int, Problem], bounds: Mapping[int, Mapping[str, int]]) -> bool:
    """Whether the copy engine bounds a loop."""
    for loop, problem in problems.items():
        engines = {n.seu.name for n in problem.nodes if n.seu.completion is Completion.MBARRIER}
        busy = max((bounds[loop].get(f"resource:{name}", 0) for name in engines), default=0)
        if loop != 0 and busy >= BOUND_BY_LOADS * max(bounds[loop].values(), default=0):
            return True
    return False


def cluster_sizes(device: Device, graph: TaskGraph, partition: Partition, sizes: Sizes) -> Iterator[int]:
    """Clusters that the device can form and the grid fill."""
    most = int(device.fact("max_cluster", 1))
    if most < 2 or int(device.fact("blocks_per_eu", 1)) > 1 or partition.splits > 1 or partition.sequential:
        return
    tiles = sizes.tiles_of(cluster_axis(graph, partition)) if graph.loops[0].axes else 1
    for count in CLUSTERS:
        if count <= min(most, tiles) and device.eu_count % count == 0 and partition.group % count in (0, 1):
            yield count


def shared_tiles(graph: TaskGraph, partition: Partition, sizes: Sizes, engine_loads: frozenset[str]) -> frozenset[str]:
    """Tiles that the EUs of a cluster load together; `engine_loads`: tasks that the copy engine does."""
    axis = cluster_axis(graph, partition)
    behind = _Behind(graph)
    bounds = [v for loop in graph.loops for a in loop.axes for v in (a.start, a.stop) if v is not None]
    ragged = any(a.start is not None or a.stop is not None for a in graph.loops[0].axes)
    if ragged or any(axis in behind.axes(v) for v in bounds):
        return frozenset()  # EUs of a cluster would run a loop, or pass over a tile, differently
    guarded = {g.task for g in graph.guards}
    tasks = {t.name: t for t in graph.tasks}
    return frozenset(
        tile.name
        for tile in graph.tiles
        if tile.carried is None and len(tile.producers) == 1 and tile.producers[0] in engine_loads - guarded
        and tasks[tile.producers[0]].loop != 0
        and _is_common(tasks[tile.producers[0]], tile, axis, behind, partition.cluster, sizes)
    )  # fmt: skip


def _is_common(task: STask, tile: Tile, axis: str, behind: _Behind, cluster: int, sizes: Sizes) -> bool:
    loads = [op for op in task.ops if isinstance(op, Load)]
    if task.kind is not Kind.LOAD or len(loads) != 1 or len(tile.type.axes) < 2:
        return False
    op = loads[0]
    terms = [t for s in op.subscripts for t in s.terms]
    if any(t.axis == axis or (t.value is not None and axis in behind.axes(t.value)) for t in terms):
        return False
    column = next((t.axis for t in op.subscripts[-1].terms if t.axis in tile.type.axes), None)
    rows = [a for a in tile.type.axes if a != column]
    inner = math.prod(sizes.extents[a] for a in rows[1:])
    return column is not None and sizes.extents[rows[0]] % cluster == 0 and (
        sizes.extents[rows[0]] // cluster * inner % ROWS == 0
    )  # fmt: skip


class _Behind:
    """Grid axes whose position a rank-0 value depends on."""

    def __init__(self, graph: TaskGraph):
        self._ops: dict[str, Op] = {o.result.name: o for t in graph.tasks for o in t.ops if hasattr(o, "result")}
        self._all = frozenset(a.axis.name for a in graph.loops[0].axes)
        self._free = {s.name for s in graph.kernel.scalars}

    def axes(self, value: Value) -> frozenset[str]:
        if value.name in self._free:
            return frozenset()
        op = self._ops.get(value.name)
        match op:
            case None:
                return self._all  # carried by a loop: it may depend on anything
            case Index() | Bound():
                return frozenset({op.axis})
            case Load():
                named = frozenset(t.axis for s in op.subscripts for t in s.terms if t.axis is not None)
                return named.union(*(self.axes(v) for v in operands(op)))
        return frozenset().union(*(self.axes(v) for v in operands(op)))
