"""Tile IR -> tile IR that suits a core.

    stream k: q = load Q[m, d]; s = dot(q, ...)     ->  q = load Q[m, d]; stream k: s = dot(q, ...)
    grid (m, n) with n sequential: a = load A[m, .] ->  grid (m): a = load A[m, .]; grid (n): ...
    y = dot(w[m, k], x[k])                          ->  p = w * x; y = sum p over k        (no register block to fill)
    dot(a: i8, b: i8), dot(a: tf32, ...)            ->  dot(cast a, ...), dot(tf32 a, ...) (packing converts)

Needs: one outermost Grid. Keeps: values up to the order of sums. Removes operations whose results nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from threadloom.dtypes import i8, i32, tf32, u4, u8
from threadloom.tile.ops import (
    Access,
    AtomicAdd,
    Block,
    Bound,
    Cast,
    Dot,
    Grid,
    If,
    Index,
    Kernel,
    Load,
    Map,
    Op,
    Reduce,
    Store,
    Stream,
    TileType,
    Value,
    Yield,
)
from threadloom.tile.uses import operands, regions, results, walk

ROUND_TF32 = "tf32"  # a Map of ours: f32 rounded to 10 bits of mantissa


def simplify(kernel: Kernel, sequential: tuple[str, ...]) -> Kernel:
    """`kernel` for a core; `sequential` grid axes get a loop of their own inside the grid."""
    written = {tensor.name for tensor in kernel.tensors if tensor.access is not Access.IN}
    names = Names(kernel)
    body = _rewrite(kernel.body, names)
    body = _split_grids(body, sequential)
    body = _hoist(body, written)
    body = _without_unused(body)
    return replace(kernel, body=body)


class Names:
    """Fresh value names."""

    def __init__(self, kernel: Kernel):
        self._taken = {value.name for op in walk(kernel.body) for value in (*results(op), *operands(op))}

    def like(self, value: Value, type_: TileType) -> Value:
        count, name = 1, f"{value.name}.cpu"
        while name in self._taken:
            count += 1
            name = f"{value.name}.cpu{count}"
        self._taken.add(name)
        return Value(name, type_)


def _with_regions(op: Op, new: Callable[[Block], Block]) -> Op:
    match op:
        case Grid() | Stream():
            return replace(op, body=new(op.body))
        case If():
            return replace(op, then=new(op.then), otherwise=new(op.otherwise))
    return op


# ---------------------------------------------------------------- products


def _rewrite(block: Block, names: Names) -> Block:
    made: list[Op] = []
    for op in block.ops:
        op = _with_regions(op, lambda inner: _rewrite(inner, names))
        made += _product(op, names) if isinstance(op, Dot) else [op]
    return Block(tuple(made))


def _product(dot: Dot, names: Names) -> list[Op]:
    made: list[Op] = []
    a, b = (_operand(value, dot, names, made) for value in (dot.a, dot.b))
    free_a = set(a.type.axes) - set(b.type.axes)
    free_b = set(b.type.axes) - set(a.type.axes)
    if free_a and free_b:
        return [*made, replace(dot, a=a, b=b)]
    axes = tuple(dict.fromkeys((*dot.result.type.axes, *dot.over)))
    term = names.like(dot.result, TileType(axes, dot.result.type.dtype))
    made.append(Map(term, "mul", (a, b), dot.loc))
    for axis in dot.over[:-1]:
        kept = tuple(x for x in term.type.axes if x != axis)
        partial = names.like(dot.result, TileType(kept, dot.result.type.dtype))
        made.append(Reduce(partial, "sum", term, axis, dot.loc))
        term = partial
    return [*made, Reduce(dot.result, "sum", term, dot.over[-1], dot.loc)]


def _operand(value: Value, dot: Dot, names: Names, made: list[Op]) -> Value:
    """The operand in the dtype of the products."""
    dtype = value.type.dtype
    if dtype is tf32:
        rounded = names.like(value, value.type)
        made.append(Map(rounded, ROUND_TF32, (value,), dot.loc))
        return rounded
    if dtype in (i8, u8, u4):
        wide = names.like(value, TileType(value.type.axes, i32))
        made.append(Cast(wide, value, dot.loc))
        return wide
    return value


# ---------------------------------------------------------------- loops


def _split_grids(block: Block, sequential: tuple[str, ...]) -> Block:
    """The outermost grid's sequential axes become an inner grid."""
    made: list[Op] = []
    for op in block.ops:
        if isinstance(op, Grid) and sequential:
            inner = tuple(axis for axis in op.axes if axis.axis.name in sequential)
            outer = tuple(axis for axis in op.axes if axis.axis.name not in sequential)
            if inner and outer:
                op = Grid(outer, Block((Grid(inner, op.body, op.loc),)), op.loc)
        made.append(op)
    return Block(tuple(made))


def _hoist(block: Block, written: set[str], inside_grid: bool = False) -> Block:
    """Move what a loop does not change before it. The outermost grid keeps its body: its iterations are parallel."""
    made: list[Op] = []
    for op in block.ops:
        nested = inside_grid or isinstance(op, Grid)
        op = _with_regions(op, lambda inner, nested=nested: _hoist(inner, written, nested))
        if isinstance(op, Stream) or (isinstance(op, Grid) and inside_grid):
            moved, kept = _invariant(op, written)
            made += moved
            op = replace(op, body=Block(kept))
        made.append(op)
    return Block(tuple(made))


def _invariant(loop: Stream | Grid, written: set[str]) -> tuple[list[Op], tuple[Op, ...]]:
    axes = {axis.axis.name for axis in loop.axes}
    inside = {value.name for value in loop.args} if isinstance(loop, Stream) else set()
    moved: list[Op] = []
    kept: list[Op] = []
    for op in loop.body.ops:
        stays = (
            isinstance(op, Store | AtomicAdd | Stream | Grid | If | Yield)
            or any(value.name in inside for value in operands(op))
            or bool(_mentioned_axes(op) & axes)
            or (isinstance(op, Load) and op.tensor in written)
        )
        if stays:
            inside |= {value.name for value in results(op)}
            kept.append(op)
        else:
            moved.append(op)
    return moved, tuple(kept)


def _mentioned_axes(op: Op) -> set[str]:
    axes = {axis for value in (*operands(op), *results(op)) for axis in value.type.axes}
    match op:
        case Load():
            axes |= {term.axis for subscript in op.subscripts for term in subscript.terms if term.axis is not None}
        case Index() | Bound():
            axes.add(op.axis)
    return axes


# ---------------------------------------------------------------- unused results


def _without_unused(block: Block) -> Block:
    used: set[str] = set()
    while True:
        used = {value.name for op in walk(block) for value in operands(op)}
        smaller = _prune(block, used)
        if smaller == block:
            return block
        block = smaller


def _prune(block: Block, used: set[str]) -> Block:
    kept = []
    for op in block.ops:
        op = _with_regions(op, lambda inner: _prune(inner, used))
        effects = regions(op) or isinstance(op, Store | AtomicAdd | Yield)
        if effects or any(value.name in used for value in results(op)):
            kept.append(op)
    return Block(tuple(kept))
