"""What a role knows while its code is written: which registers hold which value, where the current tiles stand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from threadloom.dtypes import Dtype
from threadloom.targets.cuda.layout import Layout, coordinate
from threadloom.targets.cuda.names import RESERVED
from threadloom.targets.cuda.shared import SharedTile
from threadloom.targets.cuda.team import WARPGROUP, Team
from threadloom.tile import ops as tile
from threadloom.writer import Writer

MOST_REGISTERS = 255  # of a thread


def unroll(count: int, dtype: Dtype | None = None) -> str:
    """The line before a loop over `count` registers, elements of `dtype` (None: of 32 bits). What no thread's registers
    hold lies in memory anyway: loops over it are not unrolled, which would take compilers minutes."""
    wide = dtype is not None and dtype.bits == 64
    return "#pragma unroll" if count * (2 if wide else 1) <= MOST_REGISTERS else "#pragma unroll 1"


@dataclass(frozen=True, slots=True)
class Registers:
    """A value held in registers: a C array `name` of `layout.registers` elements, or a plain C expression where
    `scalar` (rank-0 values, equal in all threads)."""

    name: str
    dtype: Dtype
    layout: Layout
    scalar: bool = False
    value: str = ""  # the value whose registers these were, where they are reused
    packed: bool = False  # u32 registers, two 16-bit elements in each
    piece: bool = False  # a few neighbours as they stand in memory, of which element `e` is meant


@dataclass(frozen=True, slots=True)
class Place:
    """The current tile of an axis, as C expressions: index of its first position, one past its last valid index.
    `extent` positions belong to the tile; `full`: known to be all valid; `offset`: where a worker's part begins in the
    EU's tile."""

    first: str
    stop: str
    extent: int
    full: bool
    offset: str = "0"
    whole: Place | None = None  # the EU's tile, where this is a worker's part of it

    def holds(self, covered: int) -> bool:
        """Whether all of `covered` positions from the first one belong to the tile and are valid."""
        return self.full and covered <= self.extent

    def end(self, covered: int) -> str:
        """C expression: one past the last index that belongs to the tile, for a layout of `covered` positions."""
        own = f"{self.first} + {self.extent}" if self.first != "0" else str(self.extent)
        if covered <= self.extent:
            return self.stop
        return own if self.full else f"min({self.stop}, {own})"


@dataclass(frozen=True, slots=True)
class InShared:
    """A value that stays in slot `slot` (a C expression) of a tile in shared memory; its users fetch it in pieces."""

    tile: SharedTile
    slot: str
    layout: Layout


@dataclass(slots=True)
class Scope:
    """State of one role's emission."""

    writer: Writer
    registers: dict[str, Registers] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    assumed: list[str] | None = None  # conditions that the passes being written rely on; None: on none
    before: frozenset[str] = frozenset()  # the names that are known where a pass's instructions begin
    in_shared: dict[str, InShared] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)  # value -> the array of its tile
    team: Team = WARPGROUP
    rounds: bool = False  # all results are rounded to 16 bits or less: exp need not be exact to the last of f32's
    made_here: dict[str, tile.Map] = field(default_factory=dict)  # differences that the loop being written makes
    unrounded: frozenset[str] = frozenset()  # values whose stores round them
    factors: dict[str, tuple] = field(default_factory=dict)  # exponentials of the loop being written (`factors.py`)
    joined: dict[str, str] = field(default_factory=dict)  # products that are left out -> what a factor has of them
    unmasked: bool = False  # the loop being written is for tiles that its masks leave alone
    narrow: frozenset[str] = frozenset()  # 64-bit integers of the task being written that are kept in 32 bits
    exact: frozenset[str] = frozenset()  # casts of the task being written that round nothing
    in_lanes: dict[str, Layout | None] = field(default_factory=dict)  # results whose lanes' parts are combined later
    takes_turns: bool = False  # workers wait for one another by turns, so all of them cannot meet
    sharing_workers: int = 0  # workers that exchange parts of reductions, 0 where none do
    needs_scratch: bool = False  # shared memory in which warps of a worker exchange values
    converted_bytes: int = 0  # of a worker, through which values go from one layout to another
    factor_room_bytes: int = 0  # of shared memory that a warp may have for the exchange of factors, and what it takes
    factor_bytes: int = 0
    exchanged: bool = False  # the factors written last were exchanged in shared memory
    consumed: set[str] = field(default_factory=set)  # values in shared memory whose reads the task has waited for

    def assumes(self, condition: str) -> bool:
        """Whether the code being written is only for passes in which `condition` holds; if so, it is noted down. Not
        where the condition names what the pass computes: it is looked at before."""
        if self.assumed is None or set(re.findall(r"[A-Za-z_]\w*", condition)) & (self.names - self.before):
            return False
        if condition not in self.assumed:
            self.assumed.append(condition)
        return True

    def fresh(self, name: str) -> str:
        """A C identifier that keeps the user's name (`acc.1` becomes `acc_1`)."""
        clean = "".join(c if c.isalnum() else "_" for c in name).strip("_") or "v"
        if clean[0].isdigit():
            clean = "v" + clean
        chosen, n = clean, 1
        while chosen in self.names or chosen in RESERVED:
            n += 1
            chosen = f"{clean}_{n}"
        self.names.add(chosen)
        return chosen

    def scalar(self, name: str) -> str:
        """C expression of a value without axes: vector code leaves what it reduces in an array of one register."""
        held = self.registers[name]
        return held.name if held.scalar else f"{held.name}[0]"

    def index(self, layout: Layout, axis: str, register: str) -> str:
        """C expression: the index along `axis` of the element in `register`."""
        place = self.places[axis]
        threads, registers = coordinate(layout, axis, register)
        return " + ".join(x for x in (place.first, threads, registers) if x != "0") or "0"
