"""Enemies of an sProgram: who moves next in the simulation of `simulate_values.py`.

The worst order for one kind of mistake is seldom the worst for another, so several are tried: one role runs ahead as
far as it can, the ends of one unit's tasks come as late as they can, all ends come at once or last; then random ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from threadloom.machine.model import Device
from threadloom.sched.ops import Issue, SProgram

FIRST_RANK, LAST_RANK = 0, 6  # no move comes before the first, or is as late as the last


@dataclass(frozen=True, slots=True)
class Adversary:
    """Order of preference among possible moves: role `ahead` first, ends of tasks on unit `lazy` last; else `eager`
    ends before roles or after; `seed` >= 0: random choice."""

    ahead: str = ""
    lazy: str = ""
    eager: bool = False
    seed: int = -1

    def rank_step(self, role: str) -> int:
        """How late the next step of a role may be taken; the smallest rank moves first."""
        return 0 if role == self.ahead else 3

    def rank_end(self, unit: str, is_async: bool, role: str) -> int:
        """Likewise for the end of a task that `role` issued on `unit`."""
        if unit == self.lazy:
            return 5
        if not is_async and role == self.ahead:
            return 1
        return 2 if self.eager else 4

    def __str__(self) -> str:
        if self.seed >= 0:
            return f"random {self.seed}"
        return (
            f"{self.ahead or 'no role'} ahead, {self.lazy or 'no unit'} late, ends {'early' if self.eager else 'late'}"
        )


def adversaries(program: SProgram, device: Device, random_ones: int = 4) -> Iterator[Adversary]:
    """The deterministic ones, then `random_ones` random ones."""
    used = {i.seu for s in program.sections for i in s.instrs if isinstance(i, Issue)}
    lazy = ["", *(unit.name for unit in device.seus if unit.name in used and unit.is_async)]
    ahead = ["", *(role.name for role in program.roles)] if len(program.roles) > 1 else [""]
    for role, unit, eager in product(ahead, lazy, (False, True)):
        yield Adversary(role, unit, eager)
    for seed in range(random_ones):
        yield Adversary(seed=seed)
