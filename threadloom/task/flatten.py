"""First step of building the sTask-graph: loops become numbered bodies, conditions become guards on operations.

    %acc.3 = if %c { %acc.2 = ...; yield %acc.2 } else { yield %acc.1 }
    ->  [%c] %acc.3 = ...          [not %c] %acc.3 = cast %acc.1

What a branch or an iteration passes on is made by code of its own: a load, or a value that stands elsewhere, is copied
(a place that copies fill is no place to keep something in).

Perfectly nested grids become loop 0. Needs: canonical form. Not handled: nothing; a grid that has company in its
parent becomes a loop of its own (its iterations are independent, so running them in order is right).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from threadloom.source import Loc
from threadloom.tile.ops import (
    AtomicAdd,
    Block,
    Cast,
    Grid,
    If,
    Kernel,
    Load,
    LoopAxis,
    Op,
    Store,
    Stream,
    Value,
    Yield,
)
from threadloom.tile.uses import operands, replace_operands, results

Guards = tuple[tuple[str, bool], ...]
Carried = tuple[Value, Value, Value, Value]  # init, arg, next, result


@dataclass(frozen=True, slots=True)
class Item:
    """An operation, or (`loop` set) a whole inner loop; it runs where all guards hold."""

    op: Op | None
    guards: Guards
    loop: int | None = None


@dataclass(slots=True)
class LoopBody:
    id: int
    parent: int | None
    axes: tuple[LoopAxis, ...]
    carried: tuple[Carried, ...] = ()
    loc: Loc | None = None
    guards: Guards = ()  # those under which the loop itself stands; its items have them too
    items: list[Item] = field(default_factory=list)


def flatten(kernel: Kernel) -> list[LoopBody]:
    """The bodies of all loops, outer ones first."""
    axes, ops, loc = _perfect_nest(kernel.body)
    bodies = [LoopBody(0, None, axes, loc=loc)]
    _fill(bodies[0], ops, (), bodies)
    return bodies


def _perfect_nest(block: Block) -> tuple[tuple[LoopAxis, ...], tuple[Op, ...], Loc | None]:
    """The axes of grids nested in one another with only scalar code beside them, and all code in order."""
    grids = [op for op in block.ops if isinstance(op, Grid)]
    others = [op for op in block.ops if not isinstance(op, Grid)]
    if len(grids) != 1 or not all(_is_scalar_code(op) for op in others):
        return (), block.ops, None
    at = block.ops.index(grids[0])
    axes, inner, _ = _perfect_nest(grids[0].body)
    return (*grids[0].axes, *axes), (*block.ops[:at], *inner, *block.ops[at + 1 :]), grids[0].loc


def _is_scalar_code(op: Op) -> bool:
    if isinstance(op, Store | AtomicAdd | Stream | If | Grid):
        return False
    return all(not v.type.axes for v in (*results(op), *operands(op)))


def _fill(body: LoopBody, ops: tuple[Op, ...], guards: Guards, bodies: list[LoopBody]) -> None:
    for op in ops:
        match op:
            case Yield():
                pass
            case If():
                _branch(body, op, op.then, (*guards, (op.cond.name, True)), bodies)
                _branch(body, op, op.otherwise, (*guards, (op.cond.name, False)), bodies)
            case Stream() | Grid():
                carried, copies = _carried(op)
                inner = LoopBody(len(bodies), body.id, op.axes, carried, op.loc, guards)
                bodies.append(inner)
                body.items.append(Item(None, guards, inner.id))
                _fill(inner, (*op.body.ops, *copies), guards, bodies)
            case _:
                body.items.append(Item(op, guards))


def _carried(op: Stream | Grid) -> tuple[tuple[Carried, ...], list[Op]]:
    """What the loop carries, and the copies that its body ends with."""
    if isinstance(op, Grid):
        return (), []
    own, copies, following = _own(op.body.ops), [], []
    for arg, value in zip(op.args, op.body.ops[-1].values, strict=True):
        if value.name in own:
            own.remove(value.name)  # for one of what is carried
        else:
            copies.append(Cast(Value(f"{arg.name}.0", value.type), value, op.loc))  # numbers begin at 1
            value = copies[-1].result
        following.append(value)
    return tuple(zip(op.inits, op.args, following, op.results, strict=True)), copies


def _own(ops: tuple[Op, ...]) -> set[str]:
    """Names of the values that code of the block makes in places of their own."""
    return {r.name for o in ops for r in results(o) if not isinstance(o, Load) or not r.type.axes}


def _branch(body: LoopBody, op: If, block: Block, guards: Guards, bodies: list[LoopBody]) -> None:
    """The branch's code, writing the If's results in place of the values it yields."""
    *ops, last = block.ops
    own = _own(tuple(ops))
    renamed: dict[str, Value] = {}
    copies: list[Op] = []
    for result, value in zip(op.results, last.values, strict=True):
        if value.name in own and value.name not in renamed:
            renamed[value.name] = result
        else:
            copies.append(Cast(result, renamed.get(value.name, value), op.loc))
    _fill(body, (*(_rename(o, renamed) for o in ops), *copies), guards, bodies)


def _rename(op: Op, renamed: dict[str, Value]) -> Op:
    """Rename the values that `op` and its regions read and make."""
    new = lambda v: renamed.get(v.name, v)  # noqa: E731
    op = replace_operands(op, new)
    match op:
        case Stream():
            inner = Block(tuple(_rename(o, renamed) for o in op.body.ops))
            return replace(op, results=tuple(map(new, op.results)), body=inner)
        case If():
            blocks = [Block(tuple(_rename(o, renamed) for o in b.ops)) for b in (op.then, op.otherwise)]
            return replace(op, results=tuple(map(new, op.results)), then=blocks[0], otherwise=blocks[1])
        case Store() | AtomicAdd() | Yield() | Grid():
            return op
    return replace(op, result=new(op.result))
