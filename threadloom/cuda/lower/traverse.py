"""What barrier lowering needs beside threadloom.par.walk: sequences of operations, renaming, replacing one by many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from threadloom.errors import InternalError
from threadloom.par.ops import (
    Alloca,
    Barrier,
    Block,
    Condition,
    For,
    If,
    Leaf,
    Op,
    Operand,
    Parallel,
    Return,
    Value,
    While,
    Yield,
)
from threadloom.par.walk import arguments, operands, results, with_regions
from threadloom.par.walk import walk_ops as walk

Renaming = Mapping[str, Operand]  # value name -> what stands in its place


def last_values(block: Block) -> tuple[Operand, ...]:
    """What the region's Yield or Condition passes on."""
    match block.ops[-1] if block.ops else None:
        case Yield(values) | Condition(_, values):
            return values
    return ()


def value_flow(ops: Iterable[Op]) -> dict[str, tuple[Operand, ...]]:
    """For carried values and results of control flow, at any depth: the operands whose value they may take."""
    flow: dict[str, tuple[Operand, ...]] = {}

    def join(targets: tuple[Value, ...], *sources: tuple[Operand, ...]) -> None:
        for target, *values in zip(targets, *sources, strict=True):
            flow[target.name] = (*flow.get(target.name, ()), *values)

    for op in walk(ops):
        match op:
            case If():
                join(op.results, last_values(op.then), last_values(op.otherwise))
            case For():
                join(op.args, op.inits, last_values(op.body))
                join(op.results, op.args)
            case While():
                join(op.args, op.inits, last_values(op.after))
                join(op.after_args, last_values(op.before))
                join(op.results, last_values(op.before))
    return flow


def free_values(ops: Iterable[Op]) -> dict[str, Value]:
    """Values that `ops` (with their regions) use and do not define, in order of first use."""
    ops = tuple(ops)
    defined: set[str] = set()
    used: dict[str, Value] = {}
    for op in walk(ops):
        if type(op) is Leaf:  # most are
            if op.result is not None:
                defined.add(op.result.name)
            values: Iterable[Operand] = op.operands
        else:
            defined.update(value.name for value in (*results(op), *arguments(op)))
            values = operands(op)
        for value in values:
            if type(value) is Value:
                used.setdefault(value.name, value)
    return {name: value for name, value in used.items() if name not in defined}


def swap(operand: Operand, renaming: Renaming) -> Operand:
    return renaming.get(operand.name, operand) if isinstance(operand, Value) else operand


def swap_all(items: Iterable[Operand], renaming: Renaming) -> tuple[Operand, ...]:
    return tuple(swap(item, renaming) for item in items)


def _define(value: Value, renaming: Renaming) -> Value:
    """A definition keeps its place; only its name may change."""
    new = renaming.get(value.name, value)
    if not isinstance(new, Value):
        raise InternalError(f"%{value.name} is defined here and cannot become the constant {new.text}")
    return new


def _define_all(values: Iterable[Value], renaming: Renaming) -> tuple[Value, ...]:
    return tuple(_define(value, renaming) for value in values)


def rename_block(block: Block, renaming: Renaming) -> Block:
    return Block(tuple(rename(op, renaming) for op in block.ops))


def rename(op: Op, renaming: Renaming) -> Op:
    """`op` with every use and definition of a renamed value replaced, in its regions too."""
    if not renaming:
        return op
    if type(op) is Leaf:  # most are, and `replace` takes five times as long
        result = None if op.result is None else _define(op.result, renaming)
        return Leaf(op.opcode, swap_all(op.operands, renaming), result, op.attrs, op.loc)
    match op:
        case Parallel():
            return replace(op, ivs=_define_all(op.ivs, renaming), lowers=swap_all(op.lowers, renaming),
                           uppers=swap_all(op.uppers, renaming), body=rename_block(op.body, renaming))  # fmt: skip
        case For():
            return replace(op, iv=_define(op.iv, renaming), lower=swap(op.lower, renaming),
                           upper=swap(op.upper, renaming), step=swap(op.step, renaming),
                           inits=swap_all(op.inits, renaming), args=_define_all(op.args, renaming),
                           body=rename_block(op.body, renaming),
                           results=_define_all(op.results, renaming))  # fmt: skip
        case While():
            return replace(op, inits=swap_all(op.inits, renaming), args=_define_all(op.args, renaming),
                           before=rename_block(op.before, renaming),
                           after_args=_define_all(op.after_args, renaming), after=rename_block(op.after, renaming),
                           results=_define_all(op.results, renaming))  # fmt: skip
        case If():
            return replace(op, cond=swap(op.cond, renaming), then=rename_block(op.then, renaming),
                           otherwise=rename_block(op.otherwise, renaming),
                           results=_define_all(op.results, renaming))  # fmt: skip
        case Alloca():
            return replace(op, result=_define(op.result, renaming), count=swap(op.count, renaming))
        case Yield(values):
            return Yield(swap_all(values, renaming))
        case Condition(cond, values):
            return Condition(swap(cond, renaming), swap_all(values, renaming))
        case Return(value):
            return Return(None if value is None else swap(value, renaming))
        case Barrier():
            return op
    raise InternalError(f"not a par operation: {op!r}")


def expand(block: Block, change: Callable[[Op], Sequence[Op] | None]) -> Block:
    """Every operation, inner ones first, replaced by what `change` gives; None keeps it. `block` itself if all stay."""
    ops: list[Op] = []
    changed = False
    for old in block.ops:
        op = old if type(old) is Leaf else with_regions(old, lambda region: expand(region, change))
        new = change(op)
        if new is None:
            ops.append(op)
            changed |= op is not old
        else:
            ops.extend(new)
            changed = True
    return Block(tuple(ops)) if changed else block
