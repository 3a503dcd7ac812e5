"""Masks by position: `where(n <= m + shift, s, -inf)` as a test of the whole tile first.

    before:  for every element: s = n <= m + shift ? s : -inf
    after:   if (some element of the tile fails the test) for every element: if it fails, s = -inf

The condition must be comparisons of positions and scalars, whose range over a tile is known;
tiles that lie wholly inside (all but the diagonal ones of causal attention) then cost one uniform branch. What is about
to be computed elementwise is masked in that loop instead: an array of it would cost as many registers as the tile has.
Not handled: conditions with computed tiles in them; those are ordinary elementwise code.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.layout import Layout, Source, coordinate
from threadloom.targets.cuda.positions import LEAST, MOST
from threadloom.targets.cuda.registers import Scope, unroll
from threadloom.tile import ops as tile
from threadloom.tile.uses import operands

_ORDER = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}


@dataclass(frozen=True, slots=True)
class Mask:
    """`result` is `source` with `fill` (or, if it `adds`, `source` + `fill`) where `condition` has the truth value
    `fills`. `chain`: operations by result."""

    result: tile.Value
    source: tile.Value
    fill: tile.Value
    condition: tile.Map
    fills: bool
    chain: tuple[tuple[str, tile.Op], ...]
    adds: bool = False

    def applied(self, element: str, fill: str) -> str:
        """C expression of an element that the mask changes."""
        return f"{element} + {fill}" if self.adds else fill


def find_masks(ops: tuple[tile.Op, ...], kept: frozenset[str], dying: frozenset[str]) -> tuple[tile.Op | Mask, ...]:
    """`ops` with maskings in place of `where`s; operations that only made their conditions are left out.

    dying: values that nobody reads after these operations."""
    made = {op.result.name: op for op in ops if hasattr(op, "result")}
    readers: dict[str, int] = {}
    for op in ops:
        for v in operands(op):
            readers[v.name] = readers.get(v.name, 0) + 1
    out: list[tile.Op | Mask] = []
    absorbed: set[str] = set()
    for op in ops:
        mask = _mask_of(op, made)
        single = mask is not None and readers[mask.source.name] == 1
        local = single and (mask.source.name in dying or (mask.source.name in made and mask.source.name not in kept))
        if mask is None or not local:
            out.append(op)
            continue
        out.append(mask)
        absorbed |= {name for name, _ in mask.chain}
    needed = set(kept)
    left: list[tile.Op | Mask] = []
    for op in reversed(out):  # readers first: what a mask took in stays where anything else that stays reads it
        if isinstance(op, Mask):
            needed |= {op.source.name, op.fill.name}
        elif op.result.name in absorbed - needed:
            continue
        else:
            needed |= {v.name for v in operands(op)}
        left.insert(0, op)
    return tuple(left)


def _mask_of(op: tile.Op, made: dict[str, tile.Op]) -> Mask | None:
    if isinstance(op, tile.Map) and op.fn == "add":
        return _adding(op, made)
    if not isinstance(op, tile.Map) or op.fn != "where" or not op.result.type.axes:
        return None
    cond, yes, no = op.args
    condition = made.get(cond.name)
    if not isinstance(condition, tile.Map):
        return None
    chain: dict[str, tile.Op] = {}
    if not _positional(cond, made, chain) or not any(isinstance(o, tile.Index) for o in chain.values()):
        return None
    whole = set(op.result.type.axes)
    equal = any(isinstance(o, tile.Map) and o.fn == "eq" for o in chain.values())  # hardly ever holds for a whole tile
    if not no.type.axes and set(yes.type.axes) == whole and not equal:
        return Mask(op.result, yes, no, condition, False, tuple(chain.items()))
    if not yes.type.axes and set(no.type.axes) == whole:
        return Mask(op.result, no, yes, condition, True, tuple(chain.items()))
    return None


def _adding(op: tile.Map, made: dict[str, tile.Op]) -> Mask | None:
    """source + where(condition, scalar, 0), in f32."""
    for source, term in (op.args, op.args[::-1]):
        where = made.get(term.name)
        if not isinstance(where, tile.Map) or where.fn != "where" or op.result.type.dtype.name != "f32":
            continue
        condition, (fill, rest) = made.get(where.args[0].name), where.args[1:]
        nothing = made.get(rest.name)
        chain: dict[str, tile.Op] = {}
        placed = isinstance(condition, tile.Map) and _positional(where.args[0], made, chain)
        zero = isinstance(nothing, tile.Const) and nothing.number == 0
        whole = set(source.type.axes) == set(op.result.type.axes)
        if placed and zero and whole and not fill.type.axes and any(isinstance(o, tile.Index) for o in chain.values()):
            return Mask(op.result, source, fill, condition, True, (*chain.items(), (term.name, where)), True)
    return None


def _positional(value: tile.Value, made: dict[str, tile.Op], chain: dict[str, tile.Op]) -> bool:
    """Whether `value` is computed from positions and scalars by comparisons, sums and differences."""
    if not value.type.axes and value.name not in made:
        return True
    op = made.get(value.name)
    match op:
        case tile.Index() | tile.Const():
            chain[value.name] = op
            return True
        case tile.Map() if op.fn in (*_ORDER, "and", "add", "sub"):
            chain[value.name] = op
            return all(_positional(a, made, chain) for a in op.args)
        case tile.Full():
            chain[value.name] = op
            return _positional(op.value, made, chain)
        case tile.Cast() if op.result.type.dtype.name in ("i32", "i64"):
            chain[value.name] = op
            return _positional(op.arg, made, chain)
    return not value.type.axes  # a scalar, however made


# ---------------------------------------------------------------- code


def emit_mask(scope: Scope, mask: Mask, layout: Layout) -> None:
    """Overwrite in the registers of the source, which become those of the result."""
    chain = dict(mask.chain)
    held = scope.registers[mask.source.name]
    fill = scope.scalar(mask.fill.name)
    element = _text(mask.condition.result, chain, scope, layout)
    always = _always(mask.condition.result, chain, scope, layout, not mask.fills)
    scope.registers[mask.result.name] = held
    if always and scope.assumes(always):
        return
    w = scope.writer
    with w.block(f"if (!({always}))" if always else ""):
        w.line(unroll(layout.registers, held.dtype))
        with w.block(f"for (int i = 0; i < {layout.registers}; i++)"):
            test = element if mask.fills else f"!{element}"
            w.line(f"if ({test}) {held.name}[i] = {mask.applied(f'{held.name}[i]', fill)};")


def always_whole(scope: Scope, mask: Mask, layout: Layout) -> str:
    """C condition, the same in all threads of a worker, under which the mask changes nothing; "": none is known."""
    return _always(mask.condition.result, dict(mask.chain), scope, layout, not mask.fills)


def parts_of(layout: Layout, least: int) -> int:
    """In how many parts of neighbouring registers, of at least `least`, a mask can be looked at warp by warp."""
    slowest = layout.of(Source.REGISTER)[-1]
    below = layout.registers // slowest.size
    return next((n for n in range(slowest.size, 0, -1)
                 if slowest.size % n == 0 and below * (slowest.size // n) >= least), 1)  # fmt: skip


def always_in_part(scope: Scope, mask: Mask, layout: Layout, parts: int, number: str, filled: bool) -> str:
    """C condition, the same in all threads of a warp, under which the mask fills all (or, if not `filled`, none) of a
    warp's elements in part `number` of `parts`; "": none is known."""
    wanted = mask.fills if filled else not mask.fills
    return _always(mask.condition.result, dict(mask.chain), scope, layout, wanted, _Part(parts, number))


def masked(scope: Scope, mask: Mask, layout: Layout, element: str, register: str) -> str:
    """C expression of one element, masked, in a loop that computes it: for values that no registers hold yet."""
    chain = dict(mask.chain)
    always = always_whole(scope, mask, layout)
    if always and scope.assumes(always):
        return element
    test, fill = _text(mask.condition.result, chain, scope, layout, register), scope.scalar(mask.fill.name)
    changed = mask.applied(element, fill)
    return f"{test} ? {changed} : {element}" if mask.fills else f"{test} ? {element} : {changed}"


def _text(value: tile.Value, chain: dict[str, tile.Op], scope: Scope, layout: Layout, register: str = "i") -> str:
    """C expression of the element that `register` of `layout` meets."""
    match chain.get(value.name):
        case tile.Index(axis=axis):
            return f"({scope.index(layout, axis, register)})"
        case tile.Const() as op:
            return c.literal(op.number, op.result.type.dtype)
        case tile.Map() as op:
            if op.fn in _ORDER and (text := _compared(op, chain, scope, layout, register)):
                return text
            args = [_text(a, chain, scope, layout, register) for a in op.args]
            return c.expression(op.fn, op.args[-1].type.dtype, args)
        case tile.Full() as op:
            return _text(op.value, chain, scope, layout, register)
        case tile.Cast() as op:
            return _text(op.arg, chain, scope, layout, register)
    return scope.scalar(value.name)


def _compared(op: tile.Map, chain: dict[str, tile.Op], scope: Scope, layout: Layout, register: str) -> str:
    """A comparison of positions as one of constants with a number of the thread's own, in 32 bits: on the left what
    depends on the register, on the right all else, computed in 64 bits and cut to 32 (no place in a tile is beyond).
    "" where a side is no sum of positions and scalars."""
    sides = _terms(op.args[0], chain), _terms(op.args[1], chain)
    if None in sides or op.args[0].type.dtype.name not in ("i32", "i64"):
        return ""
    left, right = [], []
    for sign, value in (*sides[0], *((-sign, value) for sign, value in sides[1])):
        mine, other = ("+", "-") if sign > 0 else ("-", "+")
        index = chain.get(value.name)
        if not isinstance(index, tile.Index):
            right.append(f" {other} (i64)({_text(value, chain, scope, layout)})")
            continue
        threads, registers = coordinate(layout, index.axis, register)
        left += [f" {mine} ({registers})"] if registers != "0" else []
        right += [f" {other} ({x})" for x in (scope.places[index.axis].first, threads) if x != "0"]
    if not left:
        return ""
    room = f"(i32)min(max((i64)0{''.join(right)}, (i64){LEAST}), (i64){MOST})"
    return f"((0{''.join(left)}) {_ORDER[op.fn]} {room})"


def _terms(value: tile.Value, chain: dict[str, tile.Op], sign: int = 1) -> list[tuple[int, tile.Value]] | None:
    """The positions and scalars that `value` is the sum of, with their signs; None where it is no such sum."""
    match chain.get(value.name):
        case tile.Index():
            return [(sign, value)]
        case tile.Map(fn="add" | "sub", args=(a, b)) as op:
            first, second = _terms(a, chain, sign), _terms(b, chain, sign if op.fn == "add" else -sign)
            return None if first is None or second is None else first + second
        case tile.Full() as op:
            return _terms(op.value, chain, sign)
        case tile.Cast() as op:
            return _terms(op.arg, chain, sign)
        case tile.Const():
            return [(sign, value)]
        case None if not value.type.axes:
            return [(sign, value)]
    return None


@dataclass(frozen=True, slots=True)
class _Part:
    """A warp's elements in part `number` (a C expression) of `parts`, cut along the slowest digit of the registers."""

    parts: int
    number: str

    def range(self, layout: Layout, axis: str) -> tuple[str, int]:
        """C expression of the first position along `axis`, from the tile's, and how many there are from it."""
        slowest = layout.of(Source.REGISTER)[-1]
        first, _ = coordinate(Layout(layout.of(Source.WARP)), axis, "0")
        terms, last = [] if first == "0" else [first], 0
        for d in layout.digits:
            if d.axis != axis or d.source is Source.WARP:
                continue
            size = d.size
            if d is slowest:
                size //= self.parts
                terms.append(f"{self.number} * {size * d.stride}")
            last += (size - 1) * d.stride
        return " + ".join(terms) or "0", 1 + last


def _always(
    value: tile.Value, chain: dict[str, tile.Op], scope: Scope, layout: Layout, wanted: bool, part: _Part | None = None
) -> str:
    """C condition, the same in all threads of a worker (of a warp, for a `part`), under which every element has the
    truth value `wanted`; "" where none is known."""
    op = chain[value.name]
    if not isinstance(op, tile.Map):
        return ""
    if op.fn == "and" and wanted:
        parts = [_always(a, chain, scope, layout, True, part) if a.name in chain else "" for a in op.args]
        return " && ".join(parts) if all(parts) else ""
    if op.fn not in _ORDER:
        return ""
    a, b = (_range(x, chain, scope, layout, part) for x in op.args)
    if a is None or b is None or (op.fn == "eq" and wanted):
        return ""
    if op.fn == "eq":
        return f"({a[1]} < {b[0]} || {a[0]} > {b[1]})"
    below = op.fn in ("lt", "le")
    if wanted:
        return f"{a[1]} {_ORDER[op.fn]} {b[0]}" if below else f"{a[0]} {_ORDER[op.fn]} {b[1]}"
    opposite = {"lt": ">=", "le": ">", "gt": "<=", "ge": "<"}[op.fn]
    return f"{a[0]} {opposite} {b[1]}" if below else f"{a[1]} {opposite} {b[0]}"


def _range(
    value: tile.Value, chain: dict[str, tile.Op], scope: Scope, layout: Layout, part: _Part | None = None
) -> tuple[str, str] | None:
    """C expressions of the least and the greatest element over the tile, or a warp's part of it."""
    op = chain.get(value.name)
    match op:
        case tile.Index(axis=axis):
            first = scope.places[axis].first
            if part is not None:
                offset, count = part.range(layout, axis)
                first = first if offset == "0" else f"({first} + {offset})"
                return first, f"({first} + {count - 1})"
            return first, f"({first} + {layout.extent(axis) - 1})"
        case tile.Map(fn="add" | "sub"):
            a, b = (_range(x, chain, scope, layout, part) for x in op.args)
            if a is None or b is None:
                return None
            low, high = (b[0], b[1]) if op.fn == "add" else (b[1], b[0])
            sign = "+" if op.fn == "add" else "-"
            return f"({a[0]} {sign} {low})", f"({a[1]} {sign} {high})"
        case tile.Full():
            return _range(op.value, chain, scope, layout, part)
        case tile.Cast():
            return _range(op.arg, chain, scope, layout, part)
        case tile.Const() as op:
            number = c.literal(op.number, op.result.type.dtype)
            return number, number
        case None:
            name = scope.scalar(value.name)
            return name, name
    return None
