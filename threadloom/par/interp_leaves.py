"""What each leaf means, on scalars; vectors apply it lane by lane.

`scalar_function(leaf)` gives a Python function of the operands' scalar values. Integers come and go as unsigned
numbers of their width. Poison (nsw and the like, oversized shifts, conversions out of range) is POISON.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from threadloom.errors import InternalError
from threadloom.par.interp_values import POISON, InterpValue, round_float, round_int
from threadloom.par.ops import Float, Int, Leaf, Type
from threadloom.par.result_types import scalar_of

ScalarFunction = Callable[..., InterpValue]


class DivisionByZero(ArithmeticError):
    """Integer division by zero, or the one signed quotient that does not fit: undefined in LLVM, a trap on CPUs."""


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def scalar_function(leaf: Leaf) -> ScalarFunction | None:
    """The meaning of `leaf` on one lane, or None where it does not work lane by lane."""
    opcode, flags = leaf.opcode, leaf.attrs.flags
    type_ = scalar_of(leaf.operands[0].type) if leaf.operands else None
    if opcode in _INTEGER and isinstance(type_, Int):
        return _integer(opcode, type_.bits, flags)
    if opcode in _FLOAT and isinstance(type_, Float):
        return _float(_FLOAT[opcode], type_.kind)
    if opcode == "fneg":
        return lambda x: -x
    if opcode == "icmp":
        return _icmp(leaf.attrs.predicate, type_.bits if isinstance(type_, Int) else 64)
    if opcode == "fcmp":
        return _fcmp(leaf.attrs.predicate)
    if opcode in _CASTS and leaf.result is not None and type_ is not None:
        return _CASTS[opcode](type_, scalar_of(leaf.result.type), flags)
    return None


# ---------------------------------------------------------------- integers


def _divide(x: int, y: int) -> int:
    if y == 0:
        raise DivisionByZero
    return x // y


def _signed_divide(x: int, y: int, bits: int) -> int:
    x, y = signed(x, bits), signed(y, bits)
    if y == 0 or (y == -1 and x == -(1 << (bits - 1))):
        raise DivisionByZero
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _signed_remainder(x: int, y: int, bits: int) -> int:
    return signed(x, bits) - _signed_divide(x, y, bits) * signed(y, bits)


def _unsigned_remainder(x: int, y: int, bits: int) -> int:
    if y == 0:
        raise DivisionByZero
    return x % y


_INTEGER: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda x, y, bits: x + y,
    "sub": lambda x, y, bits: x - y,
    "mul": lambda x, y, bits: x * y,
    "udiv": lambda x, y, bits: _divide(x, y),
    "sdiv": _signed_divide,
    "urem": _unsigned_remainder,
    "srem": _signed_remainder,
    "shl": lambda x, y, bits: x << y,
    "lshr": lambda x, y, bits: x >> y,
    "ashr": lambda x, y, bits: signed(x, bits) >> y,
    "and": lambda x, y, bits: x & y,
    "or": lambda x, y, bits: x | y,
    "xor": lambda x, y, bits: x ^ y,
}


def _integer(opcode: str, bits: int, flags: tuple[str, ...]) -> ScalarFunction:
    operation, mask, is_shift = _INTEGER[opcode], (1 << bits) - 1, opcode in ("shl", "lshr", "ashr")

    def plain(x: int, y: int) -> InterpValue:
        if is_shift and y >= bits:
            return POISON
        return operation(x, y, bits) & mask

    if not flags:
        return plain
    return lambda x, y: POISON if _breaks_promise(opcode, x, y, bits, flags) else plain(x, y)


def _breaks_promise(opcode: str, x: int, y: int, bits: int, flags: tuple[str, ...]) -> bool:
    """Whether nuw, nsw, exact or disjoint says what is not so."""
    if opcode in ("add", "sub", "mul", "shl"):
        if opcode == "shl":
            if y >= bits:
                return True
            opcode, y = "mul", 1 << y
            wide = signed(x, bits) * y
        else:
            wide = _INTEGER[opcode](signed(x, bits), signed(y, bits), bits)
        unsigned = _INTEGER[opcode](x, y, bits)
        overflows = not -(1 << (bits - 1)) <= wide < 1 << (bits - 1)
        return ("nsw" in flags and overflows) or ("nuw" in flags and not 0 <= unsigned < 1 << bits)
    if "exact" in flags:
        if opcode in ("lshr", "ashr"):
            return bool(x & ((1 << y) - 1))
        return (
            y != 0
            and abs(signed(x, bits) if opcode == "sdiv" else x) % abs(signed(y, bits) if opcode == "sdiv" else y) != 0
        )
    return "disjoint" in flags and bool(x & y)


_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
}


def _icmp(predicate: str, bits: int) -> ScalarFunction:
    if predicate in ("eq", "ne"):
        compare = _COMPARISONS[predicate]
        return lambda x, y: int(compare(x + 0, y + 0))  # the additions refuse poison
    compare = _COMPARISONS[predicate[1:]]
    if predicate[0] == "u":
        return lambda x, y: int(compare(x, y))
    return lambda x, y: int(compare(signed(x, bits), signed(y, bits)))


# ---------------------------------------------------------------- floats


def _fdiv(x: float, y: float) -> float:
    if y != 0 or math.isnan(x):
        return x / y if y != 0 else x
    if x == 0:
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def _frem(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return math.nan
    return math.fmod(x, y)


_FLOAT: dict[str, Callable[[float, float], float]] = {
    "fadd": lambda x, y: x + y,
    "fsub": lambda x, y: x - y,
    "fmul": lambda x, y: x * y,
    "fdiv": _fdiv,
    "frem": _frem,
}


def _float(operation: Callable[[float, float], float], kind: str) -> ScalarFunction:
    """One rounding: double holds sums, products, quotients of the narrower kinds exactly enough to round right."""
    if kind == "double":
        return operation
    return lambda x, y: round_float(operation(x, y), kind)


def _fcmp(predicate: str) -> ScalarFunction:
    if predicate in ("true", "false"):
        return lambda x, y: int(predicate == "true")
    if predicate in ("ord", "uno"):
        return lambda x, y: int((math.isnan(x) or math.isnan(y)) == (predicate == "uno"))
    ordered, name = predicate[0] == "o", predicate[1:]
    compare = _COMPARISONS[name]

    def result(x: float, y: float) -> int:
        if math.isnan(x) or math.isnan(y):
            return int(not ordered)
        return int(compare(x, y))

    return result


# ---------------------------------------------------------------- casts


def _trunc(source: Type, target: Type, flags: tuple[str, ...]) -> ScalarFunction:
    assert isinstance(source, Int) and isinstance(target, Int)
    mask, bits = (1 << target.bits) - 1, target.bits

    def plain(x: int) -> InterpValue:
        kept = x & mask
        lost_unsigned = "nuw" in flags and kept != x
        lost_signed = "nsw" in flags and signed(kept, bits) != signed(x, source.bits)
        return POISON if lost_unsigned or lost_signed else kept

    return plain


def _zext(source: Type, target: Type, flags: tuple[str, ...]) -> ScalarFunction:
    assert isinstance(source, Int)
    if "nneg" in flags:
        return lambda x: POISON if x >> (source.bits - 1) else x
    return lambda x: x + 0


def _sext(source: Type, target: Type, flags: tuple[str, ...]) -> ScalarFunction:
    assert isinstance(source, Int) and isinstance(target, Int)
    return lambda x: signed(x, source.bits) & ((1 << target.bits) - 1)


def _to_float(source: Type, target: Type, flags: tuple[str, ...]) -> ScalarFunction:
    assert isinstance(target, Float)
    return lambda x: round_float(x, target.kind)


def _to_int(is_signed: bool) -> Callable[[Type, Type, tuple[str, ...]], ScalarFunction]:
    def cast(source: Type, target: Type, flags: tuple[str, ...]) -> ScalarFunction:
        assert isinstance(target, Int)
        lowest = -(1 << (target.bits - 1)) if is_signed else 0
        highest = (1 << (target.bits - is_signed)) - 1

        def plain(x: float) -> InterpValue:
            if not math.isfinite(x) or not lowest <= int(x) <= highest:
                return POISON
            return int(x) & ((1 << target.bits) - 1)

        return plain

    return cast


def _from_int(is_signed: bool) -> Callable[[Type, Type, tuple[str, ...]], ScalarFunction]:
    def cast(source: Type, target: Type, flags: tuple[str, ...]) -> ScalarFunction:
        assert isinstance(source, Int) and isinstance(target, Float)
        if is_signed:
            return lambda x: round_int(signed(x, source.bits), target.kind)
        return lambda x: round_int(x + 0, target.kind)

    return cast


def _address_cast(source: Type, target: Type, flags: tuple[str, ...]) -> ScalarFunction:
    bits = target.bits if isinstance(target, Int) else 64
    return lambda x: x & ((1 << bits) - 1)


_CASTS: dict[str, Callable[[Type, Type, tuple[str, ...]], ScalarFunction]] = {
    "trunc": _trunc,
    "zext": _zext,
    "sext": _sext,
    "fptrunc": _to_float,
    "fpext": _to_float,
    "fptosi": _to_int(True),
    "fptoui": _to_int(False),
    "sitofp": _from_int(True),
    "uitofp": _from_int(False),
    "ptrtoint": _address_cast,
    "inttoptr": _address_cast,
}


# ---------------------------------------------------------------- atomics


def atomic_function(operation: str, type_: Type) -> Callable[[InterpValue, InterpValue], InterpValue]:
    """(old value, operand) -> new value."""
    if operation == "xchg":
        return lambda old, new: new
    if isinstance(type_, Float):
        choose = {
            "fadd": lambda x, y: round_float(x + y, type_.kind),
            "fsub": lambda x, y: round_float(x - y, type_.kind),
            "fmax": lambda x, y: y if math.isnan(x) or y > x else x,
            "fmin": lambda x, y: y if math.isnan(x) or y < x else x,
        }
        return choose[operation]
    bits = type_.bits if isinstance(type_, Int) else 64
    mask = (1 << bits) - 1
    functions: dict[str, Callable[[int, int], int]] = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "and": lambda x, y: x & y,
        "nand": lambda x, y: ~(x & y),
        "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
        "max": lambda x, y: max(signed(x, bits), signed(y, bits)),
        "min": lambda x, y: min(signed(x, bits), signed(y, bits)),
        "umax": max,
        "umin": min,
        "uinc_wrap": lambda x, y: 0 if x >= y else x + 1,
        "udec_wrap": lambda x, y: y if x == 0 or x > y else x - 1,
    }
    if operation not in functions:
        raise InternalError(f"the interpreter has no atomic {operation}")
    function = functions[operation]
    return lambda old, new: function(old, new) & mask
