"""A group in a role's FIFO of an asynchronous unit, and where in the role's line it is waited for.

A moment is (iterations later, item): after item `came` of one iteration come (0, came + 1) ... (1, 0) ... of the same
line. What of a group's FIFO is younger than the group at a moment is what a Wait there may leave pending.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from threadloom.sched.lines import Line
from threadloom.sched.ops import Instr, Issue, Wait

SLOTS_TO_SPARE = 3  # one that is read, one that is filled, and one whose release may be late

Moment = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Queued:
    """What item `came` of `line` adds to the FIFO `signal`; `joins`: how many groups each item adds (None: unknown)."""

    line: Line
    signal: str
    came: int
    joins: tuple[int | None, ...]

    def younger(self, later: int, at: int) -> int:
        """Groups that join after this one, before item `at` comes `later` iterations on; 0 where that is unknown."""
        if later == 0:
            between = self.joins[self.came + 1 : at]
        else:
            between = self.joins[self.came + 1 :] + self.joins * (later - 1) + self.joins[:at]
        return 0 if None in between else sum(between)

    def moments(self, steps: int) -> Iterator[Moment]:
        """The next `steps` items."""
        count = len(self.line.items)
        return (divmod(self.came + step, count) for step in range(1, steps + 1))

    def waits_before(self, later: int, at: int) -> bool:
        """Whether item `at` waits for exactly the instance that was queued `later` iterations ago."""
        stage = self.line.items[self.came].stage + later
        return self.has_wait(self.line.items[at].before, stage, self.younger(later, at))

    def waits_anyway(self, later: int, at: int) -> bool:
        """Whether item `at` waits so long for a reason of its own iteration: not after the last one, where a wait for
        this group itself is left."""
        item = self.line.items[at]
        return self.has_wait(item.before, item.stage, self.younger(later, at))

    def waits_behind(self, later: int, at: int) -> bool:
        """Whether the instance is waited for before item `at` or right after it."""
        stage = self.line.items[self.came].stage + later
        return self.waits_before(later, at) or self.has_wait(
            self.line.items[at].after, stage, self.younger(later, at + 1)
        )

    def has_wait(self, instrs: list[Instr], stage: int, most: int) -> bool:
        """Whether one of `instrs` waits in `stage` until at most `most` groups are pending."""
        waits = (i for i in instrs if isinstance(i, Wait) and i.signal == self.signal)
        return any(i.stage == stage and i.pending <= most for i in waits)

    def done(self, slots: int) -> Moment:
        """Where the role waits for the group anyway; else when it has likely left its unit. `slots`: of the buffer
        whose release wants to know."""
        one_iteration = list(self.moments(len(self.line.items)))
        for later, at in one_iteration:
            if self.waits_before(later, at):
                return later, at
        for later, at in one_iteration:
            if later and self.waits_anyway(later, at):
                return later, at
        return self._likely_done(slots)

    def _likely_done(self, slots: int) -> Moment:
        """The first moment at which the group has left its unit by plan; for the unit's only task in a loop whose
        buffer has slots to spare, where it comes again: other work of the role then runs beside it even where that
        takes less time than planned (decoding 4-bit weights beside their product)."""
        line, count = self.line, len(self.line.items)
        spare = self.joins.count(0) == count - 1 and slots >= SLOTS_TO_SPARE  # nothing but the release wants to know
        previous = 0, self.came
        for step, (later, at) in enumerate(self.moments(4 * count), start=1):
            if self.waits_before(later, at):
                return later, at
            item = line.items[at]
            if item.start + later * line.ii >= line.items[self.came].done:
                if isinstance(item.instr, Issue) and item.instr.completes == self.signal:
                    return later, at  # let the unit have its next task before this role waits
                if not (spare and step < count):
                    return previous
            previous = later, at
        return 1, self.came
