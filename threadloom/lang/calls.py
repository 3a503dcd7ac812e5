"""What each operation of the language emits: one handler per stub of builtins.py.

A handler gets the builder and the evaluated arguments. `atomic_add` is handled by the parser, because its first
argument is a place, not a value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np

from threadloom.dtypes import Dtype, bool_, f32, i32, i64, u4, u8
from threadloom.errors import CompileError, slug
from threadloom.lang import builtins as tl
from threadloom.lang.builder import Builder, describe_type, reduction_dtype
from threadloom.lang.values import Affine, AxisSpec, LoopSpec
from threadloom.tile.functions import TABLE
from threadloom.tile.ops import AxisKind, DimSize, Dot, Index, Reduce, Scan, Value
from threadloom.tile.promote import compute_dtype, literal_dtype, promote

BAD_CALL = slug("bad-call", "an operation is called with arguments it does not take")
NO_COMMON_AXIS = slug("dot-without-common-axis", "tl.dot of tiles that share no axis")
DOT_DTYPES = slug("dot-dtypes", "tl.dot of operands whose dtypes cannot be multiplied together")
NOT_AN_AXIS = slug("not-an-axis", "an axis is expected and something else was given")

Handler = Callable[..., object]


def call(stub: Callable[..., object], b: Builder, args: list[object], kwargs: dict[str, object]) -> object:
    """Emit `stub(*args, **kwargs)`; the arguments have to fit its signature (elementwise ones: the table's arity)."""
    if stub in tl.ELEMENTWISE:
        arity = TABLE[tl.ELEMENTWISE[stub]].arity
        if kwargs or len(args) != arity:
            given = len(args) + len(kwargs)
            raise CompileError(BAD_CALL, f"tl.{stub.__name__} takes {arity} arguments, {given} given", loc=b.loc)
        return HANDLERS[stub](b, *args)
    signature = inspect.signature(stub)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        taken = ", ".join(str(p).partition(":")[0] for p in signature.parameters.values())
        raise CompileError(BAD_CALL, f"tl.{stub.__name__}: {error}", why=f"it takes ({taken})", loc=b.loc) from None
    return HANDLERS[stub](b, *bound.args, **bound.kwargs)


def axis_name(b: Builder, thing: object, where: str) -> str:
    """The axis that an argument names: a loop variable, or a dimension's name for the axis that `:` gives."""
    if isinstance(thing, str):
        return b.whole_axis(b.dim(thing))
    axis = thing.axis() if isinstance(thing, Affine) else None
    if axis is None or b.axes[axis].kind is AxisKind.EACH:
        raise CompileError(
            NOT_AN_AXIS,
            f"{where}: {_described(thing)} is not an axis of tiles",
            why='an axis is the variable of a grid or stream loop, d = tl.axis("D"), or "D" for the one that : gives',
            loc=b.loc,
        )
    return axis


def _described(thing: object) -> str:
    """What was given in place of an axis, as its user would call it."""
    match thing:
        case AxisSpec(dim):
            return f"tl.axis({dim!r}) without a name"
        case Affine():
            axis = thing.axis()
            return f"{axis}, one index at a time (tl.each)," if axis else "a sum of loop variables and integers"
        case Value():
            return describe_type(thing.type)
        case tuple() | list():
            return f"a {type(thing).__name__}"
    return repr(thing)


# ---------------------------------------------------------------- loops and axes


def _axis_spec(b: Builder, thing: object, kind: AxisKind) -> AxisSpec:
    if isinstance(thing, AxisSpec):
        if thing.kind is AxisKind.WHOLE:
            raise CompileError(BAD_CALL, "tl.axis is not a loop axis", try_='its name, or tl.span("M", ...)', loc=b.loc)
        return thing
    if isinstance(thing, str) or (isinstance(thing, int) and not isinstance(thing, bool) and thing >= 0):
        return AxisSpec(b.dim(thing), kind)
    raise CompileError(
        BAD_CALL,
        f"{thing!r} is not a dimension",
        try_='its name "M", an extent, tl.each("M") or tl.span("M", start, stop)',
        loc=b.loc,
    )


def _loop(kind: str) -> Handler:
    def handler(b: Builder, *axes: object) -> LoopSpec:
        if not axes:
            raise CompileError(BAD_CALL, f"tl.{kind} needs at least one axis", loc=b.loc)
        return LoopSpec(kind, tuple(_axis_spec(b, a, AxisKind.TILE) for a in axes))

    return handler


def _bounded(kind: AxisKind) -> Handler:
    def handler(b: Builder, dim: object, start: object = 0, stop: object = None) -> AxisSpec:
        spec = _axis_spec(b, dim, kind)
        first = None if start is None or (isinstance(start, int) and start == 0) else b.scalar_i64(start, "the start")
        last = None if stop is None else b.scalar_i64(stop, "the stop")
        return AxisSpec(spec.dim, kind, first, last)

    return handler


def _axis(b: Builder, dim: object) -> AxisSpec:
    return _axis_spec(b, dim, AxisKind.WHOLE)


def _index(b: Builder, axis: object) -> Value:
    name = axis.axis() if isinstance(axis, Affine) else None
    if name is None:
        name = axis_name(b, axis, "tl.index")
    axes = () if b.axes[name].kind is AxisKind.EACH else (name,)
    result = b.temporary(axes, i64)
    b.emit(Index(result, name, b.loc))
    return result


def _dim(b: Builder, name: object) -> Value:
    spec = _axis_spec(b, name, AxisKind.WHOLE)
    result = b.temporary((), i64)
    b.emit(DimSize(result, spec.dim, b.loc))
    return result


# ---------------------------------------------------------------- tiles


def _axes(b: Builder, axes: tuple[object, ...], where: str) -> tuple[str, ...]:
    names = tuple(axis_name(b, a, where) for a in axes)
    if len(set(names)) != len(names):
        raise CompileError(BAD_CALL, f"{where}: an axis is given twice", loc=b.loc)
    return names


def _dtype(b: Builder, thing: object) -> Dtype:
    if isinstance(thing, Dtype):
        return thing
    raise CompileError(BAD_CALL, f"{thing!r} is not a dtype", try_="tl.f32, tl.f16 ...", loc=b.loc)


def _zeros(b: Builder, *axes: object, dtype: object = None) -> Value:
    return _filled(b, 0, _axes(b, axes, "tl.zeros"), f32 if dtype is None else dtype)


def _full(b: Builder, value: object, *axes: object, dtype: object = None) -> Value:
    return _filled(b, value, _axes(b, axes, "tl.full"), dtype)


def _filled(b: Builder, value: object, names: tuple[str, ...], dtype: object) -> Value:
    if dtype is None:
        value = value.item() if isinstance(value, np.generic) else value
        wanted = literal_dtype(value, None) if isinstance(value, bool | int | float) else b.value(value).type.dtype
    else:
        wanted = _dtype(b, dtype)
    return b.full(value, names, wanted) if names else b.cast(value, wanted)


def _cast(b: Builder, x: object, dtype: object) -> Value:
    return b.cast(x, _dtype(b, dtype))


def dot(b: Builder, a: object, b_: object, over: object = None) -> Value:
    left, right = b.value(a), b.value(b_)
    shared = tuple(x for x in left.type.axes if x in right.type.axes)
    if not shared:
        raise CompileError(
            NO_COMMON_AXIS,
            f"tl.dot of {describe_type(left.type)} and {describe_type(right.type)}: they share no axis to sum over",
            try_="index both with the same loop variable, such as a[m, k] and b[k, n]",
            loc=b.loc,
        )
    if over is None:
        summed = shared
    else:
        summed = _axes(b, over if isinstance(over, tuple | list) else (over,), "tl.dot's over")
        for axis in summed:
            if axis not in shared:
                raise CompileError(NO_COMMON_AXIS, f"tl.dot over {axis}, which not both operands have", loc=b.loc)
    _check_dot_dtypes(b, left.type.dtype, right.type.dtype)
    if left.type.dtype is u4:  # no machine multiplies them as they are
        left, right = b.cast(left, u8), b.cast(right, u8)
    dtype = reduction_dtype("sum", left.type.dtype)
    if set(left.type.axes) == set(right.type.axes):  # row by row: a matrix unit would make one number of each product
        return _sum_of_products(b, b.map("mul", b.cast(left, dtype), b.cast(right, dtype)), summed)
    axes = tuple(x for x in left.type.axes if x not in summed)
    axes += tuple(x for x in right.type.axes if x not in left.type.axes)
    result = b.temporary(axes, dtype, "dot")
    b.emit(Dot(result, left, right, summed, b.loc))
    return result


def _sum_of_products(b: Builder, products: Value, summed: tuple[str, ...]) -> Value:
    for axis in summed:
        kept = tuple(x for x in products.type.axes if x != axis)
        total = b.temporary(kept, products.type.dtype, "dot")
        b.emit(Reduce(total, "sum", products, axis, b.loc))
        products = total
    return products


def _check_dot_dtypes(b: Builder, left: Dtype, right: Dtype) -> None:
    both_f8 = left.name.startswith("f8") and right.name.startswith("f8")
    if left is bool_ or right is bool_ or (left is not right and not both_f8):
        both = promote(left, right)
        both = i32 if both is bool_ else both
        raise CompileError(
            DOT_DTYPES,
            f"tl.dot of {left.name} and {right.name}",
            why="both operands need the same number dtype (f8e4m3 and f8e5m2 may be mixed)",
            try_=f"tl.cast(x, {both!r}), which holds both, on what is not {both.name}",
            loc=b.loc,
        )


# ---------------------------------------------------------------- reductions, scans, elementwise


def _along(b: Builder, operand: object, axis: str, what: str) -> Value:
    value = b.value(operand)
    if axis not in value.type.axes:
        raise CompileError(NOT_AN_AXIS, f"{what}: {describe_type(value.type)} has no axis {axis}", loc=b.loc)
    return value


def _reduce(fn: str) -> Handler:
    def handler(b: Builder, x: object, *axes: object) -> Value:
        if not axes or (fn in ("argmax", "argmin") and len(axes) > 1):
            need = "exactly one axis" if fn in ("argmax", "argmin") else "at least one axis"
            raise CompileError(BAD_CALL, f"tl.{fn} needs {need}", try_=f"tl.{fn}(x, k)", loc=b.loc)
        for name in _axes(b, axes, f"tl.{fn}"):
            value = _along(b, x, name, f"tl.{fn}")
            value = b.map("ne", value, 0) if fn in ("any", "all") and value.type.dtype is not bool_ else value
            if fn not in ("any", "all"):
                value = b.cast(value, i32 if value.type.dtype is bool_ else compute_dtype(value.type.dtype))
            kept = tuple(a for a in value.type.axes if a != name)
            result = b.temporary(kept, reduction_dtype(fn, value.type.dtype), fn)
            b.emit(Reduce(result, fn, value, name, b.loc))
            x = result
        return x

    return handler


def _scan(fn: str) -> Handler:
    def handler(b: Builder, x: object, axis: object, reverse: object = False) -> Value:
        if not isinstance(reverse, bool):
            why = "the direction is known when the kernel is compiled"
            raise CompileError(BAD_CALL, f"tl.cum{fn}: reverse is no bool", why=why, try_="a tl.Const[bool]", loc=b.loc)
        name = axis_name(b, axis, f"tl.cum{fn}")
        value = _along(b, x, name, f"tl.cum{fn}")
        value = b.cast(value, i32 if value.type.dtype is bool_ else compute_dtype(value.type.dtype))
        result = b.temporary(value.type.axes, reduction_dtype(fn, value.type.dtype), f"cum{fn}")
        b.emit(Scan(result, fn, value, name, reverse, b.loc))
        return result

    return handler


def elementwise(fn: str) -> Handler:
    def handler(b: Builder, *operands: object) -> object:
        if all(isinstance(o, bool | int | float | np.generic) for o in operands):
            return np.asarray(TABLE[fn].numpy(*(np.asarray(o) for o in operands))).item()
        return b.map(fn, *operands)

    return handler


HANDLERS: dict[Callable[..., object], Handler] = {
    tl.grid: _loop("grid"),
    tl.stream: _loop("stream"),
    tl.each: _bounded(AxisKind.EACH),
    tl.span: _bounded(AxisKind.TILE),
    tl.axis: _axis,
    tl.index: _index,
    tl.dim: _dim,
    tl.zeros: _zeros,
    tl.full: _full,
    tl.cast: _cast,
    tl.dot: dot,
    **{stub: _reduce(fn) for stub, fn in tl.REDUCTIONS.items()},
    **{stub: _scan(fn) for stub, fn in tl.SCANS.items()},
    **{stub: elementwise(fn) for stub, fn in tl.ELEMENTWISE.items()},
}
