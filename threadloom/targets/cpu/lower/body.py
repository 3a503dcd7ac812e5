"""Planned steps -> par, in order: nests, packs, copies, products, streams and branches."""

from __future__ import annotations

from collections.abc import Sequence

from threadloom.errors import InternalError
from threadloom.par.constants import const
from threadloom.par.ops import Operand
from threadloom.targets.cpu.fuse import placed
from threadloom.targets.cpu.lower.context import Context, Range, Trip
from threadloom.targets.cpu.lower.dot import ProductEmitter
from threadloom.targets.cpu.lower.dtypes import register_type
from threadloom.targets.cpu.lower.matrix import MatrixEmitter, pack_for_matrix
from threadloom.targets.cpu.lower.nest import NestEmitter, is_dear
from threadloom.targets.cpu.lower.pack import copy, fill, pack
from threadloom.targets.cpu.lower.ranges import loop_range, scalar, tile_extent, tile_length
from threadloom.targets.cpu.lower.shared import attach
from threadloom.targets.cpu.lower.uniform import failing_part, split_condition
from threadloom.targets.cpu.plan import Attach, Branches, Copy, Loop, Loops, Multiply, Pack, PlannedBody
from threadloom.tile.ops import Bound, LoopAxis, Value
from threadloom.tile.uses import results


def emit_body(c: Context, body: PlannedBody) -> None:
    for step in body.steps:
        match step:
            case Loops():
                _loops(c, step)
            case Pack() if step.matrix:
                pack_for_matrix(c, step)
            case Pack():
                pack(c, step)
            case Attach():
                attach(c, step)
            case Copy(source, target):
                copy(c, source, target)
            case Multiply() if step.matrix:
                MatrixEmitter(c, step, lambda nest: _loops(c, nest)).emit()
            case Multiply():
                ProductEmitter(c, step, lambda nest: _loops(c, nest)).emit()
            case Loop():
                _loop(c, step)
            case Branches():
                _branches(c, step)


def _loops(c: Context, step: Loops) -> None:
    """A nest; built a second time without the conditions that hold for most tiles as a whole, unless exponentials are
    most of its work and code. One that only masks in place is limited to where its condition may fail."""
    if step.masks and (part := failing_part(c, step)) is not None:
        c.windows = part
        _nest(c, step, unrolls=False)
        c.windows = {}
        return
    twice = not c.seldom and not any(is_dear(op) for op, _, _ in placed(step.items))
    split = split_condition(c, step) if twice else None
    if split is None:
        _nest(c, step)
        return
    everywhere, names = split
    with c.b.if_(everywhere) as branch:
        c.known_true = names
        _nest(c, step)
        c.known_true = frozenset()
        branch.otherwise()
        _nest(c, step)


def _nest(c: Context, step: Loops, unrolls: bool = True) -> None:
    outer, c.rooms = c.rooms, dict(step.rooms)
    NestEmitter(c, step.axis, dict(step.fetched), unrolls).emit(step.items, [c.root()])
    c.rooms = outer


# ---------------------------------------------------------------- loops


def _loop(c: Context, step: Loop) -> None:
    for move in step.before:
        copy(c, move.source, move.target)
    args = [arg for arg in getattr(step.op, "args", ()) if not arg.type.axes]
    inits = [
        scalar(c, init)
        for init, arg in zip(getattr(step.op, "inits", ()), getattr(step.op, "args", ()), strict=True)
        if not arg.type.axes
    ]
    outer = c.trip
    carried = _over_axes(c, step, step.op.axes, args, inits)
    c.trip = outer
    if step.starts or step.epilogue is not None:
        _without_trips(c, step)
    outs = [out for out in results(step.op) if not out.type.axes]
    c.scalars.update((out.name, value) for out, value in zip(outs, carried, strict=True))


def _over_axes(
    c: Context, step: Loop, axes: Sequence[LoopAxis], args: Sequence[Value], inits: Sequence[Operand]
) -> Sequence[Operand]:
    """Loops over the tiles of `axes`, the last fastest, carrying the scalars through; their values afterwards."""
    if not axes:
        c.scalars.update((arg.name, value) for arg, value in zip(args, inits, strict=True))
        emit_body(c, step.body)
        following = [scalar(c, made) for made in step.body.yields if not made.type.axes]
        for move in step.after:
            copy(c, move.source, move.target)
        return following
    b, axis = c.b, axes[0]
    start, stop = loop_range(c, axis)
    extent = tile_extent(c, axis)
    names = [arg.name for arg in args]
    with b.loop(start, stop, extent, inits=list(inits), names=names, iv=axis.axis.name) as loop:
        c.ranges[axis.axis.name] = Range(loop.iv, tile_length(c, axis, loop.iv, stop))
        c.streams.append(axis.axis.name)
        first = b.icmp("eq", loop.iv, start)
        last = b.icmp("sge", b.add(loop.iv, extent), stop)
        c.trip = Trip(first, last, step.starts, _finishing(step), step.epilogue)
        loop.yield_(*_over_axes(c, step, axes[1:], args, list(loop.args)))
    c.streams.pop()
    return loop.results


def _finishing(step: Loop) -> str:
    """The product that an epilogue follows: the last step."""
    last = step.body.steps[-1] if step.body.steps else None
    return last.product.result.name if step.epilogue is not None and isinstance(last, Multiply) else ""


def _without_trips(c: Context, step: Loop) -> None:
    """What the first and last trips do where there are none."""
    if len(step.op.axes) == 1 and _has_trips(c, step.op.axes[0]):
        return
    start, stop = loop_range(c, step.op.axes[0])
    outer, c.seldom = c.seldom, True
    with c.b.if_(c.b.icmp("sge", start, stop)):
        if step.starts:
            products = [s.product for s in step.body.steps if isinstance(s, Multiply)]
            result = next(p.result for p in products if p.result.name == step.starts)
            home = c.plan.homes[result.name]
            fill(c, result, home, const(register_type(result.type.dtype), 0))
        if step.epilogue is not None:
            _loops(c, step.epilogue)
    c.seldom = outer


def _has_trips(c: Context, axis: LoopAxis) -> bool:
    """Whether the loop runs from 0 to the end of a tile along the same dimension: tiles are not empty."""
    stop = c.plan.definitions.get(axis.stop.name) if axis.stop is not None else None
    at_end = isinstance(stop, Bound) and stop.which == "stop"
    return axis.start is None and at_end and c.axes[stop.axis].dim == axis.axis.dim


# ---------------------------------------------------------------- branches


def _branches(c: Context, step: Branches) -> None:
    b = c.b
    outs = [out for out in step.op.results if not out.type.axes]
    with b.if_(scalar(c, step.op.cond), names=[out.name for out in outs]) as branch:
        emit_body(c, step.then)
        branch.yield_(*_scalars(c, step.then))
        branch.otherwise()
        emit_body(c, step.otherwise)
        branch.yield_(*_scalars(c, step.otherwise))
    if len(branch.results) != len(outs):
        raise InternalError("a branch yields another number of scalars than it has results")
    c.scalars.update((out.name, value) for out, value in zip(outs, branch.results, strict=True))


def _scalars(c: Context, body: PlannedBody) -> list[Operand]:
    return [scalar(c, value) for value in body.yields if not value.type.axes]
