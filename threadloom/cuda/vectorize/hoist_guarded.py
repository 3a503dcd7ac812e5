"""Loads that a loop repeats leave it, with the condition under which its first iteration reaches them.

    %r, %n = while (%x = i32 0) {
      %in = icmp slt i32 %x, %m
      %left, %on, %goes = if i1 %in { %v = load float, ptr %p; ... } else { yield i32 -1, i32 poison, i1 false }
      condition i1 %goes, i32 %left, i32 %on
    } do { ... }
 -> %in.1 = icmp slt i32 0, %m
    %v.1 = if i1 %in.1 { %v = load float, ptr %p; yield float %v } else { yield float poison }
    while ... with %v.1

LLVM does the same to scalar loops when it rotates them. Over lanes (vectorize_threads.py) it cannot: there the load
stands under the mask of the lanes that are left in the loop, and each iteration's mask waits for it.

Takes loads whose address does not change, in whiles that write nothing they may touch, at the top of the first region
or behind ifs whose other side leaves the loop (prune_exits.py makes that a constant). Needs their conditions to follow
from what the loop starts with. Declines where those take more than a few operations.
Source: loop-invariant motion after loop inversion; not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Access, Memory, conflict, is_pure, orders_memory
from threadloom.cuda.lower.traverse import expand, last_values, walk
from threadloom.par.constants import int_value
from threadloom.par.intrinsics import is_speculatable
from threadloom.par.ops import I1, Condition, Const, Function, If, Leaf, Module, Op, Operand, Value, While
from threadloom.par.passes import decline, through_functions
from threadloom.par.walk import arguments, results, substitute

_MOST_LEAVES = 8  # of one condition or address


@dataclass(frozen=True, slots=True)
class HoistGuarded:
    name: str = "hoist-guarded"

    def apply(self, module: Module) -> Module:
        return through_functions(module, _function)


def _function(function: Function, module: Module) -> Module:
    if function.body is None or not any(isinstance(op, While) for op in walk(function.body.ops)):
        return module
    editor, memory = Editor(function, module), Memory(function, module)

    def change(op: Op) -> list[Op] | None:
        plan = plan_hoists(op, memory) if isinstance(op, While) else ()
        return _hoisted(op, plan, editor) if plan else None

    body = expand(function.body, change)
    return module if body is function.body else editor.finish(replace(function, body=body))


@dataclass(frozen=True, slots=True)
class Hoist:
    load: Leaf
    address: tuple[Leaf, ...]  # what computes it, in order; goes along
    guards: tuple[Guard, ...]  # all of them hold where the first iteration reaches the load


@dataclass(frozen=True, slots=True)
class Guard:
    cond: Operand
    holds: bool
    leaves: tuple[Leaf, ...]  # what computes it from the loop's carried values


def plan_hoists(op: While, memory: Memory) -> tuple[Hoist, ...]:
    """None in loops that do more with memory than load and store."""
    inside = list(walk((op,)))
    if any((isinstance(one, Leaf) and not is_pure(one, memory.callee(one)) and one.opcode not in ("load", "store"))
           or orders_memory(one) for one in inside):  # fmt: skip
        return ()
    accesses = list(memory.accesses((op,)))
    definitions = {value.name: one for one in inside for value in results(one)}
    carried = {value.name for one in inside for value in arguments(one)}
    search = _Search(op, accesses, definitions, carried)
    search.through(op.before.ops, ())
    return tuple(search.found)


class _Search:
    def __init__(self, loop: While, accesses: list[Access], definitions: dict[str, Op], carried: set[str]):
        self._accesses, self._definitions, self._carried = accesses, definitions, carried
        self._args = {value.name for value in loop.args}
        self._leaving = _leaving_positions(loop)
        self.found: list[Hoist] = []

    def through(self, ops: Sequence[Op], guards: tuple[Guard, ...]) -> None:
        for op in ops:
            if isinstance(op, Leaf) and op.opcode == "load":
                self._load(op, guards)
            elif isinstance(op, If):
                self._if(op, guards)

    def _load(self, op: Leaf, guards: tuple[Guard, ...]) -> None:
        address = self._chain(op.operands[0], set())
        if address is None or op.attrs.volatile:
            return
        own = next(one for one in self._accesses if one.op is op)
        if not any(conflict(one, own) for one in self._accesses):
            self.found.append(Hoist(op, address, guards))

    def _if(self, op: If, guards: tuple[Guard, ...]) -> None:
        """Into the side that goes on where the other one leaves: the first iteration takes it, or is the last."""
        position = self._leaving.get(id(op))
        for side, other, holds in ((op.then, op.otherwise, True), (op.otherwise, op.then, False)):
            if position is None or int_value(last_values(other)[position]) != 0:
                continue
            leaves = self._chain(op.cond, self._args)
            if leaves is not None:
                self.through(side.ops, (*guards, Guard(op.cond, holds, leaves)))
            elif any(isinstance(one, Leaf) and one.opcode == "load" for one in side.ops):
                decline("load stays in a loop", "its guard follows from more than what the loop starts with", op.loc)

    def _chain(self, operand: Operand, start: set[str]) -> tuple[Leaf, ...] | None:
        """The leaves inside the loop that compute `operand` from outside values and those in `start`; None where there
        are others, too many, or such that may not run anywhere."""
        found: dict[str, Leaf] = {}

        def visit(value: Operand) -> bool:
            if not isinstance(value, Value) or value.name in found or value.name in start:
                return True
            if value.name in self._carried:
                return False
            if (op := self._definitions.get(value.name)) is None:
                return True
            if not isinstance(op, Leaf) or op.opcode == "freeze" or not is_speculatable(op):
                return False
            if not all(visit(one) for one in op.operands):
                return False
            found[value.name] = op
            return len(found) <= _MOST_LEAVES

        return tuple(found.values()) if visit(operand) else None


def _leaving_positions(loop: While) -> dict[int, int]:
    """For the ifs in the first region that say whether the loop goes on: which of their results does."""
    condition = loop.before.ops[-1]
    found: dict[int, int] = {}
    if not isinstance(condition, Condition):
        return {}
    pending: list[tuple[Sequence[Op], Operand]] = [(loop.before.ops, condition.cond)]
    while pending:
        ops, selector = pending.pop()
        branch = next((op for op in ops if isinstance(op, If) and selector in op.results), None)
        if branch is not None and selector.type == I1:
            position = found[id(branch)] = branch.results.index(selector)
            pending += [(side.ops, last_values(side)[position]) for side in (branch.then, branch.otherwise)]
    return found


# ------------------------------------------------------------ the change


def _hoisted(op: While, plan: Sequence[Hoist], editor: Editor) -> list[Op]:
    starts = {arg.name: init for arg, init in zip(op.args, op.inits, strict=True)}
    with editor.collect() as front:
        known: dict[str, Operand] = {}
        for hoist in plan:
            known[hoist.load.result.name] = _in_front(hoist, starts, editor)
    without = {hoist.load.result.name for hoist in plan}

    def drop(inner: Op) -> list[Op] | None:
        return [] if isinstance(inner, Leaf) and inner.result is not None and inner.result.name in without else None

    before, after = (expand(region, drop) for region in (op.before, op.after))
    return [*front, replace(op, before=substitute(before, known), after=substitute(after, known))]


def _in_front(hoist: Hoist, starts: dict[str, Operand], editor: Editor) -> Operand:
    cond: Operand = Const(I1, "true")
    for guard in hoist.guards:
        one = _copied(guard.leaves, guard.cond, starts, editor)
        one = one if guard.holds else editor.xor(one, Const(I1, "true"), "not")
        cond = one if int_value(cond) == 1 else editor.select(cond, one, Const(I1, "false"), name="reached")
    if int_value(cond) == 1:
        return _copied((*hoist.address, hoist.load), hoist.load.result, {}, editor)
    with editor.at(hoist.load.loc), editor.if_(cond) as branch:
        branch.yield_(_copied((*hoist.address, hoist.load), hoist.load.result, {}, editor))
        branch.otherwise()
        branch.yield_(Const(hoist.load.result.type, "poison"))
    return branch.results[0]


def _copied(leaves: Sequence[Leaf], value: Operand, starts: dict[str, Operand], editor: Editor) -> Operand:
    """`value` once more, by copies of `leaves` at the editor's place."""
    renaming = dict(starts)
    for leaf in leaves:
        (copy,) = editor.copy((leaf,), renaming)
        editor.ops.append(copy)
        renaming[leaf.result.name] = copy.result
    return renaming.get(value.name, value) if isinstance(value, Value) else value
