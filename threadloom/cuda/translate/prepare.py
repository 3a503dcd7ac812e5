"""A lowered kernel as people would write it: guarded shifts and divisions as one operation, nothing that nobody uses.

    %small = icmp ult i32 %n, 32
    %amount = select i1 %small, i32 %n, i32 0          ->   %y = call i32 @loom.shift_left(i32 %x, i32 %n)
    %shifted = shl i32 %x, %amount
    %y = select i1 %small, i32 %shifted, i32 0

These are the device's shifts and divisions (semantics.py), which C++ leaves undefined. A divisor or amount that is a
constant has no guard and stays an operator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.translate.cxx_leaves import OWN_DIVISIONS, OWN_SHIFTS
from threadloom.par.constants import int_value
from threadloom.par.intrinsics import effect_of, is_ignored
from threadloom.par.opcodes import Effect
from threadloom.par.ops import (
    Alloca,
    Attrs,
    Block,
    Condition,
    For,
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
from threadloom.par.passes import map_functions
from threadloom.par.walk import operands, results, walk, with_regions


@dataclass(frozen=True, slots=True)
class FoldGuards:
    name: str = "fold-guards"

    def apply(self, module: Module) -> Module:
        return map_functions(module, _folded)


@dataclass(frozen=True, slots=True)
class DropUnused:
    name: str = "drop-unused"

    def apply(self, module: Module) -> Module:
        return map_functions(module, _without_unused)


def _folded(function: Function) -> Function:
    assert function.body is not None
    made = {op.result.name: op for op in walk(function.body) if isinstance(op, Leaf) and op.result is not None}

    def rewrite(block: Block) -> Block:
        return Block(tuple(_fold(op, made) if isinstance(op, Leaf) else with_regions(op, rewrite) for op in block.ops))

    return replace(function, body=rewrite(function.body))


def _fold(op: Leaf, made: dict[str, Leaf]) -> Leaf:
    if op.opcode == "ashr" and (amount := _chosen_amount(op.operands[1], made)) is not None:
        return _call(op, "loom.shift_right.signed", (op.operands[0], amount))
    if op.opcode != "select":
        return op
    for side in op.operands[1:]:
        inner = made.get(side.name) if isinstance(side, Value) else None
        if inner is None:
            continue
        if inner.opcode in ("shl", "lshr") and (amount := _chosen_amount(inner.operands[1], made)) is not None:
            name = "loom.shift_left" if inner.opcode == "shl" else "loom.shift_right.unsigned"
            return _call(op, name, (inner.operands[0], amount))
        if inner.opcode in ("sdiv", "udiv", "srem", "urem") and (by := _divisor(inner.operands[1], made)) is not None:
            name = "divide" if inner.opcode.endswith("div") else "modulo"
            sign = "signed" if inner.opcode[0] == "s" else "unsigned"
            return _call(op, f"loom.{name}.{sign}", (inner.operands[0], by))
    return op


def _call(op: Leaf, callee: str, arguments: tuple[Operand, ...]) -> Leaf:
    return Leaf("call", arguments, op.result, Attrs(callee=callee), op.loc)


def _chosen_amount(amount: Operand, made: dict[str, Leaf]) -> Operand | None:
    """The amount that a guard lets through: select(amount < bits, amount, something)."""
    chosen = made.get(amount.name) if isinstance(amount, Value) else None
    if chosen is None or chosen.opcode != "select":
        return None
    guard = made.get(chosen.operands[0].name) if isinstance(chosen.operands[0], Value) else None
    if guard is None or guard.opcode != "icmp" or guard.attrs.predicate != "ult":
        return None
    same = guard.operands[0] == chosen.operands[1]
    return chosen.operands[1] if same and int_value(guard.operands[1]) in (8, 16, 32, 64) else None


def _divisor(divisor: Operand, made: dict[str, Leaf]) -> Operand | None:
    """The divisor behind its guard: select(unsafe, 1, divisor)."""
    chosen = made.get(divisor.name) if isinstance(divisor, Value) else None
    if chosen is None or chosen.opcode != "select" or int_value(chosen.operands[1]) != 1:
        return None
    return chosen.operands[2]


# ---------------------------------------------------------------- what nobody uses


def _without_unused(function: Function) -> Function:
    assert function.body is not None
    while True:
        live = _live(function.body)
        body = _kept(function.body, live)
        if body == function.body:
            return function
        function = replace(function, body=body)


def _live(block: Block) -> set[str]:
    """Values that something with an effect needs, directly or not; carried values count where they are read."""
    needs: dict[str, set[str]] = {}
    roots: set[str] = set()
    for op in walk(block):
        used = {operand.name for operand in operands(op) if isinstance(operand, Value)}
        match op:
            case Leaf() | Alloca() if _is_pure(op):
                for value in results(op):
                    needs.setdefault(value.name, set()).update(used)
            case Yield() | Condition():
                pass  # their owner says below
            case _:
                roots |= used if not isinstance(op, For | While) else _bounds(op)
        _carry(op, needs, roots)
    live, work = set(roots), list(roots)
    while work:
        for name in needs.get(work.pop(), set()) - live:
            live.add(name)
            work.append(name)
    return live


def _bounds(op: Op) -> set[str]:
    named = (op.lower, op.upper, op.step) if isinstance(op, For) else ()
    return {operand.name for operand in named if isinstance(operand, Value)}


def _carry(op: Op, needs: dict[str, set[str]], roots: set[str]) -> None:
    """The flow of values through the ends of the regions of `op`."""

    def flow(targets: tuple[Value, ...], sources: tuple[Operand, ...]) -> None:
        for target, source in zip(targets, sources, strict=True):
            if isinstance(source, Value):
                needs.setdefault(target.name, set()).add(source.name)

    match op:
        case If():
            for side in (op.then, op.otherwise):
                flow(op.results, _last(side))
        case For():
            flow(op.args, op.inits)
            flow(op.args, _last(op.body))
            flow(op.results, op.args)
        case While():
            condition = op.before.ops[-1]
            assert isinstance(condition, Condition)
            if isinstance(condition.cond, Value):
                roots.add(condition.cond.name)
            flow(op.args, op.inits)
            flow(op.args, _last(op.after))
            flow(op.after_args, condition.values)
            flow(op.results, condition.values)


def _last(block: Block) -> tuple[Operand, ...]:
    return operands(block.ops[-1]) if block.ops and isinstance(block.ops[-1], Yield) else ()


def _kept(block: Block, live: set[str]) -> Block:
    ops = []
    for op in block.ops:
        unread = not any(value.name in live for value in results(op))
        if isinstance(op, Leaf | Alloca) and _is_pure(op) and unread:
            continue
        if isinstance(op, Leaf) and op.opcode == "call" and is_ignored(op.attrs.callee):
            continue
        op = with_regions(op, lambda inner: _kept(inner, live))
        if isinstance(op, If) and unread and all(len(side.ops) <= 1 for side in (op.then, op.otherwise)):
            continue
        ops.append(op)
    return Block(tuple(ops))


def _is_pure(op: Leaf | Alloca) -> bool:
    if isinstance(op, Alloca):
        return True
    if op.opcode == "call" and op.attrs.callee in (*OWN_SHIFTS, *OWN_DIVISIONS):
        return True
    return effect_of(op) in (Effect.NONE, Effect.READ) and not op.attrs.volatile and not op.attrs.ordering
