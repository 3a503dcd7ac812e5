"""Inter-EU policy: what one choice of tile sizes costs over the whole machine.

Spreads the tiles of the grid over the EUs (waves for static, longest first for uneven tiles), adds the time of straight
parts and pipelined loops per tile, and takes the memory bound of the launch. Source: PipeThreader, section 5 (inter-EU
schedule); wave quantisation and bandwidth bounds are ours.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from threadloom.machine.model import Device
from threadloom.sched.fold import Modulo
from threadloom.sched.lines import inner_loops
from threadloom.sched.ops import Partition
from threadloom.sched.sizes import BoundScalars, Sizes
from threadloom.task.ops import Loop, TaskGraph
from threadloom.tile.ops import AxisKind


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid under one choice of tile sizes. `classes`: (number of tiles, trips per loop) of tiles that differ in
    trip counts only."""

    tiles: int
    classes: tuple[tuple[int, dict[int, int]], ...]

    @property
    def uneven(self) -> bool:
        return len(self.classes) > 1


def grid_of(graph: TaskGraph, sizes: Sizes, scalars: BoundScalars, most_positions: int = 64) -> Grid:
    """Numbers of tiles, grouped by trip counts. Only axes that bounds depend on are walked, and coarsely if long."""
    outer = graph.loops[0]
    counts = {a.axis.name: sizes.tiles_of(a.axis.name) for a in outer.axes}
    tiles = math.prod(counts.values())
    inner = [loop for loop in graph.loops if loop.id != outer.id]
    depends = frozenset().union(
        *(scalars.axes_of(v) for loop in inner for a in loop.axes for v in (a.start, a.stop) if v is not None)
    )
    walked = [a.axis.name for a in outer.axes if a.axis.name in depends]
    if not tiles:
        return Grid(0, ())
    per_position = tiles // max(1, math.prod(counts[a] for a in walked))
    found: dict[tuple[tuple[int, int], ...], int] = {}
    for steps in itertools.product(*(_steps(counts[a], most_positions) for a in walked)):
        position = {a: _index_range(a, step[0], sizes) for a, step in zip(walked, steps, strict=True)}
        trips = tuple(sorted((loop.id, trips_of(loop, sizes, scalars, position)) for loop in inner))
        found[trips] = found.get(trips, 0) + per_position * math.prod(step[1] for step in steps)
    return Grid(tiles, tuple((count, dict(trips)) for trips, count in found.items()))


def _steps(count: int, most: int) -> list[tuple[int, int]]:
    """(position, how many positions it stands for)."""
    stride = max(1, -(-count // most))
    return [(at, min(stride, count - at)) for at in range(0, count, stride)]


def _index_range(axis: str, tile: int, sizes: Sizes) -> tuple[int, int]:
    first = tile * sizes.extents[axis]
    return first, min(first + sizes.extents[axis], sizes.whole[axis])


def trips_of(loop: Loop, sizes: Sizes, scalars: BoundScalars, position: dict[str, tuple[int, int]]) -> int:
    count = 1
    for axis in loop.axes:
        low, high = scalars.range_of(axis, position, sizes.whole[axis.axis.name])
        count *= -(-(high - low) // max(1, sizes.extents[axis.axis.name]))
    return count


# ---------------------------------------------------------------- time


def tile_cycles(graph: TaskGraph, schedules: dict[int, Modulo], trips: dict[int, int], persistent: bool) -> float:
    """Cycles that one tile keeps its EU busy."""
    return _loop_cycles(graph, graph.loops[0], schedules, {**trips, 0: 1})


def _loop_cycles(graph: TaskGraph, loop: Loop, schedules: dict[int, Modulo], trips: dict[int, int]) -> float:
    made, count = schedules[loop.id], trips.get(loop.id, 1)
    if count <= 0:
        return 0.0
    own = made.length + (count - 1) * made.ii if made.problem.nodes else 0.0
    children = {other.id: other for other in graph.loops}
    return own + count * sum(_loop_cycles(graph, children[c], schedules, trips) for c in inner_loops(loop))


def launch_ns(
    graph: TaskGraph,
    device: Device,
    sizes: Sizes,
    partition: Partition,
    grid: Grid,
    schedules: dict[int, Modulo],
    moved_bytes: float,
) -> float:
    """Predicted time of the whole launch."""
    per_cycle = 1.0 / device.clock_ghz.value
    times = [(n, tile_cycles(graph, schedules, trips, partition.persistent)) for n, trips in grid.classes]
    busiest = spread(times, device.eu_count, dynamic=partition.longest_first)
    memory_ns = moved_bytes / device.dram_bytes_per_s.value * 1e9
    return max(busiest * per_cycle, memory_ns) + int(device.fact("launch_ns", 0))


def spread(times: list[tuple[int, float]], eus: int, dynamic: bool) -> float:
    """Cycles of the busiest EU. Equal tiles: waves. Uneven tiles, longest first: the mean plus part of the longest."""
    total = sum(n * t for n, t in times)
    count = sum(n for n, _ in times)
    if not count:
        return 0.0
    longest = max(t for _, t in times)
    if len(times) == 1:
        return -(-count // eus) * longest
    if dynamic:
        shortest = min(t for _, t in times)
        return max(total / eus + shortest / 2, longest)
    return max(-(-count // eus) * (total / count) * 1.15, longest)  # static order meets uneven tiles unluckily


def moved_bytes(graph: TaskGraph, whole: dict[str, int], dims: dict[str, int]) -> float:
    """Bytes that must cross the memory bus: every tensor once."""
    from threadloom.sched.sizes import dim_extent

    total = 0
    for tensor in graph.kernel.tensors:
        total += tensor.dtype.bytes_for(math.prod(dim_extent(d, dims) for d in tensor.dims))
    return float(total)


def grid_axes(graph: TaskGraph, kind: AxisKind | None = None) -> list[str]:
    return [a.axis.name for a in graph.loops[0].axes if kind is None or a.axis.kind is kind]
