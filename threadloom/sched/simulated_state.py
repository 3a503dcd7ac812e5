"""The state of a simulated machine: slots and what lies in them, operations under way, signal entries, roles.

How it changes is in simulate_values.py.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from threadloom.machine.model import SEU
from threadloom.sched.ops import Buffer
from threadloom.sched.semantics import Step, TaskInstance

ALL = -1
Content = object  # what an executor makes; None is poison
Cells = dict[tuple[int, int], Content]  # (part of a worker or ALL, share of an EU or ALL) -> content


@dataclass(slots=True)
class Slot:
    """Contents seen by the generic and by the async proxy; `unfenced`: cells written generically, by whom."""

    generic: Cells = field(default_factory=lambda: {(ALL, ALL): None})
    async_: Cells = field(default_factory=lambda: {(ALL, ALL): None})
    unfenced: dict[tuple[int, int], str] = field(default_factory=dict)

    def view(self, unit: SEU) -> Cells:
        return self.generic if unit.proxy == "generic" else self.async_

    def write(self, cell: tuple[int, int], content: Content, unit: SEU, role: str) -> None:
        whole = cell == (ALL, ALL)
        for cells in (self.generic, self.async_) if unit.proxy == "async" else (self.generic,):
            if whole:
                cells.clear()
            cells[cell] = content
        if unit.proxy == "generic":
            self.unfenced[cell] = role

    def fence(self, role: str) -> None:
        for cell in [c for c, writer in self.unfenced.items() if writer == role]:
            if cell == (ALL, ALL):
                self.async_.clear()
            self.async_[cell] = self.generic.get(cell)
            del self.unfenced[cell]


@dataclass(frozen=True, slots=True)
class Touch:
    """What a step does to one slot: which value it reads or writes in `cell` of place `place` of `buffer`."""

    value: str
    buffer: Buffer
    place: int
    cell: tuple[int, int]


@dataclass(slots=True)
class Use:
    """An operation's access to one slot: what it saw at its start."""

    slot: Slot
    value: str
    buffer: Buffer
    cell: tuple[int, int]
    seen: Cells | None = None


@dataclass(slots=True)
class Operation:
    who: TaskInstance
    step: Step
    unit: SEU
    part: int
    reads: list[Use]
    writes: list[Use]
    rank: int = 0  # how late its end may be taken
    skipped: bool = False
    previous: list[Operation] = field(default_factory=list)  # must end before this one does
    done: bool = False


@dataclass(slots=True)
class Entry:
    """One entry of a ring signal."""

    arrivals: int
    bytes: int
    completed: int = 0


@dataclass(slots=True)
class Thread:
    eu: int
    role: str
    steps: list[Step]
    rank: int = 0  # how late its next step may be taken
    at: int = 0
    running: Operation | None = None  # a synchronous task that it is in
    fifos: dict[str, list[Operation | None]] = field(default_factory=lambda: defaultdict(list))
    done: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # complete groups of each


class Failure(Exception):
    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind
