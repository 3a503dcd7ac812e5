"""Inter-EU policy: what one choice of tile sizes costs over the whole machine.

Spreads the tiles of the grid over the EUs (waves for static, longest first for uneven tiles), adds the time of straight
parts and pipelined loops per tile, and takes the memory bound of the launch. Source: PipeThreader, section 5 (inter-EU
schedule); wave quantisation and bandwidth bounds are ours.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from threadloom.machine.model import Device
from threadloom.sched.fold import Modulo
from threadloom.sched.lines import inner_loops
from threadloom.sched.ops import Partition
from threadloom.sched.sizes import BoundScalars, Sizes, dim_extent
from threadloom.task.ops import Loop, TaskGraph
from threadloom.tile.ops import AxisKind, LoopAxis


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid under one choice of tile sizes. `classes`: (number of tiles, trips per loop) of tiles that differ in
    trip counts only; `parts`: the same, where a trip over a part of a tile counts as that part, on average; `shares`:
    (number of tiles, how much of a whole one each is) along all axes but the walked ones."""

    tiles: int
    classes: tuple[tuple[int, dict[int, int]], ...]
    walked: tuple[str, ...] = ()  # axes that trip counts depend on
    parts: tuple[tuple[int, dict[int, float]], ...] = ()
    shares: tuple[tuple[int, float], ...] = ((1, 1.0),)

    @property
    def uneven(self) -> bool:
        return len(self.classes) > 1


def grid_of(
    graph: TaskGraph,
    sizes: Sizes,
    scalars: BoundScalars,
    rounded: Mapping[str, int] | None = None,
    most_positions: int = 64,
    granule: int = 1,
) -> Grid:
    """Numbers of tiles, grouped by trip counts. Only axes that bounds depend on are walked, and coarsely if long.
    `rounded`: axis -> its number of tiles is a multiple of this; `granule`: a part of a tile is computed in so many."""
    outer = graph.loops[0]
    counts = {a.axis.name: _tiles_along(a, sizes, scalars) for a in outer.axes}
    for axis, multiple in (rounded or {}).items():
        counts[axis] = -(-counts[axis] // multiple) * multiple
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
    parts: dict[tuple[tuple[int, int], ...], dict[int, float]] = {}
    for steps in itertools.product(*(_steps(counts[a], most_positions) for a in walked)):
        position = {a: _index_range(a, step[0], sizes) for a, step in zip(walked, steps, strict=True)}
        trips = tuple(sorted((loop.id, trips_of(loop, sizes, scalars, position)) for loop in inner))
        weight = per_position * math.prod(step[1] for step in steps)
        found[trips] = found.get(trips, 0) + weight
        sums = parts.setdefault(trips, {})
        for loop in inner:
            sums[loop.id] = sums.get(loop.id, 0.0) + weight * trips_of(loop, sizes, scalars, position, parts=True)
    means = tuple((n, {loop: total / n for loop, total in parts[trips].items()}) for trips, n in found.items())
    classes = tuple((n, dict(trips)) for trips, n in found.items())
    return Grid(tiles, classes, tuple(walked), means, _shares(counts, sizes, walked, granule))


def _shares(counts: dict[str, int], sizes: Sizes, walked: list[str], granule: int) -> tuple[tuple[int, float], ...]:
    """The last tile of an axis may be a part of one, in whole granules."""
    found = {1.0: 1}
    for name, count in counts.items():
        if name in walked:
            continue
        rest = -(-(sizes.whole[name] - (count - 1) * sizes.extents[name]) // granule) * granule
        last = rest / sizes.extents[name] if 0 < rest < sizes.extents[name] else 1.0
        product: dict[float, int] = {}
        for share, n in found.items():
            product[share] = product.get(share, 0) + n * (count - 1)
            product[share * last] = product.get(share * last, 0) + n
        found = product
    return tuple((n, share) for share, n in found.items() if n)


def _tiles_along(axis: LoopAxis, sizes: Sizes, scalars: BoundScalars) -> int:
    """Tiles of a grid axis (of one sequence, where sequences are packed)."""
    if axis.start is None and axis.stop is None:
        return sizes.tiles_of(axis.axis.name)
    low, high = scalars.range_of(axis, {}, sizes.whole)
    return -(-(high - low) // max(1, sizes.extents[axis.axis.name]))


def _steps(count: int, most: int) -> list[tuple[int, int]]:
    """(position, how many positions it stands for)."""
    stride = max(1, -(-count // most))
    return [(at, min(stride, count - at)) for at in range(0, count, stride)]


def _index_range(axis: str, tile: int, sizes: Sizes) -> tuple[int, int]:
    first = tile * sizes.extents[axis]
    return first, min(first + sizes.extents[axis], sizes.whole[axis])


def trips_of(
    loop: Loop, sizes: Sizes, scalars: BoundScalars, position: dict[str, tuple[int, int]], parts: bool = False
) -> float:
    """Trips at a block position, a whole number; with `parts`, parts of a tile count as such."""
    count: float = 1
    for axis in loop.axes:
        if axis.axis.name in sizes.walked:
            count *= min(sizes.walked[axis.axis.name], sizes.whole[axis.axis.name])
            continue
        low, high = scalars.range_of(axis, position, sizes.whole)
        extent = max(1, sizes.extents[axis.axis.name])
        count *= (high - low) / extent if parts else -(-(high - low) // extent)
    return count


# ---------------------------------------------------------------- time


class TileTime:
    """Cycles that one tile keeps its EU busy, as a function of its trip counts."""

    def __init__(self, graph: TaskGraph, schedules: dict[int, Modulo]):
        self._loops = {loop.id: (loop.id, tuple(inner_loops(loop))) for loop in graph.loops}
        self._times = {k: (m.length, m.ii) if m.problem.nodes else (0, 0) for k, m in schedules.items()}
        self._root = graph.loops[0].id
        self._nodes = schedules[self._root].problem.nodes

    def cycles(self, trips: Mapping[int, float]) -> float:
        return self._of(self._root, {**trips, self._root: 1})

    def busiest_unit(self) -> float:
        """Cycles that the busiest unit of an EU works on what loop 0 does itself for a tile."""
        spent: dict[str, float] = {}
        for node in self._nodes:
            for use in node.uses:
                spent[use.resource] = spent.get(use.resource, 0.0) + use.cycles * use.demand
        return max((cycles for name, cycles in spent.items() if not name.startswith("role:")), default=0.0)

    def _of(self, loop: int, trips: Mapping[int, float]) -> float:
        count = trips.get(loop, 1)
        if count <= 0:
            return 0.0
        length, ii = self._times[loop]
        return length + (count - 1) * ii + count * sum(self._of(c, trips) for c in self._loops[loop][1])


def launch_ns(
    graph: TaskGraph,
    device: Device,
    partition: Partition,
    grid: Grid,
    schedules: dict[int, Modulo],
    moved_bytes: float,
) -> float:
    """Predicted time of the whole launch."""
    one = TileTime(graph, schedules)
    entering = int(device.fact("tile_cycles", 0))
    if device.arch == "cpu":  # a core does no more than there is
        each = sum(n for n, _ in grid.shares)
        times = [
            (n * count // each, share * one.cycles(trips) + entering)
            for n, trips in grid.parts for count, share in grid.shares
        ]  # fmt: skip
    else:
        times = [(n, one.cycles(trips) + entering) for n, trips in grid.classes]
    if device.fact("one_tile_blocks", False):  # blocks find the units idle until together they fill one
        least = int(device.fact("blocks_per_eu", 1)) * one.busiest_unit()
        times = [(n, max(cycles, least)) for n, cycles in times]
    busiest = spread(times, device.eu_count, dynamic=partition.longest_first or device.arch == "cpu")
    busiest += float(device.fact("core_spread", 0) or 0) * max((t for _, t in times), default=0.0)
    return launch_ns_of(device, busiest, moved_bytes)


def launch_ns_of(device: Device, busiest_cycles: float, moved_bytes: float) -> float:
    """From the cycles of the busiest EU and the bytes that cross the memory bus."""
    memory_ns = moved_bytes / device.dram_bytes_per_s.value * 1e9
    busy_ns = busiest_cycles / device.clock_ghz.value
    rest = 0.05 * min(busy_ns, memory_ns)  # overlap is never perfect; of two plans as fast as memory the calmer wins
    return max(busy_ns, memory_ns) + rest + int(device.fact("launch_ns", 0))


def spread(times: list[tuple[int, float]], eus: int, dynamic: bool) -> float:
    """Cycles of the busiest EU. Equal tiles: waves. Uneven tiles, longest first: EUs take them to and fro."""
    total = sum(n * t for n, t in times)
    count = sum(n for n, _ in times)
    if not count:
        return 0.0
    longest = max(t for _, t in times)
    if len(times) == 1:
        return -(-count // eus) * longest
    if dynamic:
        return max(_to_and_fro(times, eus), longest)
    return max(-(-count // eus) * (total / count) * 1.15, longest)  # static order meets uneven tiles unluckily


def _to_and_fro(times: list[tuple[int, float]], eus: int) -> float:
    """The most that an EU has to do: tiles from long to short, dealt out 0 1 .. n-1, n-1 .. 1 0, 0 1 .. and so on."""
    ends = list(accumulate(n for n, _ in sorted(times, key=lambda x: -x[1])))
    cycles = [t for _, t in sorted(times, key=lambda x: -x[1])]

    def at(position: int) -> float:
        return cycles[bisect_right(ends, position)] if position < ends[-1] else 0.0

    rounds = -(-ends[-1] // eus)
    changes = {e % (2 * eus) for e in ends}  # where along a to and fro an EU's tiles begin to be others
    first = {0, eus - 1, *(c if c < eus else 2 * eus - 1 - c for e in changes for c in (e - 1, e, e + 1) if c >= 0)}
    return max(
        sum(at(r * eus + (eu if r % 2 == 0 else eus - 1 - eu)) for r in range(rounds)) for eu in first if 0 <= eu < eus
    )


def moved_bytes(graph: TaskGraph, dims: dict[str, int]) -> float:
    """Bytes that must cross the memory bus: every tensor once."""
    total = 0
    for tensor in graph.kernel.tensors:
        total += tensor.dtype.bytes_for(math.prod(dim_extent(d, dims) for d in tensor.dims))
    return float(total)


def grid_axes(graph: TaskGraph, kind: AxisKind | None = None) -> list[str]:
    return [a.axis.name for a in graph.loops[0].axes if kind is None or a.axis.kind is kind]
