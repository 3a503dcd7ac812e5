"""Elementwise code on registers: a group of operations as one unrolled loop over the registers of their layout.

Values used only inside are plain variables. Operands that lie in shared memory are fetched in pieces; those in
registers of another layout are brought to this one first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.convert import emit_conversion
from threadloom.targets.cuda.elements import (
    _expression,
    bring,
    declare,
    define,
    kind_of,
    note_difference,
    read,
)
from threadloom.targets.cuda.factors import (
    LEAST_REGISTERS,
    Split,
    emit_factors,
    find_splits,
    left_to_do,
    read_with_factors,
    spread_of,
)
from threadloom.targets.cuda.layout import Layout, Source, agrees, register_index
from threadloom.targets.cuda.masks import Mask, always_in_part, always_whole, parts_of
from threadloom.targets.cuda.operands import Elementwise, operands, read_by
from threadloom.targets.cuda.registers import Registers, Scope, unroll
from threadloom.targets.cuda.shared_access import (
    MATRICES,
    emit_matrices,
    emit_piece,
    emit_read_shared,
    in_matrices,
)
from threadloom.tile import ops as tile

WORTH_PIECES = 16  # registers from which on an operand in shared memory is fetched piece by piece
NEAR_ONE = ("f16", "f8e4m3", "f8e5m2", "i8", "u8")  # types of small range
WORTH_REUSE = 8  # registers of an array from which on it is written over instead of declaring another

# ---------------------------------------------------------------- elementwise loops


def flush(
    scope: Scope,
    group: list[Elementwise],
    layouts: dict[str, Layout],
    needed: frozenset[str],
    dying: frozenset[str],
    feeding: list[Elementwise] | None = None,
) -> None:
    """Write `group`. `feeding`: a group of vectors that only this one reads, to be computed where it is best."""
    if not group:
        return
    feeding = feeding or []
    spread = _spread(scope, _splits(scope, group, layouts, needed, feeding), group, feeding, layouts, needed)
    if feeding and spread is None:
        flush(scope, feeding, layouts, needed | read_by(tuple(group)), dying)
        feeding = []
    with matched(scope, [(v, layouts[op.result.name]) for op in group for v in operands(op)]):
        _flush_matched(scope, group, layouts, needed, dying, feeding, spread)


@contextmanager
def matched(scope: Scope, wanted: list[tuple[tile.Value, Layout]]) -> Iterator[None]:
    """While the code is written, values from before lie in the layouts that it reads them in."""
    before: dict[str, Registers | None] = {}
    for value, layout in wanted:
        held, lies = scope.registers.get(value.name), scope.in_shared.get(value.name)
        if value.name in before or not value.type.axes:
            continue
        target = layout.keeping(value.type.axes)
        if held is None and lies is not None and not agrees(layout, lies.layout, value.type.axes):
            made = Registers(scope.fresh(value.name), value.type.dtype, target)
            scope.writer.line(f"{kind_of(scope, value)} {made.name}[{target.registers}];")
            emit_read_shared(scope, lies.tile, made, lies.slot)
        elif held is None or held.scalar or held.piece or agrees(layout, held.layout, value.type.axes):
            continue
        else:
            element = read(scope, value, held.layout, "i")
            made = emit_conversion(scope, value, element, held, kind_of(scope, value), target)
        before[value.name] = held
        scope.registers[value.name] = made
    converted = {name: scope.registers[name] for name in before}
    yield
    for name, held in before.items():
        if scope.registers.get(name) == converted[name]:
            scope.registers.pop(name)
            if held is not None:
                scope.registers[name] = held


def _flush_matched(
    scope: Scope,
    group: list[Elementwise],
    layouts: dict[str, Layout],
    needed: frozenset[str],
    dying: frozenset[str],
    feeding: list[Elementwise],
    spread: Layout | None,
) -> None:
    layout = layouts[group[0].result.name]
    if layout.registers == 1:
        for v in (v for op in group for v in operands(op)):
            bring(scope, v)
        for op in group:
            define(scope, op, layouts[op.result.name], "0", as_array=op.result.name in needed)
        return
    for k, op in enumerate(group):
        if op.result.name in needed and op.result.name not in scope.registers:
            reused = _reusable(scope, group[: k + 1], group[k + 1 :], layouts, dying - needed)
            if reused is not None:
                scope.registers[op.result.name] = replace(reused, dtype=op.result.type.dtype)
                dying -= {reused.value}
            else:
                declare(scope, op.result, layouts[op.result.name])
    splits = _splits(scope, group, layouts, needed, feeding)
    inside = _inside(scope, group, layouts) if layout.registers >= LEAST_REGISTERS else ""
    w = scope.writer
    if not splits:
        _versions(scope, layout, group, layouts, needed, inside)
        return
    shared = {v.name for one in splits for v in one.of_b} if spread is not None else set()
    for v in (v for one in splits for v in one.vectors if v.name not in shared):
        bring(scope, v)
    shares = _emit_shares(scope, splits, feeding, layouts, spread) if spread is not None else {}
    test, scope.factors = emit_factors(scope, splits, shares, _near_one(feeding))
    scope.joined = {product.result.name: v.name for s in splits for v, product in (*s.with_a, *s.with_b)}
    with w.block(f"if ({test})"):
        _versions(scope, layout, left_to_do(group, splits, needed), layouts, needed, inside)
    scope.factors, scope.joined = {}, {}
    outside, read = dict(scope.registers), _exchanged(scope, splits, feeding, shares)
    with w.block("else"):
        flush(scope, feeding, layouts, read_by(tuple(group)), dying)
        _write_loop(scope, layout, group, layouts, needed)
        if read:
            w.line("fence_to_async();  // what was read here has left shared memory, as it has for the exchange above")
    scope.consumed |= read
    scope.registers = outside


def _exchanged(
    scope: Scope, splits: list[Split], feeding: list[Elementwise], shares: dict[str, tuple[str, Layout]]
) -> set[str]:
    """Values in shared memory that went into factors which lanes exchanged there: they have been read for certain."""
    if not shares or not scope.exchanged or not scope.team.proxies:
        return set()
    read = {v.name for v in (*(v for one in splits for v in one.of_b), *(v for op in feeding for v in operands(op)))}
    return {name for name in read if name in scope.in_shared and name not in scope.registers}


def _splits(
    scope: Scope,
    group: list[Elementwise],
    layouts: dict[str, Layout],
    needed: frozenset[str],
    feeding: list[Elementwise],
) -> list[Split]:
    counts = _counts(scope, group) | {op.result.name: layouts[op.result.name].registers for op in feeding}
    return find_splits(scope, group, layouts[group[0].result.name].registers, counts, needed)


def _near_one(ops: list[Elementwise]) -> frozenset[str]:
    """Results that are zero, infinite, NaN, or between 2^-24 and 2^16 without their sign, as f16 numbers are."""
    return frozenset(op.result.name for op in ops if isinstance(op, tile.Cast) and op.arg.type.dtype.name in NEAR_ONE)


def _spread(
    scope: Scope,
    splits: list[Split],
    group: list[Elementwise],
    feeding: list[Elementwise],
    layouts: dict[str, Layout],
    needed: frozenset[str],
) -> Layout | None:
    """The layout of the vectors of the second factors, where lanes can share the work on them: they lie in shared
    memory, or `feeding` computes them from what does, and what else it makes is not read where factors are used."""
    made = {op.result.name for op in feeding}
    vectors = [v for one in splits for v in one.of_b]
    shared = {v.name: v for v in (*vectors, *(v for op in feeding for v in operands(op))) if v.name not in made}
    found = [layouts[op.result.name] for op in feeding]
    for v in shared.values():
        held, lies = scope.registers.get(v.name), scope.in_shared.get(v.name)
        if held is None and lies is not None:
            found.append(lies.layout)
        elif held is None or not held.scalar:
            return None
    layout = found[0] if found else None
    if layout is None or spread_of(layout) is None or any(one != layout for one in found):
        return None
    left = read_with_factors(left_to_do(group, splits, needed), splits)
    return None if left & (made | {v.name for v in vectors}) else layout


def _emit_shares(
    scope: Scope, splits: list[Split], feeding: list[Elementwise], layouts: dict[str, Layout], layout: Layout
) -> dict[str, tuple[str, Layout]]:
    """This lane's share of the vectors of the second factors: arrays by value, with the whole layout."""
    wanted = {v.name: v for one in splits for v in one.of_b}
    w, spread = scope.writer, spread_of(layout)
    found = {name: (scope.fresh(f"{name}_own"), layout) for name in wanted}
    for name, v in wanted.items():
        w.line(f"{kind_of(scope, v)} {found[name][0]}[{spread.own}];  // {spread.replicas} lanes want the same ones")
    first = scope.fresh("share")
    w.line(f"const int {first} = {spread.share};")
    outside = dict(scope.registers)
    with register_loop(scope, layout, feeding, tuple(wanted.values()), (first, spread.own)):
        for op in feeding:
            define(scope, op, layouts[op.result.name], "i", as_array=False)
        for name, v in wanted.items():
            w.line(f"{found[name][0]}[i - {first}] = {read(scope, v, layout, 'i')};")
    scope.registers = outside
    return found


def _counts(scope: Scope, group: list[Elementwise]) -> dict[str, int]:
    """Registers of the arrays that the group reads, or would read once they are brought from shared memory."""
    found: dict[str, int] = {}
    for name in {v.name for op in group for v in operands(op)}:
        held, lies = scope.registers.get(name), scope.in_shared.get(name)
        if held is None and lies is not None:
            found[name] = lies.layout.registers
        elif held is not None and not (held.scalar or held.piece or held.packed):
            found[name] = held.layout.registers
    return found


def _inside(scope: Scope, group: list[Elementwise], layouts: dict[str, Layout]) -> str:
    """C condition, the same in all threads of a worker, under which no mask of the group changes anything; "" where
    none is known, or the code being written is for such tiles only."""
    tests = [always_whole(scope, op, layouts[op.result.name]) for op in group if isinstance(op, Mask)]
    return " && ".join(tests) if tests and all(tests) and scope.assumed is None else ""


def _versions(
    scope: Scope,
    layout: Layout,
    group: list[Elementwise],
    layouts: dict[str, Layout],
    needed: frozenset[str],
    inside: str,
) -> None:
    """The loop, without its masks for tiles that they leave alone."""
    if not inside:
        _write_loop(scope, layout, group, layouts, needed)
        return
    scope.unmasked = True
    with scope.writer.block(f"if ({inside})"):
        _write_loop(scope, layout, group, layouts, needed)
    scope.unmasked = False
    with scope.writer.block("else"):
        _write_in_parts(scope, layout, group, layouts, needed)


def _write_in_parts(
    scope: Scope, layout: Layout, group: list[Elementwise], layouts: dict[str, Layout], needed: frozenset[str]
) -> None:
    """The loop, part by part: of a part that a warp's mask overwrites as a whole nothing is computed, and one that it
    leaves alone needs no test for each element."""
    results = [op for op in group if op.result.name in needed]
    parts = parts_of(layout, LEAST_REGISTERS)
    filled = len(results) == 1 and isinstance(results[0], Mask) and results[0].fill.name in scope.registers
    filled = filled and not results[0].adds
    if not filled or parts == 1:
        _write_loop(scope, layout, group, layouts, needed)
        return
    w, mask, number, count = scope.writer, results[0], scope.fresh("part"), layout.registers // parts
    none = always_in_part(scope, mask, layouts[mask.result.name], parts, number, True)
    masks = [op for op in group if isinstance(op, Mask)]
    whole = [always_in_part(scope, op, layouts[op.result.name], parts, number, False) for op in masks]
    if not none:
        _write_loop(scope, layout, group, layouts, needed)
        return
    w.line(unroll(layout.registers))
    with w.block(f"for (int {number} = 0; {number} < {parts}; {number}++)"):
        with w.block(f"if ({none})"):
            w.line(unroll(layout.registers))
            target, fill = scope.registers[mask.result.name].name, scope.scalar(mask.fill.name)
            w.line(f"for (int i = 0; i < {count}; i++) {target}[{number} * {count} + i] = {fill};")
        part = (f"{number} * {count}", count)
        if all(whole):
            scope.unmasked = True
            with w.block(f"else if ({' && '.join(whole)})"):
                _write_loop(scope, layout, group, layouts, needed, part)
            scope.unmasked = False
        with w.block("else"):
            _write_loop(scope, layout, group, layouts, needed, part)


def _write_loop(
    scope: Scope,
    layout: Layout,
    group: list[Elementwise],
    layouts: dict[str, Layout],
    needed: frozenset[str],
    part: tuple[str, int] | None = None,
) -> None:
    w = scope.writer
    with register_loop(scope, layout, group, part=part):
        local = dict(scope.registers)
        for op in group:
            note_difference(scope, op)
            if op.result.name in needed:
                target = scope.registers[op.result.name]
                w.line(f"{target.name}[i] = {_expression(scope, op, layouts[op.result.name], 'i')};")
            else:
                define(scope, op, layouts[op.result.name], "i", as_array=False)
        scope.made_here.clear()
        for op in group:  # variables of the loop are gone after it
            if op.result.name not in needed:
                scope.registers.pop(op.result.name, None)
                if op.result.name in local:
                    scope.registers[op.result.name] = local[op.result.name]


@contextmanager
def register_loop(
    scope: Scope,
    layout: Layout,
    ops: list[Elementwise],
    extra: tuple[tile.Value, ...] = (),
    part: tuple[str, int] | None = None,
) -> Iterator[None]:
    """A loop over registers `i` of `layout`, or a `part` of them: the first (a C expression) and how many.

    Operands that lie in shared memory are fetched in pieces of neighbours: the loop is then one over pieces with one
    over elements `e` inside."""
    wanted = {v.name: v for op in ops for v in operands(op)} | {v.name: v for v in extra}
    lazy = {name: scope.in_shared[name] for name in wanted if name in scope.in_shared and name not in scope.registers}
    w = scope.writer
    digits = layout.of(Source.REGISTER)
    for name, held in list(lazy.items()):
        if held.layout.of(Source.REGISTER)[0] != digits[0]:  # other neighbours: bring the whole
            emit_read_shared(scope, held.tile, declare(scope, wanted[name], held.layout), held.slot)
            del lazy[name]
    widest = max((op.result.type.dtype for op in ops), key=lambda dtype: dtype.bits, default=None)
    w.line(unroll(layout.registers, widest))
    first, count = part or ("", layout.registers)
    matrices = count % MATRICES == 0 and all(
        held.layout.of(Source.REGISTER) == digits and in_matrices(scope, held.tile, held.layout)
        for held in lazy.values()
    )
    size = MATRICES if matrices else digits[0].size if lazy else 1
    index = "p" if lazy else "i"
    at, step = "q" if first else index, f" += {size}" if lazy else "++"
    with w.block(f"for (int {at} = 0; {at} < {count}; {at}{step})"):
        if first:
            w.line(f"const int {index} = {first} + q;")
        if not lazy:
            yield
            return
        for name, held in lazy.items():
            piece = scope.fresh(f"{name}_piece")
            at = register_index(layout, held.layout, "p")
            if matrices:
                emit_matrices(scope, held.tile, held.layout, held.slot, f"({at})", piece)
            else:
                emit_piece(scope, held.tile, held.layout, held.slot, f"({at})", piece, size)
            scope.registers[name] = Registers(piece, wanted[name].type.dtype, held.layout, piece=True)
        w.line("#pragma unroll")
        with w.block(f"for (int e = 0; e < {size}; e++)"):
            w.line("const int i = p + e;")
            yield
    for name in lazy:
        scope.registers.pop(name, None)


def _reusable(
    scope: Scope, before: list[Elementwise], after: list[Elementwise], layouts: dict[str, Layout], dying: frozenset[str]
) -> Registers | None:
    """Registers of a value that the operations up to now read for the last time, of the shape the last one needs; a
    result that has a home takes no others."""
    result = before[-1].result
    home = scope.homes.get(result.name)
    wanted = (layouts[result.name], c.register_type(result.type.dtype))
    later = read_by(tuple(after))
    for op in before:
        for arg in operands(op):
            held = scope.registers.get(arg.name)
            if held is None or arg.name not in dying or arg.name in later or home not in (None, held.name):
                continue
            large = held.layout.registers >= WORTH_REUSE and not scope.narrow & {arg.name, result.name}
            if large and (held.layout, c.register_type(held.dtype)) == wanted:
                return replace(held, value=arg.name)
    return None
