"""Work-items of a Parallel, one at a time between barriers.

Each item runs until it waits or ends. When all that have not ended wait at barriers of this region's level, the
barrier is over for all of them; when they all wait at a barrier of an outer level, so does the item that contains
the region. Items of one region that wait at different barriers diverge: reported, then released together, as
hardware counts arrivals. A rendezvous (a warp shuffle, a vote) is over when all items it needs have brought their
arguments.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from threadloom.errors import InternalError
from threadloom.par.interp_code import Pausing, RunPausing, Waiting
from threadloom.par.interp_leaf_code import Env, Get, Run
from threadloom.par.interp_leaves import signed
from threadloom.par.interp_order import GROUP_ITEMS, Position, Step, meet
from threadloom.par.interp_values import InterpValue
from threadloom.par.ops import Barrier, Int, Leaf, Level, Parallel

if TYPE_CHECKING:
    from threadloom.par.interp import Interpreter

_instances = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """A call that several work-items of a `level` region do together.

    group_of(item, args): linear numbers of the items that `item` needs, itself included; those that have ended are
    not waited for. combine(args by item): the answer of each item. together: those of the group that wait at this call
    now are enough (which lanes run together). orders: it is a barrier of the level as well; orders_group: of the
    participants' group (a warp) only.
    """

    callee: str
    level: Level
    group_of: Callable[[int, tuple[InterpValue, ...]], frozenset[int]]
    combine: Callable[[Mapping[int, tuple[InterpValue, ...]]], Mapping[int, InterpValue]]
    together: bool = False
    orders: bool = False
    orders_group: bool = False


class Item:
    """One work-item: where it is in all parallel regions around it."""

    __slots__ = ("barriers", "instance", "known", "number", "outer", "position", "syncs")

    def __init__(self, outer: Item | None = None, instance: int = 0, number: int = 0):
        self.outer, self.instance, self.number, self.barriers, self.syncs = outer, instance, number, 0, 0
        self.known = (0,) * GROUP_ITEMS
        self.position: Position = ()
        self.moved()

    def moved(self) -> None:
        """Recompute the position after a barrier, here or further out."""
        if self.outer is not None:
            own = Step(self.instance, self.number, self.barriers, self.syncs, self.known)
            self.position = (*self.outer.position, own)


class Region:
    """One execution of a Parallel whose body may wait."""

    def __init__(self, interpreter: Interpreter, op: Parallel, items: Sequence[tuple[Item, Pausing]], outer: Item):
        self.interpreter, self.op, self.outer = interpreter, op, outer
        self.items = {item.number: item for item, _ in items}
        self.running = {item.number: generator for item, generator in items}
        self.waiting: dict[int, Waiting] = {}

    def run(self) -> Pausing:
        for number in list(self.running):
            self._advance(number, None)
        while self.waiting:
            if self._meet():
                continue
            own = {number: w for number, w in self.waiting.items() if _level(w) == self.op.level}
            if len(own) == len(self.waiting):
                self._pass_barrier()
            elif not own:
                answer = yield next(iter(self.waiting.values()))  # all wait for an outer region
                self._release_outer(answer)
            else:
                self._diverged(own)

    def _advance(self, number: int, answer: InterpValue | None) -> None:
        self.waiting.pop(number, None)
        try:
            self.waiting[number] = self.running[number].send(answer)
        except StopIteration:
            del self.running[number]

    def _pass_barrier(self) -> None:
        barriers = list({id(w.at): w.at for w in self.waiting.values()}.values())
        if len(barriers) > 1:
            self._report(barriers, "work-items wait at different barriers")
        self._release(list(self.waiting))

    def _release(self, numbers: list[int]) -> None:
        for number in numbers:
            self.items[number].barriers += 1
            self.items[number].moved()
        for number in numbers:
            self._advance(number, None)

    def _release_outer(self, answer: InterpValue) -> None:
        numbers = list(self.waiting)
        for number in numbers:
            self.items[number].moved()
        for number in numbers:
            self._advance(number, answer)

    def _diverged(self, own: dict[int, Waiting]) -> None:
        self._report([w.at for w in self.waiting.values()], "work-items wait at barriers of different scope")
        self._release(list(own))

    def _report(self, at: Sequence[Barrier | Leaf], message: str) -> None:
        leaves = [Leaf("fence", (), loc=one.loc) for one in at]
        locs = {str(leaf.loc): leaf for leaf in leaves}
        self.interpreter.memory.report("divergent-barrier", message, *locs.values(), key=tuple(sorted(map(id, at))))

    def _meet(self) -> bool:
        """Finish one rendezvous of this level that is complete, or that can never be."""
        called = [(number, waiting, found) for number, waiting in self.waiting.items()
                  if (found := self._rendezvous_at(waiting)) is not None]  # fmt: skip
        stuck: list[tuple[Rendezvous, list[int]]] = []
        for number, waiting, rendezvous in sorted(called, key=lambda one: one[2].together):
            needed = rendezvous.group_of(number, waiting.args) & self.running.keys()
            present = [other for other in needed if other in self.waiting and self.waiting[other].at is waiting.at]
            if len(present) < len(needed) and not rendezvous.together:
                if any(other not in self.waiting for other in needed):
                    continue
                if any(_level(self.waiting[other]) is None for other in needed - set(present)):
                    stuck.append((rendezvous, present))
                    continue  # another rendezvous goes first
                self._report([waiting.at], f"{rendezvous.callee} waits for work-items that do not come")
            self._finish(rendezvous, present)
            return True
        if stuck:  # each waits for another one: hardware does not wait, as it counts arrivals
            self._finish(*stuck[0])
        return bool(stuck)

    def _finish(self, rendezvous: Rendezvous, present: list[int]) -> None:
        answers = rendezvous.combine({other: self.waiting[other].args for other in sorted(present)})
        if rendezvous.orders_group:
            self._meet_in_group(present)
        for other in present:
            self.items[other].barriers += rendezvous.orders
            self.items[other].moved()
        for other in sorted(present):
            self._advance(other, answers.get(other, 0))

    def _meet_in_group(self, numbers: Sequence[int]) -> None:
        items = [self.items[number] for number in numbers]
        known = meet(numbers, [item.syncs for item in items], [item.known for item in items])
        for item in items:
            item.syncs, item.known = item.syncs + 1, known

    def _rendezvous_at(self, waiting: Waiting) -> Rendezvous | None:
        if not isinstance(waiting.at, Leaf):
            return None
        found = self.interpreter.rendezvous[waiting.at.attrs.callee]
        return found if found.level == self.op.level else None


def _level(waiting: Waiting) -> Level | None:
    return waiting.at.scope if isinstance(waiting.at, Barrier) else None


# ---------------------------------------------------------------- compiling a Parallel


def index_space(interpreter: Interpreter, op: Parallel) -> Callable[[Env], Generator[tuple[int, ...], None, None]]:
    """All index tuples, last variable fastest, as the values of the induction variables."""
    bounds: list[tuple[Get, Get]] = [(interpreter.code.get(low), interpreter.code.get(high))
                                     for low, high in zip(op.lowers, op.uppers, strict=True)]  # fmt: skip
    bits = [iv.type.bits if isinstance(iv.type, Int) else 64 for iv in op.ivs]

    def indices(env: Env) -> Generator[tuple[int, ...], None, None]:
        ranges = []
        for (low, high), width in zip(bounds, bits, strict=True):
            first, end = (signed(interpreter.code.defined(bound(env), op), width) for bound in (low, high))
            ranges.append([index & ((1 << width) - 1) for index in range(first, end)])
        yield from itertools.product(*ranges)

    return indices


def compile_plain(interpreter: Interpreter, op: Parallel) -> Run:
    """A Parallel whose items never wait: a loop over them."""
    indices, body, names = index_space(interpreter, op), interpreter.code.block(op.body), [iv.name for iv in op.ivs]

    def run(env: Env, item: Item) -> None:
        instance = next(_instances)
        for number, index in enumerate(indices(env)):
            body(env | dict(zip(names, index, strict=True)), Item(item, instance, number))

    return run


def compile_pausing(interpreter: Interpreter, op: Parallel) -> RunPausing:
    indices, names = index_space(interpreter, op), [iv.name for iv in op.ivs]
    body = interpreter.code.pausing_block(op.body)

    def run(env: Env, item: Item) -> Pausing:
        instance = next(_instances)
        items = []
        for number, index in enumerate(indices(env)):
            inner = Item(item, instance, number)
            items.append((inner, body(env | dict(zip(names, index, strict=True)), inner)))
        yield from Region(interpreter, op, items, item).run()

    return run


def run_to_end(pausing: RunPausing) -> Run:
    """A Parallel that waits only for its own items, inside code that never waits."""

    def run(env: Env, item: Item) -> None:
        for waiting in pausing(env, item):
            raise InternalError(f"nothing around this region ends {waiting.at!r}")

    return run
