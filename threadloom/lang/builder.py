"""Emits tile operations: gives them types by the promotion table, names and places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from threadloom.dtypes import Dtype, bool_, f32, i32, i64, numpy_dtype
from threadloom.errors import CompileError, InternalError, slug
from threadloom.lang.dims import Formula, parse_dim
from threadloom.lang.values import Affine, Number
from threadloom.source import Loc
from threadloom.tile.functions import TABLE, Rule, accepts, result_dtype
from threadloom.tile.ops import (
    Axis,
    AxisKind,
    Cast,
    Const,
    Dim,
    Full,
    Index,
    Map,
    Op,
    Term,
    TileType,
    Value,
)
from threadloom.tile.promote import accumulate_dtype, compute_dtype, literal_dtype, promote
from threadloom.tile.uses import operands

OPERAND_DTYPE = slug("operand-dtype", "an operation does not take operands of this dtype")
UNKNOWN_NAME = slug("unknown-name", "a name in a kernel has no value")
NOT_A_TILE = slug("not-a-tile", "something that is not a tile, scalar or number is used as an operand")
LITERAL_RANGE = slug("literal-out-of-range", "a literal does not fit the dtype it is used with")

Operand = Value | Affine | Number


class Builder:
    """The kernel under construction; `loc` is the position given to what is emitted next."""

    def __init__(self, consts: Mapping[str, object]) -> None:
        self.consts = consts
        self.formulas: dict[str, Formula] = {}
        self.signature_dims: dict[str, None] | None = None  # names in the signature, once they have been read
        self.loc: Loc | None = None
        self.axes: dict[str, Axis] = {}
        self.ops: list[Op] = []
        self.accumulated: set[str] = set()  # outputs that are targets of atomic adds
        self._names: dict[str, int] = {}
        self._temporary: set[str] = set()
        self._renamed: dict[str, Value] = {}
        self._constants: list[dict[str, Value]] = [{}]

    # ------------------------------------------------------------ names, blocks

    def fresh(self, name: str) -> str:
        """`name` itself the first time, then name.1, name.2 ..."""
        count = self._names.get(name, -1) + 1
        self._names[name] = count
        return f"{name}.{count}" if count else name

    def new_value(self, axes: tuple[str, ...], dtype: Dtype, name: str = "") -> Value:
        return Value(self.fresh(name or "t"), TileType(axes, dtype))

    def temporary(self, axes: tuple[str, ...], dtype: Dtype, hint: str = "t") -> Value:
        """A value that takes the name of the variable it is assigned to, if it is."""
        value = self.new_value(axes, dtype, hint)
        self._temporary.add(value.name)
        return value

    def dim(self, written: str | int) -> Dim:
        """A dimension as users write it: a formula gets a name of its own, compile-time constants their value."""
        parsed = parse_dim(written, self.consts)
        if self.signature_dims is not None:
            self._check_known(parsed)
        if isinstance(parsed, Formula):
            self.formulas.setdefault(parsed.name, parsed)
            return parsed.name
        return parsed

    def _check_known(self, dim: Dim | Formula) -> None:
        names = dim.names if isinstance(dim, Formula) else [dim] if isinstance(dim, str) else []
        for name in names:
            if name not in self.signature_dims and name not in self.formulas:
                raise CompileError(
                    UNKNOWN_NAME,
                    f"{name!r} is no dimension of a parameter or result",
                    why=f"the kernel's dimensions are {', '.join(self.signature_dims) or 'numbers only'}",
                    loc=self.loc,
                )

    def new_axis(self, name: str, dim: Dim, kind: AxisKind) -> Affine:
        unique, count = name, 0
        while unique in self.axes:
            count += 1
            unique = f"{name}.{count}"
        self.axes[unique] = Axis(unique, dim, kind)
        return Affine((Term(1, axis=unique),))

    def whole_axis(self, dim: Dim) -> str:
        """The axis that `:` stands for: one per dimension, named after it."""
        name = dim if isinstance(dim, str) else f"d{dim}"
        if name not in self.axes:
            self.axes[name] = Axis(name, dim, AxisKind.WHOLE)
        known = self.axes[name]
        if known.kind is AxisKind.WHOLE and known.dim == dim:
            return name
        return self.whole_axis_beside(name, dim)

    def whole_axis_beside(self, name: str, dim: Dim) -> str:
        """`name` is taken by a loop variable: use the first free name.N that is this whole axis or unused."""
        count = 1
        while self.axes.get(f"{name}.{count}", Axis("", dim, AxisKind.WHOLE)).kind is not AxisKind.WHOLE:
            count += 1
        unique = f"{name}.{count}"
        self.axes.setdefault(unique, Axis(unique, dim, AxisKind.WHOLE))
        return unique

    @contextmanager
    def block(self, ops: list[Op] | None = None) -> Iterator[list[Op]]:
        """Collect what is emitted inside into a list of its own, or at the end of `ops`."""
        outer, self.ops = self.ops, [] if ops is None else ops
        self._constants.append({})
        try:
            yield self.ops
        finally:
            self.ops = outer
            self._constants.pop()

    def name_result(self, value: Value, name: str) -> Value:
        """Let a value that has no name of the user's yet, and that nothing has read, take `name`."""
        value = self.current(value)
        if value.name not in self._temporary:
            return value
        for at in range(len(self.ops) - 1, -1, -1):
            if getattr(self.ops[at], "result", None) == value:
                named = Value(self.fresh(name), value.type)
                self.ops[at] = replace(self.ops[at], result=named)
                self._temporary.discard(value.name)
                self._renamed[value.name] = named
                return named
        return value

    def current(self, value: Value) -> Value:
        """`value` under the name that it has now: a tuple, say, may hold it from before it got one."""
        return self._renamed.get(value.name, value)

    # ------------------------------------------------------------ operands

    def const(self, number: Number, dtype: Dtype) -> Value:
        self._check_range(number, dtype)
        number = float(number) if dtype.is_float else bool(number) if dtype.kind == "bool" else int(number)
        key = f"{dtype.name} {number!r}"
        for known in self._constants:
            if key in known:
                return known[key]
        value = self.new_value((), dtype, "c")
        self.ops.append(Const(value, number, self.loc))
        self._constants[-1][key] = value
        return value

    def _check_range(self, number: Number, dtype: Dtype) -> None:
        if dtype.is_float:
            fits, wider = _fits_float(number, dtype), "tl.cast(x, tl.f32); or math.inf"
        else:
            low, high = (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1)) if dtype.kind == "int" else (0, 2**dtype.bits)
            fits, wider = dtype is bool_ or low <= number < high, "tl.cast(x, tl.i32)"
        if not fits:
            raise CompileError(
                LITERAL_RANGE,
                f"{number} does not fit {dtype.name}",
                why="a literal takes the dtype that is asked for, or that of the other operand",
                try_=f"cast the other operand first, for example {wider}",
                loc=self.loc,
            )

    def value(self, operand: object, beside: Dtype | None = None) -> Value:
        """`operand` as a Value; a Python number takes its dtype from what it stands beside."""
        operand = operand.item() if isinstance(operand, np.generic) else operand
        match operand:
            case Value():
                return self.current(operand)
            case Affine():
                return self._materialize(operand)
            case bool() | int() | float():
                return self.const(operand, literal_dtype(operand, beside))
        raise CompileError(
            NOT_A_TILE,
            f"{_describe(operand)} cannot be used as a number here",
            why="operands are tiles, scalars, loop variables and numbers",
            loc=self.loc,
        )

    def _materialize(self, affine: Affine) -> Value:
        total: Value | None = None
        for term in affine.terms:
            if term.axis is not None:
                axes = () if self.axes[term.axis].kind is AxisKind.EACH else (term.axis,)
                part = self.temporary(axes, i64)
                self.emit(Index(part, term.axis, self.loc))
            else:
                part = self.cast(term.value, i64)
            part = part if term.coefficient == 1 else self.map("mul", part, term.coefficient)
            total = part if total is None else self.map("add", total, part)
        if total is None:
            return self.const(affine.offset, i64)
        return total if affine.offset == 0 else self.map("add", total, affine.offset)

    def scalar_i64(self, operand: object, what: str) -> Value:
        """An integer scalar, for loop bounds."""
        value = self.value(operand)
        if value.type.axes or not value.type.dtype.is_integer:
            raise CompileError(
                OPERAND_DTYPE,
                f"{what} is {describe_type(value.type)}, not an integer scalar",
                why="all positions of a tile run the loop together" if value.type.axes else "",
                try_="m.start or m.stop of the tile m" if value.type.axes else "tl.cast(x, tl.i64)",
                loc=self.loc,
            )
        return self.cast(value, i64)

    # ------------------------------------------------------------ operations

    def cast(self, operand: object, dtype: Dtype) -> Value:
        if isinstance(operand, bool | int | float):
            return self.const(operand, dtype)
        value = self.value(operand)
        if value.type.dtype == dtype:
            return value
        result = self.temporary(value.type.axes, dtype)
        self.emit(Cast(result, value, self.loc))
        return result

    def copy(self, value: Value, axes: tuple[str, ...] | None = None) -> Value:
        """A new value equal to `value`, with its axes in the given order."""
        result = self.temporary(axes or value.type.axes, value.type.dtype)
        self.emit(Cast(result, value, self.loc))
        return result

    def full(self, operand: object, axes: tuple[str, ...], dtype: Dtype) -> Value:
        scalar = self.cast(operand, dtype)
        if scalar.type.axes:
            raise CompileError(OPERAND_DTYPE, "the fill value is a tile, not a scalar", loc=self.loc)
        result = self.temporary(axes, dtype)
        self.emit(Full(result, scalar, self.loc))
        return result

    def map(self, fn: str, *operands: object) -> Value:
        """Elementwise `fn` with promotion; at least one operand is not a plain number."""
        record = TABLE[fn]
        fixed = 1 if record.rule is Rule.WHERE else 0  # where's condition keeps its own dtype
        shared = operands[fixed:]
        dtype = self._shared_dtype(record.rule, shared)
        if not accepts(record, dtype):
            raise CompileError(
                OPERAND_DTYPE,
                f"{record.infix or fn} does not take {dtype.name}",
                try_="tl.cast(x, ...) first",
                loc=self.loc,
            )
        args = tuple(self.cast(self.value(o, dtype), dtype) for o in shared)
        if fixed:
            args = (self._condition(operands[0]), *args)
        result = self.temporary(broadcast_axes(args), result_dtype(record, dtype))
        self.emit(Map(result, fn, args, self.loc))
        return result

    def _shared_dtype(self, rule: Rule, operands: tuple[object, ...]) -> Dtype:
        strong = [self.value(o).type.dtype for o in operands if isinstance(o, Value)]
        strong += [i64 for o in operands if isinstance(o, Affine)]
        weak = [o.item() if isinstance(o, np.generic) else o for o in operands if not isinstance(o, Value | Affine)]
        dtype = None
        for other in strong:
            dtype = compute_dtype(other) if dtype is None else promote(dtype, other)
        for number in weak:
            if not isinstance(number, bool | int | float):
                self.value(number)  # raises with a description
            alone = literal_dtype(number, None)
            dtype = literal_dtype(number, dtype) if strong or dtype is None else promote(dtype, alone)
        if dtype is None:
            raise InternalError("an elementwise operation without operands")
        if rule in (Rule.FLOAT, Rule.TEST) and not dtype.is_float:
            return f32
        if rule is Rule.NUMBER and dtype is bool_:
            return i32
        return dtype

    def _condition(self, operand: object) -> Value:
        value = self.value(operand)
        if value.type.dtype is not bool_:
            raise CompileError(
                OPERAND_DTYPE,
                f"the condition is {value.type.dtype.name}, not bool",
                try_="a comparison, for example x != 0",
                loc=self.loc,
            )
        return value

    def emit(self, op: Op) -> None:
        self._temporary.difference_update(v.name for v in operands(op))
        self.ops.append(op)


def _fits_float(number: Number, dtype: Dtype) -> bool:
    """Whether rounding keeps `number` finite, if it is."""
    if not abs(number) < 2**1024:
        return isinstance(number, float)  # infinite or NaN, not an integer that Python makes no float of
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.float64(number).astype(numpy_dtype(dtype))))


def broadcast_axes(args: tuple[Value, ...]) -> tuple[str, ...]:
    """The axes of an elementwise result: those of the operand with most axes first, then what the others add."""
    axes: dict[str, None] = {}
    for arg in sorted(args, key=lambda a: -len(a.type.axes)):
        axes.update(dict.fromkeys(arg.type.axes))
    return tuple(axes)


def describe_type(type_: TileType) -> str:
    axes = ", ".join(type_.axes)
    return f"a tile [{axes}] of {type_.dtype.name}" if axes else f"a scalar {type_.dtype.name}"


def _describe(thing: object) -> str:
    match thing:
        case Dtype():
            return f"dtype {thing.name}"
        case None:
            return "None"
    name = getattr(thing, "__qualname__", None) or type(thing).__name__
    return f"{name} ({type(thing).__name__})" if callable(thing) else f"a {type(thing).__name__}"


def reduction_dtype(fn: str, operand: Dtype) -> Dtype:
    """The dtype of a reduction or scan: sums widen, extrema keep, any and all give bool, argmax an index."""
    if fn in ("sum", "prod"):
        return accumulate_dtype(operand)
    if fn in ("any", "all"):
        return bool_
    return i64 if fn in ("argmax", "argmin") else operand
