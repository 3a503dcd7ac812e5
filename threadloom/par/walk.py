"""Walking and rewriting par: every pass, the verifier and emission use these instead of their own recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from threadloom.par.ops import (
    Alloca,
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

# By class: walking is most of a pass's time, and a chain of isinstance tests is most of walking.
_REGIONS: dict[type, Callable[..., tuple[Block, ...]]] = {
    Parallel: lambda op: (op.body,),
    For: lambda op: (op.body,),
    While: lambda op: (op.before, op.after),
    If: lambda op: (op.then, op.otherwise),
}


def regions(op: Op) -> tuple[Block, ...]:
    """The blocks directly inside `op`, in textual order."""
    inner = _REGIONS.get(type(op))
    return () if inner is None else inner(op)


def operands(op: Op) -> tuple[Operand, ...]:
    """What `op` itself uses, not counting its regions."""
    match op:
        case Leaf():
            return op.operands
        case Parallel():
            return op.lowers + op.uppers
        case For():
            return (op.lower, op.upper, op.step, *op.inits)
        case While():
            return op.inits
        case If():
            return (op.cond,)
        case Alloca():
            return (op.count,)
        case Yield(values):
            return values
        case Condition(cond, values):
            return (cond, *values)
        case Return(value):
            return () if value is None else (value,)
    return ()


def results(op: Op) -> tuple[Value, ...]:
    """What `op` defines for the operations after it in its block."""
    if isinstance(op, Leaf | Alloca):
        return () if op.result is None else (op.result,)
    return op.results if isinstance(op, For | While | If) else ()


def arguments(op: Op) -> tuple[Value, ...]:
    """What `op` defines for the operations inside its regions."""
    match op:
        case Parallel():
            return op.ivs
        case For():
            return (op.iv, *op.args)
        case While():
            return op.args + op.after_args
    return ()


def walk(block: Block) -> Iterator[Op]:
    """Every operation in `block` and below, an operation before its regions."""
    return walk_ops(block.ops)


def walk_ops(ops: Iterable[Op]) -> Iterator[Op]:
    """Every operation in `ops` and in their regions, in text order."""
    stack = [iter(ops)]
    while stack:
        for op in stack[-1]:
            yield op
            if type(op) is not Leaf and (inner := _REGIONS.get(type(op))) is not None:
                stack.extend(iter(region.ops) for region in reversed(inner(op)))
                break
        else:
            stack.pop()


def defined(block: Block) -> set[str]:
    """Names of all values that operations in `block` and below define."""
    names: set[str] = set()
    for op in walk(block):
        if type(op) is Leaf:  # most are
            if op.result is not None:
                names.add(op.result.name)
            continue
        names.update(value.name for value in (*results(op), *arguments(op)))
    return names


def free_values(block: Block) -> tuple[Value, ...]:
    """Values used in `block` and below but defined outside it, in order of first use."""
    inside: set[str] = set()
    free: dict[str, Value] = {}
    for op in walk(block):  # definitions come before uses
        leaf = type(op) is Leaf
        for operand in op.operands if leaf else operands(op):
            if type(operand) is Value and operand.name not in inside:
                free.setdefault(operand.name, operand)
        if not leaf:
            inside.update(value.name for value in (*results(op), *arguments(op)))
        elif op.result is not None:
            inside.add(op.result.name)
    return tuple(free.values())


def with_regions(op: Op, rewrite: Callable[[Block], Block]) -> Op:
    """`op` with each of its regions rewritten; the same object where none changes."""
    inner = regions(op)
    if not inner:
        return op
    new = tuple(rewrite(region) for region in inner)
    if all(one is old for one, old in zip(new, inner, strict=True)):
        return op
    match op:
        case While():
            return replace(op, before=new[0], after=new[1])
        case If():
            return replace(op, then=new[0], otherwise=new[1])
    return replace(op, body=new[0])


def map_operands(op: Op, change: Callable[[Operand], Operand]) -> Op:
    """`op` with its own operands changed; its regions are left alone."""

    def all_of(values: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(change(value) for value in values)

    if type(op) is Leaf:  # most are, and `replace` takes five times as long
        return Leaf(op.opcode, all_of(op.operands), op.result, op.attrs, op.loc)
    match op:
        case Parallel():
            return replace(op, lowers=all_of(op.lowers), uppers=all_of(op.uppers))
        case For():
            bounds = {"lower": change(op.lower), "upper": change(op.upper), "step": change(op.step)}
            return replace(op, inits=all_of(op.inits), **bounds)
        case While():
            return replace(op, inits=all_of(op.inits))
        case If():
            return replace(op, cond=change(op.cond))
        case Alloca():
            return replace(op, count=change(op.count))
        case Yield(values):
            return Yield(all_of(values))
        case Condition(cond, values):
            return Condition(change(cond), all_of(values))
        case Return(value):
            return Return(None if value is None else change(value))
    return op


def substitute(block: Block, mapping: dict[str, Operand]) -> Block:
    """`block` with every use of a value named in `mapping` replaced, at every depth."""
    if not mapping:
        return block

    def change(operand: Operand) -> Operand:
        return mapping.get(operand.name, operand) if isinstance(operand, Value) else operand

    def rewrite(inner: Block) -> Block:
        return Block(tuple(with_regions(map_operands(op, change), rewrite) for op in inner.ops))

    return rewrite(block)
