"""Places every sTask on a specialised unit of a role, and every tile in a memory, for one choice of tile sizes.

before: a TaskGraph and a Partition. after: a Placement: (task -> unit, method, roles) and (tile -> space, layout,
bytes of one slot). Needs a machine model; names no operator. Source: PipeThreader, section 4 (vDevice, EU, sEU).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from threadloom.errors import CompileError, slug
from threadloom.machine.model import SEU, Completion, Device
from threadloom.sched.boxes import has_rows, in_whole_tiles
from threadloom.sched.clusters import shared_tiles
from threadloom.sched.ops import Partition, Role
from threadloom.sched.sizes import Sizes
from threadloom.sched.whole_rows import whole_row_axes
from threadloom.sched.worker_scalars import known_to_workers
from threadloom.task.ops import Kind, Method, STask, TaskGraph, Tile
from threadloom.tile.ops import Cast, Dim, Dot, Load, Map, Reduce, Scan, Store, Subscript
from threadloom.tile.uses import operands, summed_axes

NO_UNIT = slug("no-unit-for-task", "no specialised unit of the device can run a task of the kernel")

PIECE_BYTES = 16  # of one access of a thread
LOADS = (Kind.LOAD, Kind.GATHER)
STORES = (Kind.STORE, Kind.ATOMIC)


@dataclass(frozen=True, slots=True)
class Unit:
    """Where and how a task runs. `split`: each role does its share of the task."""

    seu: SEU
    method: Method
    roles: tuple[str, ...]
    split: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tile lives. `shared`: one copy for all roles of the EU; else each role holds its own (its share).
    `kept_slots`: slots that hold what one run of its loop makes, for another loop to go through again (0: not kept).
    `multicast`: EUs that load it together."""

    tile: str
    space: str
    layout: str
    bytes_per_slot: int
    shared: bool
    carried: bool
    most_slots: int = 0  # 0: as many as the memory holds
    kept_slots: int = 0
    multicast: int = 1

    @property
    def least_slots(self) -> int:
        return max(1, self.kept_slots)


@dataclass(frozen=True, slots=True)
class Placement:
    roles: tuple[Role, ...]
    units: dict[str, Unit]
    places: dict[str, Place]  # tiles of rank 0 have none


def place(
    graph: TaskGraph, partition: Partition, sizes: Sizes, device: Device, strides_ok: dict[str, bool]
) -> Placement:
    """`strides_ok`: tensor -> its base and strides are multiples of what a bulk copy needs."""
    roles = roles_of(device, partition.workers)
    workers = tuple(r.name for r in roles if r.kind != "producer")
    units = {t.name: _unit(t, graph, device, roles, workers, sizes, strides_ok) for t in graph.tasks}
    if copy_engine(device) is not None and device.arch != "cpu":
        roles = _fed_by_threads(graph, units, roles, device)
    places: dict[str, Place] = {}
    free = {m.name: int(m.capacity_bytes.value) for m in device.memories}
    loop_of = {t.name: t.loop for t in graph.tasks}
    for tile in sorted(graph.tiles, key=lambda t: _use_rank(t, loop_of)):
        if tile.type.axes:
            places[tile.name] = _place(tile, graph, units, sizes, device, free)
    if partition.cluster > 1:
        engine = frozenset(t for t, u in units.items() if u.seu.completion is Completion.MBARRIER)
        for name in shared_tiles(graph, partition, sizes, engine):
            if name in places and places[name].shared:
                places[name] = replace(places[name], multicast=partition.cluster)
    return Placement(roles, units, places)


def _use_rank(tile: Tile, loop_of: dict[str, int]) -> int:
    """Which tiles deserve near memory first: those made anew in every iteration, then carried ones, then the rest."""
    if tile.carried is not None:
        return 1
    return 0 if any(loop_of[t] != 0 for t in tile.producers) else 2


def roles_of(device: Device, workers: int) -> tuple[Role, ...]:
    """One core's thread; or worker roles, with a producer where the device has a copy engine of its own."""
    if device.arch == "cpu":
        return (Role("core", "core"),)
    warps = int(device.fact("worker_warps", 4))
    registers = int(device.fact(f"worker_regs_{workers}", 0))
    made = tuple(Role(f"worker{w}", "worker", warps, registers) for w in range(workers))
    if not copy_engine(device):
        return made
    producer_warps = int(device.fact("producer_warps", 1))
    registers = int(device.fact(f"producer_regs_{workers}", device.fact("producer_regs", 0)))
    return (Role("producer", "producer", producer_warps, registers), *made)


def _fed_by_threads(
    graph: TaskGraph, units: dict[str, Unit], roles: tuple[Role, ...], device: Device
) -> tuple[Role, ...]:
    """Give the producer's threads the loads into products that the copy engine cannot do, and what only these need
    (indices of a gather); `units` is changed."""
    if all(units[t.name].seu.is_async for t in graph.tasks if t.kind in LOADS):
        return roles
    mine = _of_producer(graph, units, device)
    if not mine:
        return roles
    lsu = next((u for u in device.seus if Method.LOAD_STORE in u.methods), None)
    for name in mine:
        seu, method = units[name].seu, units[name].method
        if seu.is_async and lsu is not None:
            seu, method = lsu, Method.LOAD_STORE
        units[name] = Unit(seu, method, (roles[0].name,), split=False)
    return _with_wide_producer(roles, device)


def _of_producer(graph: TaskGraph, units: dict[str, Unit], device: Device) -> set[str]:
    """Loads into products by threads, then, again and again, the loads and vector tasks that only such ones read."""
    readers = {t.name: [r for r in graph.tasks if set(r.reads) & set(t.writes)] for t in graph.tasks}
    known = known_to_workers(graph)
    found: set[str] = set()
    for t in graph.tasks:
        if t.kind in LOADS and not units[t.name].seu.is_async and any(r.kind is Kind.DOT for r in readers[t.name]):
            if t.name in known:
                raise CompileError(
                    NO_UNIT,
                    f"no unit of {device.name} can run {t.name}",
                    why="where it loads is computed of tiles, which the threads that fill operands of products do not "
                    "have",
                    try_="read it from a tensor, or compute it in a kernel of its own",
                    loc=t.loc,
                )
            found.add(t.name)
    while True:
        more = {
            t.name
            for t in graph.tasks
            if t.kind in (*LOADS, Kind.VECTOR) and readers[t.name] and {r.name for r in readers[t.name]} <= found
        }
        if more <= found:
            return found
        found |= more


def _with_wide_producer(roles: tuple[Role, ...], device: Device) -> tuple[Role, ...]:
    """Threads that compute addresses need more registers than one that feeds a copy engine; workers give them."""
    producer, *workers = roles
    total = int(device.fact("registers_per_thread_row", 512))
    total = total // len(roles) // 8 * 8 * len(roles)  # what a block begins with, in eights for each thread
    left = (total - sum(r.registers for r in workers)) // 8 * 8
    wide = max(int(device.fact("wide_producer_regs", 0)), min(left, int(device.fact("most_producer_regs", 0))))
    share = (total - wide) // max(1, len(workers)) // 8 * 8
    return (replace(producer, registers=wide), *(replace(r, registers=min(r.registers, share)) for r in workers))


def copy_engine(device: Device) -> SEU | None:
    """The unit whose copies any role can wait for by a memory barrier; a role of its own feeds it."""
    return next((u for u in device.seus if u.is_async and u.completion is Completion.MBARRIER), None)


# ---------------------------------------------------------------- units

_LOAD_ORDER = (Method.BULK_COPY, Method.ASYNC_COPY, Method.PACK, Method.LOAD_STORE)


def _unit(
    task: STask,
    graph: TaskGraph,
    device: Device,
    roles: tuple[Role, ...],
    workers: tuple[str, ...],
    sizes: Sizes,
    strides_ok: dict[str, bool],
) -> Unit:
    seu, method = _choose(task, graph, device, sizes, strides_ok)
    if seu.completion is Completion.MBARRIER and task.kind in LOADS:
        return Unit(seu, method, (roles[0].name,), split=False)
    if task.kind is Kind.SCALAR:
        return Unit(seu, method, tuple(r.name for r in roles), split=False)
    return Unit(seu, method, workers, split=sizes.split != "" and _is_shared_out(task, sizes.split))


def _is_shared_out(task: STask, axis: str) -> bool:
    """Whether each worker does its part of the task along `axis`: not one that has nothing to do with the axis, nor one
    that sums over it, which each does for itself."""
    if any(axis in summed_axes(op) for op in task.ops):
        return False
    return axis in task.axes or any(axis in op.result.type.axes for op in task.ops if hasattr(op, "result"))


def _choose(
    task: STask, graph: TaskGraph, device: Device, sizes: Sizes, strides_ok: dict[str, bool]
) -> tuple[SEU, Method]:
    found: list[tuple[float, SEU, Method]] = []
    for seu in device.seus:
        for method in seu.methods:
            if method in task.methods and (score := _score(task, seu, method, graph, sizes, strides_ok, device)) > 0:
                found.append((score, seu, method))
    if not found:
        raise CompileError(
            NO_UNIT,
            f"no unit of {device.name} can run {task.name} ({task.kind}: {', '.join(task.methods)})",
            why=f"its units offer {', '.join(f'{u.name}: ' + '/'.join(u.methods) for u in device.seus)}",
            try_="another element type or another device",
            loc=task.loc,
        )
    _, seu, method = max(found, key=lambda f: f[0])
    return seu, method


def _score(
    task: STask,
    seu: SEU,
    method: Method,
    graph: TaskGraph,
    sizes: Sizes,
    strides_ok: dict[str, bool],
    device: Device,
) -> float:
    """How good a way `seu` by `method` is for the task; 0 where it cannot."""
    match task.kind:
        case Kind.LOAD | Kind.GATHER:
            if method not in _LOAD_ORDER or not (seu.rate("bytes.load") or seu.rate("bytes.pack")):
                return 0.0
            loads = [o for o in task.ops if isinstance(o, Load)]
            if seu.completion is Completion.MBARRIER and device.arch != "cpu" and task.name in known_to_workers(graph):
                return 0.0  # the role that feeds the copy engine does not know them
            if method is Method.ASYNC_COPY and task.kind is Kind.GATHER and not _into_product(task, graph):
                return 0.0  # straight into the registers of who has the indices
            if method is Method.BULK_COPY and not all(
                strides_ok.get(o.tensor, True) and has_rows(o, graph, sizes) and _has_rank(o, device) for o in loads
            ):
                return 0.0
            if seu.is_async and any(o.result.type.dtype.bits < 8 for o in loads) and not (
                seu.completion is Completion.MBARRIER and _becomes_rows(task, graph, device)
            ):
                return 0.0  # two elements share a byte: threads take them apart
            if method is Method.PACK and not wants_panels(task, graph, sizes, device):
                return 0.5
            return 10.0 - _LOAD_ORDER.index(method)
        case Kind.STORE | Kind.ATOMIC:
            if not seu.rate("bytes.store"):
                return 0.0
            if method is Method.BULK_COPY:
                fits = all(_has_rank(o, device) for o in task.ops if isinstance(o, Store))
                return 2.0 if fits and bulk_storable(task, graph, strides_ok, sizes) else 0.0
            return 1.0 if method is Method.LOAD_STORE else 0.0
        case Kind.DOT:
            rates = [seu.rate(f"mac.{o.a.type.dtype.name}") for o in task.ops if isinstance(o, Dot)]
            return 0.0 if None in rates else min(rates)
        case _:
            return 1.0


def _into_product(task: STask, graph: TaskGraph) -> bool:
    return any(t.kind is Kind.DOT and {*t.reads} & {*task.writes} for t in graph.tasks)


def _becomes_rows(load: STask, graph: TaskGraph, device: Device) -> bool:
    """Whether all that reads the loaded tile makes rows of a product of it in registers. A worker's threads want them
    there in pieces, so they read them from shared memory; for other uses they load whole words themselves."""
    if "reg" not in str(device.fact("dot_a_space", "")).split():
        return False
    users = [t for t in graph.tasks if {*t.reads} & {*load.writes}]
    made = [t for user in users for t in graph.tasks if {*t.reads} & {*user.writes}]
    dots = [(o, t) for t in made for o in t.ops if isinstance(o, Dot)]
    rows = {o.a.name for o, _ in dots}
    vector = all(t.kind is Kind.VECTOR and {*t.writes} <= rows for t in users)
    return bool(users) and vector and all(t.kind is Kind.DOT for t in made)


def _has_rank(op: Load | Store, device: Device) -> bool:
    """Whether a copy engine can describe the tensor."""
    return len(op.subscripts) <= int(device.fact("bulk_copy_rank", len(op.subscripts)))


def bulk_storable(task: STask, graph: TaskGraph, strides_ok: dict[str, bool], sizes: Sizes) -> bool:
    """Whether a store may be a bulk copy of a 16-bit tile of two axes, or three: such a copy cuts at the tensor's edges
    only, so the tile may not end elsewhere, and each axis stands alone in one dimension."""
    if task.kind is not Kind.STORE or any(g.task == task.name for g in graph.guards):
        return False
    if not any(t.kind is Kind.DOT for t in graph.tasks):  # rows of plain vector code leave in whole lines anyway
        return False
    for op in task.ops:
        axes = op.value.type.axes
        if not strides_ok.get(op.tensor, True) or len(axes) not in (2, 3) or op.value.type.dtype.bits != 16:
            return False
        if not has_rows(op, graph, sizes):
            return False
        dims = next(t.dims for t in graph.kernel.tensors if t.name == op.tensor)
        for s, dim in zip(op.subscripts, dims, strict=True):
            tiled = [t for t in s.terms if t.axis in axes]
            computed = any(t.value is not None and t.value.type.axes for t in s.terms)
            if computed or len(tiled) > 1 or any(t.coefficient != 1 for t in tiled):
                return False
            if tiled and is_bounded(tiled[0].axis, graph):
                return False
            axis = tiled[0].axis if tiled else ""
            if axis and not (_whole_tiles(axis, sizes) or ends_with(s, dim, axis, sizes.extents[axis], graph)):
                return False
    return True


def is_bounded(axis: str, graph: TaskGraph) -> bool:
    """Whether a loop cuts `axis` between bounds of its own: its last tile may then end anywhere."""
    return any(a.axis.name == axis and (a.start, a.stop) != (None, None) for loop in graph.loops for a in loop.axes)


def ends_with(subscript: Subscript, dim: Dim, axis: str, extent: int, graph: TaskGraph) -> bool:
    """Whether positions of a tile of `extent` beyond the end of `axis` lie outside of the tensor too."""
    own = next(a.dim for a in graph.kernel.axes if a.name == axis)
    ends = not is_bounded(axis, graph) or in_whole_tiles(axis, extent, graph)
    return len(subscript.terms) == 1 and not subscript.offset and own == dim and ends


def _whole_tiles(axis: str, sizes: Sizes) -> bool:
    """Whether the axis is cut into tiles without a rest, each of whole rows of a product (64) or boxes (16)."""
    return sizes.whole[axis] % sizes.extents[axis] == 0 and sizes.extent(axis, share=True) % 64 == 0


# ---------------------------------------------------------------- tiles


def consumers_of(tile: Tile, graph: TaskGraph) -> list[STask]:
    return [t for t in graph.tasks if t.name in tile.consumers]


def operand_of(value: str, task: STask, split: str) -> str:
    """ "row", "column" or "" : what operand of a product of `task` the value is. The row operand is the one with the
    workers' axis, operand a where workers split none."""
    for op in task.ops:
        if isinstance(op, Dot) and value in (op.a.name, op.b.name):
            swapped = split != "" and split in op.b.type.axes and split not in op.a.type.axes
            return "row" if (value == op.a.name) != swapped else "column"
    return ""


def wants_panels(load: STask, graph: TaskGraph, sizes: Sizes, device: Device) -> bool:
    """Whether a load into a product is worth packing: a column operand always; a row operand where it is reloaded in
    the product's own loop and used by many column blocks (else rows are broadcast from where they are)."""
    for tile in graph.tiles:
        if load.name not in tile.producers:
            continue
        for task in consumers_of(tile, graph):
            operand = operand_of(tile.name, task, sizes.split)
            if operand == "column":
                return True
            if operand == "row" and load.loop == task.loop and load.loop != 0:
                block = int(device.fact("register_vectors", 1)) * int(device.fact("vector_bytes", 4)) // 4
                return _columns(task, sizes) >= 2 * block
    return False


def _columns(task: STask, sizes: Sizes) -> int:
    dot = next(op for op in task.ops if isinstance(op, Dot))
    return sizes.elems(tuple(x for x in dot.b.type.axes if x not in dot.over and x not in dot.a.type.axes))


def _place(
    tile: Tile,
    graph: TaskGraph,
    units: dict[str, Unit],
    sizes: Sizes,
    device: Device,
    free: dict[str, int],
) -> Place:
    producers = [t for t in graph.tasks if t.name in tile.producers]
    users = consumers_of(tile, graph)
    full = sizes.bytes(tile.type)
    share = sizes.bytes(tile.type, share=True)
    if device.arch == "cpu":
        space, layout = _cpu_place(tile, producers, users, full, units, sizes, device, free)
        free[space] -= -(-full // device.memory(space).granule_bytes) * device.memory(space).granule_bytes
        return Place(tile.name, space, layout, full, shared=False, carried=tile.carried is not None)
    space, layout = _gpu_place(tile, producers, users, units, sizes, device)
    own_parts = sizes.split in tile.type.axes and all(units[t.name].split for t in (*producers, *users))
    each_its_own = sizes.split not in tile.type.axes and any(len(units[t.name].roles) > 1 for t in producers)
    shared = space == "smem" and not own_parts and not each_its_own
    most = int(device.fact("register_slots", 0)) if space == "reg" else 0
    if layout == "swizzle-128" and device.fact("panel_row_bytes"):
        rows = any(t.kind is Kind.DOT and operand_of(tile.name, t, sizes.split) == "row" for t in users)
        least = int(device.fact("dot_rows", 8)) if rows else 8  # of one instruction; zeros fill what the tile lacks
        full = _swizzled_bytes(tile, producers, sizes, int(device.fact("panel_row_bytes", 0)), least) or full
    if space == "reg" and device.fact("whole_rows"):
        share *= _spread(tile, graph, sizes, int(device.fact("whole_rows", 1)))
    if space == "reg" and layout == "row" and producers and producers[0].kind in LOADS:
        share = sizes.elems(tile.type.axes, share=True) * max(32, tile.type.dtype.bits) // 8  # converted when loaded
    if space == "reg" and device.fact("one_tile_blocks") and passes_through(tile, graph):
        share = min(share, PIECE_BYTES * int(device.fact("threads_per_worker", 128)))
    if layout == "staging":  # goes through in pieces
        full, share = (min(x, int(device.fact("staging_bytes", x))) for x in (full, share))
    return Place(tile.name, space, layout, full if shared else share, shared, tile.carried is not None, most)


def passes_through(tile: Tile, graph: TaskGraph) -> bool:
    """Whether a tile is loaded or stored in passing: in pieces, when elementwise code uses or has made them. Not what
    has to outlast a reduction."""
    producers, users = ([t for t in graph.tasks if t.name in names] for names in (tile.producers, tile.consumers))
    if all(t.kind is Kind.LOAD for t in producers):
        return all(t.kind is Kind.VECTOR and is_read_at_once(t, tile.values) for t in users)
    return all(t.kind is Kind.VECTOR for t in producers) and all(t.kind is Kind.STORE for t in users)


def is_read_at_once(task: STask, values: Collection[str]) -> bool:
    """Whether the task reads the values elementwise, with no reduction between the first and the last read."""
    reads = [at for at, op in enumerate(task.ops) if any(v.name in values for v in operands(op))]
    sums = [at for at, op in enumerate(task.ops) if isinstance(op, Reduce | Scan)]
    elementwise = all(isinstance(task.ops[at], Map | Cast) for at in reads)
    return elementwise and not any(reads[0] <= at <= reads[-1] for at in sums)


def _spread(tile: Tile, graph: TaskGraph, sizes: Sizes, rows: int) -> int:
    """How many times a tile is held: warps that have no rows of their own hold the same as others."""
    axes = [a for a in tile.type.axes if a in whole_row_axes(graph)]
    return -(-rows // max(1, sizes.extent(axes[0]))) if axes else 1


def _swizzled_bytes(tile: Tile, producers: list[STask], sizes: Sizes, panel_bytes: int, least_rows: int) -> int:
    """Bytes of a tile in panels of `panel_bytes` along the contiguous axis, its rows in eights (0: unknown)."""
    for op in (o for t in producers for o in t.ops if isinstance(o, Load) and o.subscripts):
        column = next((t.axis for t in op.subscripts[-1].terms if t.axis in tile.type.axes), None)
        if column is not None:
            rows = sizes.elems(tuple(a for a in tile.type.axes if a != column))
            row_bytes = tile.type.dtype.bytes_for(sizes.extent(column))
            return max(least_rows, -(-rows // 8) * 8) * -(-row_bytes // panel_bytes) * panel_bytes
    return 0


def _gpu_place(
    tile: Tile, producers: list[STask], users: list[STask], units: dict[str, Unit], sizes: Sizes, device: Device
) -> tuple[str, str]:
    operands = {operand_of(tile.name, t, sizes.split) for t in users if t.kind is Kind.DOT} - {""}
    layout = "swizzle-128" if operands else "row"
    if any(t.kind in LOADS and units[t.name].seu.is_async for t in producers):
        return "smem", layout
    if operands and any(t.kind in LOADS for t in producers):
        return "smem", layout
    if any(t.kind in STORES and units[t.name].seu.is_async for t in users):
        return "smem", "staging"
    if any(t.kind is Kind.DOT for t in producers):
        return str(device.fact("accumulator_space", "reg")), "accumulator"
    if "column" in operands or ("row" in operands and "reg" not in str(device.fact("dot_a_space", "smem")).split()):
        return "smem", layout
    depths = {frozenset(op.over) for t in users for op in t.ops if isinstance(op, Dot)}
    if "row" in operands and len(depths) > 1:
        return "smem", layout  # registers hold it in the order that one of the products wants
    return "reg", "operand-a" if operands else "row"


def _cpu_place(
    tile: Tile,
    producers: list[STask],
    users: list[STask],
    full_bytes: int,
    units: dict[str, Unit],
    sizes: Sizes,
    device: Device,
    free: dict[str, int],
) -> tuple[str, str]:
    """A tile goes to the nearest cache that stays half empty with it: the other half is for what passes through.

    Accumulators of products may fill the rest: they pass once for a whole tile of depth. Measured: attention tiles
    whose scores alone take half of L2 are 15 % slower than ones of a quarter the size; products lose nothing.
    """
    near = ("l1", "l2")
    share = 1.0 if tile.carried is not None and any(t.kind is Kind.DOT for t in producers) else 0.5
    taken = {m: device.memory(m).capacity_bytes.value - free[m] for m in near}
    room = {m: device.memory(m).capacity_bytes.value * share for m in near}
    space = next((m for m in near if taken[m] + full_bytes <= room[m]), "l3")
    loads = [t for t in producers if t.kind in LOADS]
    if loads and units[loads[0].name].method is Method.PACK:
        operand = next((o for t in users if (o := operand_of(tile.name, t, sizes.split))), "column")
        return space, "panel-a" if operand == "row" else "panel-b"
    if loads and len(loads) == len(producers) and all(t.kind is Kind.LOAD for t in loads):
        return space, "direct"
    return space, "row"
