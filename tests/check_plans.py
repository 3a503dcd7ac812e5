"""sPrograms written by hand for tests of the checker, the simulator, the mutations and the timelines."""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom import dtypes
from threadloom.machine.model import Completion
from threadloom.sched.ops import (
    Arrive,
    AxisTile,
    Buffer,
    Fence,
    Inner,
    Issue,
    LoopPlan,
    Partition,
    Reason,
    Role,
    Section,
    Signal,
    SProgram,
    Wait,
    Why,
)
from threadloom.task.ops import Edge, Kind, Loop, Method, STask, TaskGraph, Tile
from threadloom.tile.ops import Access, Axis, AxisKind, Block, Kernel, LoopAxis, Tensor, TileType, Value

M, N, K = (Axis(name, name.upper(), AxisKind.TILE) for name in "mnk")
DEP, FREE, ORDER = Why.DEPENDENCE, Why.SLOT_FREE, Why.ORDER


def value(name: str, *axes: str, dtype: dtypes.Dtype = dtypes.f32) -> Value:
    return Value(name, TileType(axes, dtype))


def task(name: str, kind: Kind, reads: str, writes: str, loop: int, *methods: Method, axes: str = "") -> STask:
    return STask(name, kind, (), tuple(axes), tuple(reads.split()), tuple(writes.split()), methods, loop)


# ---------------------------------------------------------------- matrix product


def gemm_graph() -> TaskGraph:
    """zero -> (load a, load b -> dot)* -> cast -> store; the accumulator is carried by loop 1."""
    f16 = dtypes.f16
    tensors = (
        Tensor("A", ("M", "K"), f16, Access.IN),
        Tensor("B", ("K", "N"), f16, Access.IN),
        Tensor("C", ("M", "N"), f16, Access.OUT),
    )
    acc = tuple(value(name, "m", "n") for name in ("acc.0", "acc", "acc.1", "acc.2"))
    tasks = (
        task("zero", Kind.VECTOR, "", "acc.0", 0, Method.VECTOR),
        task("load_a", Kind.LOAD, "", "a", 1, Method.BULK_COPY, Method.LOAD_STORE),
        task("load_b", Kind.LOAD, "", "b", 1, Method.BULK_COPY, Method.LOAD_STORE),
        task("dot", Kind.DOT, "a b acc", "acc.1", 1, Method.MATRIX),
        task("cast", Kind.VECTOR, "acc.2", "c", 0, Method.VECTOR),
        task("store", Kind.STORE, "c", "", 0, Method.BULK_COPY, Method.LOAD_STORE),
    )
    edges = (
        Edge("zero", "dot", "acc.0"),
        Edge("load_a", "dot", "a"),
        Edge("load_b", "dot", "b"),
        Edge("dot", "dot", "acc.1", 1),
        Edge("dot", "cast", "acc.2"),
        Edge("cast", "store", "c"),
    )
    tiles = (
        Tile("acc", acc[1].type, ("zero", "dot"), ("dot", "cast"), carried=1),
        Tile("a", TileType(("m", "k"), f16), ("load_a",), ("dot",)),
        Tile("b", TileType(("k", "n"), f16), ("load_b",), ("dot",)),
        Tile("c", TileType(("m", "n"), f16), ("cast",), ("store",)),
    )
    loops = (
        Loop(0, None, (LoopAxis(M), LoopAxis(N)), ("zero", 1, "cast", "store")),
        Loop(1, 0, (LoopAxis(K),), ("load_a", "load_b", "dot"), (acc,)),
    )
    return TaskGraph(Kernel("gemm", tensors, (), (M, N, K), Block(())), tasks, edges, tiles, loops)


def gemm_hopper(slots: int = 4, workers: int = 2, persistent: bool = True, cluster: int = 1, lag: int = 1) -> SProgram:
    """Producer warp, `workers` worker warpgroups, rings of full and empty mbarriers; the slot of iteration k-1 is
    released when iteration k has been issued (`lag` 1) or each at once (`lag` 0)."""
    names = [f"worker{w}" for w in range(workers)]
    full = Reason(DEP, "load_a", "dot", "a")
    free_a = Reason(FREE, "dot", "load_a", "a", slots)
    free_b = Reason(FREE, "dot", "load_b", "b", slots)
    load = (
        Wait("empty_a", free_a),
        Issue("load_a", "tma", Method.BULK_COPY, completes="full"),
        Wait("empty_b", free_b),
        Issue("load_b", "tma", Method.BULK_COPY, completes="full"),
    )
    dot = (
        Wait("full", full),
        Issue("dot", "tc", Method.MATRIX, completes="mma"),
        Wait("mma", Reason(FREE, "dot", "load_a", "a", slots), stage=lag, pending=lag),
        Arrive("empty_a", free_a, stage=lag),
        Arrive("empty_b", free_b, stage=lag),
    )
    buffers = [
        Buffer("a", "a", "smem", 128 * 64 * 2, slots, "swizzle-128"),
        Buffer("b", "b", "smem", 64 * 256 * 2, slots, "swizzle-128", multicast=cluster),
    ]
    sections = [Section(0, "producer", (Inner(1),)), Section(1, "producer", load)]
    for w, name in enumerate(names):
        buffers.append(Buffer(f"acc{w}", "acc", "reg", 128 * 256 * 4 // workers, 1, role=name))
        buffers.append(Buffer(f"c{w}", "c", "smem", 128 * 64 // workers, 1, role=name))
        sections += [Section(0, name, _gemm_tile(w)), Section(1, name, dot)]
    signals = (
        Signal("full", Completion.MBARRIER, slots, 1, 128 * 64 * 2 + 64 * 256 * 2),
        Signal("empty_a", Completion.MBARRIER, slots, workers),
        Signal("empty_b", Completion.MBARRIER, slots, workers * cluster),
        Signal("mma", Completion.MMA_GROUP),
        Signal("stores", Completion.COPY_GROUP),
    )
    return SProgram(
        device="h200",
        graph=gemm_graph(),
        partition=Partition(
            (AxisTile("m", 128, 128 // workers), AxisTile("n", 256, 256), AxisTile("k", 64, 64)),
            order=("m", "n") if cluster == 1 else ("n", "m"),  # the EUs of a cluster differ in m
            workers=workers, cluster=cluster, persistent=persistent,
        ),
        roles=(Role("producer", "producer", 1, 24), *(Role(name, "worker", 4, 240) for name in names)),
        buffers=tuple(buffers),
        signals=signals,
        sections=tuple(sections),
        loops=(
            LoopPlan(0, 70_000.0, 1, (), ()),
            LoopPlan(1, 1024.0, 1 + lag, (("load_a", 0.0), ("load_b", 0.0), ("dot", 900.0)), (("resource", 1024.0),)),
        ),
        policy="by hand",
    )  # fmt: skip


def _gemm_tile(worker: int) -> tuple:
    """What a worker does for one output tile."""
    acc, out = f"acc{worker}", f"c{worker}"
    return (
        Issue("zero", "vec", Method.VECTOR),
        Fence(acc, "generic", "async", Reason(DEP, "zero", "dot", acc)),
        Inner(1),
        Wait("mma", Reason(DEP, "dot", "cast", acc)),
        Wait("stores", Reason(FREE, "store", "cast", out, 1)),
        Issue("cast", "vec", Method.VECTOR),
        Fence(out, "generic", "async", Reason(DEP, "cast", "store", out)),
        Issue("store", "tma", Method.BULK_COPY, completes="stores"),
    )


def gemm_core() -> SProgram:
    """One role that does everything in order on synchronous units, as a CPU core does."""
    body = (
        Issue("load_a", "lsu", Method.LOAD_STORE),
        Issue("load_b", "lsu", Method.LOAD_STORE),
        Issue("dot", "fma", Method.MATRIX),
    )
    tile = (
        Issue("zero", "fma", Method.VECTOR),
        Inner(1),
        Issue("cast", "fma", Method.VECTOR),
        Issue("store", "lsu", Method.LOAD_STORE),
    )
    return SProgram(
        device="cpu",
        graph=gemm_graph(),
        partition=Partition((AxisTile("m", 64, 64), AxisTile("n", 16, 16), AxisTile("k", 64, 64)), order=("m", "n")),
        roles=(Role("core", "core"),),
        buffers=(
            Buffer("a", "a", "l1", 64 * 64 * 2, 1, "panel-a"),
            Buffer("b", "b", "l1", 64 * 16 * 2, 1, "panel-b"),
            Buffer("acc", "acc", "l2", 64 * 16 * 4, 1),
            Buffer("c", "c", "l2", 64 * 16 * 2, 1),
        ),
        signals=(),
        sections=(Section(0, "core", tile), Section(1, "core", body)),
        loops=(LoopPlan(0, 1.0, 1, (), ()), LoopPlan(1, 1.0, 1, (), ())),
        policy="by hand",
    )


@dataclass(frozen=True, slots=True)
class Cycles:
    """A made-up profile of one task."""

    occupancy: float
    demand: float
    latency: float


GEMM_COSTS = {
    "zero": Cycles(50, 0.5, 50),
    "load_a": Cycles(250, 1, 950),
    "load_b": Cycles(500, 1, 1200),
    "dot": Cycles(512, 1, 576),
    "cast": Cycles(300, 0.6, 300),
    "store": Cycles(400, 1, 900),
}


def gemm_ping_pong(slots: int = 3) -> SProgram:
    """The Hopper product whose workers take turns on the matrix unit, worker0 first."""
    program = gemm_hopper(slots=slots, lag=1)
    turns = (Signal("turn0", Completion.MBARRIER), Signal("turn1", Completion.MBARRIER))
    sections = []
    for section in program.sections:
        if section.loop == 1 and section.role.startswith("worker"):
            own, other = section.role[-1], "10"[int(section.role[-1])]
            mine = Reason(ORDER, "dot", "dot", "tc", 1 if own == "0" else 0)
            its = Reason(ORDER, "dot", "dot", "tc", 1 if other == "0" else 0)
            full, dot, *rest = section.instrs
            instrs = (full, Wait(f"turn{own}", mine), dot, Arrive(f"turn{other}", its), *rest)
            section = Section(1, section.role, instrs)
        sections.append(section)
    return replace(program, signals=(*program.signals, *turns), sections=tuple(sections))
