"""What a loop hands to its next iteration, and what it leaves behind at its end, no longer go through one value.

    %r = while (%x = i32 0) {
      %e, %y = if i1 %found { yield i32 0, i32 %x } else { %next = add i32 %x, 1; yield i32 1, i32 %next }
      %goes = icmp eq i32 %e, 1
      condition i1 %goes, i32 %y
    } do (%y.1) { yield i32 %y.1 }
 -> %r, %unused = while (%x = i32 0) {
      %left, %on, %goes.1 = if i1 %found { yield i32 %x, i32 poison, i1 false }
                            else { %next = add i32 %x, 1; yield i32 poison, i32 %next, i1 true }
      condition i1 %goes.1, i32 %left, i32 %on
    } do (%unused.1, %y.1) { yield i32 %y.1 }

So the threads that go on agree about %x again, whatever those have that leave (a search that ends early): over lanes,
shapes.py then finds %x uniform, and its loads are scalar.

Takes whiles whose condition compares a result of an if in their first region, the selector of the raise
(raise_cfg_to_par.py) or a bool, with a constant; paths on which the selector is no constant keep both values. Keeps all
names. Not handled: selectors that pass through an inner loop.
Source: the exit predicates of structured control flow (Bahmann et al., TACO 2015), undone where a path decides them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.traverse import expand, last_values, walk
from threadloom.par.constants import const, int_value
from threadloom.par.ops import (
    I1,
    Block,
    Condition,
    Const,
    Function,
    If,
    Leaf,
    Module,
    Op,
    Operand,
    Value,
    While,
    Yield,
)
from threadloom.par.passes import decline, through_functions
from threadloom.par.walk import operands, with_regions


@dataclass(frozen=True, slots=True)
class PruneExits:
    name: str = "prune-exits"

    def apply(self, module: Module) -> Module:
        return through_functions(module, _function)


def _function(function: Function, module: Module) -> Module:
    if function.body is None or not any(isinstance(op, While) for op in walk(function.body.ops)):
        return module
    editor, used = Editor(function, module), _used(function.body.ops)

    def change(op: Op) -> list[Op] | None:
        exit_ = plan_exit(op) if isinstance(op, While) else None
        return None if exit_ is None else [_pruned(op, exit_, used, editor)]

    body = expand(function.body, change)
    return module if body is function.body else editor.finish(replace(function, body=body))


@dataclass(frozen=True, slots=True)
class Exit:
    """How a loop is left: `branch` gives at `position` a number, and the loop goes on where `goes_on` of it holds."""

    branch: If
    position: int
    predicate: str  # eq or ne
    number: int

    def goes_on(self, number: int) -> bool:
        return (number == self.number) == (self.predicate == "eq")


def plan_exit(op: While) -> Exit | None:
    """None where no constant on a path into the condition says whether the loop goes on."""
    condition = op.before.ops[-1]
    if not isinstance(condition, Condition) or not isinstance(condition.cond, Value):
        return None
    selector, predicate, number = condition.cond, "ne", 0
    for leaf in op.before.ops:
        if isinstance(leaf, Leaf) and leaf.result == selector and leaf.opcode == "icmp":
            known = int_value(leaf.operands[1])
            if known is None or leaf.attrs.predicate not in ("eq", "ne") or not isinstance(leaf.operands[0], Value):
                return None
            selector, predicate, number = leaf.operands[0], leaf.attrs.predicate, known
    branch = _giving(selector, op.before.ops)
    if branch is None:
        return None
    found = Exit(branch, branch.results.index(selector), predicate, number)
    if not _decided(branch, found.position):
        decline("exit of a loop not pruned", "no path decides it by a constant", op.loc)
        return None
    return found


def _giving(value: Operand, ops: Sequence[Op]) -> If | None:
    return next((op for op in ops if isinstance(op, If) and value in op.results), None)


def _decided(branch: If, position: int) -> bool:
    for side in (branch.then, branch.otherwise):
        selector = last_values(side)[position]
        inner = _giving(selector, side.ops)
        if int_value(selector) is not None or (inner and _decided(inner, inner.results.index(selector))):
            return True
    return False


def _used(ops: Sequence[Op]) -> set[str]:
    return {operand.name for op in walk(ops) for operand in operands(op) if isinstance(operand, Value)}


# ------------------------------------------------------------ the loop


def _pruned(op: While, exit_: Exit, used: set[str], editor: Editor) -> While:
    forwarded = last_values(op.before)
    positions = {result: position for position, result in enumerate(exit_.branch.results)}
    wanted: list[tuple[int, bool]] = []  # position among the branch's results, on the paths that go on or that leave
    columns: list[tuple[Operand | int, Value, Value]] = []  # forwarded value (or which of `wanted`), inside, result
    for value, inside, result in zip(forwarded, op.after_args, op.results, strict=True):
        if value not in positions:
            columns.append((value, inside, result))
            continue
        if result.name in used:
            columns.append((len(wanted), editor.again(inside), result))
            wanted.append((positions[value], False))
        if inside.name in used:
            columns.append((len(wanted), inside, editor.again(result)))
            wanted.append((positions[value], True))
    branch, parts, goes = _split(exit_.branch, exit_.position, wanted, exit_, editor)
    values = tuple(parts[one] if isinstance(one, int) else one for one, _, _ in columns)
    ops = [branch if inner is exit_.branch else inner for inner in op.before.ops[:-1]]
    before = _without_idle(Block((*ops, Condition(goes, values))))
    after_args, results = tuple(inside for _, inside, _ in columns), tuple(result for *_, result in columns)
    return replace(op, before=before, after_args=after_args, results=results)


def _split(branch: If, position: int, wanted: list[tuple[int, bool]], exit_: Exit, editor: Editor
           ) -> tuple[If, tuple[Value, ...], Value]:  # fmt: skip
    """`branch` with more results: for each of `wanted` the value on those paths, poison on the others; and whether the
    loop goes on."""
    sides = []
    for side in (branch.then, branch.otherwise):
        values, ops = last_values(side), list(side.ops[:-1])
        selector = values[position]
        number, inner = int_value(selector), _giving(selector, ops)
        chosen: list[Operand] = [values[one] for one, _ in wanted]
        goes: Operand
        if number is not None:
            on = exit_.goes_on(number)
            goes = const(I1, on)
            chosen = [one if when == on else Const(one.type, "poison")
                      for one, (_, when) in zip(chosen, wanted, strict=True)]  # fmt: skip
        elif inner is not None:
            below = [(inner.results.index(one), when) for one, (_, when) in zip(chosen, wanted, strict=True)
                     if one in inner.results]  # fmt: skip
            new, parts, goes = _split(inner, inner.results.index(selector), below, exit_, editor)
            ops[ops.index(inner)] = new
            part = iter(parts)
            chosen = [next(part) if one in inner.results else one for one in chosen]
        else:
            with editor.collect() as asked, editor.at(branch.loc):
                goes = editor.icmp(exit_.predicate, selector, exit_.number, "goes")
            ops += asked
        sides.append(Block((*ops, Yield((*values, *chosen, goes)))))
    fresh = tuple(editor.again(branch.results[one]) for one, _ in wanted)
    goes = editor.fresh("goes", I1)
    return replace(branch, then=sides[0], otherwise=sides[1], results=(*branch.results, *fresh, goes)), fresh, goes


def _without_idle(block: Block) -> Block:
    """Without results of ifs that nobody uses; what passes between regions here is used in `block` or not at all."""
    while True:
        used = _used(block.ops)
        smaller = _smaller(block, lambda one, used=used: one.name in used)
        if smaller is block:
            return block
        block = smaller


def _smaller(block: Block, is_used: Callable[[Value], bool]) -> Block:
    def change(op: Op) -> list[Op] | None:
        if isinstance(op, Leaf) and op.opcode == "icmp" and not is_used(op.result):
            return []
        if not isinstance(op, If) or all(map(is_used, op.results)):
            return None
        kept = [position for position, result in enumerate(op.results) if is_used(result)]

        def side(region: Block) -> Block:
            values = last_values(region)
            return Block((*region.ops[:-1], Yield(tuple(values[one] for one in kept))))

        return [replace(with_regions(op, side), results=tuple(op.results[one] for one in kept))]

    return expand(block, change)
