"""Kernel -> two kernels: one that does parts of a loop's iterations in different EUs, one that combines the parts.

    before                                 parts                                combination
    grid m, n {                            grid part, m, n {                    grid m, n {
      acc = full 0                           acc = full 0                         acc = full 0
      stream k carry acc {                   stream k in first..last {            stream of_part carry acc {
        acc += dot a[m, k], b[k, n]            acc += dot a[m, k], b[k, n]          acc += acc_part[of_part, m, n]
      }                                      }                                    }
      store out[m, n] = f(acc)               store acc_part[part, m, n] = acc     store out[m, n] = f(acc)
    }                                      }                                    }

A short grid (few rows, one long reduction) so keeps all EUs busy. Every level after this one sees two ordinary
kernels; the second starts when the first is done. How values combine: `combinable.py`; the parts are always taken in
order, so results do not change from run to run of one plan.

Parts begin at multiples of `granule` indices after the loop's first one (a multiple of what a tile may have, so that
only the last part ends in a cut tile) and differ by at most one granule. A part may be empty: it then brings what each
rule leaves alone. Reference values of weighed sums begin at the lowest number instead of -inf, since a part may see
nothing but masked values where the whole loop would not (inf - inf); they are stored as -inf where they stayed there.

Needs: the first loop of the grid's body carries values that combine, each with all axes that the grid cuts.
Not handled: loops after others, grid axes with bounds of their own, nested grids. Source: DESIGN.md "splits"; split-k
products and FlashDecoding are the two usual cases of it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from threadloom.dtypes import Dtype, bool_, i64, numpy_dtype, u4
from threadloom.sched.combinable import Fold, NotCombinable, Rule, Weighed, rules_of
from threadloom.tile.canonicalize import canonicalize
from threadloom.tile.ops import (
    Access,
    Axis,
    AxisKind,
    Block,
    Const,
    DimSize,
    Full,
    Grid,
    Index,
    Kernel,
    Load,
    LoopAxis,
    Map,
    Op,
    Store,
    Stream,
    Subscript,
    Tensor,
    Term,
    TileType,
    Value,
    Yield,
)
from threadloom.tile.uses import results, walk

NEUTRAL = {"add": 0, "mul": 1, "or": 0, "xor": 0, "and": -1, "maximum": -math.inf, "minimum": math.inf}


@dataclass(frozen=True, slots=True)
class Splittable:
    """A kernel whose first loop may be split along `axis`. `rules`: one for each carried value; `stored`: places of
    those that what follows the loop needs."""

    kernel: Kernel
    grid: Grid
    stream: Stream
    axis: Axis
    rules: tuple[Rule, ...]
    stored: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SplitKernels:
    """`part_axis`: the grid axis of `parts` that counts them; `between`: the tensors that go from one to the other."""

    parts: Kernel
    combine: Kernel
    part_axis: str
    between: tuple[str, ...]


def splittable(kernel: Kernel, extents: dict[str, int]) -> Splittable:
    """What of `kernel` may be split; raises NotCombinable. `extents`: of axes, to take the longest of a loop's."""
    kernel = canonicalize(kernel)
    grid = next(op for op in kernel.body.ops if isinstance(op, Grid))
    if any(isinstance(op, Grid) for op in walk(grid.body)):
        raise NotCombinable("a grid lies in the grid")
    at = next((n for n, op in enumerate(grid.body.ops) if isinstance(op, Stream)), None)
    if at is None or not grid.body.ops[at].results:
        raise NotCombinable("no loop of the grid's body carries a value")
    if any(isinstance(op, Store) or hasattr(op, "body") for op in grid.body.ops[:at]):
        raise NotCombinable("something is written before the loop")
    stream = grid.body.ops[at]
    before = (*kernel.body.ops, *grid.body.ops[:at])
    constants = {op.result.name: float(op.number) for op in before if isinstance(op, Const)}
    rules = rules_of(stream, constants)
    read = {v.name for op in grid.body.ops[at + 1 :] for v in _all_operands(op)}
    wanted = {n for n, r in enumerate(stream.results) if r.name in read}
    wanted |= {rule.reference for n, rule in enumerate(rules) if n in wanted and isinstance(rule, Weighed)}
    made = Splittable(
        kernel, grid, stream, max((a.axis for a in stream.axes), key=lambda a: extents[a.name]), rules,
        tuple(sorted(wanted)),
    )  # fmt: skip
    _check_places(made)
    return made


def _check_places(made: Splittable) -> None:
    cut = [a for a in made.grid.axes if a.axis.kind is AxisKind.TILE]
    if any(a.start is not None or a.stop is not None for a in made.grid.axes):
        raise NotCombinable("an axis of the grid has bounds of its own")
    for at in made.stored:
        result = made.stream.results[at]
        if any(a.axis.name not in result.type.axes for a in cut):
            raise NotCombinable(f"{result.name} has not all axes of the grid's tiles")
        if result.type.dtype in (bool_, u4):
            raise NotCombinable(f"{result.name} has dtype {result.type.dtype.name}")


def _all_operands(op: Op) -> list[Value]:
    from threadloom.tile.uses import operands, regions

    inner = [v for region in regions(op) for o in region.ops for v in _all_operands(o)]
    return [*operands(op), *inner]


class _Names:
    """Names that the kernel does not use yet."""

    def __init__(self, kernel: Kernel):
        self.taken = {v.name for op in walk(kernel.body) for v in results(op)}
        self.taken |= {a.name for op in walk(kernel.body) if isinstance(op, Stream) for a in op.args}
        self.taken |= {a.name for a in kernel.axes} | {t.name for t in kernel.tensors}
        self.taken |= {s.name for s in kernel.scalars}

    def fresh(self, base: str, mark: str = ".") -> str:
        """`mark`: before a number; names of axes and tensors are identifiers in generated code."""
        numbered = (f"{base}{mark}{n}" for n in itertools.count(1))
        name = next(n for n in itertools.chain([base], numbered) if n not in self.taken)
        self.taken.add(name)
        return name


class _Code:
    """Operations in the making."""

    def __init__(self, names: _Names):
        self.names, self.ops = names, []

    def value(self, base: str, axes: tuple[str, ...], dtype: Dtype) -> Value:
        return Value(self.names.fresh(base), TileType(axes, dtype))

    def const(self, number: float, dtype: Dtype) -> Value:
        made = self.value("c", (), dtype)
        self.ops.append(Const(made, number))
        return made

    def map(self, fn: str, *args: Value, base: str = "t", like: Value | None = None) -> Value:
        like = like or max(args, key=lambda a: len(a.type.axes))
        dtype = bool_ if fn == "eq" else like.type.dtype
        made = self.value(base, like.type.axes, dtype)
        self.ops.append(Map(made, fn, args))
        return made


def split_kernels(of: Splittable, count: int, granule: int) -> SplitKernels:
    """The two kernels for `count` parts."""
    names = _Names(of.kernel)
    part = Axis(names.fresh("part", "_"), count, AxisKind.EACH)
    again = Axis(names.fresh("of_part", "_"), count, AxisKind.EACH)
    between = {at: _between(of, at, count, names) for at in of.stored}
    parts = _parts_kernel(of, part, granule, between, names)
    combine = _combine_kernel(of, again, between, names)
    return SplitKernels(parts, combine, part.name, tuple(t.name for t in between.values()))


def _between(of: Splittable, at: int, count: int, names: _Names) -> Tensor:
    """The tensor that holds a carried value of every part."""
    result = of.stream.results[at]
    dims = {a.name: a.dim for a in of.kernel.axes}
    each = [a.axis.name for a in of.grid.axes if a.axis.kind is AxisKind.EACH]
    shape = (count, *(dims[a] for a in (*each, *result.type.axes)))
    base = of.stream.results[at].name.partition(".")[0]
    return Tensor(names.fresh(f"{base}_part", "_"), shape, result.type.dtype, Access.OUT)


def _subscripts(of: Splittable, at: int, part: Axis) -> tuple[Subscript, ...]:
    each = [a.axis.name for a in of.grid.axes if a.axis.kind is AxisKind.EACH]
    return tuple(Subscript((Term(1, axis=a),)) for a in (part.name, *each, *of.stream.results[at].type.axes))


# ---------------------------------------------------------------- parts


def _parts_kernel(
    of: Splittable, part: Axis, granule: int, between: dict[int, Tensor], names: _Names
) -> Kernel:
    code = _Code(names)
    at = of.grid.body.ops.index(of.stream)
    code.ops += of.grid.body.ops[:at]
    start, stop = _range(code, of, part, granule)
    axes = tuple(LoopAxis(a.axis, start, stop) if a.axis == of.axis else a for a in of.stream.axes)
    inits = tuple(_neutral(code, of, n) for n in range(len(of.rules)))
    code.ops.append(replace(of.stream, axes=axes, inits=inits))
    references = {rule.reference for rule in of.rules if isinstance(rule, Weighed)}
    for n, tensor in between.items():
        value = of.stream.results[n]
        if n in references:
            value = _unlimited(code, value, of.rules[n])
        code.ops.append(Store(tensor.name, _subscripts(of, n, part), value, of.stream.loc))
    grid = replace(of.grid, axes=(LoopAxis(part), *of.grid.axes), body=Block(tuple(code.ops)))
    return _kernel(of.kernel, f"{of.kernel.name}_parts", grid, (part,), tuple(between.values()))


def _range(code: _Code, of: Splittable, part: Axis, granule: int) -> tuple[Value, Value]:
    """First and last index of the part that is being done: granules [p * n // parts, (p + 1) * n // parts)."""
    loop_axis = next(a for a in of.stream.axes if a.axis == of.axis)
    low, high = loop_axis.start, loop_axis.stop
    size, zero = code.value("size", (), i64), code.const(0, i64)
    code.ops.append(DimSize(size, of.axis.dim))
    if low is not None:
        low = code.map("maximum", low, zero, base="low")
    end = size if high is None else code.map("minimum", high, size, base="high")
    length = end if low is None else code.map("sub", end, low)
    if (low, high) != (None, None):  # the range may be empty
        length = code.map("maximum", length, zero)
    step, most, one = code.const(granule, i64), code.const(granule - 1, i64), code.const(1, i64)
    granules = code.map("floordiv", code.map("add", length, most), step, base="granules")
    number, count = code.value("number", (), i64), code.const(part.dim, i64)
    code.ops.append(Index(number, part.name))

    def bound(of_part: Value, base: str) -> Value:
        offset = code.map("mul", code.map("floordiv", code.map("mul", of_part, granules), count), step, base=base)
        return offset if low is None else code.map("add", low, offset, base=base)

    first, last = bound(number, "first"), bound(code.map("add", number, one), "last")
    return first, last if high is None else code.map("minimum", last, end, base="last")


def _limits(dtype: Dtype) -> tuple[float, float]:
    """The lowest and the greatest number of a dtype."""
    if dtype.is_float:
        import ml_dtypes

        found = ml_dtypes.finfo(numpy_dtype(dtype))
    else:
        import numpy as np

        found = np.iinfo(numpy_dtype(dtype))
    return (float(found.min), float(found.max)) if dtype.is_float else (int(found.min), int(found.max))


def _neutral(code: _Code, of: Splittable, at: int) -> Value:
    """What a part begins with: it changes nothing that it is combined with."""
    arg, rule = of.stream.args[at], of.rules[at]
    references = {r.reference for r in of.rules if isinstance(r, Weighed)}
    number = 0 if isinstance(rule, Weighed) else NEUTRAL[rule.fn]
    dtype = arg.type.dtype
    if not math.isfinite(number) and (at in references or not dtype.is_float):
        number = _limits(dtype)[number > 0]
    if rule == Fold("and") and not dtype.is_integer:
        number = True
    if not arg.type.axes:
        return code.const(number, dtype)
    made = code.value("neutral", arg.type.axes, dtype)
    filled_with = code.const(number, dtype)
    code.ops.append(Full(made, filled_with))
    return made


def _unlimited(code: _Code, value: Value, rule: Rule) -> Value:
    """-inf (inf) where a reference is still at the lowest (greatest) number: it has seen nothing."""
    number = NEUTRAL[rule.fn]
    limit = code.const(_limits(value.type.dtype)[number > 0], value.type.dtype)
    untouched = code.map("eq", value, limit, like=value)
    return code.map("where", untouched, code.const(number, value.type.dtype), value, like=value)


# ---------------------------------------------------------------- combination


def _combine_kernel(of: Splittable, part: Axis, between: dict[int, Tensor], names: _Names) -> Kernel:
    stream, at = of.stream, of.grid.body.ops.index(of.stream)
    code = _Code(names)
    loaded = {}
    for n, tensor in between.items():
        loaded[n] = code.value(f"{tensor.name}", stream.args[n].type.axes, tensor.dtype)
        code.ops.append(Load(loaded[n], tensor.name, _subscripts(of, n, part), stream.loc))
    fixed = {v for rule in of.rules if isinstance(rule, Weighed) for v in rule.factors}
    code.ops += _made_in(stream.body, fixed)
    new: dict[int, Value] = {}
    folds_first = sorted(between, key=lambda n: isinstance(of.rules[n], Weighed))
    for n in folds_first:
        old, rule = stream.args[n], of.rules[n]
        if isinstance(rule, Fold):
            new[n] = code.map(rule.fn, old, loaded[n], like=old)
            continue
        at_new = new[rule.reference]
        kept = code.map("mul", old, _weight(code, of, rule, stream.args[rule.reference], at_new), like=old)
        more = code.map("mul", loaded[n], _weight(code, of, rule, loaded[rule.reference], at_new), like=old)
        new[n] = code.map("add", kept, more, like=old)
    code.ops.append(Yield(tuple(new[n] for n in between)))
    loop = Stream(
        (LoopAxis(part),), tuple(stream.inits[n] for n in between), tuple(stream.args[n] for n in between),
        Block(tuple(code.ops)), tuple(stream.results[n] for n in between), stream.loc,
    )  # fmt: skip
    ops = (*of.grid.body.ops[:at], loop, *of.grid.body.ops[at + 1 :])
    grid = replace(of.grid, body=Block(ops))
    read = tuple(replace(t, access=Access.IN) for t in between.values())
    return _kernel(of.kernel, f"{of.kernel.name}_combine", grid, (part,), read)


def _weight(code: _Code, of: Splittable, rule: Weighed, old: Value, new: Value) -> Value:
    """exp(c * (old - new)); 1 where both are the same, infinite ones too."""
    difference = code.map("sub", old, new)
    if rule.number != 1.0:
        difference = code.map("mul", difference, code.const(rule.number, old.type.dtype))
    for name in rule.factors:
        difference = code.map("mul", difference, _value_named(of.kernel, name))
    weight = code.map(rule.fn, difference, base="weight")
    one = code.const(1.0, weight.type.dtype)
    return code.map("where", code.map("eq", old, new), one, weight, base="weight", like=weight)


def _value_named(kernel: Kernel, name: str) -> Value:
    for scalar in kernel.scalars:
        if scalar.name == name:
            return Value(name, TileType((), scalar.dtype))
    return next(v for op in walk(kernel.body) for v in results(op) if v.name == name)


def _made_in(body: Block, wanted: set[str]) -> list[Op]:
    """The operations of the loop's body that make the values, and what those need."""
    found: list[Op] = []
    need = set(wanted)
    for op in reversed(body.ops):
        if need & {r.name for r in results(op)}:
            need |= {v.name for v in _all_operands(op)}
            found.insert(0, op)
    return found


# ---------------------------------------------------------------- kernels


def _kernel(old: Kernel, name: str, grid: Grid, axes: tuple[Axis, ...], between: tuple[Tensor, ...]) -> Kernel:
    """The kernel around `grid`, without dead code and without what only the other one uses."""
    body = Block(tuple(grid if isinstance(op, Grid) else op for op in old.body.ops))
    every = (*between, *old.tensors) if between[0].access is Access.IN else (*old.tensors, *between)
    whole = canonicalize(Kernel(name, every, old.scalars, (*axes, *old.axes), body, old.loc))
    used = {op.tensor for op in walk(whole.body) if hasattr(op, "tensor")}
    read = {v.name for op in walk(whole.body) for v in _all_operands(op)}
    tensors = tuple(t for t in every if t.name in used)
    return replace(whole, tensors=tensors, scalars=tuple(s for s in old.scalars if s.name in read))
