"""The rules of level `tile`, as data: what every kernel keeps to, whether parsed from Python, from text, or rewritten.

`verify` checks them all and raises one error that names every broken rule. The two rules about stores that
iterations overwrite are for users (a CompileError each); the others are about the IR itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from threadloom.dtypes import bool_, i64
from threadloom.errors import CompileError, slug
from threadloom.source import Loc
from threadloom.tile.functions import TABLE, Rule, accepts, result_dtype
from threadloom.tile.ops import (
    Access,
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
    Kernel,
    Load,
    Map,
    Op,
    Reduce,
    Scan,
    Store,
    Stream,
    Subscript,
    Value,
    Yield,
)
from threadloom.tile.promote import accumulate_dtype
from threadloom.tile.tile_dependence import check_tile_dependence
from threadloom.tile.uses import operands, regions, results, subscript_axes, walk

INVALID_TILE = slug("invalid-tile-ir", "a tile kernel's text (or our own rewriting of it) breaks a rule of the level")
OVERWRITES = slug("store-overwrites", "a store that several iterations of a loop make to the same place")


@dataclass(frozen=True, slots=True)
class Broken:
    """One violation: where, and in which words."""

    what: str
    loc: Loc | None


@dataclass(frozen=True, slots=True)
class Scope:
    """What an operation may refer to."""

    kernel: Kernel
    values: frozenset[str]
    axes: frozenset[str]  # WHOLE axes and those of the loops around
    loops: tuple[Op, ...]


Check = Callable[[Op, Scope], Iterator[str]]


def verify(kernel: Kernel) -> None:
    """Raise if `kernel` breaks a rule."""
    broken = list(_broken_rules(kernel))
    if broken:
        first = broken[0]
        what = first.what if len(broken) == 1 else "".join(f"\n    - {b.what}" for b in broken)
        raise CompileError(INVALID_TILE, f"kernel {kernel.name}: {what}", loc=first.loc)
    _check_stores(kernel)
    check_tile_dependence(kernel)


def _broken_rules(kernel: Kernel) -> Iterator[Broken]:
    yield from _names(kernel)
    whole = frozenset(a.name for a in kernel.axes if a.kind is AxisKind.WHOLE)
    scope = Scope(kernel, frozenset(s.name for s in kernel.scalars), whole, ())
    yield from _block(kernel.body, scope)
    grids = [op for op in kernel.body.ops if isinstance(op, Grid)]
    if len(grids) != 1:
        yield Broken(f"the body has {len(grids)} outermost grids, not one", kernel.loc)


def _names(kernel: Kernel) -> Iterator[Broken]:
    """Every value, axis and tensor has a name of its own."""
    made = [v.name for op in walk(kernel.body) for v in results(op)]
    made += [a.name for op in walk(kernel.body) if isinstance(op, Stream) for a in op.args]
    made += [s.name for s in kernel.scalars]
    for names, what in ((made, "value"), ([a.name for a in kernel.axes], "axis"), (_tensors(kernel), "tensor")):
        for name in sorted({n for n in names if names.count(n) > 1}):
            yield Broken(f"{what} {name} is defined twice", kernel.loc)
    looped = [a.axis.name for op in walk(kernel.body) if isinstance(op, Grid | Stream) for a in op.axes]
    for name in sorted({n for n in looped if looped.count(n) > 1}):
        yield Broken(f"axis {name} belongs to two loops", kernel.loc)


def _tensors(kernel: Kernel) -> list[str]:
    return [t.name for t in kernel.tensors]


def _block(block: Block, scope: Scope) -> Iterator[Broken]:
    values = set(scope.values)
    for op in block.ops:
        inner = Scope(scope.kernel, frozenset(values), scope.axes, scope.loops)
        loc = getattr(op, "loc", None)
        for rule in RULES:
            for what in rule(op, inner):
                yield Broken(what, loc)
        for region in regions(op):
            yield from _block(region, _inside(op, inner))
        values |= {r.name for r in results(op)}


def _inside(op: Op, scope: Scope) -> Scope:
    args = {a.name for a in op.args} if isinstance(op, Stream) else set()
    axes = {a.axis.name for a in op.axes} if isinstance(op, Grid | Stream) else set()
    return Scope(scope.kernel, scope.values | args, scope.axes | axes, (*scope.loops, op))


# ---------------------------------------------------------------- rules


def values_are_defined(op: Op, scope: Scope) -> Iterator[str]:
    for value in operands(op):
        if value.name not in scope.values:
            yield f"%{value.name} is read before it is made"


def axes_are_in_scope(op: Op, scope: Scope) -> Iterator[str]:
    named = {a for r in results(op) for a in r.type.axes}
    match op:
        case Index() | Bound():
            named.add(op.axis)
        case Load() | Store() | AtomicAdd():
            named |= {t.axis for s in op.subscripts for t in s.terms if t.axis is not None}
    for axis in sorted(named - scope.axes):
        yield f"axis {axis} is used outside its loop"


def each_axes_are_in_no_tile(op: Op, scope: Scope) -> Iterator[str]:
    each = {a.name for a in scope.kernel.axes if a.kind is AxisKind.EACH}
    for result in results(op):
        for axis in each & set(result.type.axes):
            yield f"%{result.name} has axis {axis}, which is taken one index at a time"


def loops_have_their_axes(op: Op, scope: Scope) -> Iterator[str]:
    if not isinstance(op, Grid | Stream):
        return
    known = {a.name: a for a in scope.kernel.axes}
    for axis in op.axes:
        if known.get(axis.axis.name) != axis.axis:
            yield f"loop axis {axis.axis.name} is not among the kernel's axes"
        elif axis.axis.kind is AxisKind.WHOLE:
            yield f"loop axis {axis.axis.name} is a whole axis"
        for bound in (axis.start, axis.stop):
            if bound is not None and (bound.type.axes or bound.type.dtype is not i64):
                yield f"bound %{bound.name} of axis {axis.axis.name} is not an i64 scalar"


def blocks_end_right(op: Op, scope: Scope) -> Iterator[str]:
    expected: tuple[Value, ...] | None = None
    if isinstance(op, Stream):
        expected = op.args
        for group, what in ((op.inits, "initial values"), (op.results, "results")):
            if [v.type for v in group] != [a.type for a in op.args]:
                yield f"the {what} of a stream differ in type from the values it carries"
    elif isinstance(op, If):
        expected = op.results
        if op.cond.type.axes or op.cond.type.dtype is not bool_:
            yield f"condition %{op.cond.name} is not a bool scalar"
    for region in regions(op):
        last = region.ops[-1] if region.ops else None
        if any(isinstance(o, Yield) for o in region.ops[:-1]):
            yield "yield stands before the end of a block"
        if expected is None:
            if isinstance(last, Yield):
                yield "a grid's body ends with yield"
        elif not isinstance(last, Yield):
            yield "a block of a stream or if ends without yield"
        elif [v.type for v in last.values] != [v.type for v in expected]:
            yield "yield gives other types than the loop or condition has"


def memory_is_used_right(op: Op, scope: Scope) -> Iterator[str]:
    if not isinstance(op, Load | Store | AtomicAdd):
        return
    tensor = next((t for t in scope.kernel.tensors if t.name == op.tensor), None)
    if tensor is None:
        yield f"{op.tensor} is not a tensor parameter"
        return
    if len(op.subscripts) != len(tensor.dims):
        yield f"{tensor.name} has {len(tensor.dims)} dimensions, {len(op.subscripts)} subscripts"
    for value in (t.value for s in op.subscripts for t in s.terms if t.value is not None):
        if not value.type.dtype.is_integer:
            yield f"subscript %{value.name} is not an integer"
    wanted = {Load: Access.IN, Store: Access.OUT, AtomicAdd: Access.INOUT}[type(op)]
    if tensor.access is not wanted:
        yield f"{type(op).__name__.lower()} of {tensor.name}, which is {tensor.access}"
    value = op.result if isinstance(op, Load) else op.value
    if value.type.dtype is not tensor.dtype:
        yield f"%{value.name} is {value.type.dtype.name}, {tensor.name} is {tensor.dtype.name}"
    axes = subscript_axes(op.subscripts, scope.kernel.axes)
    if isinstance(op, Load) and value.type.axes != axes:
        yield f"%{value.name} has axes {list(value.type.axes)}, its subscripts give {list(axes)}"
    if not isinstance(op, Load) and set(value.type.axes) - set(axes):
        yield f"%{value.name} has axes {list(value.type.axes)}, stored to {list(axes)}"


def elementwise_types(op: Op, scope: Scope) -> Iterator[str]:
    if not isinstance(op, Map):
        return
    fn = TABLE.get(op.fn)
    if fn is None or len(op.args) != fn.arity:
        yield f"{op.fn} of {len(op.args)} operands is not an elementwise function"
        return
    shared = op.args[1:] if fn.rule is Rule.WHERE else op.args
    if fn.rule is Rule.WHERE and op.args[0].type.dtype is not bool_:
        yield "the condition of where is not bool"
    dtypes = {a.type.dtype for a in shared}
    if len(dtypes) != 1 or not accepts(fn, next(iter(dtypes))):
        yield f"{op.fn} of {', '.join(a.type.dtype.name for a in op.args)}"
    elif op.result.type.dtype is not result_dtype(fn, next(iter(dtypes))):
        yield f"{op.fn} of {next(iter(dtypes)).name} does not give {op.result.type.dtype.name}"
    if set(op.result.type.axes) != {a for arg in op.args for a in arg.type.axes}:
        yield f"%{op.result.name} has other axes than the operands of {op.fn}"


def tile_types(op: Op, scope: Scope) -> Iterator[str]:
    match op:
        case Const() if op.result.type.axes:
            yield "a constant is a scalar"
        case Index() | Bound() | DimSize() if op.result.type.dtype is not i64:
            yield f"{type(op).__name__.lower()} is i64"
        case Cast() if set(op.result.type.axes) != set(op.arg.type.axes):
            yield "cast changes the axes"
        case Full() if op.value.type.axes or op.value.type.dtype is not op.result.type.dtype:
            yield "full takes a scalar of the tile's dtype"
        case Reduce():
            yield from _reduce_types(op)
        case Scan():
            if op.fn not in ("sum", "prod", "max", "min"):
                yield f"scan knows no {op.fn}"
            if op.axis not in op.arg.type.axes or op.result.type.axes != op.arg.type.axes:
                yield "scan keeps the axes, and runs along one of them"
        case Dot():
            yield from _dot_types(op)


def _reduce_types(op: Reduce) -> Iterator[str]:
    if op.fn not in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin"):
        yield f"reduce knows no {op.fn}"
    if op.axis not in op.arg.type.axes:
        yield f"%{op.arg.name} has no axis {op.axis} to reduce"
    elif op.result.type.axes != tuple(a for a in op.arg.type.axes if a != op.axis):
        yield "a reduction drops the axis it reduces and keeps the others"
    if op.fn in ("any", "all") and op.arg.type.dtype is not bool_:
        yield f"{op.fn} of {op.arg.type.dtype.name}"


def _dot_types(op: Dot) -> Iterator[str]:
    a, b = op.a.type, op.b.type
    shared = set(a.axes) & set(b.axes)
    if not op.over or not set(op.over) <= shared:
        yield f"dot over {list(op.over)}, the operands share {sorted(shared)}"
    if set(op.result.type.axes) != (set(a.axes) | set(b.axes)) - set(op.over):
        yield "a dot has the axes of its operands without those it sums over"
    if op.result.type.dtype is not accumulate_dtype(a.dtype):
        yield f"dot of {a.dtype.name} gives {accumulate_dtype(a.dtype).name}"


def grids_stand_in_grids(op: Op, scope: Scope) -> Iterator[str]:
    if isinstance(op, Grid) and any(not isinstance(loop, Grid) for loop in scope.loops):
        yield "a grid stands in a stream or if"


RULES: tuple[Check, ...] = (
    values_are_defined,
    axes_are_in_scope,
    each_axes_are_in_no_tile,
    loops_have_their_axes,
    blocks_end_right,
    memory_is_used_right,
    elementwise_types,
    tile_types,
    grids_stand_in_grids,
)


# ---------------------------------------------------------------- stores that overwrite each other


def _check_stores(kernel: Kernel) -> None:
    """Every loop around a store must show in its subscripts, or iterations overwrite each other's results."""
    depends: dict[str, set[str]] = {}
    bounds: dict[str, set[str]] = {}
    _visit(kernel.body, (), depends, bounds)


def _visit(
    block: Block, loops: tuple[Axis, ...], depends: dict[str, set[str]], bounds: dict[str, set[str]]
) -> None:
    """`depends`: the axes that each value's content depends on; `bounds`: those that each axis's range depends on."""
    for op in block.ops:
        axes = loops
        if isinstance(op, Grid | Stream):
            axes = (*loops, *(a.axis for a in op.axes))
            for axis in op.axes:
                found = (depends.get(v.name, set()) for v in (axis.start, axis.stop) if v is not None)
                bounds[axis.axis.name] = set().union(*found)
        if isinstance(op, Stream):
            inside = {a.axis.name for a in op.axes}
            for init, arg in zip(op.inits, op.args, strict=True):
                depends[arg.name] = depends.get(init.name, set()) | inside
        if isinstance(op, Store):
            _check_store(op, loops, depends, bounds)
        for region in regions(op):
            _visit(region, axes, depends, bounds)
        read = set().union(*(depends.get(v.name, set()) for v in operands(op)))
        match op:
            case Index() | Bound():
                read |= {op.axis} | bounds.get(op.axis, set())
            case Load():
                read |= _covered(op.subscripts, depends, bounds)
            case Stream() | If():
                inner = [v for r in regions(op) for v in r.ops[-1].values]
                read |= set().union(*(depends.get(v.name, set()) for v in inner))
        for result in results(op):
            depends[result.name] = read


def _covered(subscripts: tuple[Subscript, ...], depends: dict[str, set[str]], bounds: dict[str, set[str]]) -> set[str]:
    covered: set[str] = set()
    for term in (t for s in subscripts for t in s.terms):
        if term.axis is not None:
            covered |= {term.axis} | bounds.get(term.axis, set())
        else:
            covered |= depends.get(term.value.name, set())
    return covered


def _check_store(
    op: Store, loops: tuple[Axis, ...], depends: dict[str, set[str]], bounds: dict[str, set[str]]
) -> None:
    missing = [a.name for a in loops if a.name not in _covered(op.subscripts, depends, bounds)]
    if missing:
        raise CompileError(
            OVERWRITES,
            f"the store to {op.tensor} is not indexed by {', '.join(missing)}: iterations overwrite each other",
            why="the last one would win, in no fixed order",
            try_="store after the loop, index the output by that axis too, or tl.atomic_add",
            loc=op.loc,
        )
