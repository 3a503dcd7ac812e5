"""Walking and rewriting par: every pass, the verifier and emission use these instead of their own recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

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


def regions(op: Op) -> tuple[Block, ...]:
    """The blocks directly inside `op`, in textual order."""
    match op:
        case Parallel() | For():
            return (op.body,)
        case While():
            return (op.before, op.after)
        case If():
            return (op.then, op.otherwise)
    return ()


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
    match op:
        case Leaf() | Alloca():
            return () if op.result is None else (op.result,)
        case For() | While() | If():
            return op.results
    return ()


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
    for op in block.ops:
        yield op
        for region in regions(op):
            yield from walk(region)


def defined(block: Block) -> set[str]:
    """Names of all values that operations in `block` and below define."""
    return {value.name for op in walk(block) for value in (*results(op), *arguments(op))}


def free_values(block: Block) -> tuple[Value, ...]:
    """Values used in `block` and below but defined outside it, in order of first use."""
    inside, free = defined(block), {}
    for op in walk(block):
        for operand in operands(op):
            if isinstance(operand, Value) and operand.name not in inside:
                free.setdefault(operand.name, operand)
    return tuple(free.values())


def with_regions(op: Op, rewrite: Callable[[Block], Block]) -> Op:
    """`op` with each of its regions rewritten."""
    match op:
        case Parallel() | For():
            return replace(op, body=rewrite(op.body))
        case While():
            return replace(op, before=rewrite(op.before), after=rewrite(op.after))
        case If():
            return replace(op, then=rewrite(op.then), otherwise=rewrite(op.otherwise))
    return op


def map_operands(op: Op, change: Callable[[Operand], Operand]) -> Op:
    """`op` with its own operands changed; its regions are left alone."""

    def all_of(values: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(change(value) for value in values)

    match op:
        case Leaf():
            return replace(op, operands=all_of(op.operands))
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


def contains_barrier(block: Block) -> bool:
    return any(isinstance(op, Barrier) for op in walk(block))
