"""Store-to-load forwarding and dead stores across barriers.

    store float %w, ptr (tile at %ty, %tx)                      # dead: overwritten below, read by nobody
    barrier threads
    %v = load float, ptr (tile at %ty, %tx)          ->         barrier threads
    %p = fmul float %v, %f                                      %p = fmul float %w, %f
    store float %p, ptr (tile at %ty, %tx)                      store float %p, ptr (tile at %ty, %tx)

A load takes the value of an earlier store of the same thread to the same address, if nothing between them may write
there: no access of the own thread that may overlap, and, where a barrier lies between, no conflicting access of another
thread (conflicts.py: the hole for the own thread makes tile[ty][tx] private). Without a barrier between, another
thread's write would be a race. A store is dead if a later store of the same block of code overwrites it and nothing
between may read it. Both operations stand in the same region. Volatile and atomic accesses stay. Declines where only a
conflict stands in the way, with the line of the other access.
Source: PPoPP'23, section 3.1.1 (mem2reg over barriers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from threadloom.cuda.lower.effects import Access, Memory, may_alias, orders_memory
from threadloom.cuda.lower.separators import collective_scope
from threadloom.cuda.lower.traverse import expand, rename_block, walk
from threadloom.cuda.optimize.affine import Address, plus, renamed
from threadloom.cuda.optimize.conflicts import threads_conflict
from threadloom.cuda.optimize.eliminate_barriers import Facts
from threadloom.cuda.optimize.neighbourhood import Guard, Seen, guards_inside, leaves_with_guards, values_defined_in
from threadloom.par.ops import Barrier, Block, For, Function, Leaf, Level, Module, Op, Operand, Parallel, While
from threadloom.par.passes import decline, map_functions
from threadloom.par.result_types import stored_bytes
from threadloom.par.walk import with_regions


@dataclass(frozen=True, slots=True)
class ForwardStores:
    level: Level = Level.THREADS
    name: str = "forward-stores"

    def apply(self, module: Module) -> Module:
        return map_functions(module, lambda function: self._function(function, module))

    def _function(self, function: Function, module: Module) -> Function:
        memory = Memory(function, module)

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not self.level or not _waits(op.body.ops):
                return None  # without barriers LLVM does it
            return [_Forwarding(op, memory).apply()]

        return replace(function, body=expand(function.body, change))


class _Forwarding:
    def __init__(self, parallel: Parallel, memory: Memory):
        self.parallel, self.memory = parallel, memory
        self.facts = Facts(parallel, memory)
        self.renaming: dict[str, Operand] = {}

    def apply(self) -> Parallel:
        body = self._block(self.parallel.body, ())
        return replace(self.parallel, body=rename_block(body, self._resolved()))

    def _resolved(self) -> dict[str, Operand]:
        """A forwarded value may itself be a load that has been forwarded."""

        def last(operand: Operand) -> Operand:
            name = getattr(operand, "name", None)
            return last(self.renaming[name]) if name in self.renaming else operand

        return {name: last(value) for name, value in self.renaming.items()}

    def _block(self, block: Block, guards: tuple[Guard, ...]) -> Block:
        ops = list(block.ops)
        gone: set[int] = set()
        for index, op in enumerate(ops):
            if _plain(op, "load") and (value := self._stored_before(ops[:index], op, guards)) is not None:
                self.renaming[op.result.name] = value
                gone.add(id(op))
        live = [op for op in ops if id(op) not in gone]
        dead = {id(op) for index, op in enumerate(live) if _plain(op, "store") and self._dead(live[index:], guards)}
        return Block(tuple(self._inside(op, guards) for op in live if id(op) not in dead))

    def _inside(self, op: Op, guards: tuple[Guard, ...]) -> Op:
        number = count()
        return with_regions(op, lambda region: self._block(region, guards_inside(op, next(number), guards)))

    # ------------------------------------------------------------ loads

    def _stored_before(self, ops: Sequence[Op], load: Leaf, guards: tuple[Guard, ...]) -> Operand | None:
        target = self._access(load)
        between: list[Op] = []
        for op in reversed(ops):
            if _plain(op, "store") and self._same_place(self._access(op), target):
                if op.operands[0].type != load.result.type:
                    decline("load not forwarded", f"the store{_line(op)} is of another type", load.loc)
                elif self._overwritten(between, load, target, guards):
                    decline("load not forwarded", f"something may write there after the store{_line(op)}", load.loc)
                else:
                    return op.operands[0]
                return None
            if any(orders_memory(inner) for inner in walk((op,))):
                return None
            between.append(op)
        return None

    def _overwritten(self, between: Sequence[Op], load: Leaf, target: Access, guards: tuple[Guard, ...]) -> bool:
        """Whether something between the store and the load may write the place."""
        if self._own_touches(between, target, writes_only=True):
            return True
        return _waits(between) and self._others_touch(between, load, target, guards, writes_only=True)

    # ------------------------------------------------------------ stores

    def _dead(self, ops: Sequence[Op], guards: tuple[Guard, ...]) -> bool:
        """ops[0] is a store: whether a later one overwrites it before anybody reads."""
        store, target = ops[0], self._access(ops[0])
        between: list[Op] = []
        for op in ops[1:]:
            if _plain(op, "store") and self._same_place(self._access(op), target):
                if _waits(between) and self._others_touch(between, store, target, guards, writes_only=False):
                    decline("store not dead", f"another thread may look before the store{_line(op)}", store.loc)
                    return False
                return True
            if self._own_touches((op,), target, writes_only=False) or any(orders_memory(one) for one in walk((op,))):
                return False
            between.append(op)
        return False

    # ------------------------------------------------------------ tests

    def _access(self, op: Leaf) -> Access:
        return next(iter(self.memory.accesses((op,))))

    def _address(self, access: Access) -> Address:
        return self.facts.arithmetic.address(access.pointer)

    def _same_place(self, one: Access, other: Access) -> bool:
        """The same thread reaches the same bytes with both."""
        if one.type is None or other.type is None or stored_bytes(one.type) != stored_bytes(other.type):
            return False
        return one.pointer == other.pointer or self._address(one) == self._address(other)

    def _own_touches(self, ops: Sequence[Op], target: Access, writes_only: bool) -> bool:
        """The own thread may access the place in `ops`."""
        return any(
            (access.writes or not writes_only) and self._may_overlap(access, target, self._changed(ops))
            for access in self.memory.accesses(ops)
        )

    def _may_overlap(self, one: Access, other: Access, changed: frozenset[str]) -> bool:
        """For one thread; addresses at a known distance do not overlap."""
        if not may_alias(one.roots, other.roots):
            return False
        if one.pointer is None or other.pointer is None or one.type is None or other.type is None:
            return True
        here, there = self._address(one).flattened(), self._address(other).flattened()
        if here.base != there.base:
            return True
        index = here.index(1)
        index = renamed(index, {atom: f"{atom}'" for atom in index.atoms() & changed})
        distance = plus(index, there.index(1), -1)
        if distance.atoms():
            return True
        apart = distance.coefficient()
        return -stored_bytes(one.type) < apart < stored_bytes(other.type)

    def _others_touch(self, ops: Sequence[Op], leaf: Leaf, target: Access, guards: tuple[Guard, ...],
                      writes_only: bool) -> bool:  # fmt: skip
        """Another thread may access the place in `ops`."""
        here = Seen(leaf, guards, frozenset())
        for inner, inside in leaves_with_guards(ops, guards):
            for access in self.memory.accesses((inner,)):
                if writes_only and not access.writes:
                    continue
                if self._meets(Seen(inner, inside, frozenset()), access, here, target, self._changed(ops)):
                    return True
        return False

    def _meets(self, one: Seen, mine: Access, other: Seen, yours: Access, changed: frozenset[str]) -> bool:
        if self.memory.is_private_access(yours):
            return False
        place, there = self.facts.place(one, mine), self.facts.place(other, yours)
        return threads_conflict(place, there, self.facts.threads, changed | self.facts.many)

    def _changed(self, ops: Sequence[Op]) -> frozenset[str]:
        loops = [op for op in walk(ops) if isinstance(op, For | While)]
        return frozenset().union(*(values_defined_in(loop) for loop in loops))


def _waits(ops: Sequence[Op]) -> bool:
    """Threads meet somewhere in `ops`: at a barrier, or in a warp."""
    return any(isinstance(op, Barrier) or collective_scope(op) for op in walk(ops))


def _line(op: Op) -> str:
    return f" of line {op.loc.line}" if op.loc is not None else ""


def _plain(op: Op, opcode: str) -> bool:
    return isinstance(op, Leaf) and op.opcode == opcode and not op.attrs.volatile and not op.attrs.ordering
