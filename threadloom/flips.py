"""Integers that may differ from the reference by one: those cast from computed floats.

A float that lies on a boundary of rounding in float64 lies beside it in f32, and the integer made of it is the next
one. No bound of the float's error says how many do; of arbitrary data it is few. So an output is allowed to be one off
where its integers come from such casts, and `compare` allows it in few elements only.

Not known here: what becomes of such an integer in a product or a sum, and floats made by rounding (`tl.round`) that are
stored or computed with as floats.
"""

from __future__ import annotations

from threadloom.dtypes import Dtype
from threadloom.tile.functions import TABLE, Cost
from threadloom.tile.ops import Cast, Const, Full, Kernel, Load, Map, Op, Store, Value
from threadloom.tile.uses import operands, results, walk

SHARE = 0.01  # of the elements of an output that may be one off
KEEPS_UNITS = ("add", "sub", "maximum", "minimum", "where", "neg")  # one off in an operand is one off in the result


def flips(kernel: Kernel, dtype: Dtype) -> float:
    """How far an integer output of `dtype` may be off: 1 for each cast from a computed float that is added up in it."""
    if dtype.is_float or dtype.kind == "bool":
        return 0.0
    ops = list(walk(kernel.body))
    makers = {value: op for op in ops for value in results(op)}
    of_dtype = {t.name for t in kernel.tensors if t.dtype == dtype}
    stored = [op.value for op in ops if isinstance(op, Store) and op.tensor in of_dtype]
    return max((_off(value, makers) for value in stored), default=0.0)


def _off(value: Value, makers: dict[Value, Op]) -> float:
    match makers.get(value):
        case Cast(arg=arg) if arg.type.dtype.is_float:
            return float(_inexact(arg, makers, set()))
        case Cast(arg=arg):
            return _off(arg, makers)
        case Map(fn=fn, args=args) if fn in KEEPS_UNITS:
            off = [_off(arg, makers) for arg in args]
            return sum(off) if fn in ("add", "sub") else max(off)
        case _:
            return 0.0


def _inexact(value: Value, makers: dict[Value, Op], seen: set[Value]) -> bool:
    """Whether rounding on the way to the value may make it another than in float64."""
    if value in seen or not value.type.dtype.is_float:
        return False
    seen.add(value)
    match makers.get(value):
        case Load() | Const():
            return False
        case Map(fn=fn) as op if TABLE[fn].cost is not Cost.ALU:
            return True
        case Map() | Full() as op:
            return any(_inexact(arg, makers, seen) for arg in operands(op))
        case Cast(result=result, arg=arg):
            narrows = arg.type.dtype.is_float and result.type.dtype.bits < arg.type.dtype.bits
            return narrows or _inexact(arg, makers, seen)
        case _:
            return True  # a sum, a product, a value that a loop carries
