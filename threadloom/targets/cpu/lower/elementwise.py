"""Map and Cast on registers: one function per entry of tile/functions.py, for scalars and vectors.

Narrow floats compute in f32 and are rounded to their dtype after every operation, as the interpreter does. Index
values along the vector axis stay a base and a step (`Series`) as long as they are only shifted and compared, which
keeps 64-bit vectors out of masks.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.dtypes import Dtype
from threadloom.errors import InternalError
from threadloom.par.builder import Builder
from threadloom.par.constants import int_value, vector_const
from threadloom.par.ops import F64, I32, I64, Const, Int, Operand, Type, Vector
from threadloom.targets.cpu.lower.dtypes import (
    element_of,
    number,
    register_type,
    rounded,
    rounded_to_tf32,
    shaped,
)
from threadloom.targets.cpu.math import FUNCTIONS, math_function
from threadloom.targets.cpu.simplify import ROUND_TF32

# Selections and sign changes of rounded operands need no rounding.
_EXACT = frozenset({"maximum", "minimum", "neg", "abs", "where", ROUND_TF32})
_INT_PREDICATES = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_FLOAT_PREDICATES = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@dataclass(frozen=True, slots=True)
class Series:
    """i64 values base, base + step, base + 2 step ... in the lanes of a vector."""

    base: Operand
    step: int
    lanes: int


Register = Operand | Series


def materialized(b: Builder, value: Register) -> Operand:
    """A Series as a vector of i64."""
    if not isinstance(value, Series):
        return value
    lanes = vector_const(I64, [value.step * lane for lane in range(value.lanes)])
    return b.add(b.splat(value.base, value.lanes), lanes)


def broadcast(b: Builder, value: Register, lanes: int) -> Register:
    if isinstance(value, Series) or lanes == 1 or isinstance(value.type, Vector):
        return value
    if isinstance(value, Const):
        if value.text in ("zeroinitializer", "poison") or int_value(value) == 0:
            return Const(Vector(lanes, element_of(value.type)), "zeroinitializer")
        kind = element_of(value.type)
        name = f"i{kind.bits}" if isinstance(kind, Int) else kind.kind
        return Const(Vector(lanes, kind), f"splat ({name} {value.text})")
    return b.splat(value, lanes)


# ---------------------------------------------------------------- Map


def elementwise(
    b: Builder, fn: str, args: list[Register], dtypes: list[Dtype], result: Dtype, extension: str = "",
    at_most_zero: bool = False, natural: bool = False,
) -> Register:  # fmt: skip
    """`fn` of `args` (already as wide as one another, or Series and scalars), whose dtypes are `dtypes`.
    `at_most_zero`: the first one is known to be that, or NaN; `natural`: no one is negative."""
    lanes = max((arg.lanes if isinstance(arg, Series) else _lanes(arg.type)) for arg in args)
    if any(isinstance(arg, Series) for arg in args) and (made := _on_series(b, fn, args)) is not None:
        return made
    if fn == "where" and isinstance(args[0], Const) and int_value(args[0]) == 1:
        return args[1]
    operands = [materialized(b, broadcast(b, arg, lanes)) for arg in args]
    operand_dtype = dtypes[-1]
    if operand_dtype.is_float:
        known = at_most_zero and fn in FUNCTIONS
        made = math_function(b, fn, operands[0], extension, True) if known else _float(b, fn, operands, extension)
        return (
            made
            if fn in _EXACT or element_of(made.type) == register_type(dtypes[0]) == F64
            else (rounded(b, made, result) if result.is_float else made)
        )
    if operand_dtype.kind == "bool":
        return _bool(b, fn, operands)
    made = _integer(b, fn, operands, operand_dtype.kind == "int" and not (natural and fn in ("floordiv", "mod")))
    return b.and_(made, number(made.type, 15)) if result.name == "u4" else made


def _lanes(type_: Type) -> int:
    return type_.lanes if isinstance(type_, Vector) else 1


def _on_series(b: Builder, fn: str, args: list[Register]) -> Register | None:
    """Shifts and comparisons of index series; None where the vector itself is needed."""
    if fn not in ("add", "sub", "mul", *_INT_PREDICATES):
        return None
    lanes = next(arg.lanes for arg in args if isinstance(arg, Series))
    parts = []
    for arg in args:
        if isinstance(arg, Series):
            parts.append((arg.base, arg.step))
        elif isinstance(arg.type, Vector):
            return None
        else:
            parts.append((arg, 0))
    (left, left_step), (right, right_step) = parts
    match fn:
        case "add":
            return Series(b.add(left, right), left_step + right_step, lanes)
        case "sub":
            return Series(b.sub(left, right), left_step - right_step, lanes)
        case "mul":
            factor = int_value(left) if left_step == 0 else int_value(right)
            if factor is None or (left_step and right_step):
                return None
            return Series(b.mul(left, right), (left_step or right_step) * factor, lanes)
    step = left_step - right_step
    if step < 0:
        return compare_series(b, _MIRRORED[fn], b.sub(left, right), -step, lanes)
    return compare_series(b, fn, b.sub(right, left), step, lanes)


def compare_series(b: Builder, relation: str, limit: Operand, step: int, lanes: int) -> Operand:
    """lane * step `relation` limit, in 32 bits: what lies outside the lanes' range is clamped just outside it."""
    if step == 0:
        return broadcast(b, b.icmp(_INT_PREDICATES[relation], number(I64, 0), limit), lanes)
    clamped = b.min(b.max(limit, number(I64, -1)), number(I64, step * lanes))
    narrow = b.splat(b.cast("trunc", clamped, I32), lanes)
    counts = vector_const(I32, [lane * step for lane in range(lanes)])
    return b.icmp(_INT_PREDICATES[relation], counts, narrow)


def _float(b: Builder, fn: str, x: list[Operand], extension: str) -> Operand:
    if fn in FUNCTIONS:
        return math_function(b, fn, x[0], extension)
    if fn in _FLOAT_PREDICATES:
        return b.fcmp(_FLOAT_PREDICATES[fn], x[0], x[1])
    match fn:
        case "add" | "sub" | "mul" | "div":
            return b.binary(f"f{fn}", x[0], x[1])
        case "floordiv":
            return _float_floordiv(b, x[0], x[1])
        case "mod":
            return _float_mod(b, x[0], x[1])
        case "maximum" | "minimum":
            return b.intrinsic(fn, (x[0], x[1]), flags=("nsz",))
        case "neg":
            return b.fneg(x[0])
        case "abs":
            return b.intrinsic("fabs", (x[0],))
        case "isnan":
            return b.fcmp("uno", x[0], x[0])
        case "where":
            return b.select(x[0], x[1], x[2])
        case "floor" | "ceil" | "sqrt":
            return b.intrinsic(fn, (x[0],))
        case "round":
            return b.intrinsic("rint", (x[0],))
        case "rsqrt":
            return b.fdiv(number(x[0].type, 1.0), b.intrinsic("sqrt", (x[0],)))
        case _ if fn == ROUND_TF32:
            return rounded_to_tf32(b, x[0])
    raise InternalError(f"the CPU target has no {fn} of floats")


def _float_mod(b: Builder, x: Operand, y: Operand) -> Operand:
    """NumPy's remainder: fmod by libm, moved to the divisor's sign."""
    rest = _fmod(b, x, y)
    zero = number(x.type, 0.0)
    differs = b.xor(b.fcmp("olt", rest, zero), b.fcmp("olt", y, zero))
    moved = b.select(b.and_(differs, b.fcmp("une", rest, zero)), b.fadd(rest, y), rest)
    return b.select(b.fcmp("oeq", rest, zero), b.intrinsic("copysign", (zero, y)), moved)


def _float_floordiv(b: Builder, x: Operand, y: Operand) -> Operand:
    """NumPy's: (x - x mod y) / y, rounded to the nearest whole number; x / y where y is 0."""
    zero = number(x.type, 0.0)
    quotient = b.fdiv(b.fsub(x, _float_mod(b, x, y)), y)
    floor = b.intrinsic("floor", (quotient,))
    nearest = b.select(b.fcmp("ogt", b.fsub(quotient, floor), number(x.type, 0.5)),
                       b.fadd(floor, number(x.type, 1.0)), floor)  # fmt: skip
    return b.select(b.fcmp("oeq", y, zero), b.fdiv(x, y), nearest)


def _fmod(b: Builder, x: Operand, y: Operand) -> Operand:
    name = "fmod" if element_of(x.type) == F64 else "fmodf"
    if not isinstance(x.type, Vector):
        return _called(b, name, x, y)
    result: Operand = Const(x.type, "poison")
    for lane in range(x.type.lanes):
        result = b.insert(result, _called(b, name, b.extract(x, lane), b.extract(y, lane)), lane)
    return result


def _called(b: Builder, name: str, x: Operand, y: Operand) -> Operand:
    value = b.call(name, (x, y), x.type)
    if value is None:
        raise InternalError(f"{name} has no result")
    return value


def _integer(b: Builder, fn: str, x: list[Operand], signed: bool) -> Operand:
    if fn in _INT_PREDICATES:
        predicate = _INT_PREDICATES[fn]
        return b.icmp(predicate if signed or fn in ("eq", "ne") else "u" + predicate[1:], x[0], x[1])
    match fn:
        case "add" | "sub" | "mul" | "and" | "or" | "xor":
            return b.binary(fn, x[0], x[1])
        case "floordiv" | "mod":
            return _divide(b, fn, x[0], x[1], signed)
        case "maximum" | "minimum":
            return b.intrinsic(("s" if signed else "u") + fn[:3], (x[0], x[1]))
        case "neg":
            return b.sub(number(x[0].type, 0), x[0])
        case "abs":
            return b.intrinsic("abs", (x[0],)) if signed else x[0]
        case "not":
            return b.xor(x[0], number(x[0].type, -1))
        case "shl" | "shr":
            return _shift(b, fn, x[0], x[1], signed)
        case "where":
            return b.select(x[0], x[1], x[2])
    raise InternalError(f"the CPU target has no {fn} of integers")


def _divide(b: Builder, fn: str, x: Operand, y: Operand, signed: bool) -> Operand:
    """Floor division and remainder; by zero gives 0, and -2**n / -1 wraps as in NumPy instead of trapping."""
    zero, one = number(y.type, 0), number(y.type, 1)
    by_zero = b.icmp("eq", y, zero)
    if not signed:
        safe = b.select(by_zero, one, y)
        made = b.udiv(x, safe) if fn == "floordiv" else b.urem(x, safe)
        return b.select(by_zero, zero, made)
    by_minus_one = b.icmp("eq", y, number(y.type, -1))
    safe = b.select(b.or_(by_zero, by_minus_one), one, y)
    quotient = b.select(by_minus_one, b.sub(zero, x), b.sdiv(x, safe))
    rest = b.select(by_minus_one, zero, b.srem(x, safe))
    crosses = b.and_(b.icmp("ne", rest, zero), b.icmp("slt", b.xor(rest, y), zero))
    if fn == "floordiv":
        made = b.select(crosses, b.sub(quotient, one), quotient)
    else:
        made = b.select(crosses, b.add(rest, y), rest)
    return b.select(by_zero, zero, made)


def _shift(b: Builder, fn: str, x: Operand, count: Operand, signed: bool) -> Operand:
    """Counts below 0 or beyond the width give 0, or the sign of a right-shifted number."""
    bits = element_of(x.type).bits
    inside = b.icmp("ult", count, number(count.type, bits))
    safe = b.select(inside, count, number(count.type, 0))
    if fn == "shl":
        return b.select(inside, b.shl(x, safe), number(x.type, 0))
    if not signed:
        return b.select(inside, b.lshr(x, safe), number(x.type, 0))
    return b.select(inside, b.ashr(x, safe), b.ashr(x, number(x.type, bits - 1)))


def _bool(b: Builder, fn: str, x: list[Operand]) -> Operand:
    one = number(x[-1].type, 1)
    match fn:
        case "and" | "or" | "xor":
            return b.binary(fn, x[0], x[1])
        case "not":
            return b.xor(x[0], one)
        case "where":
            return b.select(x[0], x[1], x[2])
        case "ne":
            return b.xor(x[0], x[1])
        case "eq":
            return b.xor(b.xor(x[0], x[1]), one)
        case "lt":
            return b.and_(b.xor(x[0], one), x[1])
        case "gt":
            return b.and_(x[0], b.xor(x[1], one))
        case "le":
            return b.or_(b.xor(x[0], one), x[1])
        case "ge":
            return b.or_(x[0], b.xor(x[1], one))
    raise InternalError(f"the CPU target has no {fn} of bool")


# ---------------------------------------------------------------- Cast


def converted(b: Builder, value: Register, source: Dtype, target: Dtype) -> Register:
    """Cast: float to integer truncates and saturates (NaN gives 0), integers wrap, f8 saturates, floats round."""
    if source == target:
        return value
    if isinstance(value, Series) and target.bits == 64 and target.is_integer:
        return value
    x = materialized(b, value)
    wanted = shaped(register_type(target), x.type)
    if target.kind == "bool":
        zero = number(x.type, 0)
        return b.fcmp("une", x, zero) if source.is_float else b.icmp("ne", x, zero)
    if target.is_float:
        return rounded(b, _to_float(b, x, source, wanted), target)
    if source.is_float:
        return _float_to_integer(b, x, target, wanted)
    return _to_width(b, x, source, target, wanted)


def _to_float(b: Builder, x: Operand, source: Dtype, wanted: Type) -> Operand:
    if source.is_float:
        if x.type == wanted:
            return x
        return b.cast("fpext" if element_of(wanted) == F64 else "fptrunc", x, wanted)
    signed = source.kind == "int"
    return b.cast("sitofp" if signed else "uitofp", x, wanted)


def _float_to_integer(b: Builder, x: Operand, target: Dtype, wanted: Type) -> Operand:
    """Through i64 for narrow targets, clamped there: saturating conversions to bytes are slow on x86."""
    if target.bits == 64:
        return _saturating(b, "fptosi.sat", x, wanted)
    wide = _saturating(b, "fptosi.sat", x, shaped(I32, x.type))
    if target.bits == 32:
        return wide
    low, high = (-128, 127) if target.name == "i8" else (0, 15 if target.name == "u4" else 255)
    clamped = b.intrinsic("smin", (b.intrinsic("smax", (wide, number(wide.type, low))), number(wide.type, high)))
    return b.cast("trunc", clamped, wanted)


def _saturating(b: Builder, name: str, x: Operand, wanted: Type) -> Operand:
    from threadloom.par.intrinsics import mangled
    from threadloom.par.ops import Attrs

    callee = mangled(f"llvm.{name}", (wanted, x.type))
    made = b.leaf("call", (x,), wanted, Attrs(callee=callee), "whole")
    if made is None:
        raise InternalError(f"{callee} has no result")
    return made


def _to_width(b: Builder, x: Operand, source: Dtype, target: Dtype, wanted: Type) -> Operand:
    if source.kind == "bool":
        made = b.cast("zext", x, wanted)
    else:
        old, new = element_of(x.type).bits, element_of(wanted).bits
        if old == new:
            made = x
        elif old > new:
            made = b.cast("trunc", x, wanted)
        else:
            made = b.cast("sext" if source.kind == "int" else "zext", x, wanted)
    return b.and_(made, number(made.type, 15)) if target.name == "u4" else made
