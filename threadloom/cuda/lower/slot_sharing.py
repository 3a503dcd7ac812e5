"""Which values along control flow can live in one slot, so that nothing is copied where paths meet.

    %r = if i1 %a {                        %s and %r in one slot: the inner if leaves its result there,
      %s = if i1 %b { yield %x }     ->    and the outer one has nothing to do
           else { yield %y }
      yield %s
    } else { yield %z }

A result that is only yielded on by the region around it (an if that all work-items take alike) shares the slot of what
it becomes. A loop's carried value shares too, unless its old value is still read once the new one may be in the slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from threadloom.cuda.lower.scalars import Scalars
from threadloom.cuda.lower.separators import contains_meeting
from threadloom.cuda.lower.traverse import last_values, walk
from threadloom.par.ops import Block, Condition, For, If, Level, Op, Operand, Parallel, Value, While
from threadloom.par.walk import operands, results


@dataclass(frozen=True, slots=True)
class Sharing:
    """homes: value name -> the name of the value whose slot it uses (followed to the end). unstable: carried values
    whose slot may hold the next value before the iteration is over, so that nothing may be computed from it later."""

    homes: dict[str, str]
    unstable: frozenset[str]


def shared_slots(parallel: Parallel, level: Level, scalars: Scalars) -> Sharing:
    finder = _Finder(parallel, level, scalars)
    for op in walk(parallel.body.ops):
        if contains_meeting(op, level):
            finder.look(op)
    return Sharing({name: finder.root(name) for name in finder.homes}, frozenset(finder.unstable))


class _Finder:
    def __init__(self, parallel: Parallel, level: Level, scalars: Scalars):
        self.level, self.scalars = level, scalars
        self.homes: dict[str, str] = {}
        self.unstable: set[str] = set()
        used = (operand for op in walk(parallel.body.ops) for operand in operands(op))
        self.uses = Counter(operand.name for operand in used if isinstance(operand, Value))

    def root(self, name: str) -> str:
        while name in self.homes:
            name = self.homes[name]
        return name

    def look(self, op: Op) -> None:
        match op:
            case If() if self._together(op):
                for side in (op.then, op.otherwise):
                    for result, value, _ in self._passed_on(op.results, side):
                        self.homes[value.name] = result.name
            case For():
                self._loop(op.args, op.body, {})
            case While() if not self._only_tests(op):
                self._loop(op.args, op.after, _aliases(op))
            case While():
                self._only_test(op)

    def _loop(self, args: tuple[Value, ...], block: Block, aliases: dict[str, str]) -> None:
        for arg, value, position in self._passed_on(args, block):
            names = {arg.name, aliases.get(arg.name, arg.name)}
            if self._replaces(block, value, position, names):
                self.homes[value.name] = arg.name
                self.unstable |= names

    def _together(self, op: If) -> bool:
        """All work-items take the same side; else the sides write their slots at different times."""
        return self.scalars.is_scalar(op.cond)

    def _only_tests(self, op: While) -> bool:
        """The second region only hands the forwarded values back."""
        condition = op.before.ops[-1]
        return len(op.after.ops) == 1 and isinstance(condition, Condition) and self.scalars.is_scalar(condition.cond)

    def _only_test(self, op: While) -> None:
        """What the test forwards is the next carried value, and the result: all three in one slot."""
        for arg, back in zip(op.args, last_values(op.after), strict=True):
            if back not in op.after_args:
                continue
            position = op.after_args.index(back)
            values = last_values(op.before)
            targets = tuple(arg if index == position else back for index in range(len(values)))
            for target, value, place in self._passed_on(targets, op.before):
                if place == position and self._replaces(op.before, value, place, {target.name}):
                    self.homes[value.name] = self.homes[back.name] = arg.name
                    self.homes[op.results[position].name] = arg.name
                    self.unstable.add(arg.name)

    def _replaces(self, block: Block, value: Value, position: int, names: set[str]) -> bool:
        """The old value (any of `names`) is not read once `value`, made by an if of `block`, may be in its slot."""
        source = next(op for op in block.ops if value in results(op))
        behind = block.ops[block.ops.index(source) + 1 : -1]
        others = [v for index, v in enumerate(last_values(block)) if index != position]
        if any(_reads(op, names) for op in behind) or any(_is(v, names) for v in others):
            return False
        return (
            isinstance(source, If)
            and self._together(source)
            and self._only_passes(source, source.results.index(value), names)
        )

    def _passed_on(self, targets: tuple[Value, ...], block: Block) -> Iterator[tuple[Value, Value, int]]:
        """(target, value, position) where the region's end passes the result of one of its own ifs or loops."""
        own = {v.name for op in block.ops if contains_meeting(op, self.level) for v in results(op)}
        for position, (target, value) in enumerate(zip(targets, last_values(block), strict=True)):
            if not isinstance(value, Value) or value.name not in own or self.uses[value.name] != 1:
                continue
            if value.type == target.type and not self.scalars.is_scalar(target) and not self.scalars.is_scalar(value):
                yield target, value, position

    def _only_passes(self, op: If, index: int, names: set[str]) -> bool:
        """In each side the old value is read only before the new one is written."""
        for side in (op.then, op.otherwise):
            yielded = last_values(side)
            value = yielded[index]
            if not isinstance(value, Value) or value.name not in self.homes:
                continue  # written at the side's end, where all values are read first
            inner = next((one for one in side.ops if value in results(one)), None)
            if not isinstance(inner, If) or not self._together(inner):
                return False
            behind = side.ops[side.ops.index(inner) + 1 : -1]
            others = [v for position, v in enumerate(yielded) if position != index]
            if any(_reads(one, names) for one in behind) or any(_is(v, names) for v in others):
                return False
            if not self._only_passes(inner, inner.results.index(value), names):
                return False
        return True


def _aliases(op: While) -> dict[str, str]:
    """Carried value -> its name in the second region, where the first passes it on as it is."""
    passed = zip(last_values(op.before), op.after_args, strict=True)
    return {value.name: arg.name for value, arg in passed if isinstance(value, Value) and value in op.args}


def _is(operand: Operand, names: set[str]) -> bool:
    return isinstance(operand, Value) and operand.name in names


def _reads(op: Op, names: set[str]) -> bool:
    return any(_is(operand, names) for inner in walk((op,)) for operand in operands(inner))
