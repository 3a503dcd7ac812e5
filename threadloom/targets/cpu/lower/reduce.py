"""Reductions: what an accumulator starts as, takes in, and ends as.

An accumulator of sum, prod, max, min, any and all is one register (a scalar or a vector of lanes); of argmax and argmin
a pair, the best value and its index, the first among equals and NaN before everything, as NumPy has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from threadloom.dtypes import Dtype
from threadloom.errors import InternalError
from threadloom.par.builder import Builder
from threadloom.par.constants import const
from threadloom.par.ops import I64, Const, Operand, Type, Vector
from threadloom.par.printing import type_text
from threadloom.targets.cpu.lower.dtypes import element_of, register_type
from threadloom.targets.cpu.lower.vectors import folded
from threadloom.tile.ops import Reduce

Accumulator = tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """How `fn` reduces elements of `dtype` (the result's for sums, the operand's for extrema)."""

    fn: str
    dtype: Dtype

    @property
    def is_arg(self) -> bool:
        return self.fn in ("argmax", "argmin")

    def start(self, lanes: int) -> Accumulator:
        element = register_type(self.dtype)
        type_: Type = Vector(lanes, element) if lanes > 1 else element
        value = identity(self.fn, type_, self.dtype)
        if not self.is_arg:
            return (value,)
        # an index larger than any, so that the first element always wins
        return value, const(Vector(lanes, I64) if lanes > 1 else I64, (1 << 62))

    def take(
        self, b: Builder, old: Accumulator, value: Operand, index: Operand | None, mask: Operand | None
    ) -> Accumulator:
        """The accumulator after `value`, in lanes where `mask` holds."""
        if self.is_arg:
            if index is None:
                raise InternalError("argmax without an index")
            new = self._better(b, old, (value, index))
            if mask is None:
                return new
            return tuple(b.select(mask, x, y) for x, y in zip(new, old, strict=True))
        if mask is not None:
            value = b.select(mask, value, identity(self.fn, value.type, self.dtype))
        return (self.combine(b)(old[0], value),)

    def merge(self, b: Builder, left: Accumulator, right: Accumulator) -> Accumulator:
        if self.is_arg:
            return self._better(b, left, right)
        return (self.combine(b)(left[0], right[0]),)

    def finish(self, b: Builder, accumulator: Accumulator) -> Accumulator:
        """Lanes combined into a scalar accumulator."""
        if not isinstance(accumulator[0].type, Vector):
            return accumulator
        if not self.is_arg:
            return (folded(b, accumulator[0], self.combine(b)),)
        lanes = accumulator[0].type.lanes
        pairs = [tuple(b.extract(part, lane) for part in accumulator) for lane in range(lanes)]
        best = pairs[0]
        for pair in pairs[1:]:
            best = self._better(b, best, pair)
        return best

    def result(self, b: Builder, accumulator: Accumulator, first: Operand) -> Operand:
        """What the program sees; an empty argmax gives 0. `first` is the axis's first index."""
        if not self.is_arg:
            return accumulator[0]
        index = accumulator[1]
        empty = b.icmp("eq", index, const(index.type, 1 << 62))
        return b.select(empty, const(index.type, 0), index)

    def combine(self, b: Builder) -> Callable[[Operand, Operand], Operand]:
        is_float, signed = self.dtype.is_float, self.dtype.kind == "int"
        match self.fn:
            case "sum" | "prod":
                name = {"sum": "add", "prod": "mul"}[self.fn]
                return lambda x, y: b.binary(f"f{name}" if is_float else name, x, y)
            case "any" | "all":
                name = {"any": "or", "all": "and"}[self.fn]
                return lambda x, y: b.binary(name, x, y)
            case "max" | "min" if self.dtype.kind == "bool":
                name = {"max": "or", "min": "and"}[self.fn]
                return lambda x, y: b.binary(name, x, y)
            case "max" | "min" if is_float:
                return lambda x, y: b.intrinsic(f"{self.fn}imum", (x, y), flags=("nsz",))
            case "max" | "min":
                name = ("s" if signed else "u") + self.fn
                return lambda x, y: b.intrinsic(name, (x, y))
        raise InternalError(f"the CPU target has no reduction {self.fn}")

    def _better(self, b: Builder, left: Accumulator, right: Accumulator) -> Accumulator:
        """The right one where it is strictly better, or equal and earlier."""
        (x, at), (y, other) = left, right
        earlier = b.icmp("slt", other, at)
        if self.dtype.is_float:
            order = "ogt" if self.fn == "argmax" else "olt"
            y_nan, x_nan = b.fcmp("uno", y, y), b.fcmp("uno", x, x)
            beats = b.or_(b.fcmp(order, y, x), b.and_(y_nan, b.xor(x_nan, const(x_nan.type, 1))))
            equal = b.or_(b.fcmp("oeq", y, x), b.and_(x_nan, y_nan))
        else:
            signed = "s" if self.dtype.kind == "int" else "u"
            order = signed + ("gt" if self.fn == "argmax" else "lt")
            beats, equal = b.icmp(order, y, x), b.icmp("eq", y, x)
        wins = b.or_(beats, b.and_(equal, earlier))
        return b.select(wins, y, x), b.select(wins, other, at)


def reduction_of(op: Reduce) -> Reduction:
    """Sums run in the result's dtype, extrema in the operand's."""
    is_sum = op.fn in ("sum", "prod")
    return Reduction(op.fn, op.result.type.dtype if is_sum else op.arg.type.dtype)


def identity(fn: str, type_: Type, dtype: Dtype) -> Operand:
    match fn:
        case "sum" | "any":
            return const(type_, 0)
        case "prod" | "all":
            return const(type_, 1)
    return lowest(type_, dtype) if fn in ("max", "argmax") else highest(type_, dtype)


def lowest(type_: Type, dtype: Dtype) -> Operand:
    if dtype.is_float:
        return _float_const(type_, "0xFFF0000000000000")
    bits = element_of(type_).bits
    return const(type_, -(1 << (bits - 1)) if dtype.kind == "int" else 0)


def highest(type_: Type, dtype: Dtype) -> Operand:
    if dtype.is_float:
        return _float_const(type_, "0x7FF0000000000000")
    bits = element_of(type_).bits
    return const(type_, (1 << (bits - 1)) - 1 if dtype.kind == "int" else (1 << bits) - 1)


def _float_const(type_: Type, text: str) -> Const:
    if isinstance(type_, Vector):
        return Const(type_, f"splat ({type_text(type_.element)} {text})")
    return Const(type_, text)
