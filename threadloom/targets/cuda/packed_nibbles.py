"""Row operands of products made of 4-bit integers in shared memory, two at a time.

    before:  float t[64];  for i: t[i] = (float)(nibble(i) - 8) * scale
             for i: packed[i] = pack_f16(t[2 i], t[2 i + 1])
    after:   for each 16 bytes, each word: packed[..] = multiply_f16(nibbles_f16(word, byte of this lane, -8), scale)

A lane's two neighbours in a product's rows share a byte, the bytes of four lanes a word: all four read the same words
and each takes its byte. That is four instructions for two elements, and nothing passes through shared memory again.
Differences of small integers are exact in f16, and a product of two f16 is rounded once either way: the same bits.
Handled: f16 operands of the form (w - constant) * scale, without either part too, whose scale does not run along the
depth. Not handled (element by element, as other code): bf16, zero points that are tiles, tiles that end within a pass.
Source: ours; the bits of 1024 + n are an old trick.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from threadloom.targets.cuda.elements import read
from threadloom.targets.cuda.layout import Layout, Source
from threadloom.targets.cuda.registers import InShared, Registers, Scope
from threadloom.targets.cuda.shared_access import address, where
from threadloom.tile import ops as tile

WORD_ELEMS = 8


@dataclass(frozen=True, slots=True)
class Nibbles:
    """`value` = (source - zero) * scale."""

    value: tile.Value
    source: tile.Value
    zero: int
    scale: tile.Value | None


def find_nibbles(ops: tuple[tile.Op, ...], value: tile.Value) -> Nibbles | None:
    """`value`, made by `ops`, in that form."""
    made = {o.result.name: o for o in ops}
    if value.type.dtype.name != "f16":
        return None
    scale, at = None, value
    if isinstance(op := made.get(at.name), tile.Map) and op.fn == "mul":
        small = [a for a in op.args if _as_integer(made, a) is not None]
        others = [a for a in op.args if a not in small]
        if len(small) != 1 or others[0].type.dtype.name != "f16" or others[0].name in made:
            return None
        at, scale = small[0], others[0]
    found = _as_integer(made, at)
    return None if found is None else Nibbles(value, *found, scale)


def _as_integer(made: Mapping[str, tile.Op], value: tile.Value) -> tuple[tile.Value, int] | None:
    """(4-bit source, what is taken from it) of a value that is a cast to f16 of their difference."""
    cast = made.get(value.name)
    if not isinstance(cast, tile.Cast) or cast.result.type.dtype.name != "f16":
        return None
    at, zero = cast.arg, 0
    if isinstance(op := made.get(at.name), tile.Map) and op.fn in ("sub", "add"):
        constant = made.get(op.args[1].name)
        if not isinstance(constant, tile.Const) or not -64 <= constant.number <= 64:
            return None
        at, zero = op.args[0], int(constant.number) * (1 if op.fn == "sub" else -1)
    while isinstance(op := made.get(at.name), tile.Cast) and op.result.type.dtype.name in ("i32", "i64"):
        at = op.arg
    return (at, zero) if at.name not in made and at.type.dtype.name == "u4" else None


def can_take(scope: Scope, one: Nibbles, layout: Layout, lies: InShared | None, summed: tuple[str, ...]) -> bool:
    """Whether lanes hold the value in pairs of neighbours, four lanes to a word of the source, and what follows the end
    of a summed axis is a number: the other operand is 0 there."""
    if lies is None or one.source.type.axes != one.value.type.axes or lies.layout != layout:
        return False
    column = lies.tile.column_axis
    pair, lane = layout.of(Source.REGISTER)[0], layout.of(Source.LANE)[0]
    in_words = (pair.axis, pair.size, pair.stride, lane.axis, lane.size, lane.stride) == (column, 2, 1, column, 4, 2)
    others = [d for d in layout.digits if d.axis == column and d not in (pair, lane)]
    whole = one.scale is None or all(scope.places[axis].holds(layout.extent(axis)) for axis in summed)
    fits = all(layout.extent(a) <= n for a, n in (*lies.tile.row_axes, (column, lies.tile.columns)))
    along = one.scale is not None and column in one.scale.type.axes
    return in_words and all(d.stride % WORD_ELEMS == 0 for d in others) and whole and fits and not along


def emit_nibbles(scope: Scope, one: Nibbles, layout: Layout, lies: InShared, to: Registers) -> None:
    """Fill the packed registers `to`."""
    w, digits = scope.writer, layout.of(Source.REGISTER)
    words = next((d for d in digits[1:] if d.axis == lies.tile.column_axis and d.stride == WORD_ELEMS), None)
    count = words.size if words is not None else 1
    vector = next(v for v in (4, 2, 1) if count % v == 0)
    terms, place, others = [], 1, 1
    for d in digits:
        if d is words:
            terms.append(f"word * {place}")
        elif d is not digits[0] and d.size > 1:
            terms.append(f"other / {others} % {d.size} * {place}")
            others *= d.size
        place *= d.size
    w.line("const u32 byte = 0x4040 + lane % 4 * 0x101;  // of each word, for both halves of a register")
    w.line("const u32 parts = opaque(0x2c003c00);  // 1 and a sixteenth")
    w.line("#pragma unroll")
    with w.block(f"for (int other = 0; other < {others}; other++)"):
        w.line("#pragma unroll")
        with w.block(f"for (int word = 0; word < {count}; word += {vector})"):
            w.line(f"const int i = {' + '.join(terms) or '0'};")
            where(scope, lies.tile, layout, "i", "piece")
            at = address(lies.tile, lies.slot, "piece_row", f"(piece_column & ~{WORD_ELEMS - 1})")
            w.line(f"u32 piece[{vector}];")
            w.line(f"read_shared<{4 * vector}>(piece, {at});")
            value = f"nibbles_f16(piece[e], byte, parts, {_less(one.zero)})"
            if one.scale is not None:
                scale = read(scope, one.scale, layout, "i")
                w.line(f"const u32 scale = pack_f16({scale}, {scale});")
                value = f"multiply_f16({value}, scale)"
            step = place_of(digits, words) // 2 if words is not None else 0
            w.line("#pragma unroll")
            w.line(f"for (int e = 0; e < {vector}; e++) {to.name}[i / 2 + e * {step}] = {value};")


def place_of(digits: tuple, wanted: object) -> int:
    """By how much the register index grows with the digit."""
    place = 1
    for d in digits:
        if d is wanted:
            return place
        place *= d.size
    return place


def _less(zero: int) -> str:
    """The two f16 that make (1024 + low, (1024 + 16 high) / 16) the numbers less `zero`."""
    halves = struct.unpack("<2H", struct.pack("<2e", -1024.0 - zero, -64.0 - zero))
    return f"0x{halves[1] << 16 | halves[0]:08x}"
