"""Conditions on the two programs of a split reduction (docs/sprogram.md, section 10).

Each program alone is checked like any other. Together: every tensor that goes between them is written by one program,
once for each part and position, and read by the other at all parts; the parts of the loop lie one behind the other
without gap or overlap; and the loop that combines has, for each carried value, the rule of the loop that was split
(`combinable.py` derives both from the operations themselves, so a wrong weight or function is found here).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from threadloom.sched.check_findings import Finding, Findings
from threadloom.sched.combinable import Fold, NotCombinable, Rule, Weighed, rules_of
from threadloom.sched.ops import SProgram
from threadloom.tile import functions
from threadloom.tile.ops import (
    Access,
    AxisKind,
    Bound,
    Cast,
    Const,
    DimSize,
    Grid,
    Index,
    Kernel,
    Load,
    LoopAxis,
    Map,
    Op,
    Store,
    Stream,
    Tensor,
    Value,
)
from threadloom.tile.uses import results, walk

SAMPLES = 24  # of extents and of scalars read from tensors
MOST_INDEX = 3000


def check_parts(program: SProgram, findings: Findings) -> None:
    count, combine = program.partition.splits, program.combine
    if (count > 1) != (combine is not None):
        what = "no program combines them" if combine is None else "a program combines parts"
        findings.add(Finding("wrong-parts", f"the reduction is done in {count} parts and {what}"))
    if combine is None:
        return
    for message, tensor in _problems(program.graph.kernel, combine.graph.kernel, count):
        findings.add(Finding("wrong-parts", message, buffer=tensor))
    if combine.partition.splits > 1 or combine.combine is not None:
        findings.add(Finding("wrong-parts", "the program that combines parts makes parts itself"))


def _problems(parts: Kernel, combine: Kernel, count: int) -> Iterator[tuple[str, str]]:
    """(message, tensor)."""
    try:
        sides = _Parts.of(parts, count), _Combination.of(combine, {t.name for t in parts.tensors}, count)
    except _Broken as broken:
        yield str(broken), ""
        return
    made, used = sides
    for name in sorted(made.stored.keys() | used.loaded.keys()):
        if name not in made.stored or name not in used.loaded:
            yield f"{name} is {'not written' if name not in made.stored else 'not read'}", name
            return
        if (a := _tensor(parts, name)).dims != (b := _tensor(combine, name)).dims or a.dtype is not b.dtype:
            yield f"{name} is written and read with different dimensions", name
        if a.dims[0] != count:
            yield f"{name} has room for {a.dims[0]} parts, not {count}", name
        if _places(parts, made.stored[name].subscripts) != _places(combine, used.loaded[name].subscripts):
            yield f"{name} is read at other places than it is written", name
    yield from _misfits(made)
    yield from _other_rules(parts, combine, made, used)


class _Broken(Exception):
    pass


def _grid(kernel: Kernel) -> Grid:
    return next(op for op in kernel.body.ops if isinstance(op, Grid))


def _tensor(kernel: Kernel, name: str) -> Tensor:
    return next(t for t in kernel.tensors if t.name == name)


def _scalars(kernel: Kernel) -> dict[str, Op]:
    return {r.name: op for op in walk(kernel.body) for r in results(op)}


def _places(kernel: Kernel, subscripts: tuple) -> list[object]:
    """Subscripts but the first, by what their axes index. One program may go along an axis one by one, the other in
    tiles: both reach all of it."""
    dims = {a.name: a.dim for a in kernel.axes}
    return [
        (tuple((t.coefficient, dims[t.axis]) for t in s.terms if t.axis is not None and t.value is None), s.offset)
        for s in subscripts[1:]
    ]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The split loop, the store of each tensor between the programs, and the carried value that it stores."""

    kernel: Kernel
    stream: Stream
    axis: str
    cut: LoopAxis
    stored: dict[str, Store]
    sources: dict[str, int]

    @classmethod
    def of(cls, kernel: Kernel, count: int) -> _Parts:
        grid = _grid(kernel)
        stored = {op.tensor: op for op in grid.body.ops if isinstance(op, Store)}
        streams = [op for op in grid.body.ops if isinstance(op, Stream)]
        if len(streams) != 1 or len(stored) != sum(isinstance(op, Store) for op in walk(kernel.body)):
            raise _Broken("the parts are not those of one loop, each stored once after it")
        if set(stored) != {t.name for t in kernel.tensors if t.access is not Access.IN}:
            raise _Broken("the program of the parts writes something else")
        firsts = {_only_axis(op.subscripts[0]) for op in stored.values()}
        axis = next((a for a in grid.axes if {a.axis.name} == firsts), None)
        if axis is None or axis.axis.kind is not AxisKind.EACH or axis.axis.dim != count:
            raise _Broken(f"no axis of the grid counts {count} parts in everything that is stored")
        _written_once(grid, stored)
        made = _scalars(kernel)
        cuts = [a for a in streams[0].axes if _reads(a, axis.axis.name, made)]
        if len(cuts) != 1:
            raise _Broken("not one axis of the loop has bounds that depend on the part")
        sources = {name: _source(op.value, streams[0], made) for name, op in stored.items()}
        return cls(kernel, streams[0], axis.axis.name, cuts[0], stored, sources)


def _written_once(grid: Grid, stored: dict[str, Store]) -> None:
    """Every axis of the grid stands in every store, alone in its subscript: no two blocks write one place."""
    for name, op in stored.items():
        alone = {_only_axis(s) for s in op.subscripts}
        if missing := [a.axis.name for a in grid.axes if a.axis.name not in alone]:
            raise _Broken(f"{name} is written several times: {missing[0]} does not index it")


def _only_axis(subscript) -> str | None:
    terms = subscript.terms
    plain = len(terms) == 1 and terms[0].value is None and terms[0].coefficient == 1 and subscript.offset == 0
    return terms[0].axis if plain else None


def _source(value: Value, stream: Stream, made: dict[str, Op]) -> int:
    """Which result of the loop is stored, perhaps with its limit put back (`where(x == lowest, -inf, x)`)."""
    names = [r.name for r in stream.results]
    op = made.get(value.name)
    if value.name not in names and isinstance(op, Map) and op.fn == "where":
        test, value = made.get(op.args[0].name), op.args[2]
        if not isinstance(test, Map) or test.fn != "eq" or value.name not in {a.name for a in test.args}:
            raise _Broken(f"{op.result.name} is stored, which is no result of the loop")
    if value.name not in names:
        raise _Broken(f"{value.name} is stored, which is no result of the loop")
    return names.index(value.name)


def _reads(axis: LoopAxis, wanted: str, made: dict[str, Op]) -> bool:
    return any(wanted in _axes_of(v, made) for v in (axis.start, axis.stop) if v is not None)


def _axes_of(value: Value, made: dict[str, Op]) -> set[str]:
    match made.get(value.name):
        case Index(axis=axis) | Bound(axis=axis):
            return {axis}
        case Map(args=args):
            return set().union(*(_axes_of(a, made) for a in args))
        case Cast(arg=arg):
            return _axes_of(arg, made)
    return set()


@dataclass(frozen=True, slots=True)
class _Combination:
    """The loop over the parts, and its loads of what lies between the programs."""

    stream: Stream
    loaded: dict[str, Load]

    @classmethod
    def of(cls, kernel: Kernel, tensors: set[str], count: int) -> _Combination:
        inputs = {t.name: t.dims for t in kernel.tensors if t.access is Access.IN}
        between = {name for name in tensors & inputs.keys() if inputs[name][:1] == (count,)}
        loads = [op for op in walk(kernel.body) if isinstance(op, Load) and op.tensor in between]
        found = {op.tensor: op for op in loads}
        for stream in (op for op in _grid(kernel).body.ops if isinstance(op, Stream)):
            inside = [op for op in stream.body.ops if op in loads]
            if not inside:
                continue
            (axis, *more) = stream.axes
            whole = axis.start is None and axis.stop is None and axis.axis.kind is AxisKind.EACH
            if more or not whole or axis.axis.dim != count or len(inside) != len(loads) or len(found) != len(loads):
                break
            if any(_only_axis(op.subscripts[0]) != axis.axis.name for op in inside):
                break
            return cls(stream, found)
        raise _Broken(f"no loop goes once through all {count} parts of everything that lies between")


# ---------------------------------------------------------------- the parts lie one behind the other


def _misfits(made: _Parts) -> Iterator[tuple[str, str]]:
    scalars = _scalars(made.kernel)
    number = next(a.axis.dim for a in _grid(made.kernel).axes if a.axis.name == made.axis)
    rng = random.Random(1)
    for _ in range(SAMPLES):
        sample = _Sample(scalars, rng, made.axis)
        ranges = [sample.range_of(made.cut, part) for part in range(number)]
        filled = [(low, high) for low, high in ranges if low < high]
        for (_, end), (start, _) in pairwise(filled):
            if end != start:
                where = "leave a gap" if end < start else "overlap"
                yield f"parts of {made.cut.axis.name} {where} at {min(end, start)}", ""
                return
        if made.cut.stop is not None and not sample.bounded(made.cut) and filled:
            size = sample.dim(made.cut.axis.dim)
            if filled[0][0] > 0 or filled[-1][1] < size:
                covered = f"{filled[0][0]} to {filled[-1][1]} of {size}"
                yield f"the parts of {made.cut.axis.name} do not cover it: {covered}", ""
                return


class _Sample:
    """Bounds evaluated for random extents, positions and contents of tensors."""

    def __init__(self, made: dict[str, Op], rng: random.Random, axis: str):
        self.made, self.rng, self.axis = made, rng, axis
        self.leaves: dict[object, int] = {}

    def dim(self, dim: int | str) -> int:
        return dim if isinstance(dim, int) else self._leaf(("dim", dim))

    def _leaf(self, key: object) -> int:
        return self.leaves.setdefault(key, self.rng.randrange(1, MOST_INDEX))

    def bounded(self, axis: LoopAxis) -> bool:
        """Whether the loop had bounds before it was split: then the parts need not cover the axis."""
        return any(self._unknown(v) for v in (axis.start, axis.stop) if v is not None)

    def _unknown(self, value: Value) -> bool:
        match self.made.get(value.name):
            case Const():
                return False
            case DimSize():
                return False
            case Index(axis=axis):
                return axis != self.axis
            case Map(args=args):
                return any(self._unknown(a) for a in args)
            case Cast(arg=arg):
                return self._unknown(arg)
        return True

    def value(self, value: Value, part: int) -> int:
        match op := self.made.get(value.name):
            case Const():
                return int(op.number)
            case DimSize():
                return self.dim(op.dim)
            case Index() if op.axis == self.axis:
                return part
            case Index() | Bound():
                return self._leaf((type(op), op.axis, getattr(op, "which", "")))
            case Cast():
                return self.value(op.arg, part)
            case Map():
                import numpy as np

                args = [np.asarray(self.value(a, part), dtype=np.int64) for a in op.args]
                return int(functions.TABLE[op.fn].numpy(*args))
        return self._leaf(value.name)

    def range_of(self, axis: LoopAxis, part: int) -> tuple[int, int]:
        size = self.dim(axis.axis.dim)
        low = 0 if axis.start is None else max(0, self.value(axis.start, part))
        high = size if axis.stop is None else min(size, self.value(axis.stop, part))
        return low, high


# ---------------------------------------------------------------- they combine as they were made


def _other_rules(parts: Kernel, combine: Kernel, made: _Parts, used: _Combination) -> Iterator[tuple[str, str]]:
    try:
        first = rules_of(made.stream, _constants(parts))
        second = rules_of(used.stream, _constants(combine))
    except NotCombinable as reason:
        yield f"parts cannot be combined: {reason}", ""
        return
    taken = _carried_of(used)
    tensor_of = {at: name for name, at in made.sources.items()}
    back = {at: name for name, at in taken.items()}
    for name in made.stored:
        a, b = first[made.sources[name]], second[taken[name]] if name in taken else None
        if b is None or _named(a, tensor_of) != _named(b, back):
            yield f"{name} is not combined as it is made", name


def _constants(kernel: Kernel) -> dict[str, float]:
    return {op.result.name: float(op.number) for op in walk(kernel.body) if isinstance(op, Const)}


def _carried_of(used: _Combination) -> dict[str, int]:
    """Tensor -> place of the carried value that takes its parts in: the only one, of those that it reaches, that takes
    in no tensor whose own value it needs as reference."""
    made = {r.name: op for op in used.stream.body.ops for r in results(op)}
    loads = {op.result.name: name for name, op in used.loaded.items()}
    nexts = used.stream.body.ops[-1].values
    found: dict[str, int] = {}
    for at, value in enumerate(nexts):
        if (name := _taken(value, loads, made)) is not None:
            found.setdefault(name, at)
    return found


def _taken(value: Value, loads: dict[str, str], made: dict[str, Op]) -> str | None:
    """The tensor whose part is added (or folded in), behind any weight."""
    op = made.get(value.name)
    if not isinstance(op, Map):
        return loads.get(value.name)
    for arg in op.args:
        if arg.name in loads:
            return loads[arg.name]
        inner = made.get(arg.name)
        if isinstance(inner, Map) and inner.fn == "mul" and op.fn == "add":
            for factor in inner.args:
                if factor.name in loads:
                    return loads[factor.name]
    return None


def _named(rule: Rule, tensors: dict[int, str]) -> object:
    """The rule with its reference by tensor."""
    if isinstance(rule, Fold):
        return rule
    return Weighed(-1, rule.fn, rule.number, rule.factors), tensors.get(rule.reference)
