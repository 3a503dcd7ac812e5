"""The value of a tile operation at a point: found, read from its home, or computed in place."""

from __future__ import annotations

from threadloom.errors import InternalError
from threadloom.par.builder import Builder
from threadloom.par.constants import const
from threadloom.par.ops import I1, Operand, Vector
from threadloom.targets.cpu.lower.context import Context, Point
from threadloom.targets.cpu.lower.dtypes import register_type
from threadloom.targets.cpu.lower.elementwise import Register, Series, converted, elementwise, materialized
from threadloom.targets.cpu.lower.tiles import load_tile
from threadloom.tile.ops import Bound, Cast, Const, DimSize, Full, Index, Load, Map, Op, Reduce, Value


class Evaluator:
    def __init__(self, c: Context):
        self.c = c

    def value(self, value: Value, point: Point) -> Register:
        """`value` at `point`; computed at the outermost level that has its axes, and remembered there."""
        if value.name in self.c.scalars:
            return self.c.scalars[value.name]
        for at in point.chain():
            if value.name in at.values:
                return at.values[value.name]
        level = point.level(value.type.axes)
        with self.c.at(level):
            made = self._made(value, level)
        level.values[value.name] = made
        return made

    def _made(self, value: Value, point: Point) -> Register:
        home = self.c.home(value)
        if home is not None and value.type.axes:
            return load_tile(self.c, home, value.type.dtype, point)
        if value.name in self.c.known_true:
            return const(I1, 1)
        return self.compute(self.c.definition(value), point)

    def compute(self, op: Op, point: Point) -> Register:
        """The result of an elementwise operation, load, index or constant at `point`."""
        b = self.c.b
        match op:
            case Const(result, number):
                return self._constant(result, number)
            case Index(_, axis):
                return self.axis_index(axis, point)
            case Bound(_, axis, which):
                tile = self.c.ranges[axis]
                return tile.start if which == "start" else b.add(tile.start, tile.length)
            case DimSize(_, dim):
                return self.c.extents[dim]
            case Load():
                from threadloom.targets.cpu.lower.access import TensorAccess

                return TensorAccess(self, op).load(point)
            case Full(result, value):
                made = materialized(b, self.value(value, point))
                return converted(b, made, value.type.dtype, result.type.dtype)
            case Cast(result, arg):
                return converted(b, self.value(arg, point), arg.type.dtype, result.type.dtype)
            case Map(result, "div", (left, right)) if self._divides_row(left, right, point):
                factor = self._reciprocal(right, point)
                values = [self.value(left, point), factor]
                return elementwise(b, "mul", values, [left.type.dtype, right.type.dtype], result.type.dtype)
            case Map(result, fn, args):
                values = [self.value(arg, point) for arg in args]
                dtypes = [arg.type.dtype for arg in args]
                below, natural = self._is_at_most_zero(args[0]), all(map(self._is_natural, args))
                return elementwise(b, fn, values, dtypes, result.type.dtype, self.c.target.extension, below, natural)
        raise InternalError(f"{type(op).__name__} is not computed in place")

    def _is_at_most_zero(self, value: Value) -> bool:
        """x - max of x, in the dtype of the maximum: never positive."""
        difference = self.c.plan.definitions.get(value.name)
        if not isinstance(difference, Map) or difference.fn != "sub":
            return False
        left, right = difference.args
        largest = self.c.plan.definitions.get(right.name)
        return isinstance(largest, Reduce) and largest.fn == "max" and largest.arg.name == left.name

    def _is_natural(self, value: Value) -> bool:
        """Extents, positions and what division makes of them: never negative."""
        match self.c.plan.definitions.get(value.name):
            case Const(_, number):
                return number >= 0
            case DimSize() | Index():
                return True
            case Map(_, "floordiv" | "mod", args):
                return all(map(self._is_natural, args))
        return False

    def _divides_row(self, left: Value, right: Value, point: Point) -> bool:
        """Lanes divided by one number: a product with its reciprocal is many times as fast, and off by an ulp."""
        vector = point.vector
        if vector is None or left.type.dtype.bits > 32:
            return False
        return vector.axis in left.type.axes and vector.axis not in right.type.axes

    def _reciprocal(self, value: Value, point: Point) -> Operand:
        """1 / value, at the level where the value is."""
        level = point.level(value.type.axes)
        key = f"1 / {value.name}"
        if key not in level.values:
            with self.c.at(level) as b:
                divisor = materialized(b, self.value(value, level))
                level.values[key] = b.fdiv(const(divisor.type, 1.0), divisor)
        return materialized(self.c.b, level.values[key])

    def _constant(self, result: Value, number: int | float | bool) -> Operand:
        type_ = register_type(result.type.dtype)
        if result.type.dtype.is_float and result.type.dtype.bits < 32:
            import numpy as np

            from threadloom.dtypes import numpy_dtype

            number = float(np.asarray(number).astype(numpy_dtype(result.type.dtype)))
        return const(type_, number)

    def axis_index(self, axis: str, point: Point) -> Register:
        """The global index along `axis`: a scalar, or a series along the vector axis."""
        start = self.c.ranges[axis].start
        if self.c.is_each(axis):
            return start
        bound = point.of_axis(axis)
        if bound is None or bound.index is None:
            raise InternalError(f"no loop over {axis} is open here")
        key = f"index {axis}"
        if key not in bound.values:
            with self.c.at(bound) as b:
                scalar = b.add(b.add(start, bound.index), bound.offset)
                bound.values[key] = Series(scalar, 1, bound.lanes) if bound.lanes > 1 else scalar
        return bound.values[key]

    def index(self, value: Value, point: Point) -> Register:
        """An integer value as i64, for subscripts."""
        from threadloom.dtypes import i64

        found = self.value(value, point)
        if isinstance(found, Series):
            return found
        return converted(self.c.b, found, value.type.dtype, i64)

    def vector(self, value: Value, point: Point) -> Operand:
        """`value` at `point` as an operand, not a series."""
        return materialized(self.c.b, self.value(value, point))


def widest(b: Builder, value: Operand, lanes: int) -> Operand:
    return value if lanes == 1 or isinstance(value.type, Vector) else b.splat(value, lanes)
