"""Canonical form of a tile kernel: what all later stages may rely on.

    before                                    after
    x: load q[m, D] inside a stream of k      hoisted before it (nothing in it depends on k)
    two equal loads                           one
    a carried value that never changes        its initial value
    a value nobody reads                      gone
    stream over span(K, 0, dim(K))            over k without bounds
    i: index m; a load of x[i]                of x[m]
    y: stream carrying x from a shared init   each carried value has an initial value of its own
    yield of an outer value or another arg    of a copy made in the body

Needs: a verified kernel. Keeps: the results, bit for bit. Not handled: reassociation, algebra. Loads may move out of
loops that run no iteration; that is safe, since loads outside a tensor give 0. Code does not move out of an If.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from threadloom.tile.ops import (
    AtomicAdd,
    Axis,
    Block,
    Bound,
    Cast,
    Const,
    DimSize,
    Full,
    Grid,
    If,
    Index,
    Kernel,
    Load,
    LoopAxis,
    Op,
    Store,
    Stream,
    Subscript,
    Term,
    Value,
    Yield,
)
from threadloom.tile.uses import operands, regions, replace_operands, results, walk


def canonicalize(kernel: Kernel) -> Kernel:
    body = kernel.body
    while True:
        before = body
        body = _unify(body, {}, {})
        body = _index_by_axes(body, {op.result.name: op.axis for op in walk(body) if isinstance(op, Index)})
        body = _drop_bounds(body, {op.result.name: op for op in walk(body) if isinstance(op, Const | DimSize)})
        body = _hoist(body)
        body = _simplify_carries(body)
        body = _remove_dead(body)
        if body == before:
            break
    return replace(kernel, body=_separate_carries(body, Fresh(kernel)), axes=_used_axes(kernel, body))


def _used_axes(kernel: Kernel, body: Block) -> tuple[Axis, ...]:
    """Without the axes of code that is gone."""
    used = set()
    for op in walk(body):
        used |= {a.axis.name for a in getattr(op, "axes", ())} | depends_on_axes(op)
    return tuple(a for a in kernel.axes if a.name in used)


def depends_on_axes(op: Op) -> set[str]:
    """Axes whose current tile the operation itself looks at."""
    found = {a for r in results(op) for a in r.type.axes}
    match op:
        case Index() | Bound():
            found.add(op.axis)
        case Load() | Store() | AtomicAdd():
            found |= {t.axis for s in op.subscripts for t in s.terms if t.axis is not None}
    return found


def is_pure(op: Op) -> bool:
    return not isinstance(op, Store | AtomicAdd | Grid | Stream | If | Yield)


# ---------------------------------------------------------------- equal operations


def _expression(op: Op) -> tuple[object, ...]:
    """Everything of `op` but its result's name and its place."""
    kept = [getattr(op, f.name) for f in fields(op) if f.name not in ("result", "loc")]
    return (type(op), *op.result.type.axes, op.result.type.dtype, *kept)


def _unify(block: Block, known: Mapping[tuple[object, ...], Value], renamed: dict[str, Value]) -> Block:
    """Let equal pure operations of a block and of those around it share one value. Full makes storage and stays."""
    known = dict(known)
    kept: list[Op] = []
    for op in block.ops:
        op = replace_operands(op, lambda v: renamed.get(v.name, v))
        if is_pure(op) and not isinstance(op, Full):
            key = _expression(op)
            if key in known:
                renamed[op.result.name] = known[key]
                continue
            known[key] = op.result
        kept.append(_with_regions(op, [_unify(r, known, renamed) for r in regions(op)]))
    return Block(tuple(kept))


def _with_regions(op: Op, blocks: list[Block]) -> Op:
    match op:
        case Grid() | Stream():
            return replace(op, body=blocks[0])
        case If():
            return replace(op, then=blocks[0], otherwise=blocks[1])
    return op


# ---------------------------------------------------------------- indices that are axes


def _index_by_axes(block: Block, axes: Mapping[str, str]) -> Block:
    """Index tensors by the axes themselves in place of their index values, named in `axes`: no gather is needed."""
    kept: list[Op] = []
    for op in block.ops:
        op = _with_regions(op, [_index_by_axes(r, axes) for r in regions(op)])
        if isinstance(op, Load | Store | AtomicAdd):
            op = replace(op, subscripts=tuple(_subscript_by_axes(s, axes) for s in op.subscripts))
        kept.append(op)
    return Block(tuple(kept))


def _subscript_by_axes(subscript: Subscript, axes: Mapping[str, str]) -> Subscript:
    named = [t for t in subscript.terms if t.value is not None and t.value.name in axes]
    if not named:
        return subscript
    terms = [t for t in subscript.terms if t not in named]
    factors = {t.axis: t.coefficient for t in terms if t.axis is not None}
    for term in named:
        axis = axes[term.value.name]
        factors[axis] = factors.get(axis, 0) + term.coefficient
    by_axis = tuple(Term(factor, axis=axis) for axis, factor in factors.items() if factor)
    return Subscript((*by_axis, *(t for t in terms if t.axis is None)), subscript.offset)


# ---------------------------------------------------------------- bounds that bound nothing


def _drop_bounds(block: Block, known: Mapping[str, Const | DimSize]) -> Block:
    kept: list[Op] = []
    for op in block.ops:
        op = _with_regions(op, [_drop_bounds(r, known) for r in regions(op)])
        if isinstance(op, Grid | Stream):
            op = replace(op, axes=tuple(_drop_bound(a, known) for a in op.axes))
        kept.append(op)
    return Block(tuple(kept))


def _drop_bound(axis: LoopAxis, known: Mapping[str, Const | DimSize]) -> LoopAxis:
    start = known.get(axis.start.name) if axis.start else None
    stop = known.get(axis.stop.name) if axis.stop else None
    dim = axis.axis.dim
    if isinstance(start, Const) and start.number <= 0:
        axis = replace(axis, start=None)
    if isinstance(stop, DimSize) and stop.dim == dim:
        axis = replace(axis, stop=None)
    if isinstance(stop, Const) and isinstance(dim, int) and stop.number >= dim:
        axis = replace(axis, stop=None)
    return axis


# ---------------------------------------------------------------- invariants


def _hoist(block: Block) -> Block:
    """Move pure operations out of streams (and grids: of the kernel's scalar code) that they do not depend on."""
    kept: list[Op] = []
    for op in block.ops:
        op = _with_regions(op, [_hoist(r) for r in regions(op)])
        if isinstance(op, Stream):
            inside = {a.axis.name for a in op.axes}
            varying = {v.name for v in op.args}
            stay: list[Op] = []
            for inner in op.body.ops:
                moves = is_pure(inner) and not isinstance(inner, Full)
                moves = moves and not depends_on_axes(inner) & inside
                if moves and all(v.name not in varying for v in operands(inner)):
                    kept.append(inner)
                else:
                    varying |= {v.name for v in results(inner)}
                    stay.append(inner)
            op = replace(op, body=Block(tuple(stay)))
        kept.append(op)
    return Block(tuple(kept))


# ---------------------------------------------------------------- carried values, dead code


def _simplify_carries(block: Block) -> Block:
    """Drop carried values that never change or that only feed themselves."""
    renamed: dict[str, Value] = {}
    kept: list[Op] = []
    for op in block.ops:
        op = replace_operands(op, lambda v: renamed.get(v.name, v))
        if isinstance(op, Stream):
            op = _drop_unchanged(op, renamed)
        inner = [_rename(r, renamed) for r in regions(op)]
        kept.append(_with_regions(op, [_simplify_carries(r) for r in inner]))
    return Block(tuple(kept))


def _drop_unchanged(op: Stream, renamed: dict[str, Value]) -> Stream:
    nexts = op.body.ops[-1].values
    stays = [at for at, (arg, value) in enumerate(zip(op.args, nexts, strict=True)) if arg != value]
    if len(stays) == len(op.args):
        return op
    for at in set(range(len(op.args))) - set(stays):
        renamed[op.args[at].name] = renamed[op.results[at].name] = op.inits[at]
    return _keep_carries(op, stays)


def _keep_carries(op: Stream, kept: list[int]) -> Stream:
    pick = lambda values: tuple(values[at] for at in kept)  # noqa: E731
    *rest, last = op.body.ops
    body = Block((*rest, Yield(pick(last.values))))
    return replace(op, inits=pick(op.inits), args=pick(op.args), results=pick(op.results), body=body)


def _rename(block: Block, renamed: Mapping[str, Value]) -> Block:
    new = lambda v: renamed.get(v.name, v)  # noqa: E731
    ops = tuple(
        _with_regions(replace_operands(op, new), [_rename(r, renamed) for r in regions(op)]) for op in block.ops
    )
    return Block(ops)


def _remove_dead(block: Block) -> Block:
    return _live(block, set())


def _live(block: Block, needed: set[str]) -> Block:
    """The block without what nothing needs; adds to `needed` what it reads from outside."""
    kept: list[Op] = []
    for op in reversed(block.ops):
        match op:
            case Stream():
                op = _live_stream(op, needed)
                alive = bool(op.results) or _has_effect(op)
            case If():
                at = [i for i, r in enumerate(op.results) if r.name in needed]
                branches = [_keep_yields(b, at) for b in (op.then, op.otherwise)]
                op = replace(op, results=tuple(op.results[i] for i in at))
                alive = bool(at) or any(_has_effect(b) for b in branches)
                if alive:
                    op = replace(op, then=_live(branches[0], needed), otherwise=_live(branches[1], needed))
            case Grid():
                op = replace(op, body=_live(op.body, needed))
                alive = True
            case _:
                alive = not is_pure(op) or op.result.name in needed
        if alive:
            needed |= {v.name for v in operands(op)}
            kept.append(op)
    return Block(tuple(reversed(kept)))


def _has_effect(thing: Op | Block) -> bool:
    blocks = [thing] if isinstance(thing, Block) else regions(thing)
    return any(isinstance(op, Store | AtomicAdd) for b in blocks for op in walk(b))


def _keep_yields(block: Block, kept: list[int]) -> Block:
    *rest, last = block.ops
    return Block((*rest, Yield(tuple(last.values[at] for at in kept))))


def _live_stream(op: Stream, needed: set[str]) -> Stream:
    """A carried value lives if its result is needed, or if the body needs it for something that lives."""
    live = {at for at, r in enumerate(op.results) if r.name in needed}
    while True:
        trial = _keep_carries(op, sorted(live))
        inside: set[str] = set()
        body = _live(trial.body, inside)
        more = {at for at, a in enumerate(op.args) if a.name in inside} - live
        if not more:
            needed |= inside
            return replace(trial, body=body)
        live |= more


# ---------------------------------------------------------------- carried values have places of their own


class Fresh:
    """Names for new values that clash with none of the kernel's."""

    def __init__(self, kernel: Kernel):
        self.taken = {v.name for op in walk(kernel.body) for v in results(op)} | {s.name for s in kernel.scalars}
        self.taken |= {a.name for op in walk(kernel.body) if isinstance(op, Stream) for a in op.args}

    def like(self, value: Value) -> Value:
        stem, count = value.name.split(".")[0], 1
        while f"{stem}.{count}" in self.taken:
            count += 1
        self.taken.add(f"{stem}.{count}")
        return Value(f"{stem}.{count}", value.type)


def _separate_carries(block: Block, fresh: Fresh) -> Block:
    """Give each carried value an initial value that nothing else reads and a next value made in the body."""
    uses: dict[str, int] = {}
    for op in walk(block):
        for value in operands(op):
            uses[value.name] = uses.get(value.name, 0) + 1
    return _separate(block, uses, fresh, frozenset())


def _separate(block: Block, uses: Mapping[str, int], fresh: Fresh, args: frozenset[str]) -> Block:
    """`args` are those of the streams around: a value may be carried on from an outer stream to an inner one."""
    made = {r.name: op for op in block.ops for r in results(op)}
    kept: list[Op] = []
    for op in block.ops:
        around = args | {a.name for a in op.args} if isinstance(op, Stream) else args
        op = _with_regions(op, [_separate(r, uses, fresh, around) for r in regions(op)])
        if isinstance(op, Stream):
            inits = []
            for init in op.inits:
                own = (init.name in made or init.name in args) and uses.get(init.name, 0) == 1
                inits.append(init if own else fresh.like(init))
                if not own:
                    source = made.get(init.name)
                    again = replace(source, result=inits[-1]) if isinstance(source, Full) else None
                    kept.append(again or Cast(inits[-1], init, op.loc))
            op = replace(op, inits=tuple(inits), body=_own_nexts(op, fresh))
        kept.append(op)
    return Block(tuple(kept))


def _own_nexts(op: Stream, fresh: Fresh) -> Block:
    *rest, last = op.body.ops
    made = {r.name for inner in rest for r in results(inner)}
    values: list[Value] = []
    for value in last.values:
        if value.name not in made or value in values:
            copy = fresh.like(value)
            rest.append(Cast(copy, value, op.loc))
            value = copy
        values.append(value)
    return Block((*rest, Yield(tuple(values))))
