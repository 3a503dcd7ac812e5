"""The operations of the language, as the names users see: `tl.dot`, `tl.exp`, `tl.grid` ...

Each is a stub: inside a kernel the parser recognises the function and emits tile operations (calls.py); called from
ordinary Python it says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from threadloom.dtypes import Dtype, f32
from threadloom.errors import CompileError, slug

OUTSIDE = slug("outside-kernel", "an operation of the language is called from ordinary Python")


def _outside(name: str) -> NoReturn:
    raise CompileError(
        OUTSIDE,
        f"tl.{name} was called outside a kernel",
        why="it has a meaning only in the text of a kernel or of a function that a kernel calls",
        try_="call it inside a function decorated with @tl.kernel",
    )


# ---------------------------------------------------------------- loops and axes


def grid(*axes: object) -> object:
    """`for m, n in tl.grid("M", "N"):` independent tiles, spread over the machine."""
    _outside("grid")


def stream(*axes: object) -> object:
    """`for k in tl.stream("K"):` tiles in order; the loop that is pipelined. Values assigned before carry over."""
    _outside("stream")


def each(dim: object, start: object = 0, stop: object = None) -> object:
    """An axis taken one index at a time, for grid or stream: the loop variable is a scalar."""
    _outside("each")


def span(dim: object, start: object = 0, stop: object = None) -> object:
    """A tiled axis over the indices [start, stop) of `dim`, for grid or stream."""
    _outside("span")


def axis(dim: object) -> object:
    """`d = tl.axis("D")`: an axis over all of `dim` in one tile, as `:` gives, but with a name."""
    _outside("axis")


def index(axis: object) -> object:
    """The i64 index values of an axis, as a tile along it."""
    _outside("index")


def dim(name: object) -> object:
    """The size of a dimension, an i64 scalar."""
    _outside("dim")


# ---------------------------------------------------------------- tiles


def zeros(*axes: object, dtype: Dtype = f32) -> object:
    """A tile of zeros over the given axes."""
    _outside("zeros")


def full(value: object, *axes: object, dtype: Dtype | None = None) -> object:
    """A tile filled with a scalar; `dtype` defaults to that of the scalar."""
    _outside("full")


def cast(x: object, dtype: Dtype) -> object:
    """`x` converted: to integers truncating and saturating, to f8 saturating, else to nearest even."""
    _outside("cast")


def dot(a: object, b: object, over: object = None) -> object:
    """Sum of products over the axes that `a` and `b` share, or those in `over` (shared others are a batch)."""
    _outside("dot")


def atomic_add(target: object, value: object) -> None:
    """`tl.atomic_add(out[m, n], v)`: add into an output that several iterations may touch; it starts at 0."""
    _outside("atomic_add")


# ---------------------------------------------------------------- reductions and scans


def _reduction(name: str, text: str) -> Callable[..., object]:
    def stub(x: object, *axes: object) -> object:
        _outside(name)

    stub.__name__ = stub.__qualname__ = name
    stub.__doc__ = f"{text} along the given axes of the current tile."
    return stub


sum = _reduction("sum", "Sum")
prod = _reduction("prod", "Product")
max = _reduction("max", "Largest value")
min = _reduction("min", "Smallest value")
any = _reduction("any", "Whether any is true")
all = _reduction("all", "Whether all are true")
argmax = _reduction("argmax", "Index along the axis of the (first) largest value,")
argmin = _reduction("argmin", "Index along the axis of the (first) smallest value,")


def _scan(name: str, text: str) -> Callable[..., object]:
    def stub(x: object, axis: object, reverse: bool = False) -> object:
        _outside(name)

    stub.__name__ = stub.__qualname__ = name
    stub.__doc__ = f"Running {text} along an axis of the current tile, from its end if `reverse`."
    return stub


cumsum = _scan("cumsum", "sum")
cumprod = _scan("cumprod", "product")
cummax = _scan("cummax", "maximum")
cummin = _scan("cummin", "minimum")

REDUCTIONS = {f: f.__name__ for f in (sum, prod, max, min, any, all, argmax, argmin)}
SCANS = {cumsum: "sum", cumprod: "prod", cummax: "max", cummin: "min"}

# ---------------------------------------------------------------- elementwise


def _elementwise(name: str, arguments: tuple[str, ...], text: str) -> Callable[..., object]:
    def stub(*args: object) -> object:
        _outside(name)

    stub.__name__ = stub.__qualname__ = name
    stub.__doc__ = f"{name}({', '.join(arguments)}): {text}"
    return stub


exp = _elementwise("exp", ("x",), "e to the power of x")
exp2 = _elementwise("exp2", ("x",), "2 to the power of x")
log = _elementwise("log", ("x",), "natural logarithm")
log2 = _elementwise("log2", ("x",), "logarithm to base 2")
sqrt = _elementwise("sqrt", ("x",), "square root")
rsqrt = _elementwise("rsqrt", ("x",), "1 / square root")
tanh = _elementwise("tanh", ("x",), "hyperbolic tangent")
erf = _elementwise("erf", ("x",), "error function")
sin = _elementwise("sin", ("x",), "sine of radians")
cos = _elementwise("cos", ("x",), "cosine of radians")
floor = _elementwise("floor", ("x",), "largest whole number not above x")
ceil = _elementwise("ceil", ("x",), "smallest whole number not below x")
round = _elementwise("round", ("x",), "nearest whole number, halves to even")
abs = _elementwise("abs", ("x",), "absolute value")
isnan = _elementwise("isnan", ("x",), "whether x is not a number")
maximum = _elementwise("maximum", ("x", "y"), "the larger, NaN if either is")
minimum = _elementwise("minimum", ("x", "y"), "the smaller, NaN if either is")
where = _elementwise("where", ("condition", "x", "y"), "x where the condition holds, else y")

_FUNCTIONS = (exp, exp2, log, log2, sqrt, rsqrt, tanh, erf, sin, cos, floor, ceil, round, abs, isnan)
ELEMENTWISE = {f: f.__name__ for f in (*_FUNCTIONS, maximum, minimum, where)}
