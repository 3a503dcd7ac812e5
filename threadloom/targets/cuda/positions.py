"""Values made of positions alone: computed where they are used, in 32 bits where they fit.

    before:  i64 t[32];  for i < 32: t[i] = n_at + i;        for i < 64: x[i] = (float)(m[i / 32] - t[i % 32])
    after:   for i < 64: { const i32 t = n_at + ...;  x[i] = (float)(m - t); }

A position costs an addition or two, an array of them registers all the time; as 64-bit numbers, which the language says
they are, twice as many, and every operation counts double. What fits 32 bits is found by intervals: positions and
extents of dimensions are at least 0 and below 2^31 (extents are parameters of type i32).
"""

from __future__ import annotations

from collections.abc import Mapping

from threadloom.targets.cuda.layout import Layout
from threadloom.tile import ops as tile
from threadloom.tile.uses import operands

LEAST, MOST = -(2**31), 2**31 - 1

Interval = tuple[int, int]


def computed_in_place(
    ops: tuple[tile.Op, ...], layouts: Mapping[str, Layout], kept: frozenset[str]
) -> dict[str, Layout]:
    """`layouts`, but for values made of positions alone whose readers agree on a layout: theirs. `kept`: read by others
    than `ops`, so as they are."""
    cheap = _positional(ops) - kept
    found = dict(layouts)
    for op in reversed(ops):
        if not hasattr(op, "result") or op.result.name not in cheap or not op.result.type.axes:
            continue
        readers = [other for other in ops if op.result.name in {v.name for v in operands(other)}]
        plain = all(isinstance(r, tile.Map | tile.Cast | tile.Full) for r in readers)
        wanted = {found[r.result.name] for r in readers if plain and r.result.name in found}
        if plain and len(wanted) == 1:
            found[op.result.name] = wanted.pop()
    return found


def _positional(ops: tuple[tile.Op, ...]) -> frozenset[str]:
    """Values that sums, differences and products of positions and of constants give."""
    found: set[str] = set()
    for op in ops:
        match op:
            case tile.Index() | tile.Const():
                found.add(op.result.name)
            case tile.Map(fn="add" | "sub" | "mul" | "neg") | tile.Full() | tile.Cast():
                integer = op.result.type.dtype.name in ("i32", "i64")
                if integer and all(a.name in found or not a.type.axes for a in operands(op)):
                    found.add(op.result.name)
    return frozenset(found)


def narrow(ops: tuple[tile.Op, ...], kept: frozenset[str]) -> frozenset[str]:
    """64-bit integers that `ops` make for elementwise code alone and that are known to fit 32 bits."""
    known: dict[str, Interval] = {}
    for op in ops:
        if hasattr(op, "result") and (found := _interval(op, known)) is not None:
            known[op.result.name] = found
    others = {v.name for op in ops if not isinstance(op, tile.Map | tile.Cast | tile.Full) for v in operands(op)}
    made = (op.result for op in ops if hasattr(op, "result") and op.result.name in known)
    fits = (v.name for v in made if known[v.name][0] >= LEAST and known[v.name][1] <= MOST)
    return frozenset(fits) - kept - others


def _interval(op: tile.Op, known: Mapping[str, Interval]) -> Interval | None:
    """The least and greatest value of the result, None where nothing is known or it is no 64-bit integer."""
    if op.result.type.dtype.name != "i64":
        return None
    match op:
        case tile.Index() | tile.Bound() | tile.DimSize():
            return 0, MOST
        case tile.Const():
            return int(op.number), int(op.number)
        case tile.Full():
            return known.get(op.value.name)
        case tile.Cast():
            return known.get(op.arg.name)
        case tile.Map(fn="add" | "sub" | "mul" | "neg") if all(a.name in known for a in op.args):
            return _arithmetic(op.fn, *(known[a.name] for a in op.args))
    return None


def _arithmetic(fn: str, first: Interval, second: Interval = (0, 0)) -> Interval:
    (a, b), (c, d) = first, second
    match fn:
        case "add":
            return a + c, b + d
        case "sub":
            return a - d, b - c
        case "neg":
            return -b, -a
    products = [x * y for x in first for y in second]
    return min(products), max(products)


# ---------------------------------------------------------------- small integers

SMALL: dict[str, Interval] = {"u4": (0, 15), "u8": (0, 255), "i8": (-128, 127), "bool": (0, 1)}
EXACT = {"f16": 2**11, "bf16": 2**8}  # up to which their integers follow one another


def exact_casts(ops: tuple[tile.Op, ...]) -> frozenset[str]:
    """Results of casts of integers to 16-bit floats that round nothing: of 4-bit weights less their zero point."""
    known: dict[str, Interval] = {}

    def ends_of(value: tile.Value) -> Interval | None:
        return known.get(value.name, SMALL.get(value.type.dtype.name))

    found = set()
    for op in ops:
        ends: Interval | None = None
        match op:
            case tile.Const(number=int(number)):
                ends = number, number
            case tile.Cast() | tile.Full():
                ends = ends_of(operands(op)[0])
            case tile.Map(fn="add" | "sub" | "mul" | "neg") if None not in (each := [ends_of(a) for a in op.args]):
                ends = _arithmetic(op.fn, *each)
        if ends is None:
            continue
        dtype = op.result.type.dtype
        most = EXACT.get(dtype.name, 0)
        if isinstance(op, tile.Cast) and op.arg.type.dtype.is_integer and -most <= ends[0] and ends[1] <= most:
            found.add(op.result.name)
        low, high = SMALL.get(dtype.name, (LEAST, MOST))
        if dtype.is_integer and low <= ends[0] and ends[1] <= high:  # else it may have wrapped around
            known[op.result.name] = ends
    return frozenset(found)
