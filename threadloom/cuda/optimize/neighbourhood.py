"""Which accesses lie between a barrier and the next ones, forwards and backwards, through ifs and around loops.

    A                                   before the barrier: A, and C of the iteration before
    for %i { barrier (this one)         behind it: C, then around the loop nothing more (the barrier itself)
             C }                        and, since the loop may end, D
    D

Each access comes with the conditions of the ifs entered on the way, and with the loops whose back edge was passed:
values defined in such a loop have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from threadloom.cuda.lower.separators import contains_meeting, has_meeting, is_meeting
from threadloom.cuda.lower.traverse import walk
from threadloom.par.ops import Barrier, Block, For, If, Leaf, Level, Op, Operand, Parallel, While
from threadloom.par.walk import arguments, regions, results

Guard = tuple[Operand, bool]


@dataclass(frozen=True, slots=True)
class Seen:
    """A leaf reached without passing a barrier."""

    leaf: Leaf
    guards: tuple[Guard, ...]  # of all the ifs around it
    passed: frozenset[int]  # id() of the loops whose back edge lies between


@dataclass(frozen=True, slots=True)
class _Spot:
    """Before `block.ops[index]` (or at the end); `owner` and `outer` lead outwards."""

    block: Block
    index: int
    owner: Op | None
    outer: _Spot | None
    guards: tuple[Guard, ...]


class Neighbourhood:
    def __init__(self, parallel: Parallel):
        self.level: Level = parallel.level
        self._start = _Spot(parallel.body, 0, None, None, ())
        self.spots: dict[int, _Spot] = {}  # by id() of the barrier
        self.barriers: list[Barrier] = []
        self._index(self._start)

    def _index(self, start: _Spot) -> None:
        for index, op in enumerate(start.block.ops):
            here = _Spot(start.block, index, start.owner, start.outer, start.guards)
            if isinstance(op, Barrier) and is_meeting(op, self.level):
                self.spots[id(op)] = here
                self.barriers.append(op)
            elif contains_meeting(op, self.level):
                for number, region in enumerate(regions(op)):
                    self._index(_Spot(region, 0, op, here, guards_inside(op, number, start.guards)))

    def behind(self, barrier: Barrier) -> list[Seen]:
        found: list[Seen] = []
        spot = self.spots[id(barrier)]
        self._forwards(_moved(spot, spot.index + 1), frozenset(), found, set())
        return found

    def intervals(self) -> Iterator[list[Seen]]:
        """What lies between the start, or a barrier, and the next barriers."""
        found: list[Seen] = []
        self._forwards(self._start, frozenset(), found, set())
        yield found
        for barrier in self.barriers:
            yield self.behind(barrier)

    def before(self, barrier: Barrier) -> list[Seen]:
        found: list[Seen] = []
        self._backwards(self.spots[id(barrier)], frozenset(), found, set())
        return found

    # ------------------------------------------------------------ forwards

    def _forwards(self, spot: _Spot, passed: frozenset[int], found: list[Seen], seen: set[tuple]) -> None:
        """From `spot` to the next barriers; then outwards."""
        if self._enter(spot.block.ops[spot.index :], spot, passed, found, seen, forwards=True):
            return
        owner, outer = spot.owner, spot.outer
        if owner is None or outer is None:
            return
        for region, crossed in _next_regions(owner, spot.block):
            start = _Spot(region, 0, owner, outer, guards_inside(owner, 0, outer.guards))
            self._once(start, passed | crossed, found, seen, forwards=True)
        if _may_leave(owner, spot.block):
            self._forwards(_moved(outer, outer.index + 1), passed, found, seen)

    def _backwards(self, spot: _Spot, passed: frozenset[int], found: list[Seen], seen: set[tuple]) -> None:
        if self._enter(tuple(reversed(spot.block.ops[: spot.index])), spot, passed, found, seen, forwards=False):
            return
        owner, outer = spot.owner, spot.outer
        if owner is None or outer is None:
            return
        for region, crossed in _previous_regions(owner, spot.block):
            end = _Spot(region, len(region.ops), owner, outer, guards_inside(owner, 0, outer.guards))
            self._once(end, passed | crossed, found, seen, forwards=False)
        if _may_come_from_before(owner, spot.block):
            self._backwards(outer, passed, found, seen)

    def _once(self, spot: _Spot, passed: frozenset[int], found: list[Seen], seen: set[tuple], forwards: bool) -> None:
        key = (id(spot.block), spot.index, passed)
        if key in seen:
            return
        seen.add(key)
        (self._forwards if forwards else self._backwards)(spot, passed, found, seen)

    def _enter(self, ops: Sequence[Op], spot: _Spot, passed: frozenset[int], found: list[Seen], seen: set[tuple],
               forwards: bool) -> bool:  # fmt: skip
        """Collect along `ops`; True where every path meets a barrier."""
        for op in ops:
            if is_meeting(op, self.level):
                return True
            if not contains_meeting(op, self.level):
                found.extend(Seen(leaf, guards, passed) for leaf, guards in leaves_with_guards((op,), spot.guards))
                continue
            if self._inside(op, spot, passed, found, seen, forwards):
                return True
        return False

    def _inside(self, op: Op, spot: _Spot, passed: frozenset[int], found: list[Seen], seen: set[tuple],
                forwards: bool) -> bool:  # fmt: skip
        """Into an operation with barriers, from its front or from its end; True where no path gets through."""
        match op:
            case If():
                closed = True
                for number, side in enumerate((op.then, op.otherwise)):
                    inner = _Spot(side, 0, None, None, guards_inside(op, number, spot.guards))
                    ops = side.ops if forwards else tuple(reversed(side.ops))
                    closed &= self._enter(ops, inner, passed, found, seen, forwards)
                return closed
            case For():
                inner = _Spot(op.body, 0, None, None, spot.guards)
                ops = op.body.ops if forwards else tuple(reversed(op.body.ops))
                self._enter(ops, inner, passed, found, seen, forwards)
                return False  # no trip at all
            case While():
                return self._inside_while(op, spot, passed, found, seen, forwards)
        return False

    def _inside_while(self, op: While, spot: _Spot, passed: frozenset[int], found: list[Seen], seen: set[tuple],
                      forwards: bool) -> bool:  # fmt: skip
        inner = _Spot(op.before, 0, None, None, spot.guards)
        ops = op.before.ops if forwards else tuple(reversed(op.before.ops))
        if self._enter(ops, inner, passed, found, seen, forwards):
            return True
        ops = op.after.ops if forwards else tuple(reversed(op.after.ops))
        if not self._enter(ops, inner, passed, found, seen, forwards) and has_meeting(op.before.ops, self.level):
            self._enter(op.before.ops, inner, passed | {id(op)}, found, seen, forwards)
        return False


def _moved(spot: _Spot, index: int) -> _Spot:
    return _Spot(spot.block, index, spot.owner, spot.outer, spot.guards)


def guards_inside(owner: Op, region: int, outer: tuple[Guard, ...]) -> tuple[Guard, ...]:
    """What holds in a region of `owner`, by its number, where `outer` holds around it."""
    return (*outer, (owner.cond, region == 0)) if isinstance(owner, If) else outer


def leaves_with_guards(ops: Sequence[Op], guards: tuple[Guard, ...]) -> Iterator[tuple[Leaf, tuple[Guard, ...]]]:
    """All leaves in `ops` with the conditions of the ifs around each."""
    for op in ops:
        if isinstance(op, Leaf):
            yield op, guards
        for number, region in enumerate(regions(op)):
            yield from leaves_with_guards(region.ops, guards_inside(op, number, guards))


def _next_regions(owner: Op, block: Block) -> list[tuple[Block, frozenset[int]]]:
    """Where control goes from the end of `block`, staying in `owner`."""
    match owner:
        case For():
            return [(owner.body, frozenset({id(owner)}))]
        case While():
            if block is owner.before:
                return [(owner.after, frozenset())]
            return [(owner.before, frozenset({id(owner)}))]
    return []


def _previous_regions(owner: Op, block: Block) -> list[tuple[Block, frozenset[int]]]:
    match owner:
        case For():
            return [(owner.body, frozenset({id(owner)}))]
        case While():
            if block is owner.after:
                return [(owner.before, frozenset())]
            return [(owner.after, frozenset({id(owner)}))]
    return []


def _may_leave(owner: Op, block: Block) -> bool:
    return not (isinstance(owner, While) and block is owner.after)


def _may_come_from_before(owner: Op, block: Block) -> bool:
    return not (isinstance(owner, While) and block is owner.after)


def values_defined_in(op: Op) -> frozenset[str]:
    """Names that a loop defines anew in every iteration."""
    inside = [value.name for inner in walk(region_ops(op)) for value in (*results(inner), *arguments(inner))]
    return frozenset([*inside, *(value.name for value in arguments(op))])


def region_ops(op: Op) -> list[Op]:
    return [inner for region in regions(op) for inner in region.ops]
