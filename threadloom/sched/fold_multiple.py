"""Adds a multiple of a product's operand, taken from the product's own rows, by way of the product.

    before                                          after
      stream k in ..m.stop carry acc {                stream k in ..m.stop carry acc {
        w = ...                        [m, k]           w = ... + where(k == m, s, 0)
        acc += dot(cast w, x[k, p])                     acc += dot(cast w, x[k, p])
      }                                               }
      out = acc + x[m, p] * s                         out = acc

The rows of x come to the chip once, not twice, and nothing is added to the accumulator afterwards. Needs: a kernel; a
loop over all of the axis that m is a tile of, or up to this tile's end; w computed in f32 and rounded to the type of x
for the product; s a scalar of that type and x * s rounded to it, so that the kernel itself is no more exact. Where w is
masked by `k <= m` the term stands inside the mask. Keeps: meaning up to rounding (x * s is not rounded any more, w + s
is). Not handled: products whose other operand is not computed, grids in grids.
Source: the hand-written ChunkScan (prototype study) adds D to the diagonal of its scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.dtypes import Dtype, bool_, f32, i64
from threadloom.tile.canonicalize import Fresh, canonicalize
from threadloom.tile.ops import (
    Axis,
    AxisKind,
    Block,
    Bound,
    Cast,
    Const,
    DimSize,
    Dot,
    Grid,
    Index,
    Kernel,
    Load,
    Map,
    Op,
    Stream,
    Subscript,
    TileType,
    Value,
)
from threadloom.tile.uses import operands, replace_operands, results, walk

SCALAR_CODE = (Const, DimSize, Index, Load, Map, Cast)


@dataclass(frozen=True, slots=True)
class Multiple:
    """`add` adds a tile times `factor`, along `rows`, to result `at` of `stream`. `joins`: the value of its body that
    the term can be added to instead."""

    stream: Stream
    at: int
    add: Map
    factor: Value
    joins: Value
    rows: Axis


def fold_multiple(kernel: Kernel) -> Kernel:
    """`kernel` with each such multiple folded; the same object where there are none."""
    plain = canonicalize(kernel)
    found = _find(plain)
    return kernel if found is None else fold_multiple(_folded(plain, found))


def _find(kernel: Kernel) -> Multiple | None:
    uses = _Uses(kernel)
    rows = [a.axis for a in uses.grid.axes if a.axis.kind is AxisKind.TILE and (a.start, a.stop) == (None, None)]
    for stream in (op for op in uses.grid.body.ops if isinstance(op, Stream) and len(op.axes) == 1):
        for at in range(len(stream.results)):
            for axis in rows:
                if (found := _multiple(uses, stream, at, axis)) is not None:
                    return found
    return None


class _Uses:
    """Who makes, and who reads, each value of a kernel."""

    def __init__(self, kernel: Kernel):
        self.grid = next(op for op in kernel.body.ops if isinstance(op, Grid))
        self.made = {v.name: op for op in walk(kernel.body) for v in results(op)}
        self.readers: dict[str, list[Op]] = {}
        for op in walk(kernel.body):
            for value in operands(op):
                self.readers.setdefault(value.name, []).append(op)

    def maker(self, value: Value | None) -> Op | None:
        return None if value is None else self.made.get(value.name)

    def once(self, value: Value) -> bool:
        return len(self.readers.get(value.name, ())) == 1

    def making(self, value: Value) -> list[Op]:
        """What the grid's body computes `value` with, in order."""
        wanted, found = {value.name}, []
        for op in reversed(self.grid.body.ops):
            if wanted & {v.name for v in results(op)}:
                found.insert(0, op)
                wanted |= {v.name for v in operands(op)}
        return found


def _multiple(uses: _Uses, stream: Stream, at: int, rows: Axis) -> Multiple | None:
    """What is added to result `at` of `stream`, if it is a multiple of its product's operand at the rows `rows`."""
    result, column = stream.results[at], stream.axes[0].axis
    add = uses.readers.get(result.name, [None])[0]
    product = _product(uses, stream, at, rows.name)
    if product is None or not _covers(uses, stream, rows) or add not in uses.grid.body.ops or not uses.once(result):
        return None
    joins, operand = product
    term = _other(add, result)
    multiple = uses.maker(term)
    rounded = uses.maker(multiple.arg) if isinstance(multiple, Cast) else multiple
    if not isinstance(rounded, Map) or rounded.fn != "mul" or rounded.result.type.dtype != operand.result.type.dtype:
        return None
    wanted = _renamed(operand.subscripts, column.name, rows.name)
    for x, factor in (rounded.args, rounded.args[::-1]):
        load = uses.maker(x)
        same = isinstance(load, Load) and (load.tensor, load.subscripts) == (operand.tensor, wanted)
        alone = all(uses.once(v) for v in (x, rounded.result, term))
        early = all(isinstance(op, SCALAR_CODE) and not op.result.type.axes for op in uses.making(factor))
        if same and alone and early and not factor.type.axes and factor.type.dtype == x.type.dtype:
            return Multiple(stream, at, add, factor, joins, rows)
    return None


def _product(uses: _Uses, stream: Stream, at: int, rows: str) -> tuple[Value, Load] | None:
    """Of the product that `stream` adds to what it carries at `at`: the f32 value along `rows` and the loop's axis that
    its computed operand is rounded from (within a mask that leaves the diagonal alone), and the load of the other
    one."""
    column = stream.axes[0].axis.name
    dot = uses.maker(_other(uses.maker(stream.body.ops[-1].values[at]), stream.args[at]))
    if not isinstance(dot, Dot) or dot.over != (column,):
        return None
    for a, b in ((dot.a, dot.b), (dot.b, dot.a)):
        cast, load = uses.maker(a), uses.maker(b)
        here = cast in stream.body.ops and load in stream.body.ops and uses.once(a)
        if here and isinstance(cast, Cast) and isinstance(load, Load) and cast.arg.type.dtype == f32:
            joins = _within_mask(uses, cast.arg, {column, rows})
            whole = set(joins.type.axes) == {column, rows}
            if whole and uses.once(cast.arg) and uses.once(joins) and isinstance(uses.maker(joins), Map):
                return joins, load
    return None


def _within_mask(uses: _Uses, value: Value, axes: set[str]) -> Value:
    """What `value` masks, where it has both `axes` and the mask is that one's position is not beyond the other's, which
    leaves the diagonal alone; else `value`."""
    mask = uses.maker(value)
    test = uses.maker(mask.args[0]) if isinstance(mask, Map) and mask.fn == "where" else None
    if not isinstance(test, Map) or test.fn not in ("le", "ge") or set(mask.args[1].type.axes) != axes:
        return value
    sides = [uses.maker(v) for v in test.args]
    positions = all(isinstance(side, Index) for side in sides)
    return mask.args[1] if positions and {side.axis for side in sides} == axes else value


def _covers(uses: _Uses, stream: Stream, rows: Axis) -> bool:
    """Whether the loop meets every position of a tile of `rows`."""
    (axis,) = stream.axes
    stop = uses.maker(axis.stop)
    at_end = axis.stop is None or (isinstance(stop, Bound) and (stop.axis, stop.which) == (rows.name, "stop"))
    return (axis.axis.dim, axis.axis.kind) == (rows.dim, AxisKind.TILE) and axis.start is None and at_end


def _other(add: Op | None, value: Value) -> Value | None:
    """What `add` adds to `value`."""
    if not isinstance(add, Map) or add.fn != "add" or value not in add.args:
        return None
    return next((v for v in add.args if v != value), None)


def _renamed(subscripts: tuple[Subscript, ...], old: str, new: str) -> tuple[Subscript, ...]:
    return tuple(
        replace(s, terms=tuple(replace(t, axis=new) if t.axis == old else t for t in s.terms)) for s in subscripts
    )


def _folded(kernel: Kernel, one: Multiple) -> Kernel:
    uses, column = _Uses(kernel), one.stream.axes[0].axis
    early = uses.making(one.factor)
    result = one.stream.results[one.at]
    body: list[Op] = []
    for op in uses.grid.body.ops:
        if op is one.stream:
            body += [o for o in early if o not in body]
            body.append(replace(op, body=_with_term(op.body, one, column, Fresh(kernel))))
        elif op is not one.add and op not in body:
            body.append(replace_operands(op, lambda v: result if v == one.add.result else v))
    grid = replace(uses.grid, body=Block(tuple(body)))
    whole = tuple(grid if op is uses.grid else op for op in kernel.body.ops)
    return canonicalize(replace(kernel, body=Block(whole)))


def _with_term(body: Block, one: Multiple, column: Axis, fresh: Fresh) -> Block:
    """The loop's body with `factor` added to the elements of `joins` whose column is their row."""

    def value(base: str, axes: tuple[str, ...], dtype: Dtype) -> Value:
        return fresh.like(Value(base, TileType(axes, dtype)))

    axes = one.joins.type.axes
    factor, nothing = value("factor", (), f32), value("nothing", (), f32)
    places = [value("place", (a.name,), i64) for a in (column, one.rows)]
    equal, term = value("diagonal", axes, bool_), value("term", axes, f32)
    total = fresh.like(one.joins)
    added = (
        Cast(factor, one.factor), Const(nothing, 0.0), Index(places[0], column.name), Index(places[1], one.rows.name),
        Map(equal, "eq", tuple(places)), Map(term, "where", (equal, factor, nothing)),
        Map(total, "add", (one.joins, term)),
    )  # fmt: skip
    ops: list[Op] = []
    for op in body.ops:
        ops.append(replace_operands(op, lambda v: total if v == one.joins else v))
        if one.joins in results(op):
            ops += added
    return Block(tuple(ops))
