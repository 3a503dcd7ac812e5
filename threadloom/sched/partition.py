"""Enumerates the choices of tile sizes for a kernel on a device (the outer loop of the joint search).

What an axis is to the products it takes part in (rows, columns, depth) and the machine's granules decide which extents
make sense; spatial extents are chosen so that tiles come out even. Families that cannot fit are dropped before anything
is built, each with its reason.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from threadloom.machine.model import Device
from threadloom.sched.costs import in_blocks
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.stacked_rows import MOST_ABOVE, SHORT_ROWS, are_stacked, stacked_pairs
from threadloom.sched.whole_rows import whole_row_axes
from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import AxisKind, Dot, Load, Store
from threadloom.tile.uses import summed_axes

MOST_CORE_EXTENT = 1024  # larger tiles of a product leave every cache
PARTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256, 512, 1024)

LONG_ROW = 1024  # elements: 16 bytes of 16-bit ones for each of 128 threads
MOST_EXTENTS = 320  # combinations of extents: what can be bounded well within a second
MOST_WALKED = 32  # likewise, for each choice of an axis to walk and how far
GROUPED_TILES = 16  # rows of tiles visited together, so that both operands stay in L2 (measured on an H200: 8 to 16)


@dataclass(frozen=True, slots=True)
class AxisRole:
    """What a TILE axis is to the kernel's products and loads. `spatial`: it is cut by the grid, else by a stream."""

    axis: str
    extent: int
    spatial: bool
    row: bool
    column: bool
    depth: bool
    beside: bool  # a batch axis of a product, or further rows or columns: there is a product for each index of a tile
    narrowest_bytes: int  # of an element of the operands it is the depth of
    contiguous: bool  # the innermost dimension of the largest tensor that it indexes
    whole_rows: bool = False  # rows of a product that warps cannot share by columns
    long_rows: bool = False  # no loop cuts the rows along it, and they are long enough for all lanes of a worker
    above: str = ""  # the axis whose positions' rows may lie below one another (stacked_rows.py)
    stacks: bool = False  # it is such an axis

    @property
    def in_product(self) -> bool:
        return self.row or self.column or self.depth


def axis_roles(graph: TaskGraph, whole: dict[str, int]) -> list[AxisRole]:
    """Every TILE axis that a loop cuts, grid first."""
    dots = [op for t in graph.tasks for op in t.ops if isinstance(op, Dot)]
    inner, undivided = _contiguous_axes(graph, whole), whole_row_axes(graph)
    beside = {axis for d in dots for axis in _beside(d, whole)} - {axis for d in dots for axis in _main(d, whole)}
    above = stacked_pairs(graph)
    found: dict[str, AxisRole] = {}
    for loop in graph.loops:
        for loop_axis in loop.axes:
            name = loop_axis.axis.name
            if loop_axis.axis.kind is not AxisKind.TILE or name in found:
                continue
            over = [d for d in dots if name in d.over]
            widths = [max(1, d.a.type.dtype.bits // 8) for d in over]
            found[name] = AxisRole(
                axis=name,
                extent=whole[name],
                spatial=loop.id == 0,
                row=any(name in d.a.type.axes and name not in d.over and name not in d.b.type.axes for d in dots),
                column=any(name in d.b.type.axes and name not in d.over and name not in d.a.type.axes for d in dots),
                depth=bool(over),
                beside=name in beside,
                narrowest_bytes=min(widths, default=4),
                contiguous=name in inner,
                whole_rows=name in undivided,
                long_rows=_longest_row(graph, whole, name) >= LONG_ROW,
                above=above.get(name, ""),
                stacks=name in above.values(),
            )
    return list(found.values())


def _main(dot: Dot, whole: dict[str, int]) -> list[str]:
    """One axis each for the product's rows, columns and depth: the longest, of equals the last."""
    free = [tuple(x for x in v.type.axes if x not in dot.over) for v in (dot.a, dot.b)]
    own = [tuple(x for x in axes if x not in other) for axes, other in zip(free, reversed(free), strict=True)]
    return [max(reversed(axes), key=lambda x: whole[x]) for axes in (*own, dot.over) if axes]


def _beside(dot: Dot, whole: dict[str, int]) -> set[str]:
    return {*dot.a.type.axes, *dot.b.type.axes} - set(_main(dot, whole))


def _longest_row(graph: TaskGraph, whole: dict[str, int], axis: str) -> int:
    """Elements of the longest uncut axis beside `axis` in what is loaded."""
    cut = {a.axis.name for loop in graph.loops for a in loop.axes}
    loads = [op.result.type.axes for t in graph.tasks for op in t.ops if isinstance(op, Load)]
    return max((whole[a] for axes in loads if axis in axes for a in axes if a not in cut), default=0)


def _contiguous_axes(graph: TaskGraph, whole: dict[str, int]) -> set[str]:
    """Axes along which the most data they index lies in a row. A vector of one value per row does not make the rows
    contiguous: what decides how a tile is cut is the largest tensor, one of them where several are as large."""
    accesses = [op for t in graph.tasks for op in t.ops if isinstance(op, Load | Store) and op.subscripts]
    found: set[str] = set()
    largest: dict[str, int] = {}
    for op in accesses:
        used = {term.axis for subscript in op.subscripts for term in subscript.terms if term.axis}
        innermost = {term.axis for term in op.subscripts[-1].terms if term.axis}
        elements = math.prod(max(1, whole[a]) for a in used)
        for axis in used:
            if elements > largest.get(axis, 0):
                largest[axis] = elements
                found.discard(axis)
            if elements == largest[axis] and axis in innermost:
                found.add(axis)
    return found


@dataclass(frozen=True, slots=True)
class Cut:
    """A loop's axis of which each of `count` parts of the grid does its own granules of `granule` indices."""

    axis: str
    count: int
    granule: int


def largest_extents(roles: list[AxisRole], device: Device) -> dict[str, int]:
    """The largest tile of each axis."""
    return {role.axis: max(_options(role, device)) for role in roles}


def partitions(
    graph: TaskGraph, whole: dict[str, int], device: Device, smallest: bool = False, walk: AxisTile | None = None,
    cut: Cut | None = None, most: int = MOST_EXTENTS,
) -> Iterator[Partition]:
    """All partitions worth a look, in no particular order; with `smallest`, those with the smallest tiles that the
    units take, for kernels of which nothing else fits; `walk`: the axis that the graph walks; `cut`: the reduction that
    it does in parts; `most`: combinations of extents."""
    roles = axis_roles(graph, whole)
    order = tuple(a.axis.name for a in graph.loops[0].axes)
    if cut is not None:
        part = cut.granule * -(-whole[cut.axis] // (cut.granule * cut.count))
        roles = [replace(r, extent=min(r.extent, part)) if r.axis == cut.axis else r for r in roles]
    options = [_smallest(role, device) if smallest else _options(role, device) for role in roles]
    if cut is not None and device.arch != "cpu":  # no tile crosses from part to part
        options = [
            [s for s in sizes if cut.granule % s == 0] or sizes if role.axis == cut.axis else sizes
            for role, sizes in zip(roles, options, strict=True)
        ]
    most = most if walk is None and cut is None else min(most, MOST_WALKED)
    while math.prod(map(len, options)) > most:  # coarser along the axis with the most choices
        longest = max(range(len(options)), key=lambda i: len(options[i]))
        options[longest] = options[longest][::2]
    for extents in itertools.product(*options):
        if not _are_whole_rows(roles, extents, device):
            continue
        for split, workers in _splits(graph, whole, roles, extents, device):
            tiles = tuple(AxisTile(r.axis, e, e) for r, e in zip(roles, extents, strict=True))
            if split is not None:
                tiles = (split, *(t for t in tiles if t.axis != split.axis))
            group = GROUPED_TILES if device.arch != "cpu" and _is_plane(graph, roles) else 1
            walked = () if walk is None else (walk.axis,)
            tiles = tiles if walk is None else (*tiles, walk)
            splits = 1 if cut is None else cut.count
            persistent = not device.fact("one_tile_blocks", False)
            yield Partition(tiles, walked, order, group, splits, workers, persistent=persistent)


def _are_whole_rows(roles: list[AxisRole], extents: tuple[int, ...], device: Device) -> bool:
    """Whether rows along two axes, where there are such, are whole instructions of the unit."""
    at = {r.axis: e for r, e in zip(roles, extents, strict=True)}
    rows = int(device.fact("dot_rows", 64))
    pairs = [(at[r.axis], at[r.above]) for r in roles if r.above and device.fact("stacked_rows")]
    return all(are_stacked(*pair, rows) or (pair[0] % rows == 0 and pair[1] <= 4) for pair in pairs)


def _is_plane(graph: TaskGraph, roles: list[AxisRole]) -> bool:
    """Whether tiles of two axes may be visited in any order. Not where data says how many there are (groups,
    sequences): all tiles are numbered that there may be, and every sixteenth that there is, 16 x 132 tiles apart, would
    go to few multiprocessors (grouped products ran on half of an H200); row by row they lie side by side."""
    bounded = any(a.start is not None or a.stop is not None for a in graph.loops[0].axes)
    return len([r for r in roles if r.spatial]) == 2 and not bounded


def _up(count: int, granule: int) -> int:
    return -(-count // granule) * granule


def _options(role: AxisRole, device: Device) -> list[int]:
    """Extents for one axis, none larger than needed to hold the whole axis."""
    made = _core_options(role, device) if device.arch == "cpu" else _sm_options(role, device)
    return sorted(set(made))


def _smallest(role: AxisRole, device: Device) -> list[int]:
    """Extents below what is worth a look."""
    if role.beside:
        return [1]
    if role.spatial and role.row:
        return [_rows(role, device)]
    sizes = (8, 16) if role.column and not role.depth else (16, 32) if role.in_product else (1, 2, 4, 16)
    return [s for s in sizes if s <= max(sizes[0], role.extent)]


# ---------------------------------------------------------------- GPU


def _rows(role: AxisRole, device: Device) -> int:
    """The granule of an axis that gives rows of products."""
    rows = int(device.fact("dot_rows", 1))
    return max(rows, int(device.fact("whole_rows", 1))) if role.whole_rows else rows


def _sm_options(role: AxisRole, device: Device) -> list[int]:
    rows, columns = _rows(role, device), int(device.fact("dot_columns", 8))
    extent = max(1, role.extent)
    if role.stacks and device.fact("stacked_rows"):
        return [s for s in (1, 2, 4, 8, MOST_ABOVE) if s < 2 * extent]
    if role.beside:
        return [s for s in (1, 2, 4) if s < 2 * extent]
    if role.spatial and role.row:
        most = device.max_worker_roles * 2 if rows >= 64 else 16
        sizes = [rows * n for n in range(1, most + 1) if n <= 4 or n % 2 == 0]
        short = [s for s in SHORT_ROWS if role.above and s < 2 * extent and device.fact("stacked_rows")]
        return [*short, *(s for s in sizes if s < extent + rows)]
    if role.spatial and role.column:
        return [s for s in (*range(32, 257, 32), 16) if s < extent + 32] or [_up(extent, columns)]
    if role.depth and role.column:
        return [s for s in range(32, 257, 16) if s < extent + 16] or [_up(extent, columns)]
    if role.depth:
        line = 128 // role.narrowest_bytes  # a swizzled line of 128 bytes
        return [s for s in (line, 2 * line) if s < extent + line] or [max(16, _up(extent, 16))]
    if role.contiguous:
        return [s for s in (128, 256, 512, 1024) if s < 2 * extent] or [_up(extent, 32)]
    least = int(device.fact("worker_warps", 1)) if extent >= 4 * device.eu_count else 1  # a row for each warp
    if role.long_rows:  # warps share one
        if device.fact("one_tile_blocks"):  # measured: with two a block, registers let fewer rows be at work
            return [1]
        least = 1
    return [s for s in (1, 2, 4, 8, 16, 32, 64, 128, 256) if least <= s < 2 * extent]


def _splits(
    graph: TaskGraph, whole: dict[str, int], roles: list[AxisRole], extents: tuple[int, ...], device: Device
) -> Iterator[tuple[AxisTile | None, int]]:
    """(how the workers share an axis, number of workers); (None, 1) where one worker does all.

    Rows of a product come first; a whole axis of many columns (wide heads) is shared where an accumulator over all of
    it would not fit one worker's registers; without products any spatial axis will do.
    """
    yield None, 1
    if device.max_worker_roles == 1:
        return
    rows = int(device.fact("dot_rows", 64))
    products = any(r.in_product for r in roles)
    short = [e for r, e in zip(roles, extents, strict=True) if r.above and e < rows]
    for role, extent in zip(roles, extents, strict=True):
        if not role.spatial or (products and not role.row):
            continue
        if role.stacks:
            if not short:
                continue
            rows = max(1, rows // short[0])  # positions of the axis that make whole rows
        for workers in range(2, device.max_worker_roles + 1):
            share, rest = divmod(extent, workers)
            whole_warps = share % int(device.fact("worker_warps", 1)) == 0 or role.contiguous
            if rest == 0 and (whole_warps if not products else share % rows == 0 and share <= 2 * rows):
                yield AxisTile(role.axis, extent, share), workers
        break
    for axis in _wide_columns(graph, whole, rows):
        yield AxisTile(axis, whole[axis], whole[axis] // 2), 2


def _wide_columns(graph: TaskGraph, whole: dict[str, int], rows: int) -> list[str]:
    """Whole axes with at least 256 columns of a product, of which each of two workers gets a multiple of the unit's
    `rows` (they may become rows, and a part begins where a swizzled panel does). They may be the depth of another
    product, which every worker then does for itself."""
    found = []
    for axis in graph.kernel.axes:
        if axis.kind is AxisKind.WHOLE and whole[axis.name] >= 256 and whole[axis.name] % (2 * rows) == 0:
            dots = [op for t in graph.tasks for op in t.ops if isinstance(op, Dot)]
            free = [d for d in dots if axis.name in d.b.type.axes and axis.name not in d.a.type.axes]
            if free and not _stays_in_sums(graph, axis.name):
                found.append(axis.name)
    return found


def _stays_in_sums(graph: TaskGraph, axis: str) -> bool:
    """Whether a task that sums over the axis makes a tile that still has it."""
    made = {v for t in graph.tasks if any(axis in summed_axes(op) for op in t.ops) for v in t.writes}
    return any(made & {t.name, *t.values} and axis in t.type.axes for t in graph.tiles)


# ---------------------------------------------------------------- CPU


def _thinned(sizes: list[int], extent: int, block: int) -> list[int]:
    """Of sizes that differ by less than a quarter, the one that wastes least at the axis's end and in vectors."""

    def waste(size: int) -> tuple[int, int, int]:
        return -(-extent // size) * size - extent, size % block, -size

    kept: list[int] = []
    for size in sorted(set(sizes), key=waste):
        if all(size * 5 > other * 6 or other * 5 > size * 6 for other in kept):
            kept.append(size)
    return kept


def _in_whole_blocks(size: int, rows: int, extent: int, device: Device) -> int:
    """The size or one of the multiples of register blocks around it: the one for which least is computed, then the one
    that wastes least at the axis's end."""

    def waste(size: int) -> tuple[int, int]:
        whole, rest = divmod(extent, size)
        return whole * in_blocks(device, size) + in_blocks(device, rest), -(-extent // size) * size - extent

    return min((s for s in (size, _up(size, rows), size // rows * rows) if s), key=waste)


def _core_options(role: AxisRole, device: Device) -> list[int]:
    """Spatial axes are cut into equal parts of whole register blocks; streams into what the caches hold."""
    rows, vectors = int(device.fact("register_rows", 6)), int(device.fact("register_vectors", 2))
    block = vectors * int(device.fact("vector_bytes", 32)) // 4
    extent = max(1, role.extent)
    if role.spatial and role.in_product:
        granules = (block,) if role.column else (block, rows)  # rows may come to lie in vector lanes too
        least = 2 * block if extent > 2 * block else min(granules)
        made = [s for g in granules for p in PARTS if least <= (s := _up(-(-extent // p), g)) <= MOST_CORE_EXTENT]
        sizes = _thinned(made, extent, block) or [_up(extent, min(granules))]
        in_lanes = role.column or role.whole_rows
        return sizes if in_lanes else [_in_whole_blocks(size, rows, extent, device) for size in sizes]
    if role.spatial and role.contiguous:
        return [s for s in (512, 1024, 2048, 4096, 8192) if s < 2 * extent] or [extent]
    if role.spatial:
        return [s for s in (1, 2, 4, 8, 16, 32, 64) if s <= max(1, extent)]
    if role.column:
        return [s for s in (64, 96, 128, 192, 256, 384, 512) if s < extent + block] or [_up(extent, block)]
    if role.depth:
        return [-(-extent // -(-extent // s)) for s in (128, 256, 384, 512)]
    return [s for s in (256, 512, 1024, 2048, 4096) if s < 2 * extent] or [extent]
