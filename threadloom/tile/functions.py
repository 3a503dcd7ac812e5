"""The elementwise functions of `Map`, one record each: name, arity, meaning in NumPy, cost class, dtype rule.

Everything that knows a function by name reads this table: the language (arity, dtypes), the interpreter (meaning),
the models (cost) and the emitters (a test checks that each emitter covers it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from threadloom.dtypes import Dtype, bool_


class Cost(StrEnum):
    """What a machine model charges for; `cvt` is that of Cast."""

    FMA = "fma"  # add, subtract, multiply
    ALU = "alu"  # compare, select, minimum, bit operations
    CVT = "cvt"
    DIV = "div"
    SQRT = "sqrt"
    EXP = "exp"
    LOG = "log"
    TANH = "tanh"
    ERF = "erf"
    TRIG = "trig"


class Rule(StrEnum):
    """Which operand dtypes are allowed (they are equal already) and what the result has."""

    NUMBER = "number"  # any but bool -> the same
    FLOAT = "float"  # a float -> the same
    INTEGER = "integer"  # an integer -> the same
    BITS = "bits"  # an integer or bool -> the same
    COMPARE = "compare"  # any -> bool
    TEST = "test"  # a float -> bool
    WHERE = "where"  # bool, then two of any equal dtype -> that dtype


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    arity: int
    numpy: Callable[..., np.ndarray]
    cost: Cost
    rule: Rule
    infix: str = ""  # the operator in Python, where it has one


def _erf(x: np.ndarray) -> np.ndarray:
    from math import erf

    x = np.asarray(x)
    return np.vectorize(erf, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)


def _floordiv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Floor division; an integer divided by zero gives 0."""
    with np.errstate(all="ignore"):
        return np.floor_divide(a, b)


def _mod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Remainder with the sign of the divisor; an integer modulo zero gives 0."""
    with np.errstate(all="ignore"):
        return np.remainder(a, b)


def _shift(a: np.ndarray, count: np.ndarray, left: bool) -> np.ndarray:
    """Shifts by less than 0 or at least the width give 0 (right shifts of a negative number: -1)."""
    bits = np.asarray(a).dtype.itemsize * 8
    inside = (count >= 0) & (count < bits)
    safe = np.where(inside, count, 0).astype(np.asarray(a).dtype)
    shifted = np.left_shift(a, safe) if left else np.right_shift(a, safe)
    spilled = np.zeros_like(a) if left else np.where(np.less(a, 0), -1, 0)
    return np.where(inside, shifted, spilled).astype(np.asarray(a).dtype)


def _rsqrt(x: np.ndarray) -> np.ndarray:
    return np.divide(np.asarray(1, x.dtype), np.sqrt(x))


_F, _A = Cost.FMA, Cost.ALU
_RECORDS = (
    Function("add", 2, np.add, _F, Rule.NUMBER, "+"),
    Function("sub", 2, np.subtract, _F, Rule.NUMBER, "-"),
    Function("mul", 2, np.multiply, _F, Rule.NUMBER, "*"),
    Function("div", 2, np.divide, Cost.DIV, Rule.FLOAT, "/"),
    Function("floordiv", 2, _floordiv, Cost.DIV, Rule.NUMBER, "//"),
    Function("mod", 2, _mod, Cost.DIV, Rule.NUMBER, "%"),
    Function("maximum", 2, np.maximum, _A, Rule.NUMBER),  # NaN if either is NaN
    Function("minimum", 2, np.minimum, _A, Rule.NUMBER),
    Function("neg", 1, np.negative, _A, Rule.NUMBER, "-"),
    Function("abs", 1, np.abs, _A, Rule.NUMBER),
    Function("and", 2, np.bitwise_and, _A, Rule.BITS, "&"),
    Function("or", 2, np.bitwise_or, _A, Rule.BITS, "|"),
    Function("xor", 2, np.bitwise_xor, _A, Rule.BITS, "^"),
    Function("not", 1, np.invert, _A, Rule.BITS, "~"),
    Function("shl", 2, lambda a, b: _shift(a, b, left=True), _A, Rule.INTEGER, "<<"),
    Function("shr", 2, lambda a, b: _shift(a, b, left=False), _A, Rule.INTEGER, ">>"),
    Function("eq", 2, np.equal, _A, Rule.COMPARE, "=="),
    Function("ne", 2, np.not_equal, _A, Rule.COMPARE, "!="),
    Function("lt", 2, np.less, _A, Rule.COMPARE, "<"),
    Function("le", 2, np.less_equal, _A, Rule.COMPARE, "<="),
    Function("gt", 2, np.greater, _A, Rule.COMPARE, ">"),
    Function("ge", 2, np.greater_equal, _A, Rule.COMPARE, ">="),
    Function("isnan", 1, np.isnan, _A, Rule.TEST),
    Function("where", 3, np.where, _A, Rule.WHERE),
    Function("floor", 1, np.floor, _A, Rule.FLOAT),
    Function("ceil", 1, np.ceil, _A, Rule.FLOAT),
    Function("round", 1, np.rint, _A, Rule.FLOAT),  # halves to even
    Function("sqrt", 1, np.sqrt, Cost.SQRT, Rule.FLOAT),
    Function("rsqrt", 1, _rsqrt, Cost.SQRT, Rule.FLOAT),
    Function("exp", 1, np.exp, Cost.EXP, Rule.FLOAT),
    Function("exp2", 1, np.exp2, Cost.EXP, Rule.FLOAT),
    Function("log", 1, np.log, Cost.LOG, Rule.FLOAT),
    Function("log2", 1, np.log2, Cost.LOG, Rule.FLOAT),
    Function("tanh", 1, np.tanh, Cost.TANH, Rule.FLOAT),
    Function("erf", 1, _erf, Cost.ERF, Rule.FLOAT),
    Function("sin", 1, np.sin, Cost.TRIG, Rule.FLOAT),
    Function("cos", 1, np.cos, Cost.TRIG, Rule.FLOAT),
)

TABLE: dict[str, Function] = {f.name: f for f in _RECORDS}


def result_dtype(fn: Function, operand: Dtype) -> Dtype:
    """The dtype of `fn`'s result where its (last) operands have dtype `operand`."""
    return bool_ if fn.rule in (Rule.COMPARE, Rule.TEST) else operand


def accepts(fn: Function, operand: Dtype) -> bool:
    match fn.rule:
        case Rule.NUMBER:
            return operand.kind != "bool"
        case Rule.FLOAT | Rule.TEST:
            return operand.is_float
        case Rule.INTEGER:
            return operand.is_integer
        case Rule.BITS:
            return operand.is_integer or operand.kind == "bool"
        case Rule.COMPARE | Rule.WHERE:
            return True
