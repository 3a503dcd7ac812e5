"""Level `task`: the sTask-graph (PipeThreader, section 4: sTask, sTask-graph).

A kernel's body becomes a tree of loops whose leaves are sTasks: maximal pieces of tile code that one kind of
specialised unit (sEU) of the machine can run. Nothing here knows a device or a tile size; `propagate.py` gives every
value its shape once tile sizes are chosen, and `sched/costs.py` counts what each sTask then costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from threadloom.source import Loc
from threadloom.tile.ops import Kernel, LoopAxis, TileType
from threadloom.tile.ops import Op as TileOp
from threadloom.tile.ops import Value as TileValue


class Kind(StrEnum):
    LOAD = "load"  # tensor -> on-chip tile
    GATHER = "gather"  # a load whose subscripts hold computed index tiles
    STORE = "store"
    ATOMIC = "atomic"
    DOT = "dot"  # ops (Dot,), or (Dot, Map add) where the product is added to a value used nowhere else: accumulates
    VECTOR = "vector"  # elementwise, reductions, scans, casts, fused
    SCALAR = "scalar"  # rank-0 code: loop bounds, conditions


class Method(StrEnum):
    """The ways an sTask may be executed; a machine model says which sEU offers which."""

    BULK_COPY = "bulk-copy"  # needs 16-byte multiples of base and strides (checked at launch)
    ASYNC_COPY = "async-copy"
    LOAD_STORE = "load-store"
    PACK = "pack"
    MATRIX = "matrix"
    VECTOR = "vector"
    SCALAR = "scalar"


@dataclass(frozen=True, slots=True)
class STask:
    """`ops` is its index-based tensor expression in tile operations, in order; `axes` its loop axes (union of the
    axes of what it touches); `loop` the id of the loop it stands in (0: the grid body).

    `reads` are values of other sTasks; scalar parameters are not listed, and constants, index values, tile bounds
    and sizes are not passed around: each sTask that needs one has the operation among its own `ops`. A DOT may end
    with the addition to a carried accumulator: ops = (Dot, Map add)."""

    name: str
    kind: Kind
    ops: tuple[TileOp, ...]
    axes: tuple[str, ...]
    reads: tuple[str, ...]  # names of values
    writes: tuple[str, ...]
    methods: tuple[Method, ...]
    loop: int
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """`dst` needs `value` that `src` made `distance` iterations of their common innermost loop earlier."""

    src: str
    dst: str
    value: str
    distance: int = 0


@dataclass(frozen=True, slots=True)
class Tile:
    """A value that crosses from one sTask to another and so needs a place: a buffer candidate. A loop-carried value
    and its successor share one Tile (`carried` names the loop, the outermost where it is carried through several).
    `values` names all values that live in it; both branches of an If write the same one."""

    name: str
    type: TileType
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    carried: int | None = None
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A node of the loop tree. id 0 is the grid body (axes: the grid's); others are Streams in program order.
    `items` are names of sTasks and ids of loops in an order that executes correctly. Scalar tasks of loop 0 that
    bound its own later axes run as soon as the axes they depend on are known.

    Two things that scheduling makes (sched/walk_axis.py). An axis that an enclosing loop has too is cut again, inside
    the enclosing loop's current tile. `like`: the loop iterates over what the latest run of loop `like` made: as often,
    and iteration i reads the values of its iteration i ("kept" tiles)."""

    id: int
    parent: int | None
    axes: tuple[LoopAxis, ...]
    items: tuple[str | int, ...]
    carried: tuple[tuple[TileValue, TileValue, TileValue, TileValue], ...] = ()  # (init, arg, next, result)
    loc: Loc | None = None
    like: int | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    """`task` runs only where scalar `cond` has the truth value `wanted` (from an If)."""

    task: str
    cond: str
    wanted: bool


@dataclass(frozen=True, slots=True)
class TaskGraph:
    kernel: Kernel
    tasks: tuple[STask, ...]
    edges: tuple[Edge, ...]
    tiles: tuple[Tile, ...]
    loops: tuple[Loop, ...]
    guards: tuple[Guard, ...] = ()
    _by_name: dict[str, STask] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __str__(self) -> str:
        """The level's text, which parses back."""
        from threadloom.task.text import print_graph

        return print_graph(self)

    def task(self, name: str) -> STask:
        if not self._by_name:
            self._by_name.update((t.name, t) for t in self.tasks)
        return self._by_name[name]

    def kept_loops(self) -> dict[int, frozenset[str]]:
        """Loops whose values another loop goes through again -> the values."""
        wanted = {loop.like for loop in self.loops if loop.like is not None}
        return {n: frozenset(v for t in self.tasks if t.loop == n for v in t.writes) for n in wanted}
