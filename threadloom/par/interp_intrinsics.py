"""Meaning of `llvm.*` functions on scalars, and of the C library's math functions.

`float` variants of library functions call the same library that compiled code calls, so that results agree bit for bit.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce

from threadloom.par.interp_leaves import atomic_function, scalar_function, signed
from threadloom.par.interp_values import POISON, InterpValue, round_float
from threadloom.par.ops import Attrs, Const, Float, Int, Leaf, Type, Value, Vector

ScalarFunction = Callable[..., InterpValue]

# llvm.NAME -> the C function it calls
_LIBRARY = {name: name for name in (
    "exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "pow", "atan2", "ldexp",
)}  # fmt: skip
_C_MATH = frozenset((
    *_LIBRARY, "expm1", "log1p", "cbrt", "hypot", "erf", "erfc", "tgamma", "lgamma", "asinh", "acosh", "atanh", "fmod",
    "fmin", "fmax", "fabs", "sqrt", "floor", "ceil", "trunc", "round", "rint", "nearbyint", "fma", "copysign",
    "nextafter", "remainder", "j0", "j1", "y0", "y1", "logb", "fdim",
))  # fmt: skip


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libm.so.6")
    except OSError:
        return ctypes.CDLL(None)


def _c_type(type_: Type) -> type[ctypes._SimpleCData]:
    if isinstance(type_, Int):
        return ctypes.c_int64 if type_.bits == 64 else ctypes.c_int32
    return ctypes.c_float if type_ == Float("float") else ctypes.c_double


@lru_cache(maxsize=256)
def library_function(name: str, result: Type, params: tuple[Type, ...]) -> ScalarFunction | None:
    """The C math function `name` (`expf`, `exp`), or None if we do not know it as pure mathematics."""
    if name not in _C_MATH and not (name.endswith("f") and name[:-1] in _C_MATH):
        return None
    try:
        function = getattr(_library(), name)
    except AttributeError:
        return None
    function.restype, function.argtypes = _c_type(result), [_c_type(param) for param in params]

    def call(*args: InterpValue) -> InterpValue:
        if any(arg is POISON for arg in args):
            return POISON
        signs = [
            signed(arg, param.bits) if isinstance(param, Int) else arg for arg, param in zip(args, params, strict=True)
        ]
        return function(*signs)

    return call


def _by_library(name: str, types: Sequence[Type]) -> ScalarFunction | None:
    kind = types[0].kind if isinstance(types[0], Float) else ""
    if kind == "double":
        return library_function(name, types[0], tuple(types))
    if kind == "float":
        return library_function(name + "f", types[0], tuple(types))
    single = library_function(name + "f", Float("float"), tuple(Float("float") for _ in types))
    return None if single is None else lambda *args: round_float(single(*args), kind)


def fma(kind: str) -> ScalarFunction:
    if kind in ("half", "bfloat"):  # the product is exact in double, and so is the sum but for one rounding
        return lambda a, b, c: round_float(a * b + c, kind)
    name = "fma" if kind == "double" else "fmaf"
    found = library_function(name, Float(kind), (Float(kind),) * 3)
    assert found is not None
    return found


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0 else (x if x == 0 else math.nan)


def _round_half_away(x: float) -> float:
    if not math.isfinite(x):
        return x
    return math.copysign(math.floor(abs(x) + 0.5) if abs(x) < 2**52 else abs(x), x)


def _integral(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: math.copysign(float(function(x)), x) if math.isfinite(x) else x


def _ignoring_nan(choose: Callable[[float, float], float]) -> Callable[[float, float], float]:
    def pick(x: float, y: float) -> float:
        if math.isnan(x) or math.isnan(y):
            return y if math.isnan(x) else x
        return choose(x, y)

    return pick


def _keeping_nan(choose: Callable[[float, float], float]) -> Callable[[float, float], float]:
    def pick(x: float, y: float) -> float:
        if math.isnan(x) or math.isnan(y):
            return math.nan
        if x == y == 0:  # -0 is less than +0
            negative = math.copysign(1, x) < 0 or math.copysign(1, y) < 0
            both = math.copysign(1, x) < 0 and math.copysign(1, y) < 0
            return -0.0 if (negative if choose is min else both) else 0.0
        return choose(x, y)

    return pick


_FLOAT_FUNCTIONS: dict[str, Callable[..., float]] = {
    "sqrt": _sqrt,
    "fabs": abs,
    "floor": _integral(math.floor),
    "ceil": _integral(math.ceil),
    "trunc": _integral(math.trunc),
    "rint": _integral(round),
    "nearbyint": _integral(round),
    "roundeven": _integral(round),
    "round": _round_half_away,
    "copysign": math.copysign,
    "minnum": _ignoring_nan(min),
    "maxnum": _ignoring_nan(max),
    "minimumnum": _ignoring_nan(min),
    "maximumnum": _ignoring_nan(max),
    "minimum": _keeping_nan(min),
    "maximum": _keeping_nan(max),
    "canonicalize": lambda x: x,
}


def _reverse_bits(x: int, bits: int) -> int:
    return int(format(x, f"0{bits}b")[::-1], 2)


def _funnel(x: int, y: int, by: int, bits: int, left: bool) -> int:
    joined, by = (x << bits) | y, by % bits
    return (joined << by) >> bits if left else joined >> by


def _saturated(value: int, bits: int, is_signed: bool) -> int:
    lowest = -(1 << (bits - 1)) if is_signed else 0
    return min(max(value, lowest), (1 << (bits - is_signed)) - 1)


_INTEGER_FUNCTIONS: dict[str, Callable[..., int]] = {  # (*operands, bits) -> result before masking
    "smin": lambda x, y, bits: min(signed(x, bits), signed(y, bits)),
    "smax": lambda x, y, bits: max(signed(x, bits), signed(y, bits)),
    "umin": lambda x, y, bits: min(x, y),
    "umax": lambda x, y, bits: max(x, y),
    "abs": lambda x, _poison, bits: abs(signed(x, bits)),
    "ctpop": lambda x, bits: x.bit_count(),
    "ctlz": lambda x, _poison, bits: bits - x.bit_length(),
    "cttz": lambda x, _poison, bits: (x & -x).bit_length() - 1 if x else bits,
    "bswap": lambda x, bits: int.from_bytes(x.to_bytes(bits // 8, "little"), "big"),
    "bitreverse": lambda x, bits: _reverse_bits(x, bits),
    "fshl": lambda x, y, by, bits: _funnel(x, y, by, bits, True),
    "fshr": lambda x, y, by, bits: _funnel(x, y, by, bits, False),
    "sadd.sat": lambda x, y, bits: _saturated(signed(x, bits) + signed(y, bits), bits, True),
    "ssub.sat": lambda x, y, bits: _saturated(signed(x, bits) - signed(y, bits), bits, True),
    "uadd.sat": lambda x, y, bits: _saturated(x + y, bits, False),
    "usub.sat": lambda x, y, bits: _saturated(x - y, bits, False),
}


def _powi(kind: str) -> ScalarFunction:
    """compiler-rt's loop: square and multiply, then the reciprocal."""

    def power(x: float, exponent: int) -> float:
        count, result = signed(exponent, 32), 1.0
        negative, count = count < 0, abs(count)
        while True:
            if count & 1:
                result = round_float(result * x, kind)
            count >>= 1
            if not count:
                break
            x = round_float(x * x, kind)
        return round_float(1.0 / result, kind) if negative and result else (math.inf if negative else result)

    return power


def _to_int_saturated(bits: int, is_signed: bool) -> ScalarFunction:
    def convert(x: float) -> int:
        if math.isnan(x):
            return 0
        number = int(x) if math.isfinite(x) else (1 << 200) * (1 if x > 0 else -1)
        return _saturated(number, bits, is_signed) & ((1 << bits) - 1)

    return convert


def scalar_intrinsic(base: str, types: Sequence[Type], result: Type) -> ScalarFunction | None:
    """The meaning of `llvm.BASE.*` on one lane; `types` are the operands' scalar types."""
    first = types[0] if types else None
    if base == "expect":
        return lambda x, _: x
    if base in ("fma", "fmuladd") and isinstance(first, Float):
        return fma(first.kind)
    if base == "powi" and isinstance(first, Float):
        return _powi(first.kind)
    if base in _FLOAT_FUNCTIONS and isinstance(first, Float):
        function, kind = _FLOAT_FUNCTIONS[base], first.kind
        return lambda *args: round_float(function(*args), kind)
    if base in _LIBRARY and isinstance(first, Float):
        return _by_library(_LIBRARY[base], types)
    if base in _INTEGER_FUNCTIONS and isinstance(first, Int):
        operation, bits = _INTEGER_FUNCTIONS[base], first.bits
        return lambda *args: operation(*args, bits) & ((1 << bits) - 1)
    if base in ("fptosi.sat", "fptoui.sat") and isinstance(result, Int):
        return _to_int_saturated(result.bits, base == "fptosi.sat")
    if base in _WITH_OVERFLOW and isinstance(first, Int):
        return _with_overflow(base, first.bits)
    return None


_WITH_OVERFLOW = {"sadd.with.overflow": "add", "uadd.with.overflow": "add", "ssub.with.overflow": "sub",
                  "usub.with.overflow": "sub", "smul.with.overflow": "mul", "umul.with.overflow": "mul"}  # fmt: skip


def _with_overflow(base: str, bits: int) -> ScalarFunction:
    operation = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y}[_WITH_OVERFLOW[base]]
    is_signed = base.startswith("s")

    def compute(x: int, y: int) -> InterpValue:
        wide = operation(signed(x, bits), signed(y, bits)) if is_signed else operation(x, y)
        return wide & ((1 << bits) - 1), int(_saturated(wide, bits, is_signed) != wide)

    return compute


def reduction(operation: str, vector: Vector) -> Callable[..., InterpValue]:
    """`llvm.vector.reduce.OPERATION`: lanes in order; fadd and fmul take a start value first."""
    element = vector.element
    if operation in ("fadd", "fmul", "add", "mul", "and", "or", "xor"):
        leaf = Leaf(operation, (Const(element, "0"), Const(element, "0")), Value("r", element), Attrs())
        step = scalar_function(leaf)
    elif operation in ("fmin", "fmax", "fminimum", "fmaximum"):
        names = {"fmin": "minnum", "fmax": "maxnum", "fminimum": "minimum", "fmaximum": "maximum"}
        step = scalar_intrinsic(names[operation], (element,), element)
    else:
        names = {"smin": "min", "smax": "max", "umin": "umin", "umax": "umax"}
        step = atomic_function(names[operation], element)
    assert step is not None
    if operation in ("fadd", "fmul"):
        return lambda start, lanes: reduce(step, lanes, start)
    return lambda lanes: reduce(step, lanes)
