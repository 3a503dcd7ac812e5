"""Profiler: what one sTask costs on an sEU, from the machine model or from a measurement in the store.

The model counts the work of the task's tile operations by class (matrix MACs, FMA, ALU, exponentials, conversions,
bytes) at the chosen tile sizes and divides by the rates of the sEU. A measured time of the same task at the same sizes
replaces the model's number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from threadloom.dtypes import ALL
from threadloom.errors import InternalError
from threadloom.machine.model import SEU, Device
from threadloom.sched.sizes import Sizes
from threadloom.task.ops import Kind, Method, STask
from threadloom.tile import functions
from threadloom.tile.functions import Cost
from threadloom.tile.ops import (
    AtomicAdd,
    Cast,
    Dot,
    Full,
    Load,
    Map,
    Reduce,
    Scan,
    Store,
)

# How many exponential-class results one operation of the class costs.
IN_EXPONENTIALS: dict[Cost, float] = {
    Cost.EXP: 1.0,
    Cost.LOG: 1.0,
    Cost.SQRT: 1.0,
    Cost.DIV: 1.0,
    Cost.TANH: 1.5,
    Cost.ERF: 3.0,
    Cost.TRIG: 2.0,
}

FACTORS_WORTH = 0.75  # of the exponentials may be left, as in targets/cuda/factors.py

Measured = Callable[[STask, Sizes, str, float], float | None]  # task, sizes, sEU, the model's ns -> nanoseconds


@dataclass(frozen=True, slots=True)
class Work:
    """Operations and bytes of one instance of an sTask, or of one worker's share of it."""

    macs: float = 0.0
    mac_dtype: str = ""
    fma: float = 0.0
    alu: float = 0.0
    cvt: float = 0.0
    exp: float = 0.0
    reductions: int = 0
    load_bytes: int = 0
    store_bytes: int = 0
    rows: int = 0  # of the product: free extent of operand a, of operand b, and of the sum
    columns: int = 0
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Cycles:
    """`occupancy`: cycles the sEU is busy; `demand`: the share of a shared unit it uses meanwhile; `latency`: from
    start until the result can be used."""

    occupancy: float
    demand: float
    latency: float


def work_of(task: STask, sizes: Sizes, share: bool, factors: bool = False) -> Work:
    """The work of one instance at `sizes`; with `share`, of one worker's part. `factors`: the code makes exponentials
    of a difference of a row's and a column's value from a factor of each."""
    counts = dict.fromkeys(("fma", "alu", "cvt", "exp"), 0.0)
    macs, dtype, reductions, load_bytes, store_bytes = 0.0, "", 0, 0, 0
    shape = (0, 0, 0)
    for op in task.ops:
        match op:
            case Dot():
                shape = dot_shape(op, sizes, share)
                macs += math.prod(shape) * batch_elems(op, sizes, share)
                dtype = op.a.type.dtype.name
            case Map():
                elems = sizes.elems(op.result.type.axes, share)
                few = _factor_elems(task, op, sizes, share) if factors else elems
                _charge(counts, functions.TABLE[op.fn].cost, few if few < FACTORS_WORTH * elems else elems)
            case Cast():
                counts["cvt"] += sizes.elems(op.result.type.axes, share)
            case Full():
                counts["alu"] += sizes.elems(op.result.type.axes, share) / 2
            case Reduce() | Scan():
                elems = sizes.elems(op.arg.type.axes, share)
                counts["fma" if op.fn in ("sum", "prod") else "alu"] += elems * (1 if isinstance(op, Reduce) else 2)
                reductions += 1
            case Load():
                load_bytes += sizes.bytes(op.result.type, share)
            case Store() | AtomicAdd():
                store_bytes += sizes.bytes(op.value.type, share)
            case _:
                pass
    return Work(
        macs, dtype, **counts, reductions=reductions, load_bytes=load_bytes, store_bytes=store_bytes,
        rows=shape[0], columns=shape[1], depth=shape[2],
    )  # fmt: skip


def _factor_elems(task: STask, op: Map, sizes: Sizes, share: bool) -> int:
    """Exponentials that `op` takes where each side of a difference has a factor of its own (targets/cuda/factors.py);
    the product of the factors takes the place of the difference."""
    made = next((o for o in task.ops if isinstance(o, Map) and o.result.name == op.args[0].name), None)
    axes = op.result.type.axes
    if op.fn in ("exp", "exp2") and made is not None and made.fn == "sub":
        sides = [v.type.axes for v in made.args]
        if all(side and set(side) < set(axes) for side in sides):
            return sum(sizes.elems(side, share) for side in sides)
    return sizes.elems(axes, share)


def _charge(counts: dict[str, float], cost: Cost, elems: int) -> None:
    match cost:
        case Cost.FMA:
            counts["fma"] += elems
        case Cost.ALU:
            counts["alu"] += elems
        case Cost.CVT:
            counts["cvt"] += elems
        case _:
            counts["exp"] += elems * IN_EXPONENTIALS[cost]


def dot_shape(op: Dot, sizes: Sizes, share: bool) -> tuple[int, int, int]:
    """(rows, columns, depth): free elements of a, free elements of b, elements summed over."""
    a, b, over = op.a.type.axes, op.b.type.axes, op.over
    rows = math.prod(sizes.extent(x, share) for x in a if x not in b and x not in over)
    columns = math.prod(sizes.extent(x, share) for x in b if x not in a and x not in over)
    return rows, columns, math.prod(sizes.extent(x, share) for x in over)


def batch_elems(op: Dot, sizes: Sizes, share: bool) -> int:
    return math.prod(sizes.extent(x, share) for x in op.a.type.axes if x in op.b.type.axes and x not in op.over)


# ---------------------------------------------------------------- from work to cycles


def model_cycles(task: STask, device: Device, seu: SEU, method: Method, work: Work, traits: Traits) -> Cycles:
    """Cycles of one instance on `seu`."""
    match task.kind:
        case Kind.LOAD | Kind.GATHER:
            return _load_cycles(seu, method, work, traits)
        case Kind.STORE | Kind.ATOMIC:
            return _store_cycles(seu, work)
        case Kind.DOT:
            return _dot_cycles(device, seu, work, traits)
        case Kind.SCALAR:
            return Cycles(1.0, 0.01, 1.0)
        case Kind.VECTOR:
            return _vector_cycles(device, seu, work, traits)


@dataclass(frozen=True, slots=True)
class Traits:
    """What the cost of an instance depends on beside its work.

    `shared_load`: other EUs read the same addresses at the same time; `memory_bytes`: bytes read from and written to
    buffers, per memory; `in_place`: a load that is no copy; `multicast`: EUs that load together, each its part;
    `rows_in_lanes`: on a core, the rows of a product lie in vector lanes and its columns are broadcast.
    """

    shared_load: bool = False
    transposed: bool = False
    in_place: bool = False
    memory_bytes: tuple[tuple[str, float], ...] = ()
    rows_per_reduction: int = 1
    multicast: int = 1
    rows_in_lanes: bool = False


def _rate(seu: SEU, *names: str) -> float:
    """The first rate that the sEU has."""
    for name in names:
        if (rate := seu.rate(name)) is not None:
            return rate
    return 1.0


def _load_cycles(seu: SEU, method: Method, work: Work, traits: Traits) -> Cycles:
    if method is Method.PACK:
        names = ("bytes.pack.transposed", "bytes.pack") if traits.transposed else ("bytes.pack",)
        occupancy = work.load_bytes / _rate(seu, *names, "bytes.load") + seu.issue_cycles.value
        return Cycles(occupancy, 1.0, occupancy)
    if traits.in_place:
        return Cycles(1.0, 0.01, 1.0)  # consumers read the tensor where it is
    names = ("bytes.load.shared", "bytes.load") if traits.shared_load else ("bytes.load",)
    occupancy = max(1.0, work.load_bytes / traits.multicast / _rate(seu, *names))
    if traits.multicast > 1:
        occupancy = max(occupancy, work.load_bytes / _rate(seu, "bytes.load.multicast", *names))
    return Cycles(occupancy, 1.0, occupancy + seu.latency_cycles.value)


def _store_cycles(seu: SEU, work: Work) -> Cycles:
    occupancy = max(1.0, work.store_bytes / _rate(seu, "bytes.store"))
    latency = seu.latency_cycles.value if seu.is_async else 0.0
    return Cycles(occupancy, 1.0, occupancy + latency)


def _dot_cycles(device: Device, seu: SEU, work: Work, traits: Traits) -> Cycles:
    rate = seu.rate(f"mac.{work.mac_dtype}")
    if rate is None:
        raise InternalError(f"{device.name}: {seu.name} has no rate for products of {work.mac_dtype}")
    rows, columns, depth = padded_product(device, seu, work, traits.rows_in_lanes)
    padding = rows * columns * depth / max(1, work.rows * work.columns * work.depth)
    occupancy = work.macs * padding / rate
    if seu.is_async:
        occupancy = max(occupancy, _memory_cycles(device, traits))  # its operands come from there as it goes
        return Cycles(occupancy, 1.0, occupancy + seu.latency_cycles.value)
    occupancy = _overlapped(occupancy, _memory_cycles(device, traits)) + seu.issue_cycles.value
    occupancy += _block_cycles(device, seu, work)
    return Cycles(occupancy, 1.0, occupancy)


def padded_product(device: Device, seu: SEU, work: Work, rows_in_lanes: bool = False) -> tuple[int, int, int]:
    """The product's extents as the unit really computes them."""

    def up(count: int, granule: int) -> int:
        return -(-count // granule) * granule

    if seu.is_async or device.fact("dot_rows"):
        depth_bytes = int(device.fact("dot_depth_bytes", 1))
        granule = max(1, depth_bytes * 8 // ALL[work.mac_dtype].bits)
        rows = up(work.rows, int(device.fact("dot_rows", 1)))
        return rows, up(work.columns, int(device.fact("dot_columns", 1))), up(work.depth, granule)
    lanes = int(device.fact("vector_bytes", 4)) // 4
    if rows_in_lanes:
        return up(work.rows, lanes), in_blocks(device, work.columns), work.depth
    return in_blocks(device, work.rows), up(work.columns, lanes), work.depth


def in_blocks(device: Device, rows: int) -> int:
    """Rows that a core computes for so many: whole register blocks, of a height between the model's and the lowest
    that hides the latencies twice over, whichever wastes least (targets/cpu/operands.py: register_rows)."""
    most, vectors = int(device.fact("register_rows", 1)), int(device.fact("register_vectors", 1))
    if rows <= most:
        return rows
    chains = int(device.fact("fma_ports", 2)) * int(device.fact("fma_latency_cycles", 4))
    fewest = min(most, -(-2 * chains // vectors))
    return min(-(-rows // block) * block for block in range(fewest, most + 1))


def _overlapped(compute: float, memory: float) -> float:
    """Out-of-order execution and prefetch hide most of the shorter of the two (a quarter is assumed to show)."""
    return max(compute, memory) + 0.25 * min(compute, memory)


def _block_cycles(device: Device, seu: SEU, work: Work) -> float:
    """Start, end and accumulator traffic of the register-blocked products (CPU)."""
    rows = int(device.fact("register_rows", 0))
    if not rows:
        return 0.0
    if Method.VECTOR not in seu.methods:  # a matrix unit: blocks of two by two tiles of 16 x 16
        return -(-work.rows // 32) * -(-work.columns // 32) * TILE_BLOCK_CYCLES
    columns = int(device.fact("register_vectors", 1)) * int(device.fact("vector_bytes", 4)) // 4
    batch = work.macs / max(1, work.rows * work.columns * work.depth)
    blocks = -(-work.rows // rows) * -(-work.columns // columns) * batch
    per_block = 1.5 * rows * int(device.fact("register_vectors", 1)) + 12.0
    panel_bytes = 4 * work.depth * columns
    if panel_bytes > PANEL_SHARE_OF_L1 * device.memory("l1").capacity_bytes.value:
        # every strip of rows reads the panel from L2 again
        per_block += 0.25 * panel_bytes / device.memory("l2").bytes_per_cycle.value
    return blocks * per_block


TILE_BLOCK_CYCLES = 150.0  # loads and stores of four result tiles by rows, and the latency of a tile product
# Measured with 48 KiB: 128 deep panels of 32 floats beat 256 deep ones by 5 %, 512 deep ones by 15 %; with 32 KiB, 256
# deep panels of 16 floats beat 128 and 192 deep ones by 2-3 %.
PANEL_SHARE_OF_L1 = 0.5


def _memory_cycles(device: Device, traits: Traits) -> float:
    """Time to move the buffers' bytes, per memory; a CPU's outer levels deliver a fraction of L1's bytes a cycle."""
    rates = {memory.name: memory.bytes_per_cycle for memory in device.memories}
    return sum(count / rate.value for space, count in traits.memory_bytes if (rate := rates.get(space)) is not None)


def _vector_cycles(device: Device, seu: SEU, work: Work, traits: Traits) -> Cycles:
    fma = work.fma / _rate(seu, "fma.f32")
    exp = work.exp / _rate(seu, "exp")
    alu = work.alu / _rate(seu, "alu") + work.cvt / _rate(seu, "cvt")
    reduce = work.reductions * _rate(seu, "reduce.cycles") * traits.rows_per_reduction
    if device.fact("exp_on_fma_ports", False):
        compute = fma + exp + alu
    else:
        compute = max(exp, fma + exp * _rate(seu, "exp") / _rate(seu, "fma.f32")) + alu
    busy = _overlapped(compute, _memory_cycles(device, traits))
    occupancy = max(1.0, busy + reduce + (seu.issue_cycles.value if work.exp or work.fma or work.alu else 0.0))
    return Cycles(occupancy, min(1.0, max(0.05, busy / occupancy)), occupancy)
