"""What orders accesses of work-items: program order, barriers, and fences with atomics.

    item 0:  store %p;  fence;  atomicrmw %count
    item 1:                     atomicrmw %count;  barrier;  load %p         # not a race

One access happens before another if barriers or program order say so, or if it comes before a fence, that before an
atomic or volatile write to some address, that before an atomic or volatile read of it, and that before the other
access. Chains count. Only seq_cst fences are considered (an acq_rel fence is one of a block), and atomics that release
have one in front. PTX ISA, memory consistency model; the read is not asked for a fence, as CUDA's own examples have
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GROUP_ITEMS = 32  # a warp


@dataclass(frozen=True, slots=True)
class Step:
    """One level of a work-item's position: which execution of a Parallel, which item, after how many barriers, and
    after how many rendezvous that order some of its group of GROUP_ITEMS items only. `known`: how many of these lie
    behind each of the group's items for certain, as far as this item has met them, or those that have."""

    instance: int
    item: int
    barriers: int
    syncs: int = 0
    known: tuple[int, ...] = (0,) * GROUP_ITEMS


Position = tuple[Step, ...]


def unordered(one: Position, other: Position) -> bool:
    """Whether nothing orders accesses at these positions."""
    for mine, yours in zip(one, other, strict=False):
        if mine.instance != yours.instance or mine.barriers != yours.barriers:
            return False  # regions that follow each other, or a barrier between
        if mine.item != yours.item:
            return mine.item // GROUP_ITEMS != yours.item // GROUP_ITEMS or not (_met(mine, yours) or _met(yours, mine))
    return False  # one contains the other: program order


def _met(one: Step, other: Step) -> bool:
    """Whether `other` knows that `one` has left the part between two rendezvous in which it was."""
    return other.known[one.item % GROUP_ITEMS] > one.syncs


def meet(items: Sequence[int], syncs: Sequence[int], known: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """What items of one group know behind their rendezvous."""
    together = [max(of_one) for of_one in zip(*known, strict=True)]
    for item, own in zip(items, syncs, strict=True):
        together[item % GROUP_ITEMS] = max(together[item % GROUP_ITEMS], own + 1)
    return tuple(together)


@dataclass(frozen=True, slots=True)
class _Event:
    position: Position
    time: int


class Order:
    """Events in the order in which the interpreter runs them."""

    def __init__(self) -> None:
        self._time = 0
        self._fences: list[_Event] = []
        self._last_fence: dict[Position, int] = {}
        self._acquires: list[tuple[int, _Event]] = []  # with the address
        self._releases: dict[int, list[_Event]] = {}

    def tick(self) -> int:
        self._time += 1
        return self._time

    def fence(self, position: Position) -> None:
        event = _Event(position, self.tick())
        self._fences.append(event)
        self._last_fence[position] = event.time

    def fenced_since(self, position: Position, time: int) -> bool:
        return self._last_fence.get(position, 0) > time

    def acquire(self, address: int, position: Position) -> None:
        if address in self._releases:
            self._acquires.append((address, _Event(position, self.tick())))

    def release(self, address: int, position: Position) -> None:
        if self._fences:
            self._releases.setdefault(address, []).append(_Event(position, self.tick()))

    def happens_before(self, old: Position, time: int, now: Position) -> bool:
        """Whether fences and atomics order the access at `old`, made at `time`, before what happens at `now`."""
        reached, seen = [_Event(now, self._time + 1)], set[_Event]()
        while reached:
            event = reached.pop()
            for address, acquire in self._acquires:
                if not _before(acquire, event):
                    continue
                for release in self._releases[address]:
                    if release.time > acquire.time or release in seen:
                        continue
                    if any(_before(_Event(old, time), fence) and _before(fence, release) for fence in self._fences):
                        return True
                    seen.add(release)
                    reached.append(release)
        return False


def _before(one: _Event, other: _Event) -> bool:
    return one.time < other.time and not unordered(one.position, other.position)
