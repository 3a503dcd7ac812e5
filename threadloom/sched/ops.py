"""Level `sched`: the sProgram (PipeThreader, section 4), as data only.

An sProgram says, for one choice of tile sizes, who (role) issues which sTask on which sEU in what order, what it waits
for and why, and which buffers hold what. A loop section with stages S and trip count n runs t = 0 .. n+S-2; an
instruction of stage s acts on instance i = t - s and is skipped unless 0 <= i < n. So one list of instructions is the
prologue, the steady state and the epilogue. Instance i of a value lives in slot i % slots of its buffer; instance
counters of a loop run on over the iterations of enclosing loops, so phases stay right.

Two data dependences of one role are ordered by program order if the first task's sEU completes in program order;
everything else needs a Wait that covers it. `check.py` proves that, and shares no code with the policies.

Group FIFOs (Completion MMA_GROUP, COPY_GROUP, WAITCNT): an Issue that is skipped (outside 0 <= i < n, or by a guard)
still adds a group to its role's FIFO, an empty one that is complete at once; so a `pending` count holds in the
prologue, the steady state and the epilogue alike. Tasks that one role issues to one MMA_GROUP sEU execute in issue
order, so an accumulator that both update in place needs no Wait between them; any other use of a group's result does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from threadloom.machine.model import Completion
from threadloom.task.ops import Method, TaskGraph

# ---------------------------------------------------------------- the choice of tiles (partition)


@dataclass(frozen=True, slots=True)
class AxisTile:
    """Axis `axis` is cut into tiles of `extent`; `worker_extent` of them belong to one worker role (equal to `extent`
    where the roles do not split this axis)."""

    axis: str
    extent: int
    worker_extent: int


@dataclass(frozen=True, slots=True)
class Partition:
    """Tile sizes of all axes, and how the grid is walked.

    `sequential`: a grid axis of which one tile is walked index by index in a loop of its own (what does not depend on
    the index stays on chip meanwhile; `tiles` says how many indices a tile has);
    `order`: grid axes, slowest first, with `group` tiles of the slowest visited together (L2-friendly); `splits`:
    number of parts a stream's reduction is split into over EUs (1: none); `workers`: worker roles per EU; `cluster`:
    EUs that share loads by multicast; `begins_ahead`: a tile's last pass begins the next tile (`Inner.ahead`);
    `backwards`: loops that may (sched/backwards.py) go from their last tile to the first.
    """

    tiles: tuple[AxisTile, ...]
    sequential: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    group: int = 1
    splits: int = 1
    workers: int = 1
    cluster: int = 1
    persistent: bool = False
    longest_first: bool = False
    begins_ahead: bool = False
    backwards: bool = False

    def extent(self, axis: str) -> int:
        return next(t.extent for t in self.tiles if t.axis == axis)


# ---------------------------------------------------------------- buffers and signals


@dataclass(frozen=True, slots=True)
class Buffer:
    """Where instances of tile `tile` live. `space` names a memory of the model ("smem", "reg", "l1", "l2");
    `layout` is a target's word for the arrangement ("row", "panel-a", "panel-b", "swizzle-128" ...)."""

    name: str
    tile: str
    space: str
    bytes_per_slot: int
    slots: int
    layout: str = "row"
    role: str = ""  # owner, for per-role memories; "" where shared
    multicast: int = 1


@dataclass(frozen=True, slots=True)
class Signal:
    """A synchronisation object. Ring signals (mbarrier) have one entry per buffer slot with phase (i // slots) & 1.

    `counts`: what completes an entry: number of arrivals (of roles) and of bytes.
    """

    name: str
    kind: Completion
    slots: int = 1
    arrivals: int = 1
    bytes: int = 0


class Why(StrEnum):
    DEPENDENCE = "dependence"  # a consumer needs a producer's value
    SLOT_FREE = "slot-free"  # a producer needs the slot that an earlier instance still occupies
    ORDER = "order"  # enforced order between roles on a shared unit (ping-pong)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a Wait, Arrive or Fence is there: the edge (src -> dst over `buffer`) and its distance in iterations."""

    why: Why
    src: str
    dst: str
    buffer: str
    distance: int = 0


# ---------------------------------------------------------------- instructions


@dataclass(frozen=True, slots=True)
class Issue:
    """Start sTask `task` on `seu` by `method`; for an asynchronous sEU its completion arrives at signal `completes`
    (entry: the slot of its result), or joins the role's group FIFO of that name."""

    task: str
    seu: str
    method: Method
    stage: int = 0
    completes: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Ring signals: until instance i's entry is complete (`slot-free`: until the entry was released `slots`
    instances ago). Group signals: until at most `pending` later groups of this role are in flight."""

    signal: str
    reason: Reason
    stage: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class Arrive:
    """This role arrives at `signal`'s entry for instance i: releases a slot, or hands over a turn."""

    signal: str
    reason: Reason
    stage: int = 0


@dataclass(frozen=True, slots=True)
class Fence:
    """Make this role's accesses to `buffer` through proxy `before` visible to proxy `after`."""

    buffer: str
    before: str
    after: str
    reason: Reason
    stage: int = 0


@dataclass(frozen=True, slots=True)
class Inner:
    """Run the section of loop `loop` here (every role runs its own part of it).

    With `early` or `ahead`, the loop's next run is begun in the first pass of this one that starts no instance: the
    `early` instructions that stand directly before this one, and of the first `ahead` of the loop's section those of
    stage 0. So a matrix unit gets the next tile's first product beside this tile's last (docs/sprogram.md, section 1).
    """

    loop: int
    stage: int = 0
    ahead: int = 0
    early: int = 0


Instr = Issue | Wait | Arrive | Fence | Inner


@dataclass(frozen=True, slots=True)
class Section:
    """What role `role` does in loop `loop` (0: the grid body, run once a tile)."""

    loop: int
    role: str
    instrs: tuple[Instr, ...]


@dataclass(frozen=True, slots=True)
class Role:
    """A thread of control of an EU: a producer warp, a worker warpgroup, a CPU core's own thread."""

    name: str
    kind: str  # "producer" "worker" "core"
    warps: int = 0
    registers: int = 0


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """The modulo schedule of one loop: initiation interval, stages, predicted start of each sTask of instance 0 and
    the lower bounds on ii (resource, recurrence, memory), all in cycles. `most_trips`: the program is for runs of at
    most so many iterations (0: any number)."""

    loop: int
    ii_cycles: float
    stages: int
    starts_cycles: tuple[tuple[str, float], ...]
    bounds_cycles: tuple[tuple[str, float], ...]
    most_trips: int = 0


@dataclass(frozen=True, slots=True)
class SProgram:
    """`predicted_ns` is the model's time of the whole launch (with that of `combine`) for the shape it was planned for;
    `policy` who made it."""

    device: str
    graph: TaskGraph
    partition: Partition
    roles: tuple[Role, ...]
    buffers: tuple[Buffer, ...]
    signals: tuple[Signal, ...]
    sections: tuple[Section, ...]
    loops: tuple[LoopPlan, ...]
    policy: str
    predicted_ns: float = 0.0
    decisions: tuple[tuple[str, str], ...] = ()  # further choices by name: ("nontemporal", "out"), ("pack", "a") ...
    combine: SProgram | None = None  # run when this one is done: combines the parts (partition.splits) that it made

    def __str__(self) -> str:
        """The level's text, which parses back."""
        from threadloom.sched.text import print_program

        return print_program(self)
