"""Which work-items have left the kernel: those for which everything that follows is skipped.

    %exit.0 = while ... { ...; %e = if i1 %done { yield i32 1 } else { barrier; yield i32 0 } ... }
    %go = icmp eq i32 %exit.0, 0
    if i1 %go { rest with barriers }            # a work-item with %exit.0 = 1 has exited inside the loop

A barrier waits only for work-items that have not exited, so control flow that parts the others from these is legal.
The analysis runs the rest of the kernel with the few integers known on the exit path: pure operations fold where
their operands are known; anything that touches memory or meets a barrier says "has not exited".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from threadloom.cuda.kernel import DEBUG_CALLS
from threadloom.cuda.lower.calls import is_marker
from threadloom.cuda.lower.effects import Memory, is_pure
from threadloom.cuda.lower.runtime_calls import is_check_call
from threadloom.cuda.lower.traverse import last_values, value_flow, walk
from threadloom.par.constants import const, fold_binary, fold_icmp, int_value
from threadloom.par.ops import (
    Alloca,
    Block,
    Condition,
    Const,
    For,
    If,
    Int,
    Leaf,
    Op,
    Operand,
    Parallel,
    Value,
    While,
    Yield,
)
from threadloom.par.walk import regions, results

Known = dict[str, Const]


@dataclass(frozen=True, slots=True)
class Frame:
    """One region around a place: its owner, which of the owner's regions, and the operations behind the place."""

    owner: Op  # the outermost one is the Parallel
    region: int
    rest: tuple[Op, ...]


Place = tuple[Frame, ...]  # outermost first


def places(parallel: Parallel) -> Iterator[tuple[Op, Place]]:
    """Every operation in the body with what comes after it."""
    yield from _places(parallel.body, parallel, 0, ())


def _places(block: Block, owner: Op, region: int, outer: Place) -> Iterator[tuple[Op, Place]]:
    for index, op in enumerate(block.ops):
        place = (*outer, Frame(owner, region, block.ops[index + 1 :]))
        yield op, place
        if not isinstance(op, Parallel):
            for number, inner in enumerate(regions(op)):
                yield from _places(inner, op, number, place)


class Exits:
    def __init__(self, memory: Memory):
        self._memory = memory

    def side_exits(self, op: If, side: Block, place: Place) -> bool:
        """Work-items that take `side` of `op` (whatever they do in it) have exited afterwards."""
        known = {
            result.name: value
            for result, value in zip(op.results, last_values(side), strict=True)
            if isinstance(value, Const) and int_value(value) is not None
        }
        return self._idle(place, known)

    def leaving_exits(self, op: While, place: Place) -> list[tuple[int, Const]]:
        """Pairs (i, c): a work-item that leaves the loop while forwarded value i equals c has exited."""
        condition = op.before.ops[-1]
        found = []
        for index, (result, value) in enumerate(zip(op.results, last_values(op.before), strict=True)):
            if isinstance(result.type, Int) and isinstance(condition, Condition):
                for constant in _constants(value, op, result.type):
                    if self._idle(place, {result.name: constant}):
                        found.append((index, constant))
        return found

    def exits(self, place: Place) -> bool:
        """Whoever comes to `place` has nothing left to do."""
        return self._idle(place, {})

    # ------------------------------------------------------------ running the rest

    def _idle(self, place: Place, known: Known) -> bool:
        known = dict(known)
        for frame in reversed(place):
            if not self._run(frame.rest, known):
                return False
            match frame.owner:
                case Parallel():
                    return True
                case If():
                    _bind(frame.owner.results, _end(frame.rest), known)
                case While() if frame.region == 1:
                    _bind(frame.owner.args, _end(frame.rest), known)
                    if not self._run(frame.owner.before.ops, known):
                        return False
                    if not self._leaves(frame.owner, known):
                        return False
                case While():
                    if not self._leaves(frame.owner, known):
                        return False
                case _:
                    return False  # the next iteration of a for
        return False

    def _leaves(self, op: While, known: Known) -> bool:
        condition = op.before.ops[-1]
        if not isinstance(condition, Condition) or _known(condition.cond, known) != 0:
            return False
        _bind(op.results, condition.values, known)
        return True

    def _run(self, ops: Iterable[Op], known: Known) -> bool:
        """Go through `ops`; False where one of them can be seen from outside."""
        return all(self._step(op, known) for op in ops)

    def _step(self, op: Op, known: Known) -> bool:
        for value in results(op):
            known.pop(value.name, None)  # from an earlier iteration
        match op:
            case Yield() | Condition() | Alloca():
                return True
            case Leaf():
                self._fold(op, known)
                return self._harmless(op)
            case If():
                taken = _known(op.cond, known)
                for value, side in ((1, op.then), (0, op.otherwise)):
                    if taken in (None, value) and not self._run(side.ops, known):
                        return False
                if taken is not None:
                    _bind(op.results, last_values(op.then if taken else op.otherwise), known)
                return True
            case While():
                _bind(op.args, op.inits, known)
                if not self._run(op.before.ops, known):
                    return False
                if self._leaves(op, known):
                    return True
                return all(self._harmless(inner) for inner in walk((op,)))
            case For():
                return all(self._harmless(inner) for inner in walk((op,)))
        return False

    def _harmless(self, op: Op) -> bool:
        if isinstance(op, Leaf):
            unseen = is_marker(op) or op.opcode == "load" or op.attrs.callee in DEBUG_CALLS
            return unseen or is_check_call(op.attrs.callee) or is_pure(op, self._memory.callee(op))
        return isinstance(op, If | For | While | Alloca | Yield | Condition)

    def _fold(self, op: Leaf, known: Known) -> None:
        if op.result is None or not isinstance(op.result.type, Int):
            return
        values = [known.get(o.name, o) if isinstance(o, Value) else o for o in op.operands]
        folded: Operand | None = None
        if op.opcode == "icmp":
            folded = fold_icmp(op.attrs.predicate, values[0], values[1])
        elif op.opcode == "select" and int_value(values[0]) is not None:
            folded = values[1] if int_value(values[0]) else values[2]
        elif op.opcode in ("zext", "freeze", "trunc", "sext"):
            folded = _cast(op.opcode, values[0], op.result.type)
        elif len(values) == 2:
            folded = fold_binary(op.opcode, values[0], values[1])
        if isinstance(folded, Const) and int_value(folded) is not None:
            known[op.result.name] = folded


def _cast(opcode: str, value: Operand, type_: Int) -> Const | None:
    number = int_value(value)
    if number is None or not isinstance(value.type, Int):
        return None
    if opcode == "zext":
        number %= 1 << value.type.bits
    elif opcode == "sext" and value.type.bits == 1:
        number = -number
    return const(type_, number)


def _known(operand: Operand, known: Known) -> int | None:
    return int_value(known.get(operand.name, operand) if isinstance(operand, Value) else operand)


def _end(rest: tuple[Op, ...]) -> tuple[Operand, ...]:
    return last_values(Block(rest))


def _bind(targets: tuple[Value, ...], sources: tuple[Operand, ...], known: Known) -> None:
    values = [known.get(source.name) if isinstance(source, Value) else source for source in sources]
    for target, value in zip(targets, values, strict=True):
        known.pop(target.name, None)
        if isinstance(value, Const) and int_value(value) is not None:
            known[target.name] = value


def _constants(value: Operand, loop: While, type_: Int) -> list[Const]:
    """Integer constants that can reach `value` through carried values, ifs and selects of the loop."""
    sources = value_flow((loop,))
    for op in walk((loop,)):
        match op:
            case Leaf(opcode="select"):
                sources[op.result.name] = op.operands[1:]
            case Leaf(opcode="freeze"):
                sources[op.result.name] = op.operands
    found: dict[str, Const] = {}
    queue, seen = [value], set()
    while queue:
        operand = queue.pop()
        if isinstance(operand, Const):
            if int_value(operand) is not None and operand.type == type_:
                found[operand.text] = operand
        elif operand.name not in seen:
            seen.add(operand.name)
            queue.extend(sources.get(operand.name, ()))
    return list(found.values())
