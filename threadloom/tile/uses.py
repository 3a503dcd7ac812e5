"""What an operation reads and makes: the one place that knows the operand fields of every operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from threadloom.tile.ops import (
    AtomicAdd,
    Axis,
    AxisKind,
    Block,
    Bound,
    Cast,
    Const,
    DimSize,
    Dot,
    Full,
    Grid,
    If,
    Index,
    Load,
    LoopAxis,
    Map,
    Op,
    Reduce,
    Scan,
    Store,
    Stream,
    Subscript,
    Term,
    Value,
    Yield,
)


def _subscript_values(subscripts: tuple[Subscript, ...]) -> tuple[Value, ...]:
    return tuple(t.value for s in subscripts for t in s.terms if t.value is not None)


def _bounds(axes: tuple[LoopAxis, ...]) -> tuple[Value, ...]:
    return tuple(v for a in axes for v in (a.start, a.stop) if v is not None)


def operands(op: Op) -> tuple[Value, ...]:
    """The values `op` itself reads (not those that its regions read)."""
    match op:
        case Const() | Index() | Bound() | DimSize():
            return ()
        case Load():
            return _subscript_values(op.subscripts)
        case Store() | AtomicAdd():
            return (*_subscript_values(op.subscripts), op.value)
        case Map():
            return op.args
        case Cast() | Reduce() | Scan():
            return (op.arg,)
        case Full():
            return (op.value,)
        case Dot():
            return (op.a, op.b)
        case Grid():
            return _bounds(op.axes)
        case Stream():
            return (*_bounds(op.axes), *op.inits)
        case If():
            return (op.cond,)
        case Yield():
            return op.values


def results(op: Op) -> tuple[Value, ...]:
    """The values `op` makes for the operations after it."""
    match op:
        case Stream() | If():
            return op.results
        case Store() | AtomicAdd() | Grid() | Yield():
            return ()
        case _:
            return (op.result,)


def subscript_axes(subscripts: tuple[Subscript, ...], axes: Iterable[Axis]) -> tuple[str, ...]:
    """The axes of the tile that subscripts describe, in order of first appearance; `axes`: all of the kernel."""
    each = {a.name for a in axes if a.kind is AxisKind.EACH}
    found: dict[str, None] = {}
    for term in (t for s in subscripts for t in s.terms):
        if term.value is not None:
            found.update(dict.fromkeys(term.value.type.axes))
        elif term.axis not in each:
            found[term.axis] = None
    return tuple(found)


def summed_axes(op: Op) -> set[str]:
    """Axes whose whole extent in the operands each element of the result depends on."""
    match op:
        case Dot():
            return set(op.over)
        case Reduce() | Scan():
            return {op.axis}
        case _:
            return set()


def regions(op: Op) -> tuple[Block, ...]:
    match op:
        case Grid() | Stream():
            return (op.body,)
        case If():
            return (op.then, op.otherwise)
        case _:
            return ()


def walk(block: Block) -> Iterator[Op]:
    """Every operation of `block` and of its regions, in program order."""
    for op in block.ops:
        yield op
        for region in regions(op):
            yield from walk(region)


def made_of(axes: set[str], ops: Iterable[Op], known: frozenset[str] = frozenset()) -> set[str]:
    """Names of the values that `ops` make of the tiles of `axes` (of what is loaded by them, or of their indices) or of
    values that are `known` to be."""
    found: set[str] = set()
    for op in ops:
        inside = [name for region in regions(op) for name in made_of(axes, region.ops, known | found)]
        by_index = isinstance(op, Index) and op.axis in axes
        by_load = isinstance(op, Load) and any(t.axis in axes for s in op.subscripts for t in s.terms)
        if inside or by_index or by_load or any(v.name in known | found for v in operands(op)):
            found.update(inside, (r.name for r in results(op)))
    return found


def replace_operands(op: Op, new: Callable[[Value], Value]) -> Op:
    """`op` reading new(v) for every v it reads; its regions are untouched."""

    def subscripts(old: tuple[Subscript, ...]) -> tuple[Subscript, ...]:
        return tuple(
            Subscript(tuple(Term(t.coefficient, t.axis, t.value and new(t.value)) for t in s.terms), s.offset)
            for s in old
        )

    def axes(old: tuple[LoopAxis, ...]) -> tuple[LoopAxis, ...]:
        return tuple(LoopAxis(a.axis, a.start and new(a.start), a.stop and new(a.stop)) for a in old)

    match op:
        case Load():
            return replace(op, subscripts=subscripts(op.subscripts))
        case Store() | AtomicAdd():
            return replace(op, subscripts=subscripts(op.subscripts), value=new(op.value))
        case Map():
            return replace(op, args=tuple(map(new, op.args)))
        case Cast() | Reduce() | Scan():
            return replace(op, arg=new(op.arg))
        case Full():
            return replace(op, value=new(op.value))
        case Dot():
            return replace(op, a=new(op.a), b=new(op.b))
        case Grid():
            return replace(op, axes=axes(op.axes))
        case Stream():
            return replace(op, axes=axes(op.axes), inits=tuple(map(new, op.inits)))
        case If():
            return replace(op, cond=new(op.cond))
        case Yield():
            return Yield(tuple(map(new, op.values)))
        case _:
            return op
